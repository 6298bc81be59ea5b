"""Read the texts of a wheel: METADATA, WHEEL and RECORD. Facts and contradictions, no judgement.

Room `binary`. Formats: PyPA "Core metadata", "Binary distribution format" and "Recording
installed projects".
"""

from __future__ import annotations

import base64
import csv
import io
from dataclasses import dataclass

from kernforge.binary.findings import FindingLog

TEXT_LIMIT = 64 << 20
"""Bytes of one of these texts."""
Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What RECORD says of one file; ``sha256`` is None where it says none."""

    sha256: bytes | None
    size: int | None


def decode(data: bytes | memoryview) -> str:
    """Text of a member, undecodable bytes escaped."""
    return bytes(data).decode("utf-8", "backslashreplace")


def header_fields(text: str) -> Fields:
    """The fields of an e-mail style header, continuation lines joined; the body is left out."""
    fields: list[tuple[str, str]] = []
    for line in text.splitlines():
        if not line:
            break
        if line[0] in " \t":  # a line of blanks goes on too: some licences have them
            if fields:
                name, value = fields[-1]
                fields[-1] = name, f"{value}\n{line.strip()}"
            continue
        name, colon, value = line.partition(":")
        if colon:
            fields.append((name.strip(), value.strip()))
    return tuple(fields)


def field(fields: Fields, name: str) -> str | None:
    """The first value of a field, whatever its case."""
    return next((value for key, value in fields if key.lower() == name.lower()), None)


def _sha256(word: str) -> bytes | None:
    algorithm, _, value = word.partition("=")
    if algorithm != "sha256":
        return None
    try:
        return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        return b""


def read_record(text: str, log: FindingLog) -> dict[str, Row]:
    """Rows of RECORD by path; a line that is none becomes a finding."""
    rows: dict[str, Row] = {}
    try:
        for words in csv.reader(io.StringIO(text, newline="")):
            if not words:
                continue
            if len(words) != 3:
                log.note("record-garbled", f"RECORD has a line of {len(words)} fields")
                continue
            path, digest, size = words
            if path in rows:
                log.note("record-duplicate", f"RECORD names {path!r} twice")
            number = int(size) if size.isascii() and size.isdigit() and len(size) < 20 else None
            rows[path] = Row(sha256=_sha256(digest), size=number)
    except csv.Error as error:
        log.note("record-garbled", f"RECORD: {error}")
    return rows
