"""Lists what a compile reads, where the compile cache would preprocess all once more for that.

The shim loads it from beside itself: standard library only, nothing of kernforge imported, and its
digest is part of the build key.

nvcc takes the list from what it preprocesses anyway. sccache (0.16) makes it by a call of its own,
``nvcc -M``, which preprocesses for the host and for each arch. gcc tells the same for nothing: each
of its runs adds a rule to the file that SUNPRO_DEPENDENCIES names, DEPENDENCIES_OUTPUT where system
headers are not wanted (GCC's manual, "Environment Variables Affecting GCC"). sccache hands its
client's environment on to every step, keeps none of the preprocessing ones, and names no entry by
these variables (seen). So such a call loses its options for dependencies, and the list is written
here of all rules together, in nvcc's form.

Runs side by side can cut into each other's rules, which then show the target in a wrong place; that
is told from a sound list, and ``nvcc -M`` makes it after all.
"""

from __future__ import annotations

import os
import re

_WITH_SYSTEM = ("-MD", "--generate-dependencies-with-compile")
_WITHOUT_SYSTEM = ("-MMD", "--generate-nonsystem-dependencies-with-compile")
_PHONY = ("-MP", "--generate-dependency-targets")
_FILE, _TARGET = "dependency-output", "dependency-target-name"
_NAMES = frozenset({*_WITH_SYSTEM, *_WITHOUT_SYSTEM, *_PHONY, _FILE, _TARGET})
_VARIABLES = frozenset({"SUNPRO_DEPENDENCIES", "DEPENDENCIES_OUTPUT"})
_KEPT = frozenset({"keep", "save-temps"})  # intermediates stay, and would be listed
_FOLDERS = frozenset({"include-path", "system-include"})
_WORD = re.compile(r"(?:\\.|[^ \t\\])+")  # other blanks are part of a name


class Listing:
    """The list that one call asks for.

    Attributes:
        file: where it is written.
        target: what the rule makes.
        source: the file that is compiled.
        folders: where headers are looked up.
        system: whether system headers are listed too.
        phony: whether each file gets an empty rule of its own.
        notes: where gcc leaves its rules.
        mark: their target.
        names: options of nvcc that ask for the list, as the shim's parser names them.
    """

    names = _NAMES

    def __init__(self, options: list[tuple[str, str]], source: str, output: str) -> None:
        names = {name for name, _ in options}
        values = dict(options)  # the last one counts
        self.file = values.get(_FILE, "")
        self.target = values.get(_TARGET) or escaped(output)
        self.source = source
        self.system = not names.intersection(_WITHOUT_SYSTEM)
        self.phony = bool(names.intersection(_PHONY))
        self.folders = [p for n, v in options if n in _FOLDERS for p in v.split(",")]
        self.mark = f"kernforge-{os.getpid()}"
        self.notes = os.path.join(os.environ.get("TMPDIR", ""), f"{self.mark}.rules")

    @property
    def environment(self) -> dict[str, str]:
        """What lets gcc tell; it reads the value up to the first blank."""
        name = "SUNPRO_DEPENDENCIES" if self.system else "DEPENDENCIES_OUTPUT"
        return {name: f"{self.notes} {self.mark}"}

    @property
    def call(self) -> list[str]:
        """Words that make nvcc write the list by itself, in place of a compile."""
        options = ["-M" if self.system else "-MM", *(["-MP"] if self.phony else [])]
        return [*options, "-MF", self.file, "-MT", self.target]

    def write(self) -> bool:
        """Write the list from what gcc has told; whether that was whole and could be written."""
        try:
            with open(self.notes, encoding="utf-8", errors="surrogateescape", newline="") as stream:
                found = read_rules(stream.read(), self.mark)
        except FileNotFoundError:
            return False
        self.forget()
        if found is None:
            return False
        files = [escaped(name) for name in self.spelled(found)]
        text = f"{self.target} : " + " \\\n    ".join(files) + "\n"
        if self.phony:
            text += "".join(f"\n{name}:\n" for name in files[1:])
        try:
            with open(self.file, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(text)
        except OSError:  # nvcc says it better
            return False
        return True

    def spelled(self, found: list[str]) -> list[str]:
        """The source and what it reads, each once, as nvcc would name it.

        sccache runs its steps in folders of their own, with absolute paths for what nvcc finds by
        relative ones; files that were made for a step are gone.
        """
        below = os.path.join(os.getcwd(), "")
        absolute = tuple(os.path.join(path, "") for path in self.folders if os.path.isabs(path))
        if os.path.isabs(self.source):
            absolute = ("/",)
        names = {os.path.join(below, self.source): self.source}
        for name in map(unescaped, found):
            near = name.removeprefix(below)
            if os.path.isfile(name):
                spelled = name if name.startswith(absolute) else near
                names.setdefault(os.path.join(below, near), spelled)
        return list(names.values())

    def forget(self) -> None:
        """Remove what gcc has told."""
        try:
            os.unlink(self.notes)
        except FileNotFoundError:
            return


def wanted(
    options: list[tuple[str, str]],
    sources: list[str],
    outputs: list[str],
    environment: dict[str, str],
) -> Listing | None:
    """The list that a compile asks for; None where it asks for none, or in a way left to nvcc.

    Args:
        options: long names and values, inputs without a name.
        sources: what it compiles.
        outputs: the objects that it makes.
        environment: variables by name.
    """
    names = {name for name, _ in options}
    if names & _KEPT:
        return None
    asked = names.intersection((*_WITH_SYSTEM, *_WITHOUT_SYSTEM)) and _FILE in names
    several = any(sum(name == one for name, _ in options) > 1 for one in (_FILE, _TARGET))
    if not asked or several or _VARIABLES & environment.keys():
        return None
    if len(sources) != 1 or len(outputs) != 1:
        return None
    listing = Listing(options, sources[0], outputs[0])
    folder = os.path.dirname(listing.notes)
    sound = os.path.isabs(folder) and os.path.isdir(folder) and not re.search(r"\s", folder)
    return listing if listing.file and sound else None


def read_rules(text: str, mark: str) -> list[str] | None:
    """Files that gcc's rules name, each once, as rules spell them; None where rules are torn.

    Every rule is one line, once spliced, and begins with its target: where two runs wrote at a
    time, one rule's beginning stands within another, and the rest of that begins without one.
    Names with a backslash are not read either.
    """
    found: dict[str, None] = {}
    if not text.endswith("\n") or "\\\\" in text:
        return None
    for line in text.replace("\\\n", " ")[:-1].split("\n"):
        head, colon, rest = line.partition(":")
        if head != mark or not colon or f"{mark}:" in rest:
            return None
        found |= dict.fromkeys(_WORD.findall(rest))
    return list(found)


def unescaped(name: str) -> str:
    """A file's name as a rule of make spells it, without that spelling."""
    return re.sub(r"\\([ \t#:])|\$(\$)", r"\1\2", name)


def escaped(name: str) -> str:
    """A file's name as a rule of make spells it."""
    return re.sub(r"([ \t#])", r"\\\1", name).replace("$", "$$")
