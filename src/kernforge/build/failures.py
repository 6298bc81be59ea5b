"""What a failed build died of: a class, the compiler's own words, and the way out. Pure.

Wordings are those of nvcc 13.0.88, ptxas, gcc 12, CMake 4.4, git and torch 2.14.1, each provoked in
a test or read in the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kernforge.arch import cuda_problem, parse_arch
from kernforge.build.ledger import Record
from kernforge.build.speakers import (
    FAILED,
    FILE_WORD,
    alike,
    failed_steps,
    heard,
    is_complaint,
    made_by,
    named_in,
    place_of,
    speaker,
    what_of,
)
from kernforge.errors import RecipeError

_PROBES = ("CMakeScratch", "CompilerId", "cmTC_", "__cmake_determine", "CompilerABI.")
_MORE_MEMORY = (
    "free some memory, name a larger --memory, run fewer compiles at once (--jobs 1), or compile "
    "for fewer archs in one call"
)
KILLED_HINT = f"most likely for memory: {_MORE_MEMORY}"
_CRASHES = {
    139: "signal 11", 134: "signal 6", 135: "signal 7", 136: "signal 8", 132: "signal 4",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a build died of: a stable word, one sentence with the program's words, a remedy.

    ``named`` is an arch as compilers spell it (``70``) that the project's own files ask for.
    """

    word: str
    text: str
    hint: str | None
    named: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    word: str
    pattern: re.Pattern[str]
    hint: str


def _rule(word: str, pattern: str, hint: str) -> _Rule:
    return _Rule(word=word, pattern=re.compile(pattern), hint=hint)


_CCCL = r"(?:(?:thrust|cub|cuda/std)/[\w./]+|cuda/[a-z_]+|nv/target)"
_RULES = (
    _rule(
        "instruction-missing",
        r"not supported on \.target '?sm_(?:\d+[af]|[1-8]\d)\b",
        "no suffix of this arch has that instruction: the code is for a newer one; leave its file "
        "out for this arch, or ask for another arch",
    ),
    _rule(
        "suffix-needed",
        r"not supported on \.target '?sm_\d+'?",
        "the code needs an arch-specific target: ask for the a or f form, as 12.0a; it then runs "
        "on fewer GPUs, so kernforge does not switch by itself",
    ),
    _rule(
        "host-compiler-too-new",
        r"unsupported GNU version!|unsupported clang version!",
        "put an older g++ first on PATH, or choose a newer CUDA release",
    ),
    _rule(
        "glibc-clash",
        r"exception specification is incompatible.*\b(?:cospi|sinpi|rsqrt|tgamma|lgamma)",
        "this glibc and this CUDA release declare the same functions differently: choose a newer "
        "CUDA release or an older image; another compiler does not help",
    ),
    _rule(
        "header-moved",
        rf"fatal error: {_CCCL}: No such file",
        "CUDA 13 keeps these headers in include/cccl, which only nvcc adds by itself: set "
        'build.env CPLUS_INCLUDE_PATH: "{cuda_root}/include/cccl"',
    ),
    _rule(
        "header-missing",
        r"fatal error: [\w./+-]+: No such file",
        "is a source, submodule or requirement missing?",
    ),
    _rule(
        "gpu-wanted",
        r"No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device|[Nn]o GPU found",
        "building needs no GPU: look for a variable of the project that names archs, or patch the "
        "query out",
    ),
    _rule(
        "torch-arch-unknown",
        r"Unknown CUDA arch \([^)]*\) or GPU not supported",
        "torch's own table of archs is older than the arch: choose a newer torch",
    ),
    _rule(
        "cmake-policy",
        r"Compatibility with CMake < 3\.5 has been removed",
        'set build.cmake CMAKE_POLICY_VERSION_MINIMUM: "3.5", or an older cmake in build.requires',
    ),
    _rule(
        "cmake-too-old",
        r"CMake \S+ or higher is required\.\s+You are running version"
        r'|Policy "CMP\d+" is not known to this version of CMake',
        "name a newer one in build.requires, as cmake>=4.4, and make the lock again",
    ),
    _rule(
        "requirement-missing",
        r"ERROR Unmet dependencies",
        "the project's build-system.requires asks for what the lock does not hold: name it in "
        "build.requires, or edit that line of pyproject.toml",
    ),
    _rule(
        "rust-too-old",
        r"requires rustc \S+ or newer|rustc \S+ is not supported by the following package"
        r"|lock file version \S+ (?:requires|was found, but)",
        "put a newer Rust first on PATH; Debian 12 has 1.63, rustup installs today's",
    ),
    _rule(
        "crate-missing",
        r"no matching package named `[^`]+` found|failed to select a version for the requirement",
        "crates come from the pinned Cargo.lock alone: does this Cargo.toml belong to it?",
    ),
    _rule(
        "network-wanted",
        r"spurious network error|Unable to update registry|failed to get `[^`]+` as a dependency",
        "builds have no network: pin the crates by a source of kind cargo",
    ),
    _rule(
        "network-wanted",
        r"directory for dependency \S+ to already be populated",
        "builds have no network: make that dependency a source of the recipe (fetchcontent)",
    ),
    _rule(
        "network-wanted",
        r"Could not resolve host|Temporary failure in name resolution|Network is unreachable"
        r"|Couldn't resolve host|unable to resolve host|Name or service not known"
        r"|Could not connect to|Failed to connect to",
        "builds have no network: make the download a source of the recipe (fetchcontent)",
    ),
    _rule(
        "symbol-undefined",
        r"[Uu]ndefined reference to|Unresolved extern function",
        "is a library or unit missing from the link?",
    ),
    _rule(  # before crashes: cicc ends an uncaught std::bad_alloc by signal 6
        "out-of-memory",
        r"\bKilled\b.*(?:cicc|cc1plus|ptxas|nvcc)|fatal error: Killed signal|died due to signal 9\b"
        r"|terminated with signal 9\b"
        r"|virtual memory exhausted|Cannot allocate memory|out of memory allocating"
        r"|catastrophic error: out of memory|std::bad_alloc|Memory allocation failure",
        _MORE_MEMORY,
    ),
    _rule(
        "compiler-crash",
        r"internal compiler error|Segmentation fault|died due to signal (?:11|6|7|8|4)\b",
        "a fault of the compiler: try another CUDA release or arch",
    ),
)
# One call's archs complain in no order: a word that no suffix mends comes before one that it does.
_BY_ARCH = ("instruction-missing", "suffix-needed")
_OF_PROJECTS = frozenset(
    {
        "gpu-wanted",
        "torch-arch-unknown",
        "cmake-policy",
        "cmake-too-old",
        "requirement-missing",
        "rust-too-old",
        "crate-missing",
        "network-wanted",
    }
)
_ARCH = re.compile(r"Unsupported gpu architecture '(?:sm|compute)_(\d+)(\d)([af]?)'")


def is_probe(record: Record) -> bool:
    """Whether a call is a question of the build system to the compiler, no part of the build."""
    return names_probe(*record.sources, record.output or "", record.cwd)


def names_probe(*names: str) -> bool:
    """Whether a file or folder of these is of such a question."""
    return any(probe in name for name in names for probe in _PROBES)


def failed(records: Iterable[Record]) -> list[Record]:
    """The calls that failed and were no probes of the build system, in order."""
    return [r for r in records if r.exit and not r.nested and not is_probe(r)]


def first_failed(records: Iterable[Record]) -> Record | None:
    """The first call that failed and was no probe of the build system."""
    return next(iter(failed(records)), None)


def _unsupported(line: str, where: str, cuda: str) -> Failure | None:
    match = _ARCH.search(line)
    if match is None:
        return None
    named = "".join(match.groups())
    number = f"{match[1]}.{match[2]}{match[3]}"
    try:
        major, minor = (int(part) for part in cuda.split("."))
        problem = cuda_problem(parse_arch(number), (major, minor))
    except RecipeError:
        problem = None
    if problem is None:
        hint = f"{number} is no arch it knows"
        return Failure(word="arch-refused", text=line.strip() + where, hint=hint, named=named)
    old = "too old" in problem
    hint = (
        "choose a newer CUDA release"
        if old
        else f"the project itself asks for {number}: set build.gencode to replace for that file, "
        "or patch the flag out"
    )
    word = "toolkit-too-old" if old else "toolkit-too-new"
    text = f"{line.strip()}{where} ({problem})"
    return Failure(word=word, text=text, hint=hint, named=None if old else named)


def _by_record(record: Record | None) -> Failure | None:
    if record is None:
        return None
    what = f"{record.tool} on {place_of(record)}"
    if record.exit == 137:
        hint = f"most likely for memory, with nothing beside it: {_MORE_MEMORY}"
        return Failure(word="out-of-memory", text=f"{what} was killed (signal 9)", hint=hint)
    if record.exit in _CRASHES:
        hint = "a fault of the compiler: try another CUDA release or arch"
        text = f"{what} crashed ({_CRASHES[record.exit]})"
        return Failure(word="compiler-crash", text=text, hint=hint)
    if record.exit == 96:
        text = f"{record.tool} on {what_of(record)}: {record.note}"
        return Failure(word="gencode-refused", text=text, hint="set build.gencode for that file")
    return None


def _by_words(
    lines: Sequence[str], rules: Sequence[_Rule], *, calls: Sequence[Record], cuda: str
) -> Failure | None:
    fits = _fits(lines, rules, calls=calls, cuda=cuda)
    where, found = next(fits, ("", None))
    if found is None or found.word not in _BY_ARCH:
        return found
    kinds = {found.word: found}
    for place, other in fits:
        if place == where and other.word in _BY_ARCH:
            kinds.setdefault(other.word, other)
    if len(kinds) == 1:
        return found
    graver, milder = (kinds[word] for word in _BY_ARCH)
    return replace(graver, hint=f"{graver.hint}; for the other archs: {milder.hint}")


def _fits(
    lines: Sequence[str], rules: Sequence[_Rule], *, calls: Sequence[Record], cuda: str
) -> Iterator[tuple[str, Failure]]:
    """Each line that fits a rule, as a failure, with the place that it speaks of."""
    blocks = failed_steps(lines)
    for number, line in enumerate(lines):
        rule = next((rule for rule in rules if rule.pattern.search(line)), None)
        if rule is None and not _ARCH.search(line):
            continue
        block = next((b for b in blocks if b.at <= number < b.end), None)
        where = speaker(line, block, calls)
        if found := _unsupported(line, where, cuda):
            yield where, found
        elif rule is not None:
            said = _with_what_follows(lines, number)
            yield where, Failure(word=rule.word, text=f"{said}{where}", hint=rule.hint)


def _with_what_follows(lines: Sequence[str], number: int) -> str:
    """A line, and the next one where it ends by announcing it: a headline alone says nothing."""
    said = lines[number].strip()
    after = lines[number + 1].strip() if said.endswith(":") and number + 1 < len(lines) else ""
    return f"{said} {after}".strip()


def classify(lines: Sequence[str], records: Sequence[Record], *, cuda: str) -> Failure | None:
    """The class of a failed build, or None where nothing known is in its words.

    Where a compiler failed its own words come first: projects also warn of a missing GPU or
    network and go on.

    Args:
        lines: its log, in order. The first line that fits decides, for later ones follow from it;
            only of instructions that archs of one call lack are all heard.
        records: its ledger, in order.
        cuda: the target's CUDA release.
    """
    record = first_failed(records)
    if found := _by_record(record):
        return found
    if record is not None:
        calls = failed(records)
        compilers = [rule for rule in _RULES if rule.word not in _OF_PROJECTS]
        if found := _by_words(heard(lines), compilers, calls=calls, cuda=cuda):
            return found
    at = _own_complaint(records, lines)
    if at is None:
        return _by_words(lines, _RULES, calls=(), cuda=cuda)
    projects = [rule for rule in _RULES if rule.word in _OF_PROJECTS]
    return _by_words(lines[at + 1 :], projects, calls=(), cuda=cuda)


def _own(records: Iterable[Record]) -> list[Record]:
    """The failed calls but those of files elsewhere: these are questions of the project's."""
    return [record for record in failed(records) if not what_of(record).startswith("/")]


def _own_complaint(records: Iterable[Record], lines: Sequence[str]) -> int | None:
    """Index of the first line in which a failed call of the build complains, or None.

    Where a call failed that no line speaks of, that is the end of the log.
    """
    calls = _own(records)
    if not calls:
        return None
    blocks = [block for block in failed_steps(lines) if made_by(block, calls)]
    if blocks:
        return blocks[0].at
    loud = (n for n, line in enumerate(lines) if is_complaint(line) and named_in(line, calls))
    return next(loud, len(lines))


def own_words(records: Iterable[Record], lines: Sequence[str]) -> str | None:
    """The first failed call told by its first error, or by its end where it said none.

    None where no call failed but those of files elsewhere.
    """
    calls = _own(records)
    if not calls:
        return None
    record = calls[0]
    what, block = (
        what_of(record),
        next((b for b in failed_steps(lines) if made_by(b, [record])), None),
    )
    for number in range(block.first, block.end) if block else range(len(lines)):
        line = lines[number]
        if not is_complaint(line) or line.startswith(FAILED):
            continue
        for word in FILE_WORD.finditer(line):
            if alike(word[0], what) and named_in(word[0], calls) is record:
                return f"{record.tool} on {what}{line[word.end() :]}"
        if block:
            return f"{record.tool} on {place_of(record)}: {line.strip()}"
    return f"{record.tool} on {place_of(record)} ended with {record.exit}"


def first_complaint(lines: Sequence[str], records: Iterable[Record]) -> int | None:
    """Index of the line from which a log is worth reading, or None; its end rarely holds the cause.

    That is where the first call that failed complains, else the first complaint of all.
    """
    failed_step = next(iter(failed_steps(lines)), None)
    own = failed_step.at if failed_step else _own_complaint(records, lines)
    if own is not None and own < len(lines):
        return own
    return next((number for number, line in enumerate(lines) if is_complaint(line)), None)


def progress(records: Iterable[Record]) -> str:
    """How far a build came: ``12 of its compiler calls had ended well``."""
    made = (r for r in records if r.exit == 0 and not r.nested and r.kind in {"compile", "link"})
    return f"{sum(not is_probe(record) for record in made)} compiler calls had ended well"
