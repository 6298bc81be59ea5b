"""What a compiler call could read and what it makes, told by its words and the files around it.

`recall.py` loads it from beside itself: standard library only, nothing of kernforge imported, and
its digest is part of the build key.

A call is named without running anything, by a superset of what its compiler could read of the files
that the build can write: every file but those of endings that are compiled or read by build tools
(``.cu``, ``.cpp``, ``.py``, ``.txt`` ...) and products (``.o``, ``.d`` ...); these count where the
source names them, directly or through another that counts. No condition is evaluated: a header of
one arch alone counts too. Where an include is spelled by a macro, all files count but products.

A call with an option that is not known to be without further inputs and outputs is `Strange`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CUDA = frozenset({"nvcc"})
_YOUNG_NS = 100_000_000  # a file that is younger may change again without another date
_QUIET_TEXT = frozenset(
    ".c .cc .cp .cpp .cxx .c++ .cu .py .pyi .pyx .txt .md .rst .json .yaml .yml .toml .cfg .ini .in"
    " .cmake .sh .bat .ps1 .ninja .mk .bzl .bazel .lock .ipynb .html .css .js .csv .patch .diff"
    " .gitignore .gitattributes .gitmodules".split()
)
_QUIET_NAMES = frozenset("Makefile GNUmakefile Dockerfile LICENSE NOTICE BUILD WORKSPACE".split())
_PRODUCTS = frozenset(
    ".o .obj .a .so .lo .la .d .ii .i .s .gpu .cubin .ptx .fatbin .module_id .ltoir .optixir .pyc"
    " .rsp .log .stamp .whl .ninja_deps .ninja_log .ninja_lock".split()
)
_PRODUCT_FOLDERS = frozenset({"CMakeFiles", ".git", "__pycache__", ".cmake"})
_PRODUCT_FOLDER_ENDS = (".egg-info", ".dist-info", ".tmp")

# a directive after blanks, comments and spliced lines; then its operand
# one way to read each comment: none is tried again
_COMMENT = rb"/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"
_BLANK = rb"(?:[ \t\v\f]|" + _COMMENT + rb")*"
_PATH = rb"(?:<([^>\n]*)>|\"([^\"\n]*)\"|(?=\S))"
_DIRECTIVE = re.compile(
    rb"(?:^|(?<=\*/))" + _BLANK + rb"(?:#|%:|\?\?=)" + _BLANK
    + rb"(?:include|include_next|import|embed)\b" + _BLANK + _PATH,
    re.DOTALL | re.MULTILINE,
)  # fmt: skip
_ASKS = re.compile(
    rb"__has_(?:include|include_next|embed)\b" + _BLANK + rb"\(" + _BLANK + _PATH, re.DOTALL
)
_SPLICE = re.compile(rb"(?:\\|\?\?/)[ \t]*\r?\n")
_UNNAMEABLE = re.compile(rb"(?i:incbin|\.include[ \t]*\\?\")|__TIMESTAMP__")  # the assembler's too
_BOM = b"\xef\xbb\xbf"  # gcc passes it over where a file begins

_CHECK = re.compile(r"/CMakeFiles/CMakeScratch/(TryCompile-[0-9A-Za-z]{6})$")
_CHECKED = re.compile(r"\bcmTC_[0-9a-f]{5}\b")

# words of gcc and its kin that have no further input or output
_HOST_WORD = re.compile(
    r"-(?:c|v|w|pipe|pthread|ansi|shared|static|nostdinc(?:\+\+)?|pedantic(?:-errors)?|MP"
    r"|O\w*|std=[\w+:]+|g(?:gdb|dwarf)?-?\d?|[DU].*|l.*|L.*"
    r"|m(?!(?:arch|tune|cpu)=native)[\w=.+-]+|W[\w+=-]*"
    r"|f(?![\w-]*(?:coverage|profile|report|file))"
    r"(?!dump|save|plugin|stack-usage|callgraph|opt-info|branch-prob|time|self-test|compare-debug"
    r"|record|modul|diagnostics-(?:format|add-output))[\w=.:+-]+"
    r"|f[a-z]+-prefix-map=[^,]*)",
    re.DOTALL,
)
_HOST_VALUED = frozenset(
    {"-D", "-U", "-l", "-L", "-x", "--param", "-MT", "-MQ", "-include", "-imacros"}
)
_FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter")  # joined or with a word of their own
_FORCED = frozenset({"-include", "-imacros", "pre-include"})
_DEPENDS = frozenset(
    {
        "-MD", "-MMD",
        "--generate-dependencies-with-compile", "--generate-nonsystem-dependencies-with-compile",
    }
)  # fmt: skip
# options of nvcc, by their long names, that have no further input or output
_CUDA_PLAIN = frozenset(
    "compile device-c cubin ptx fatbin define-macro undefine-macro std optimize gpu-architecture"
    " gpu-code generate-code machine maxrregcount default-stream diag-error"
    " diag-suppress diag-warn Werror fmad ftz prec-div prec-sqrt frandom-seed cudart"
    " relocatable-device-code x objdir-as-tempdir options-file compress-mode brief-diagnostics"
    " ftemplate-backtrace-limit ftemplate-depth jump-table-density static-global-template-stub"
    " device-entity-has-hidden-visibility dlink-time-opt lto dependency-target-name library"
    " library-path split-compile Ofast-compile cuda device-stack-protector".split()
)
_CUDA_FOLDERS = frozenset({"include-path", "system-include"})
_CUDA_PASSED = frozenset(
    "ptxas-options cicc-options cudafe-options fatbin-options nvlink-options linker-options".split()
)
_CUDA_WORDS = frozenset(
    "use_fast_math expt-relaxed-constexpr expt-extended-lambda extended-lambda generate-line-info"
    " lineinfo device-debug debug disable-warnings resource-usage res-usage restrict"
    " forward-unknown-to-host-compiler forward-unknown-opts extra-device-vectorization extra-vec"
    " source-in-ptx src-in-ptx Wno-deprecated-gpu-targets display-error-number err-no"
    " no-display-error-number no-err-no no-exceptions no-compress compile-as-tools-patch".split()
)
_PASSED = re.compile(r"-{0,2}(?![\w-]*(?:output|file|dump|save|keep))[\w-]+(?:=[\w.+-]*)?")


class Strange(Exception):  # noqa: N818 - no fault: such a call is compiled
    """A call whose inputs or outputs are not all known."""


class Seen:
    """What the text of a file says of other files.

    Attributes:
        sha256: of its content.
        names: last parts of the paths that it includes or asks for.
        computed: whether one of them is spelled by a macro.
        unnameable: whether it reads in a way that is not followed, or asks for its own date.
    """

    __slots__ = ("computed", "names", "sha256", "unnameable")

    def __init__(self, data: bytes) -> None:
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.computed = False
        self.unnameable = bool(_UNNAMEABLE.search(data))
        text = data.removeprefix(_BOM)
        text = _SPLICE.sub(b"", text) if b"\\" in text or b"??/" in text else text
        found = set()
        for match in (*_DIRECTIVE.finditer(text), *_ASKS.finditer(text)):
            operand = match[1] if match[1] is not None else match[2]
            if operand is None:
                self.computed = True
            elif operand.startswith(b"/"):
                self.unnameable = True
            else:
                found.add(os.path.basename(operand.decode("utf-8", "surrogateescape").strip()))
        self.names = frozenset(found)


class Files:
    """The files that the build can write, read again only where they have changed.

    Args:
        roots: their folders.
        fixed: folders that the build cannot write, and that something else names.
    """

    def __init__(self, roots: list[str], fixed: Sequence[str] = ()) -> None:
        self.roots, self.fixed = roots, fixed
        self.known: dict[str, tuple[tuple[int, ...], Seen]] = {}
        self.loud: dict[str, tuple[int, ...]] = {}  # those that always count, and how to know them
        self.quiet: dict[str, list[str]] = {}  # those that count where they are named, by name
        self.links: list[tuple[str, str, bool]] = []  # the last: it leads to where nobody looks
        self.sum: Sum | None = None

    def look(self) -> Sum:
        """Walk all folders; what the files that always count come to."""
        loud: dict[str, tuple[int, ...]] = {}
        links: list[tuple[str, str, bool]] = []
        self.quiet = {}
        front = [(root, False) for root in self.roots]
        while front:
            folder, product = front.pop()
            try:
                entries = list(os.scandir(folder))
            except FileNotFoundError:
                continue
            for entry in entries:
                if entry.is_symlink():
                    links.append((entry.path, os.readlink(entry.path), self.leads_out(entry)))
                if entry.is_dir(follow_symlinks=False):
                    front.append((entry.path, product or is_product_folder(entry.name)))
                elif product or is_quiet(entry.name):
                    self.quiet.setdefault(entry.name, []).append(entry.path)
                else:
                    with contextlib.suppress(FileNotFoundError):  # a link to nowhere
                        facts = entry.stat()
                        if stat.S_ISREG(facts.st_mode):
                            loud[entry.path] = signature(facts)
        known = all(path in self.known for path in loud)
        if self.sum is None or not known or (loud, sorted(links)) != (self.loud, self.links):
            self.loud, self.links = loud, sorted(links)
            self.sum = Sum()
            self.sum.digest.update(json.dumps(self.links).encode())
            for path in sorted(loud):
                self.sum.add(path, self.read(path))
            self.sum.unnameable |= any(out for _, _, out in links)
        return self.sum

    def leads_out(self, link: os.DirEntry[str]) -> bool:
        """Whether what a link makes a folder of lies where nobody looks."""
        real = os.path.realpath(link.path)
        return link.is_dir() and not below(real + "/.", [*self.roots, *self.fixed])

    def read(self, path: str) -> Seen | None:
        """What a file says; None where it is gone, or is no regular file."""
        try:
            now = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        sign = signature(now)
        known = self.known.get(path)
        if known is not None and known[0] == sign:
            return known[1]
        if not stat.S_ISREG(now.st_mode):
            return None
        with open(path, "rb") as stream:
            seen = Seen(stream.read())
        if time.time_ns() - max(now.st_mtime_ns, now.st_ctime_ns) > _YOUNG_NS:
            self.known[path] = (sign, seen)
        else:
            self.known.pop(path, None)
        return seen

    def named(self, first: list[str], names: set[str], aliases: dict[str, str]) -> str:
        """Digest of all that a call could read of these files.

        Args:
            first: files that its words name.
            names: last parts of the paths that its words include.
            aliases: names in paths, and what stands for them.

        Raises:
            Strange: it cannot be told.
        """
        always = self.look()
        found = always.copy()
        asked: set[str] = set()
        taken: set[str] = set()
        front = list(first)
        while True:
            for name in (names | found.names) - asked:
                asked.add(name)
                front += self.by_name(name)
            if not front:
                break
            for path in sorted(set(front) - taken):
                taken.add(path)
                if path not in self.loud:
                    found.add(renamed(path, aliases), self.read(path))
            front = []
        if found.computed:
            for path in sorted(self.sources() - taken):
                found.add(renamed(path, aliases), self.read(path))
        if found.unnameable:
            raise Strange("a file that reads another in a way that is not followed")
        return found.digest.hexdigest()

    def by_name(self, name: str) -> list[str]:
        """Quiet files of a name, and what a precompiled form of it would be called."""
        return [path for end in ("", ".gch", ".pch") for path in self.quiet.get(name + end, ())]

    def sources(self) -> set[str]:
        """The quiet files that a person could have written."""
        return {
            path
            for name, paths in self.quiet.items()
            if not is_product(name)
            for path in paths
            if not any(is_product_folder(part) for part in path.split("/")[:-1])
        }


class Sum:
    """What files come to: their digest, and what they say of other files."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.names: set[str] = set()
        self.computed = self.unnameable = False

    def add(self, path: str, seen: Seen | None) -> None:
        """Count a file."""
        if seen is None:
            return
        self.digest.update(f"{path}\0{seen.sha256}\0".encode("utf-8", "surrogateescape"))
        self.names |= seen.names
        self.computed |= seen.computed
        self.unnameable |= seen.unnameable

    def copy(self) -> Sum:
        """The same, to go on with."""
        new = Sum()
        new.digest, new.names = self.digest.copy(), set(self.names)
        new.computed, new.unnameable = self.computed, self.unnameable
        return new


def signature(facts: os.stat_result) -> tuple[int, ...]:
    """What changes when a file does, as far as its folder tells."""
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def ending(name: str) -> str:
    """The last ending, lower case; of a name that begins with its only dot, the name."""
    return name[name.rfind(".") :].lower() if "." in name else ""


def is_product(name: str) -> bool:
    """Whether a build makes such files and no source includes them."""
    return ending(name) in _PRODUCTS or ".so." in name


def is_quiet(name: str) -> bool:
    """Whether a file counts only where it is named."""
    return is_product(name) or ending(name) in _QUIET_TEXT or name in _QUIET_NAMES


def is_product_folder(name: str) -> bool:
    """Whether a build tool keeps its own files there."""
    return name in _PRODUCT_FOLDERS or name.endswith(_PRODUCT_FOLDER_ENDS)


class Reach:
    """What a call's words say of files.

    Attributes:
        files: that the words name.
        names: last parts of paths that they include.
        outputs: what the call makes: the object, and a list of dependencies.
        made_up: names that CMake makes up anew for each of its checks, and what stands for them.

    Args:
        asked: what the shim said.
        roots: folders that the build can write and that are looked at.
        fixed: folders that it cannot write and that something else names, or holds to be one.
        packages: those of them that sources may lie in, with all that stands beside these.
    """

    def __init__(
        self,
        asked: dict[str, object],
        roots: list[str],
        fixed: Sequence[str],
        packages: Sequence[str],
    ) -> None:
        self.cwd = str(asked["cwd"])
        self.roots, self.fixed = roots, fixed
        self.names: set[str] = set()
        self.depends, dependencies = False, ""
        sources, outputs = texts(asked["sources"]), texts(asked["outputs"])
        if len(sources) != 1 or len(outputs) != 1 or asked.get("kept"):
            raise Strange("not one source and one output")
        self.files = [self.own(sources[0], packages)]
        if not os.path.isfile(self.files[0]):
            raise Strange("standard input, or a pipe")
        cuda = asked["tool"] in _CUDA
        for name, value in pairs(asked["options"]):
            if name in {"-MF", "dependency-output"}:
                dependencies = value
            elif name and name not in {"-o", "output-file"}:
                (self.of_cuda if cuda else self.of_host)(name, value)
        self.own(self.cwd + "/.")
        self.made_up = made_up(self.cwd, texts(asked["words"]))
        self.outputs = [self.own(outputs[0])]
        if self.depends:
            if not dependencies:
                raise Strange("dependencies without a place")
            self.outputs.append(self.own(dependencies))

    def own(self, path: str, others: Sequence[str] = ()) -> str:
        """A path that must lie below what the build can write and we look at, or below others."""
        folder, name = os.path.split(os.path.join(self.cwd, path))
        full = os.path.join(os.path.realpath(folder), name)
        if not below(full, [*self.roots, *others]):
            raise Strange(path)
        return full

    def folder(self, path: str) -> None:
        """A folder in which headers are looked up."""
        full = os.path.realpath(os.path.join(self.cwd, path))
        if path.startswith("=") or not below(full + "/.", [*self.roots, *self.fixed]):
            raise Strange(path)  # `=` stands for a sysroot

    def forced(self, path: str) -> None:
        """A file that is included first: as its path says, else looked up like any other."""
        full = os.path.realpath(os.path.join(self.cwd, path))
        if os.path.exists(full) and not below(full, [*self.roots, *self.fixed]):
            raise Strange(path)
        self.names.add(os.path.basename(path))

    def of_cuda(self, name: str, value: str) -> None:
        """Take in an option of nvcc."""
        if name in _CUDA_FOLDERS:
            for path in value.split(","):
                self.folder(path)
        elif name in _FORCED:
            for path in value.split(","):
                self.forced(path)
        elif name == "compiler-options":
            for word in value.split(","):
                self.of_host(word.strip("\"'"), None)
        elif not self.is_plain(name, value):
            self.of_host(name, None)

    def is_plain(self, name: str, value: str) -> bool:
        """Whether an option of nvcc has no further input or output."""
        if name in _CUDA_PASSED:
            return all(_PASSED.fullmatch(word) for word in value.split(","))
        if name == "compiler-bindir":
            return "/" not in value or below(value, self.fixed)
        return name in _CUDA_PLAIN or name.lstrip("-") in _CUDA_WORDS

    def of_host(self, name: str, value: str | None) -> None:
        """Take in an option of gcc and its kin; ``value`` is the next word, where it has one."""
        front = next((word for word in _FOLDERS if name.startswith(word)), None)
        if name in _FORCED and value:
            self.forced(value)
        elif front is not None and (name != front or value):
            self.folder(name[len(front) :] or str(value))
        elif name in _DEPENDS:
            self.depends = True
        elif not (name in _HOST_VALUED and value) and not _HOST_WORD.fullmatch(name):
            raise Strange(name)


def made_up(cwd: str, words: list[str]) -> dict[str, str]:
    """Names that CMake makes up for the check in whose folder a call stands, and their stand-ins.

    They are of one length. What such a call makes is linked there, tried, and thrown away.
    """
    folder = _CHECK.search(cwd)
    if folder is None:
        return {}
    names = {folder[1]: "TryCompile-000000"}
    program = _CHECKED.search(" ".join(words))
    return names | ({program[0]: "cmTC_00000"} if program else {})


def renamed(text: str, names: dict[str, str]) -> str:
    """A text with other names."""
    for name, other in names.items():
        text = text.replace(name, other)
    return text


def below(path: str, roots: Sequence[str]) -> bool:
    """Whether a path lies below one of the folders."""
    return any(path.startswith(root + "/") for root in roots)


def texts(value: object) -> list[str]:
    """A list of words as JSON brings it."""
    return [str(item) for item in value] if isinstance(value, list) else []


def pairs(value: object) -> list[tuple[str, str]]:
    """A list of pairs of words as JSON brings it."""
    return [(str(a), str(b)) for a, b in value] if isinstance(value, list) else []
