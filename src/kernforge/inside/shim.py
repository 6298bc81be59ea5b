"""Stands in front of every compiler call: gencode policy, leave of the steward, ledger.

Runs inside the sandbox as ``PYTHON -I -S shim.py TOOL ARG...``: standard library only, nothing of
kernforge imported but ``depends.py`` from beside it, because their digest is part of the build
key. The file that KERNFORGE_SHIM_CONFIG names says where the real tools are and what the recipe
asks for.

Where the configuration names a steward (``steward.py``), a call that makes something waits for its
leave, and one that was killed for memory is made once more when the steward says so.

Its own exit codes: 95 another step of the same ninja has failed, 96 the policy refuses the call,
97 no usable configuration, 98 the ledger cannot be written, 127 the real tool cannot be started.
Else the real tool's; 128+n for signal n.

What nvcc accepts was read from ``nvcc --help`` and tried with ``--dryrun``: CUDA 13.0.88, 13.3.73
and 13.5.37 agree in all that follows, but for options that the later ones add.
There an ``-arch=`` with suffix and without ``-code`` also keeps PTX of the plain arch, ``@file`` is
refused, and ``-dlto`` excludes ``-gencode`` wherever something is compiled.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import select
import signal
import stat
import sys
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from types import FrameType

TYPE_CHECKING = False  # as type checkers take it; `typing` itself takes 5 ms, at every call
if TYPE_CHECKING:
    from kernforge.inside.depends import Listing

# options that take a value, long[:short]; the last block: not in --help, and new since CUDA 13.0
_VALUED = """
    Ofast-compile:Ofc Werror archive-options:Xarchive archiver-binary:arbin
    brief-diagnostics:brief-diag compiler-bindir:ccbin compiler-options:Xcompiler compress-mode
    cudadevrt cudart default-stream define-macro:D dependency-drive-prefix:ddp dependency-output:MF
    dependency-target-name:MT device-entity-has-hidden-visibility device-stack-protector diag-error
    diag-suppress diag-warn dopt drive-prefix:dp entries:e fdevice-time-trace fmad frandom-seed
    ftemplate-backtrace-limit ftemplate-depth ftz generate-code:gencode gpu-architecture:arch
    gpu-code:code host-linker-script:hls include-path:I input-drive-prefix:idp
    jump-table-density:jtd keep-dir libdevice-directory:ldir library:l library-path:L
    linker-options:Xlinker machine:m maxrregcount nvlink-options:Xnvlink optimization-info:opt-info
    optimize:O options-file:optf output-directory:odir output-file:o pre-include:include prec-div
    prec-sqrt ptxas-options:Xptxas qpp-config relocatable-device-code:rdc run-args sanitize
    split-compile split-compile-extended static-global-template-stub std system-include:isystem
    target-directory:target-dir threads:t time undefine-macro:U x

    cicc-options:Xcicc cudafe-options:Xcudafe export-dir:dir fatbin-options:Xfatbin
    apply-controls fdevice-sanitize fdevice-time-trace-granularity fmax-errors
    nvprune-options:Xnvprune stdlib tile-preview tileiras-options:Xtileiras
"""
_FLAGS = """
    clean-targets:clean compile:c cubin cuda device-c:dc device-link:dlink device-w:dw
    dlink-time-opt:dlto lto dryrun fatbin generate-dependencies:M generate-nonsystem-dependencies:MM
    help:h keep save-temps lib list-gpu-arch:arch-ls list-gpu-code:code-ls ltoir
    no-device-link:nodlink objdir-as-tempdir:objtemp optix-ir preprocess:E ptx version:V
"""


def _spellings(table: str) -> dict[str, str]:
    found = {}
    for entry in table.split():
        long, _, short = entry.partition(":")
        found["--" + long] = found["-" + (short or long)] = long
    return found


VALUED = _spellings(_VALUED)
FLAGS = _spellings(_FLAGS)
_SHY = frozenset({"Ofast-compile", "host-linker-script"})  # these leave a next word with dash alone
_TARGETS = frozenset({"gpu-architecture", "gpu-code", "generate-code"})
_LTO = frozenset({"dlink-time-opt", "lto"})
_MOVING = frozenset({"native", "all", "all-major"})
_QUERIES = frozenset({"help", "version", "list-gpu-code", "list-gpu-arch"})
_PREPROCESS = frozenset({"preprocess", "generate-dependencies", "generate-nonsystem-dependencies"})
_OBJECTS = frozenset({"compile", "device-c", "device-w"})
_SUFFIX = {
    "cuda": ".cu.cpp.ii",
    "cubin": ".cubin",
    "ptx": ".ptx",
    "fatbin": ".fatbin",
    "optix-ir": ".optixir",
    "ltoir": ".ltoir",
}
_HOST_INPUTS = (".c", ".cc", ".cpp", ".cxx", ".C", ".i", ".ii", ".o", ".obj", ".a", ".so", ".lo")
_LINKABLE = (".o", ".obj", ".a", ".so", ".lo")
_TOKEN = re.compile(r'(?:\\.|"(?:\\.|[^"\\])*"|[^\s"\\])+', re.DOTALL)
_SPEC = re.compile(r'\s*(arch|code)\s*=\s*(\[[^\]]*\]|"[^"]*"|[^,]*)')
_HOST_TOKEN = re.compile(r"""(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^\s"'\\])+""", re.DOTALL)
_THREADS = re.compile(r"-t\d+")
_MAX_NESTING = 16
_HASH_LIMIT = 256 << 20  # bytes; larger outputs are known by size and time
_GRACE = 2  # seconds a stopped compiler gets to clean up
_MAKES = frozenset({"compile", "device-link", "link"})
_SAID_LIMIT = 1 << 20  # bytes of a compiler's complaints that are held back until it has ended
_KILLED = re.compile(  # as nvcc and sccache, gcc, and shells say it
    rb"signal 9\b|\bKilled signal\b|^Killed\b|\d Killed\b|: Killed$", re.MULTILINE
)

_HIDDEN = frozenset({"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"})
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_HOST_VALUED = frozenset(
    "-o -x -I -D -U -L -l -T -u -z -e -B -A -include -imacros -isystem -iquote -idirafter -iprefix"
    " -iwithprefix -iwithprefixbefore -isysroot -imultilib -MF -MT -MQ -Xlinker -Xassembler"
    " -Xpreprocessor --param -aux-info -wrapper -dumpbase -dumpdir -target".split()
)
_HOST_QUERY = re.compile(r"--?(version|dump(version|fullversion|machine|specs)|print-.*|help.*)")

Pair = tuple[str, str]  # digits of the virtual arch, name of the code: ("120a", "sm_120a")


class Refusal(Exception):  # noqa: N818 - this file stands alone
    """The shim ends the call itself, with an exit code of its own and one line that says why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Option:
    """One option with its value, or one input, whose name is empty.

    Attributes:
        name: long name without dashes; the word itself where the table does not know it.
        value: the value, or the input.
        words: the words as given.
        span: where they stand in their options file; (0, 0) on the command line.
        files: what an ``-optf`` names.
    """

    __slots__ = ("files", "name", "span", "value", "words")

    def __init__(self, name: str, value: str, words: list[str], span: tuple[int, int]) -> None:
        self.name = name
        self.value = value
        self.words = words
        self.span = span
        self.files: list[OptionsFile] = []


class OptionsFile:
    """An nvcc options file: blanks part, double quotes join, a backslash takes one character."""

    __slots__ = ("options", "text")

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        found = list(_TOKEN.finditer(text))
        words = [re.sub(r'\\(.)|"', r"\1", m[0], flags=re.DOTALL) for m in found]
        self.options = parse(words, [m.span() for m in found], depth)


def read_text(path: str) -> str:
    """What a file says; nothing where it cannot be read, for the compiler says that better."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except OSError:
        return ""


def parse(words: list[str], spans: list[tuple[int, int]], depth: int = 0) -> list[Option]:
    """Group the words of a call, as nvcc does."""
    options = []
    at = 0
    while at < len(words):
        start, word = at, words[at]
        name, equals, value = word.partition("=")
        if name in VALUED:
            name = VALUED[name]
            following = words[at + 1] if at + 1 < len(words) else None
            takes = name not in _SHY or (following or "-")[0] != "-"
            if not equals and following is not None and takes:
                at += 1
                value = following
        elif word.startswith("-"):
            name, value = FLAGS.get(word, word), ""
        else:
            name, value = "", word
        at += 1
        option = Option(name, value, words[start:at], (spans[start][0], spans[at - 1][1]))
        if name == "options-file" and depth < _MAX_NESTING:
            paths = value.replace('"', "").split(",")
            option.files = [OptionsFile(read_text(path), depth + 1) for path in paths if path]
        options.append(option)
    return options


def flatten(options: list[Option]) -> list[Option]:
    """The options in the order in which they count, those of options files in place."""
    flat = []
    for option in options:
        flat.append(option)
        for file in option.files:
            flat.extend(flatten(file.options))
    return flat


def keep(options: list[Option], dropped: frozenset[str], folder: str) -> list[str]:
    """Words of a call less the options named ``dropped``; options files are copied less them."""
    words: list[str] = []
    for option in options:
        inner = [o.name for file in option.files for o in flatten(file.options)]
        if dropped.intersection(inner):
            copies = [_copy_without(file, dropped, folder) for file in option.files]
            words += ["--options-file", ",".join(copies)]
        elif option.name not in dropped:
            words += option.words
    return words


def _copy_without(file: OptionsFile, dropped: frozenset[str], folder: str) -> str:
    """The copy keeps every other byte: nvcc reads quotes of a file otherwise than of a word."""
    parts, at = [], 0
    for option in file.options:
        text = file.text[option.span[0] : option.span[1]]
        if option.name in dropped:
            text = ""
        elif option.files:
            text = " ".join(f'"{word}"' for word in keep([option], dropped, folder))
        parts += [file.text[at : option.span[0]], text]
        at = option.span[1]
    data = ("".join(parts) + file.text[at:]).encode("utf-8", "surrogateescape")
    path = os.path.join(folder, f"options-{digest(data)[:32]}.txt")
    with open(f"{path}.{os.getpid()}", "wb") as stream:
        stream.write(data)
    os.replace(stream.name, path)  # another call may be reading an equal copy
    return path


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL: 2 ms that most calls do without

    return hashlib.sha256(data).hexdigest()


def gencode_pairs(value: str) -> list[Pair]:
    """Targets of one ``-gencode``: a list stands in brackets or double quotes."""
    fields = dict(_SPEC.findall(value.strip()))
    arch = fields.get("arch", "").strip().removeprefix("compute_")
    codes = re.split(r"[,\s]+", fields.get("code", "").strip().strip('[]"\\'))
    return [(arch, code) for code in codes if code]


def shorthand_pairs(arch: str, lto: bool, form: str) -> list[Pair]:
    """What an ``-arch`` without ``-code`` means."""
    kind, _, digits = arch.partition("_")
    wide = form in {"fat", "link"}
    if kind == "sm":
        kinds = ["compute", "lto"] if lto and wide else ["sm", "compute"]
    else:
        kinds = [kind, "lto"] if lto and wide and kind == "compute" else [kind]
    pairs = [(digits, f"{kind}_{digits}") for kind in kinds]
    if lto and form == "link" and arch.startswith("sm_"):
        pairs.insert(0, (digits, arch))
    plain = digits.rstrip("af")
    if plain != digits and wide:
        pairs += [(plain, f"{kind}_{plain}") for kind in kinds if kind != "sm"]
    return pairs


def expanded_archs(arch: str, codes: list[str], lto: bool, form: str) -> list[Pair]:
    """What ``-arch=all`` or ``all-major`` means to the nvcc that lists ``codes``."""
    numbers = sorted(int(code[3:]) for code in codes if code[3:].isdigit())
    top = max((n for n in numbers if n % 10 == 0), default=0)
    if arch == "all-major":
        numbers = [n for n in numbers if n % 10 == 0 or n == numbers[0]]
    kind = "lto" if lto and form == "fat" else "sm"
    pairs = [(str(n), f"{kind}_{n}") for n in numbers]
    return [*pairs, (str(top), f"compute_{top}")] if top and form in {"fat", "link"} else pairs


class Call:
    """What one nvcc call asks for, before any policy.

    Attributes:
        kind: compile, device-link, link, preprocess, query or other.
        form: what comes out of it, as far as targets matter: fat, link, device-link, ptx, cubin,
            fixed (makes one target only and takes no gencode), host (no device code, but
            ``__CUDA_ARCH_LIST__`` names the targets) or none.
        pairs: targets named, in order, each once; None where the call names none.
        moving: a value of -arch that means something else on another machine or toolkit.
    """

    def __init__(self, nvcc: str, words: list[str]) -> None:
        self.options = parse(words, [(0, 0)] * len(words))
        self.flat = flatten(self.options)
        self.names = {option.name for option in self.flat}
        self.inputs = [option.value for option in self.flat if not option.name]
        self.lto = bool(_LTO & self.names)
        self.relocatable = (
            "device-c" in self.names or self.value("relocatable-device-code") == "true"
        )
        self.kind, self.form = self._classify()
        arch = self.value("gpu-architecture")
        self.moving = arch if arch in _MOVING else None
        self.pairs = self._named(nvcc)

    def _all(self, name: str) -> list[Option]:
        return [option for option in self.flat if option.name == name]

    def value(self, name: str) -> str | None:
        """The last value of an option: that one counts."""
        found = self._all(name)
        return found[-1].value if found else None

    def _classify(self) -> tuple[str, str]:
        names = self.names
        if names & _QUERIES or not self.inputs:
            return ("query" if names & _QUERIES else "other"), "none"
        if "clean-targets" in names:
            return "other", "none"
        if names & _PREPROCESS:
            kind = "preprocess"
        elif "device-link" in names:
            kind = "device-link"
        else:
            kind = "compile" if names & _OBJECTS or names & _SUFFIX.keys() else "link"
        return ("query" if "dryrun" in names else kind), self._form(kind)

    def _form(self, kind: str) -> str:
        language = self.value("x")
        host = all(name.endswith(_HOST_INPUTS) for name in self.inputs)
        links = kind == "link" and "lib" not in self.names
        if kind == "device-link":
            return kind
        linked = links and "no-device-link" not in self.names
        if (language or host) and language != "cu" and not linked:
            return "host"
        if self.names & {"optix-ir", "ltoir"}:
            return "fixed"
        if links:
            return "link"
        return next((name for name in ("ptx", "cubin") if name in self.names), "fat")

    def _named(self, nvcc: str) -> list[Pair] | None:
        if not _TARGETS & self.names:
            return None
        arch = self.value("gpu-architecture")
        codes = [c for o in self._all("gpu-code") for c in re.split(r"[,\s]+", o.value) if c]
        if arch is None:
            pairs = [("", code) for code in codes]
        elif codes:
            pairs = [(arch.removeprefix("compute_"), code) for code in codes]
        elif arch in {"all", "all-major"} and self.form != "none":
            pairs = expanded_archs(arch, list_codes(nvcc), self.lto, self.form)
        elif arch in _MOVING:
            pairs = [(arch, arch)]
        else:
            pairs = shorthand_pairs(arch, self.lto, self.form)
        for option in self._all("generate-code"):
            pairs += gencode_pairs(option.value)
        return list(dict.fromkeys(pairs))


def list_codes(nvcc: str) -> list[str]:
    """Names of the real architectures that this nvcc lists: ``sm_75``, ``sm_80`` ..."""
    read, write = os.pipe()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NVCC_")}
    actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)]
    child = os.posix_spawn(nvcc, [nvcc, "--list-gpu-code"], environment, file_actions=actions)
    os.close(write)
    with open(read, encoding="ascii", errors="replace") as stream:
        codes = stream.read().split()
    os.waitpid(child, 0)
    return codes


def compiled(form: str, pairs: list[Pair] | None) -> list[str] | None:
    """Names of what nvcc really makes of these targets; None: its own default."""
    if pairs is None or form == "host":
        return None
    if form == "ptx":
        names = [f"compute_{virtual}" for virtual, _ in pairs]
    elif form in {"cubin", "device-link"}:
        real = [code for _, code in pairs if code.startswith("sm_")]
        names = real or [code for _, code in pairs]
    else:
        names = [code for _, code in pairs]
    return list(dict.fromkeys(names))


class Config:
    """What the host asks for.

    Attributes:
        tools: real programs by the name under which they are called.
        path: PATH for them, without the shims.
        ledger: folder of the ledger.
        roots: folders below which paths are matched and recorded.
        archs: requested targets: digits with suffix, and whether PTX is kept.
        by_path: pattern and policy; the first that fits counts.
        default: the policy where none fits.
        steward: the steward's socket, or None.
        seeded: whether nvcc knows -frandom-seed.
    """

    __slots__ = (
        "archs", "by_path", "default", "ledger", "path", "roots", "seeded", "steward", "tools",
    )  # fmt: skip

    tools: dict[str, str]
    path: str
    ledger: str
    roots: list[str]
    archs: list[tuple[str, bool]]
    by_path: list[tuple[str, str]]
    default: str
    steward: str | None
    seeded: bool


def load_config() -> Config:
    """Read what KERNFORGE_SHIM_CONFIG names.

    Raises:
        Refusal: 97.
    """
    path = os.environ.get("KERNFORGE_SHIM_CONFIG")
    if not path:
        raise Refusal(97, "KERNFORGE_SHIM_CONFIG is not set; run compilers through kernforge")
    config = Config()
    try:
        with open(path, encoding="utf-8") as stream:
            raw = json.load(stream)
        gencode = raw["gencode"]
        config.tools = raw["tools"]
        config.path = raw["path"]
        config.ledger = raw["ledger"]
        config.roots = [*raw["roots"], *map(os.path.realpath, raw["roots"])]
        config.archs = [(arch["code"], arch["ptx"]) for arch in gencode["archs"]]
        config.by_path = [(pattern, policy) for pattern, policy in gencode["by_path"]]
        config.default = gencode["default"]
        config.steward = raw.get("steward")
        config.seeded = bool(raw.get("seeded"))
        version = raw["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refusal(97, f"{path!r} is no configuration: {error!r}") from None
    if version != 1:
        raise Refusal(97, f"{path!r} has version {version!r}; this shim reads version 1")
    return config


class Plan:
    """What to run, and what its record says before it has run.

    Attributes:
        kind: compile, device-link, link, preprocess, query or other.
        sources: inputs that are no objects or libraries, as given.
        outputs: files that the call leaves behind, as given.
        words: words for the real tool.
        kept: folder for intermediates that ``-keep`` leaves, or None.
        policy: the gencode policy that held, or None.
        before: targets that the call named; None: none.
        after: targets really compiled; None: the compiler's default, or nothing.
        rewritten: whether target options were changed.
        note: a remark for the user.
        refused: exit code where nothing may run, or None.
        threads: how many compiles nvcc is told to do at once; 0: as many as there are processors.
        options: long names and values of all that the call says, options files included; inputs
            have no name.
        what: the file that it compiles, else the one it makes, for reading.
    """

    def __init__(self, kind: str, sources: list[str], outputs: list[str], words: list[str]) -> None:
        self.kind = kind
        self.sources = sources
        self.outputs = outputs
        self.words = words
        self.kept: str | None = None
        self.policy: str | None = None
        self.before: list[str] | None = None
        self.after: list[str] | None = None
        self.rewritten = False
        self.note = ""
        self.refused: int | None = None
        self.threads: int | None = None
        self.options: list[tuple[str, str]] = []
        self.what = ""


def replaced(call: Call, archs: list[tuple[str, bool]]) -> list[Pair]:
    """Exactly the requested targets, in the kinds that the call can hold.

    An object for link-time optimization stays one: its ``sm_`` targets become ``lto_`` ones.
    """
    named = {code.partition("_")[0] for _, code in call.pairs or ()}
    kinds = ["sm"]
    if call.form == "fat" and (call.lto or "lto" in named):
        kinds = ["lto", "sm"] if "sm" in named else ["lto"]
    pairs = []
    for code, ptx in archs:
        pairs += [(code, f"{kind}_{code}") for kind in kinds]
        if ptx and call.form in {"fat", "link"}:
            pairs.append((code, f"compute_{code}"))
    return pairs


def filtered(call: Call, archs: list[tuple[str, bool]]) -> list[Pair]:
    """The named targets that are also requested; equal by text, PTX only where asked for."""
    wanted = {f"{kind}_{code}" for code, _ in archs for kind in ("sm", "lto")}
    wanted |= {f"compute_{code}" for code, ptx in archs if ptx}
    return [pair for pair in call.pairs or () if pair[1] in wanted]


def decide(call: Call, policy: str, archs: list[tuple[str, bool]]) -> tuple[list[Pair] | None, str]:
    """The targets to compile instead, and a remark; None leaves the call as it is."""
    if policy == "upstream":
        return None, ""
    if call.form == "fixed":
        return None, "makes one target and takes no gencode; left as it is"
    pairs = filtered(call, archs) if policy == "filter" else replaced(call, archs)
    if not pairs:
        said = "names none of the requested targets; its own are kept"
        return None, "" if call.form == "host" else said
    count = len({virtual for virtual, _ in pairs})
    single = f"-{call.form}" if policy == "replace" and call.form in {"ptx", "cubin"} else ""
    if shorthand_of(call, pairs):
        single = "link-time optimization in this call"
    if count > 1 and single:
        return None, f"{single} takes one target and {count} are asked; left as it is"
    return pairs, ""


def shorthand_of(call: Call, pairs: list[Pair]) -> str | None:
    """The one ``-arch`` value that says these targets where nvcc takes no ``-gencode``.

    That is so for -dlto in a call that compiles and links, and for lto code without -rdc.
    """
    if call.form == "link" and call.lto:
        return f"sm_{pairs[0][0]}"
    whole = call.form == "fat" and not (call.lto or call.relocatable)
    return next((code for _, code in pairs if whole and code.startswith("lto_")), None)


def rewrite(call: Call, plan: Plan, config: Config) -> None:
    """Apply the policy of the plan to its words."""
    policy = str(plan.policy)
    pairs, plan.note = decide(call, policy, config.archs)
    if pairs is not None and not call.moving and set(pairs) == set(call.pairs or ()):
        pairs = None
    if pairs is None:
        if call.moving == "native" or (call.moving and policy != "filter"):
            plan.refused = 96
            plan.note = f"-arch={call.moving} under policy {policy!r} has no fixed targets"
        return
    dropped = _TARGETS
    added = [f"-gencode=arch=compute_{virtual},code={code}" for virtual, code in pairs]
    if arch := shorthand_of(call, pairs):
        added, pairs = [f"-arch={arch}"], shorthand_pairs(arch, call.lto, call.form)
    elif call.lto and call.form in {"fat", "host"}:
        dropped = _TARGETS | _LTO
        added.append("-rdc=true")  # as -dlto implies
    plan.words = [*added, *keep(call.options, dropped, os.environ.get("TMPDIR", os.curdir))]
    plan.after = compiled(call.form, pairs)
    plan.rewritten = True


def plan_nvcc(config: Config, words: list[str]) -> Plan:
    """What an nvcc call becomes."""
    call = Call(config.tools["nvcc"], words)
    plan = Plan(call.kind, sources_of(call.inputs), nvcc_outputs(call), words)
    if {"keep", "save-temps"} & call.names:
        plan.kept = call.value("keep-dir") or "."
    if call.form == "none":
        return plan
    plan.policy = policy_of(config, plan.sources or plan.outputs)
    plan.before = plan.after = compiled(call.form, call.pairs)
    rewrite(call, plan, config)
    if call.kind in {"compile", "link"} and not _places_temporaries(call):
        # names of temporary files reach the object, and those in TMPDIR are random
        plan.words = ["-objtemp", *plan.words]
    if config.seeded and call.kind == "compile" and "frandom-seed" not in call.names:
        # a unit that defines no function of its own has nvcc's process id in its symbols
        named = [f"-frandom-seed={relative(path, config.roots)}" for path in plan.sources[:1]]
        plan.words = [*named, *plan.words]
    take_threads(call, plan)
    return plan


def take_threads(call: Call, plan: Plan) -> None:
    """Take the number of threads out of the words: it is granted when the call runs."""
    named = [o for o in call.flat if o.name == "threads" or _THREADS.fullmatch(o.name)]
    plan.options = [(o.name, o.value) for o in call.flat if o not in named]
    last = (named[-1].value or named[-1].name[2:]) if named else ""
    if not last.isdigit():
        return
    plan.threads = int(last)
    options = parse(plan.words, [(0, 0)] * len(plan.words))
    dropped = frozenset(option.name for option in named)
    plan.words = keep(options, dropped, os.environ.get("TMPDIR", os.curdir))


def _places_temporaries(call: Call) -> bool:
    """Whether temporary files have a fixed place, or the object is thrown away."""
    discarded = (call.value("output-file") or "").startswith("/dev/")
    return discarded or "objdir-as-tempdir" in call.names


def policy_of(config: Config, paths: list[str]) -> str:
    """The policy of the first pattern that one of the paths fits; ``*/x/*`` fits ``x/y`` too."""
    below = [relative(path, config.roots) for path in paths]
    for pattern, policy in config.by_path:
        if any(fnmatchcase(p, pattern) or fnmatchcase("/" + p, pattern) for p in below):
            return policy
    return config.default


def relative(path: str, roots: list[str]) -> str:
    """The path below its root; absolute where it is below none."""
    full = os.path.abspath(path)
    for root in roots:
        if full.startswith(root + "/"):
            return full[len(root) + 1 :]
    return full


def sources_of(inputs: list[str]) -> list[str]:
    """The inputs that are no objects or libraries."""
    return [name for name in inputs if not name.endswith(_LINKABLE) and ".so." not in name]


def nvcc_outputs(call: Call) -> list[str]:
    """Files that the call leaves behind, the intermediates of ``-keep`` aside."""
    named = call.value("output-file")
    if named or call.kind not in {"compile", "device-link", "link"}:
        return [named] if named else []
    if call.kind != "compile":
        return ["a_dlink.o" if call.kind == "device-link" else "a.out"]
    suffix = next((s for name, s in _SUFFIX.items() if name in call.names), ".o")
    folder = call.value("output-directory") or ""
    return [os.path.join(folder, stem_of(name) + suffix) for name in sources_of(call.inputs)]


def stem_of(path: str) -> str:
    """The file's name without its last ending."""
    return os.path.splitext(os.path.basename(path))[0]


def plan_host(words: list[str]) -> Plan:
    """What a call of a host compiler does, by gcc's grammar. Its words are never changed."""
    inputs, output, names = [], "", set()
    options = []
    queue = expand_host(words)[::-1]
    while queue:
        word = queue.pop()
        name, value = word, ""
        if word in _HOST_VALUED and queue:
            value = queue.pop()
            output = value if word == "-o" else output
        elif word.startswith("-o"):
            output = word[2:]
            name = "-o"
        elif word.startswith("-") and word != "-":
            names.add(word)
        else:
            inputs.append(word)
            name, value = "", word
        options.append((name, value))
    kind = host_kind(names, inputs)
    outputs = [output] if output else ["a.out"] if kind == "link" else []
    if not output and "-c" in names:
        outputs = [stem_of(name) + ".o" for name in inputs]
    plan = Plan(kind, sources_of(inputs), outputs, words)
    plan.options = options
    return plan


def host_kind(names: set[str], inputs: list[str]) -> str:
    """What gcc does with these options."""
    if "-###" in names or any(map(_HOST_QUERY.fullmatch, names)):
        return "query"
    if not inputs:
        return "query" if "-v" in names else "other"
    if names & {"-E", "-M", "-MM"}:
        return "preprocess"
    return "compile" if names & {"-c", "-S", "-fsyntax-only"} else "link"


def expand_host(words: list[str], depth: int = 0) -> list[str]:
    """The words with gcc's ``@file`` replaced by what the file says; for reading only."""
    expanded = []
    for word in words:
        if word.startswith("@") and depth < _MAX_NESTING and os.path.isfile(word[1:]):
            found = _HOST_TOKEN.findall(read_text(word[1:]))
            inner = [re.sub(r"""\\(.)|["']""", r"\1", token) for token in found]
            expanded += expand_host(inner, depth + 1)
        else:
            expanded.append(word)
    return expanded


def describe(path: str, roots: list[str]) -> dict[str, object] | None:
    """An output as records hold it; None where it is no regular file."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    sha256 = None
    if facts.st_size <= _HASH_LIMIT:
        with open(path, "rb") as stream:
            sha256 = digest(stream.read())
    return {
        "path": relative(path, roots),
        "sha256": sha256,
        "size": facts.st_size,
        "mtime_ns": facts.st_mtime_ns,
    }


def results(plan: Plan, config: Config, since: float) -> list[dict[str, object]]:
    """The files that a call which ended well has made, objects that ``-keep`` left included."""
    paths = plan.outputs if plan.kind in {"compile", "device-link", "link"} else []
    if plan.kept and os.path.isdir(plan.kept):
        entries = [entry for entry in os.scandir(plan.kept) if entry.name.endswith((".o", ".obj"))]
        paths = [*paths, *(e.path for e in entries if e.stat().st_mtime >= since - 1)]
    found = [describe(path, config.roots) for path in dict.fromkeys(paths)]
    return [facts for facts in found if facts]


def prctl(option: int, value: int) -> None:
    """Linux: set one attribute of this process; what cannot be set is done without."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def listen(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Let ``handler`` take the signals that stop a build; one that is ignored stays so."""
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)


def hear_nothing(_number: int, _frame: FrameType | None) -> None:
    """A stop that comes when the tool has ended; ignored, it would stay so for a second tool."""


def exit_code(status: int) -> int:
    """What a shell would say of a wait status."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


class Run:
    """What came of one run of a tool.

    Attributes:
        began: when it began, by the monotonic clock.
        code: exit code.
        user: seconds of processor time, all children included.
        peak: KiB of the largest single process.
        said: what it wrote to standard error, where that was held back; its end, where it was long.
        whole: whether that is all.
        stopped: whether somebody stopped the shim meanwhile.
    """

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.code = 0
        self.user = 0.0
        self.peak = 0
        self.said = b""
        self.whole = True
        self.stopped = False

    def add(self, other: Run) -> None:
        """Take in a run that came after this one."""
        self.code, self.peak = other.code, max(self.peak, other.peak)
        self.user, self.said = self.user + other.user, self.said + other.said
        self.whole, self.stopped = self.whole and other.whole, self.stopped or other.stopped

    @property
    def killed(self) -> bool:
        """Whether a process was killed: most likely for memory. A crash is something else."""
        dead = self.code == 128 + signal.SIGKILL or _KILLED.search(self.said[-4096:])
        return bool(self.code and not self.stopped and dead)


def run(argv: list[str], environment: dict[str, str], held: bool = False) -> Run:
    """Run the real tool below a guard; ``held`` keeps back what it writes to standard error."""
    done = Run()
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    shim = os.getpid()
    life, alive = os.pipe()  # its other end closes with the guard: the tool does not inherit it
    heard, complaints = os.pipe() if held else (-1, -1)
    guard = os.fork()
    if guard == 0:
        guard_tool(argv, environment, shim, complaints)
    os.close(alive)

    def stop(number: int, _frame: FrameType | None) -> None:
        done.stopped = True
        os.kill(guard, number)

    listen(stop)
    if held:
        os.close(complaints)
        done.said, done.whole = collect(heard, life)
        os.close(heard)
    os.close(life)
    _, status, usage = os.wait4(guard, 0)
    listen(hear_nothing)
    done.code, done.user, done.peak = exit_code(status), usage.ru_utime, usage.ru_maxrss
    return done


def collect(heard: int, life: int) -> tuple[bytes, bool]:
    """Read a pipe until the guard is gone; what goes on behind it may hold the pipe for longer.

    Returns:
        What was said, or its end where it is long and was passed on, and whether it is whole.
    """
    said, ended, whole = b"", False, True
    while True:
        ready = select.select([heard] if ended else [heard, life], [], [], 0 if ended else None)[0]
        data = os.read(heard, 1 << 16) if heard in ready else b""
        said += data
        if len(said) > _SAID_LIMIT:
            os.write(2, said[:-4096])
            said, whole = said[-4096:], False
        if not data and (ended or heard in ready):
            return said, whole
        ended = ended or life in ready


def guard_tool(argv: list[str], environment: dict[str, str], shim: int, complaints: int) -> None:
    """Stand between shim and tool, so that nothing survives a shim that is killed.

    nvcc leaves cicc running when it is ended (seen with SIGTERM and SIGKILL); the guard adopts
    such orphans and ends them.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    guard = os.getpid()
    tool = os.fork() if os.getppid() == shim else os._exit(128 + signal.SIGTERM)
    if tool == 0:
        if complaints >= 0:
            os.dup2(complaints, 2)
        start_tool(argv, environment, guard)
    if complaints >= 0:
        os.close(complaints)
    stopped = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopped.append(number)
        os.kill(tool, signal.SIGKILL if number == signal.SIGALRM else number)
        signal.alarm(_GRACE)

    signal.signal(signal.SIGALRM, stop)
    listen(stop)
    _, status = os.waitpid(tool, 0)
    listen(signal.SIG_IGN)
    signal.alarm(0)
    while stopped:
        for child in children_of(guard):
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    os._exit(exit_code(status))


def start_tool(argv: list[str], environment: dict[str, str], guard: int) -> None:
    """Become the real tool."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; a compiler must not
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    try:
        if os.getppid() == guard:
            os.execve(argv[0], argv, environment)
    except OSError as error:
        complain(f"cannot start {argv[0]!r}: {error.strerror}")
    os._exit(127)


def children_of(parent: int) -> list[int]:
    """Processes whose parent this is."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = read_text(f"/proc/{name}/stat").rpartition(")")[2].split()
        if fields[1:2] == [str(parent)]:
            found.append(int(name))
    return found


def append(folder: str, record: dict[str, object]) -> None:
    """Add a record to the ledger in one write; a line that a kill cut short stays alone.

    Raises:
        OSError: the ledger cannot be written.
    """
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    path = os.path.join(folder, "calls.jsonl")
    ledger = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.lockf(ledger, os.F_LOCK, 0)  # until this process ends
    size = os.fstat(ledger).st_size
    if size and os.pread(ledger, 1, size - 1) != b"\n":
        line = b"\n" + line
    if os.write(ledger, line) != len(line):
        raise OSError(errno.ENOSPC, "the record was cut short")


class Seat:
    """The steward's leave for one call: asked for, held while the tool runs, given back."""

    def __init__(self, path: str) -> None:
        import _socket  # noqa: PLC0415 - `socket` takes 4 ms more, and most calls need neither

        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            self.socket.connect(path)
        except OSError as error:
            raise Refusal(97, f"the steward does not answer at {path!r}: {error}") from None

    def ask(self, said: dict[str, object]) -> dict[str, object]:
        """Say something and wait for the answer, however long it takes."""
        self.socket.sendall(json.dumps(said).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            more = self.socket.recv(1 << 16)
            if not more:
                raise Refusal(97, "the steward has gone")
            data += more
        answer: dict[str, object] = json.loads(data)
        return answer


def run_admitted(
    seat: Seat, plan: Plan, tool: str, argv: list[str], environment: dict[str, str]
) -> tuple[Run, dict[str, object]]:
    """Run the tool with the steward's leave, as often as it says; the last run counts."""
    asked = {
        "tool": tool,
        "kind": plan.kind,
        "what": plan.what,
        "archs": len(plan.after or ()),
        "cwd": os.getcwd(),
    }
    if plan.threads is not None:
        asked["threads"] = plan.threads
    if plan.kind == "compile":  # by all this a call is known again
        asked |= {"words": argv, "options": plan.options, "environment": environment}
        asked |= {"sources": plan.sources, "outputs": plan.outputs, "kept": plan.kept}
    answer = seat.ask(asked)
    if "dismissed" in answer:
        raise Refusal(95, f"{plan.what}: not made, since another step has failed")
    if "end" in answer:
        os.write(2, str(answer["said"]).encode("latin-1"))
        return Run(), answer
    while True:
        granted = answer["threads"]
        if isinstance(granted, int) and (plan.threads is not None or granted > 1):
            plan.threads = granted
        own = {**environment, **answer["env"]}  # type: ignore[dict-item]
        done = run_wrapped(plan, tool, answer["wrap"], argv, own)  # type: ignore[arg-type]
        told = done.said.decode("latin-1") if done.whole else None
        ended = {"exit": done.code, "killed": done.killed, "peak_kib": done.peak}
        answer = seat.ask({**ended, "said": told})
        if "end" in answer:
            os.write(2, done.said)
            return done, answer
        complain(f"{plan.what}: ended for want of memory; it is compiled again when there is room")


def run_wrapped(
    plan: Plan, tool: str, wrap: list[str], argv: list[str], environment: dict[str, str]
) -> Run:
    """Run the tool behind the compile cache, where there is one.

    The list of what an nvcc call reads is then made here: the cache would have everything
    preprocessed once more for it.
    """
    listing = listing_of(plan, environment) if wrap and tool == "nvcc" else None
    if listing is None:
        return run([*wrap, *argv, *threads_of(plan)], environment, held=True)
    folder = os.environ.get("TMPDIR", os.curdir)
    options = parse(plan.words, [(0, 0)] * len(plan.words))
    lean = keep(options, listing.names, folder)
    listing.forget()
    own = {**environment, **listing.environment}
    done = run([*wrap, argv[0], *lean, *threads_of(plan)], own, held=True)
    if done.code:
        listing.forget()
    elif not listing.write():
        options = parse(lean, [(0, 0)] * len(lean))
        words = keep(options, frozenset({"output-file"}), folder)
        done.add(run([argv[0], *words, *listing.call], environment, held=True))
    return done


def listing_of(plan: Plan, environment: dict[str, str]) -> Listing | None:
    """The list of dependencies that a compile asks for (``depends.py``, beside this file)."""
    if plan.kind != "compile":
        return None
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import depends  # type: ignore[import-not-found]  # noqa: PLC0415 - few calls need it

    listing: Listing | None = depends.wanted(plan.options, plan.sources, plan.outputs, environment)
    return listing


def threads_of(plan: Plan) -> list[str]:
    """The option that says how many compiles nvcc does at once."""
    return [] if plan.threads is None else [f"--threads={plan.threads}"]


def complain(text: str) -> None:
    """Say one line on standard error."""
    os.write(2, f"kernforge shim: {text}\n".encode("utf-8", "backslashreplace"))


def said(plan: Plan, config: Config) -> dict[str, object]:
    """What the record of a call says before the call has run."""
    return {
        "version": 1,
        "kind": plan.kind,
        "sources": [relative(path, config.roots) for path in plan.sources],
        "output": relative(plan.outputs[0], config.roots) if plan.outputs else None,
        "archs_before": plan.before,
        "archs_after": plan.after if plan.refused is None else None,
        "policy": plan.policy,
        "rewritten": plan.rewritten,
        "note": plan.note,
    }


def execute(config: Config, tool: str, words: list[str]) -> int:
    """Plan, run and record one call; returns the exit code.

    Raises:
        Refusal: 97, there is no such tool; 98, the ledger cannot be written.
        OSError: nothing could be run.
    """
    if tool not in config.tools:
        raise Refusal(97, f"no real tool is configured for {tool!r}")
    started, clock = time.time(), time.monotonic()
    plan = plan_nvcc(config, words) if tool == "nvcc" else plan_host(words)
    depth = int(os.environ.get("KERNFORGE_SHIM_DEPTH", "0"))
    argv = [config.tools[tool], *plan.words]
    environment = {k: v for k, v in os.environ.items() if k not in _HIDDEN}
    environment.update(PATH=config.path, KERNFORGE_SHIM_DEPTH=str(depth + 1))
    plan.what = relative((plan.sources or plan.outputs or [tool])[0], config.roots)
    done = Run()
    ended: dict[str, object] = {}
    if plan.refused is not None:
        complain(plan.note)
        done.code = plan.refused
    elif config.steward is not None and depth == 0 and plan.kind in _MAKES:
        done, ended = run_admitted(Seat(config.steward), plan, tool, argv, environment)
    else:
        done = run([*argv, *threads_of(plan)], environment)
    waited = max(0.0, done.began - clock) if ended else 0.0
    record = {
        **said(plan, config),
        "tool": tool,
        "outputs": [] if done.code else results(plan, config, started),
        "argv": [*argv, *threads_of(plan)],
        "cwd": os.getcwd(),
        "start": started,
        "seconds": round(time.monotonic() - clock - waited, 4),
        "waited": round(waited, 4),
        "user_seconds": round(done.user, 4),
        "max_rss_kib": done.peak,
        "peak_kib": ended.get("peak_kib"),
        "cache": ended.get("cache"),
        "exit": done.code,
        "nested": depth > 0,
    }
    try:
        append(config.ledger, record)
    except OSError as error:
        raise Refusal(98, f"the ledger cannot be written: {error}") from error
    return done.code


def main(words: list[str]) -> int:
    """Do one call: ``TOOL ARG...``; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return execute(load_config(), words[0], words[1:])
    except Refusal as refusal:
        complain(str(refusal))
        return refusal.code
    except OSError as error:
        complain(f"cannot run {words[0]!r}: {error}")
        return 127


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
