"""Runs a build's backend and admits its compiler calls by memory. Standard library only.

Runs inside the sandbox as ``PYTHON -I -S steward.py ORDER PROGRAM [ARGUMENT...]``: nothing of
kernforge imported, one file, because its digest is part of the build key. ORDER is a JSON file that
says what this run may use; nothing in it changes what is built.

Each shim connects to the socket, says what it is about to compile, and waits until it is let in.
A call holds its slots and its memory for as long as it or a process of its own lives. What a call
takes is read from /proc: all that descends from its shim, and what the compile cache's server runs
for it, known by the environment. An estimate that proves low is raised at once. Where all calls
together come near the budget, the youngest is ended and tried again later.

A call whose like was made before, reading the same, is not made at all (``recall.py``).

Messages are one line of JSON each. The shim: ``{"tool", "kind", "what", "archs", "threads",
"cwd"}``, for a compile also ``{"words", "options", "environment", "sources", "outputs", "kept"}``,
then ``{"exit", "killed", "peak_kib", "said"}`` when the tool has ended. The steward: ``{"go": true,
"call", "threads", "wrap", "env"}`` to start, ``{"end": true, "peak_kib", "cache"}`` at the end; at
once, with ``"said"``, where what the call makes is there already; ``{"dismissed": true}`` where it
is not to be made, since ninja would not have started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernforge.inside.reach import Reach
    from kernforge.inside.recall import Recall

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KIB = 1024
_BUSY, _IDLE = 0.1, 0.5  # seconds between two looks: where something may change, and else
_YOUNG = 3.0  # seconds
_LOOK_SHARE = 20  # a look may take one part in so many of the time
_PUBLISH = 0.25  # seconds between two states for the live view
_GROWTH = 1.1  # how far an estimate is raised above what was seen
_NEAR = 0.97  # of the budget in use, all together: the youngest call is ended
_PATIENCE = 5.0  # seconds that a compile cache's server may take to start
_CACHEABLE = frozenset({"nvcc", "cc", "gcc", "c++", "g++"})
_LOG = re.compile(r"\[([^\]]+)\]: Cache (hit|miss)")
_TAG = b"KERNFORGE_CALL="
_SHELLS = frozenset({b"sh", b"bash", b"dash"})
_GOES_ON = re.compile(rb"[|;&!\n]|\b(?:if|while|until|for|case|trap|set)\b")  # in a shell's line
_OWN_FILES = 16  # that are open beside the shims' connections
_KNOWN = 4  # calls of a tool that must have ended before a recipe's guess is believed no more
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


class Order:
    """What this run may use.

    Attributes:
        socket: path of the socket.
        live: path of the state for the live view.
        free: path at which the bytes are told that this build may still take.
        budget: bytes that all calls together may take.
        watch: whether the machine's free memory bounds them too: nobody named the budget.
        slots: how many compiles at once; one with several nvcc threads takes as many.
        threads: how many archs an nvcc call compiles at once where the project does not say.
        processors: how many compiles processors can work on at a time.
        default: bytes that a call takes before anything is known of it.
        known: for each call's name, bytes and seconds that it took last time.
        cache: program and environment of the compile cache, or None.
        stats: where the cache's statistics are left.
        cut: whether the backend is to lose the network that the compile cache needs.
        calls: where whole calls are kept and by what they are named, or None.
    """

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as stream:
            raw = json.load(stream)
        self.socket: str = raw["socket"]
        self.live: str = raw["live"]
        self.free: str = raw["free"]
        self.budget: int = raw["budget"]
        self.watch: bool = raw["watch"]
        self.slots: int = raw["slots"]
        self.threads: int = raw["threads"]
        self.processors: int = raw["processors"]
        self.default: int = raw["default"]
        self.known: dict[str, list[float]] = raw["known"]
        self.cache: dict[str, object] | None = raw["cache"]
        self.stats: str = raw["stats"]
        self.cut: bool = raw["cut"]
        self.calls: dict[str, object] | None = raw["calls"]


class Call:
    """One compiler call, from its asking to its end.

    Attributes:
        number: as its processes' environment tells it.
        shim: process id of its shim.
        asked: what the shim said.
        slots: compiles that it does at once, as granted.
        estimate: bytes that it holds while it runs.
        guessed: whether nothing is known of it from earlier builds.
        blind: whether none of its like has ended in this build either.
        expected: seconds that it took last time, or None.
        memory: bytes that it takes now.
        peak: the most that it took.
        state: waiting, running or gone: its shim has died and something of it lives.
        since: when it came to this state, in seconds since 1970.
        alone: it was killed for memory and is tried once more with nothing beside it.
        yielded: the steward has ended it to make room.
        hits, misses: what the compile cache's log says of it; None where it says too little.
        name: by which its like is kept, and what it makes; None where it is not kept.
    """

    def __init__(self, number: int, shim: int, asked: dict[str, object], order: Order) -> None:
        self.number = number
        self.shim = shim
        self.asked = asked
        unsaid = order.threads if asked.get("kind") == "compile" else 1
        threads = asked.get("threads", unsaid)  # 0: as many as there are
        wanted = threads if isinstance(threads, int) and threads > 0 else order.slots
        archs = asked.get("archs")
        self.slots = max(1, min(wanted, archs if isinstance(archs, int) else 1, order.slots))
        known = known_of(order.known, asked)
        memory, seconds = known or (order.default * self.slots, None)
        self.guessed = self.blind = known is None
        self.estimate = int(min(memory, order.budget))
        self.expected = seconds
        self.memory = self.peak = 0
        self.state = "waiting"
        self.since = self.came = time.time()
        self.alone = self.retried = self.yielded = False
        self.members: set[int] = set()
        self.hits = self.misses = 0
        self.name: tuple[str, Reach] | None = None

    @property
    def what(self) -> str:
        """The file that it compiles, or makes."""
        return str(self.asked.get("what"))

    def cache_result(self) -> str | None:
        """hit, part or miss; None where it did not go through the compile cache."""
        misses = self.misses - (self.asked.get("tool") == "nvcc")  # nvcc itself is never kept
        if self.hits <= 0:
            return "miss" if self.misses > 0 else None
        return "hit" if misses <= 0 else "part"


def known_of(known: dict[str, list[float]], asked: dict[str, object]) -> list[float] | None:
    """Bytes and seconds of the same call with as many archs, else with the nearest number.

    Memory follows the largest step of a call, whatever the number of archs; time their number.
    """
    name, archs = f"{asked.get('tool')} {asked.get('what')}", asked.get("archs") or 0
    if not isinstance(archs, int):
        return None
    exact = known.get(f"{name} {archs}")
    if exact:
        return exact
    others = [(abs(n - archs), n) for n in range(1, 33) if f"{name} {n}" in known]
    if not others or archs < 1:
        return None
    nearest = min(others)[1]
    memory, seconds = known[f"{name} {nearest}"]
    return [memory, seconds * archs / nearest]


def choose(calls: list[Call], order: Order, free: int) -> Call | None:
    """The waiting call to start now, or None: the longest first.

    A shorter one may overtake it only where it will be over before enough memory is free for the
    longest, by what both took last time, or leaves it all that it needs; so the largest call is
    never put off for ever. A call of which nothing at all is known starts only where fewer of its
    like run than there are processors: all of them stand on one guess, and more would hardly end
    sooner.

    Args:
        calls: all calls.
        order: budget and slots.
        free: bytes of the budget, and of the machine, that nobody holds or is about to take.
    """
    running = [call for call in calls if call.state != "waiting"]
    waiting = [call for call in calls if call.state == "waiting"]
    if not waiting or any(call.alone for call in running):
        return None
    slots = order.slots - sum(call.slots for call in running)
    waiting.sort(key=lambda call: (not call.alone, -(call.expected or float("inf")), call.number))
    first = waiting[0]
    if first.alone or not running:
        return None if running else first
    blind = sum(call.slots for call in running if call.blind)
    room = min(slots, order.processors - blind) if first.blind else slots
    if fits(first, room, free):
        return first
    soon = time_until(first, running, free)
    for call in waiting[1:]:
        if call.blind or not fits(call, slots, free):
            continue
        beside = fits(call, slots - first.slots, free - first.estimate)
        if beside or (call.expected is not None and call.expected <= soon):
            return call
    return None


def fits(call: Call, slots: int, free: int) -> bool:
    """Whether there is room for a call."""
    return call.slots <= slots and call.estimate <= free


def time_until(call: Call, running: list[Call], free: int) -> float:
    """Seconds until the running calls leave room for one, as far as known; 0 where unknown."""
    now, soon = time.time(), 0.0
    ends = [
        (max(0.0, (c.expected or 0.0) - (now - c.since)) if c.expected else 0.0, c.estimate)
        for c in running
    ]
    for left, memory in sorted(ends):
        if call.estimate <= free:
            break
        soon, free = left, free + memory
    return soon


def available(told: str) -> int:
    """Bytes that the machine can still give, as the kernel estimates; less where a group has less.

    Args:
        told: file in which kernforge says it from outside: no sandbox shows control groups.
    """
    found = 1 << 62
    with open("/proc/meminfo", encoding="ascii") as stream:
        for line in stream:
            if line.startswith("MemAvailable:"):
                found = int(line.split()[1]) * _KIB
    with contextlib.suppress(OSError, ValueError), open(told, encoding="ascii") as stream:
        found = min(found, int(stream.read()))
    return found


def processes() -> dict[int, tuple[int, int]]:
    """Parent and resident bytes of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue
        found[int(name)] = (int(fields[1]), int(fields[21]) * _PAGE)
    return found


def below(root: int, children: dict[int, list[int]]) -> set[int]:
    """All that descends from a process, itself left out."""
    found: set[int] = set()
    front = list(children.get(root, ()))
    while front:
        pid = front.pop()
        if pid not in found:
            found.add(pid)
            front += children.get(pid, ())
    return found


def ninja_above(pid: int) -> int | None:
    """The ninja whose step a process is; None where the step or ninja may go on after its failure.

    Between them stands at most a shell, whose line ends where one of its programs fails.
    ``ninja -k 0`` starts what it can after a failure too.
    """
    pid, words = parent_of(pid)
    if words and os.path.basename(words[0]) in _SHELLS:
        if len(words) != 3 or words[1] != b"-c" or _GOES_ON.search(words[2].replace(b"&&", b" ")):
            return None
        pid, words = parent_of(pid)
    if not words or os.path.basename(words[0]) != b"ninja":
        return None
    return None if any(word.startswith((b"-k", b"--keep")) for word in words) else pid


def parent_of(pid: int) -> tuple[int, list[bytes]]:
    """The parent of a process and its words; none where it has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            parent = int(stream.read().rpartition(b")")[2].split()[1])
        with open(f"/proc/{parent}/cmdline", "rb") as stream:
            return parent, stream.read().split(b"\0")[:-1]
    except (OSError, IndexError, ValueError):
        return 0, []


class CompileCache:
    """The compile cache's server: started here, ended with us.

    Attributes:
        wrap: what stands before the compiler.
        env: what a call's environment gains.
    """

    def __init__(self, order: dict[str, object]) -> None:
        self.program = str(order["program"])
        client, server = order["client"], order["server"]
        if not isinstance(client, dict) or not isinstance(server, dict):
            raise TypeError(order)
        self.env: dict[str, str] = {str(key): str(value) for key, value in client.items()}
        base = {key: os.environ[key] for key in ("HOME", "TMPDIR", "LC_ALL") if key in os.environ}
        self.whole = base | {str(key): str(value) for key, value in server.items()} | self.env
        self.wrap = [self.program]
        self.owners: dict[int, int] = {}  # process: number of the call that it works for
        self.rest = b""
        self.server = subprocess.Popen(
            [self.program],
            env=self.whole
            | {
                "SCCACHE_START_SERVER": "1",
                "SCCACHE_NO_DAEMON": "1",
                "SCCACHE_LOG": "sccache::compiler::compiler=debug",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.log = self.server.stderr
        if self.log is not None:
            os.set_blocking(self.log.fileno(), False)

    def started(self, path: str) -> bool:
        """Wait until the server listens."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and self.server.poll() is None:
            with socket.socket(socket.AF_UNIX) as trial, contextlib.suppress(OSError):
                trial.connect(path)
                return True
            time.sleep(0.01)
        return False

    def heard(self) -> list[tuple[str, str]]:
        """What the log has said since: file names, and hit or miss."""
        if self.log is None:
            return []
        try:
            data = os.read(self.log.fileno(), 1 << 20)
        except OSError:
            return []
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [m.groups() for line in lines if (m := _LOG.search(line.decode("utf-8", "replace")))]  # type: ignore[misc]

    def owner(self, pid: int) -> int:
        """The call that a process of the server works for, or -1."""
        if pid not in self.owners:
            number = -1
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as stream:
                found = [v for v in stream.read().split(b"\0") if v.startswith(_TAG)]
                number = int(found[0][len(_TAG) :]) if found else -1
            self.owners[pid] = number
        return self.owners[pid]

    def statistics(self) -> bytes:
        """The server's counts as JSON; empty where it does not answer."""
        try:
            return subprocess.run(
                [self.program, "--show-stats", "--stats-format=json"],
                env=self.whole,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return b""

    def stop(self) -> None:
        """End the server, once what it writes is written."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [self.program, "--stop-server"],
                env=self.whole,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            )
        self.server.kill()
        self.server.wait()


class Steward:
    """All calls of a build, and what they hold."""

    def __init__(self, order: Order, cache: CompileCache | None, kept: Recall | None) -> None:
        self.order = order
        self.cache = cache
        self.kept = kept
        self.calls: dict[socket.socket, Call] = {}
        self.gone: list[Call] = []
        self.numbers = 0
        self.done = self.failed = self.retried = 0
        self.ready = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(order.socket)
        self.listener.bind(order.socket)
        self.listener.listen(512)
        self.ready.register(self.listener, selectors.EVENT_READ)
        if cache is not None and cache.log is not None:
            self.ready.register(cache.log, selectors.EVENT_READ, "cache")
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.seats = -1 if most == resource.RLIM_INFINITY else max(1, most - _OWN_FILES)
        self.looked = self.published = 0.0
        self.cost = 0.0
        self.buffers: dict[socket.socket, bytes] = {}
        self.took: dict[str, list[int]] = {}  # peaks of calls that were guessed, by tool

    def all_calls(self) -> list[Call]:
        """Every call that waits, runs or has left something."""
        return [*self.calls.values(), *self.gone]

    def held(self) -> int:
        """Bytes that all running calls hold, less those that were told to end."""
        running = [call for call in self.all_calls() if call.state != "waiting"]
        return sum(call.estimate for call in running if not call.yielded)

    def free(self) -> int:
        """Bytes that may be given away; what was told to end has not given its own back yet."""
        going = sum(call.estimate for call in self.all_calls() if call.yielded)
        left = self.order.budget - self.held() - going
        if not self.order.watch:
            return left
        coming = sum(
            max(0, call.estimate - call.memory)
            for call in self.all_calls()
            if call.state != "waiting"
        )
        return min(left, available(self.order.free) - coming)

    def serve(self, child: subprocess.Popen[bytes], woken: int) -> int:
        """Work until the backend has ended; its exit status, as a shell would say it."""
        self.ready.register(woken, selectors.EVENT_READ)
        while True:
            pause = max(self.pause(), self.cost * _LOOK_SHARE)
            for key, _ in self.ready.select(pause):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj == woken:
                    os.read(woken, 512)
                elif key.data == "cache":
                    self.listen_to_cache()
                elif isinstance(key.fileobj, socket.socket):
                    self.hear(key.fileobj)
            status = child.poll()
            if status is not None:
                return 128 - status if status < 0 else status
            if time.monotonic() - self.looked >= pause:
                self.look()
            self.admit()
            self.publish()

    def pause(self) -> float:
        """Seconds until the next look: rarer where all is well and nothing has begun lately."""
        running = [call for call in self.all_calls() if call.state != "waiting"]
        young = any(time.time() - call.since < _YOUNG for call in running)
        much = sum(call.memory for call in running) > self.order.budget / 2
        return _BUSY if running and (young or much) else _IDLE

    def accept(self) -> None:
        """A shim has come."""
        connection, _ = self.listener.accept()
        self.buffers[connection] = b""
        if len(self.buffers) == self.seats:
            self.ready.unregister(self.listener)  # more wait with the kernel
        self.ready.register(connection, selectors.EVENT_READ)

    def hear(self, connection: socket.socket) -> None:
        """A shim says something, or has died."""
        try:
            data = connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.leave(connection)
            return
        *lines, self.buffers[connection] = (self.buffers[connection] + data).split(b"\n")
        for line in lines:
            said = parsed(line)
            if said is None:
                self.leave(connection)
                return
            if connection not in self.calls and "tool" in said:
                self.numbers += 1
                peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                shim = int.from_bytes(peer[:4], sys.byteorder)
                call = Call(self.numbers, shim, said, self.order)
                if not self.recalled(connection, call):
                    self.calls[connection] = call
            elif connection in self.calls and "exit" in said:
                self.ended(connection, said)

    def recalled(self, connection: socket.socket, call: Call) -> bool:
        """Whether a call was answered by what its like made before."""
        if self.kept is None or call.asked.get("tool") not in _CACHEABLE:
            return False
        call.name = self.kept.name(call.asked)
        said = self.kept.answer(*call.name) if call.name else None
        if said is None:
            return False
        self.done += 1
        answer = {"end": True, "peak_kib": 0, "cache": "whole", "said": said.decode("latin-1")}
        self.send(connection, answer)
        return True

    def keep(self, call: Call, said: object) -> None:
        """Keep what a call has made, unless something that it read has changed meanwhile."""
        if self.kept is None or call.name is None or not isinstance(said, str):
            return
        again = self.kept.name(call.asked)
        if again is not None and again[0] == call.name[0]:
            self.kept.keep(*call.name, said.encode("latin-1"))

    def leave(self, connection: socket.socket) -> None:
        """A connection has closed; what a killed shim has left is ended, and held until then."""
        if len(self.buffers) == self.seats:
            self.ready.register(self.listener, selectors.EVENT_READ)
        self.ready.unregister(connection)
        connection.close()
        self.buffers.pop(connection, None)
        call = self.calls.pop(connection, None)
        if call is not None and call.state == "running":
            call.state = "gone"
            self.gone.append(call)

    def ended(self, connection: socket.socket, said: dict[str, object]) -> None:
        """A tool has ended: once more where it was killed for memory, else over."""
        call = self.calls[connection]
        peak = said.get("peak_kib")
        call.peak = max(call.peak, peak * _KIB if isinstance(peak, int) else 0)
        self.listen_to_cache()
        if said.get("exit") and (call.yielded or (said.get("killed") and not call.retried)):
            if not call.yielded:
                call.retried = call.alone = True
                self.retried += 1
            raised = max(call.estimate, int(call.peak * (1.2 if call.yielded else 1.5)))
            call.estimate = min(raised, self.order.budget)
            call.guessed = call.blind = call.yielded = False
            call.state, call.since, call.memory = "waiting", time.time(), 0
            return
        self.failed += bool(said.get("exit"))
        if said.get("exit"):
            self.dismiss(call)
        self.done += not said.get("exit")
        if not said.get("exit"):
            self.keep(call, said.get("said"))
            self.learn(call)
        answer: dict[str, object] = {"end": True, "peak_kib": call.peak // _KIB}
        answer["cache"] = call.cache_result()
        self.send(connection, answer)
        del self.calls[connection]

    def dismiss(self, failed: Call) -> None:
        """Let nothing start any more of the ninja whose step has failed, as ninja does itself.

        It is told to start more than are let in at once, so that some wait here already.
        """
        ninja = ninja_above(failed.shim)
        waiting = [(key, call) for key, call in self.calls.items() if call.state == "waiting"]
        for connection, call in waiting if ninja is not None else ():
            if call is not failed and ninja_above(call.shim) == ninja:
                self.send(connection, {"dismissed": True})
                del self.calls[connection]

    def learn(self, call: Call) -> None:
        """What an unknown call took tells something of others, unless it was a check of CMake's."""
        check = "/CMakeFiles/" in f"{call.asked.get('cwd')}/"
        if call.guessed and not call.hits and not check:
            self.took.setdefault(str(call.asked.get("tool")), []).append(call.peak)

    def send(self, connection: socket.socket, answer: dict[str, object]) -> None:
        """Say something to a shim; one that is dead is noticed when we listen."""
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(answer).encode() + b"\n")

    def guess(self) -> None:
        """Let what waits and was never seen take what the others of this build took on average.

        The recipe's guess is the least, until a few have shown that none takes as much.
        """
        for call in self.calls.values():
            took = self.took.get(str(call.asked.get("tool")))
            call.blind = call.blind and took is None
            if call.state == "waiting" and call.guessed and took:
                least = self.order.default
                if len(took) >= _KNOWN:
                    least = min(least, int(max(took) * _GROWTH))
                mean = sum(took) // len(took)
                call.estimate = min(max(least, mean) * call.slots, self.order.budget)

    def admit(self) -> None:
        """Start what may start."""
        self.guess()
        while (call := choose(self.all_calls(), self.order, self.free())) is not None:
            connection = next(key for key, value in self.calls.items() if value is call)
            call.state, call.since = "running", time.time()
            wrap: list[str] = []
            env: dict[str, str] = {}
            cached = call.asked.get("kind") == "compile" and call.asked.get("tool") in _CACHEABLE
            if self.cache is not None and cached and not call.retried:
                wrap, env = self.cache.wrap, self.cache.env | {"KERNFORGE_CALL": str(call.number)}
            go = {"go": True, "call": call.number, "threads": call.slots}
            self.send(connection, {**go, "wrap": wrap, "env": env})

    def look(self) -> None:
        """Measure every call, raise estimates, end the youngest where all together are too much."""
        began = time.monotonic()
        found = processes()
        children: dict[int, list[int]] = {}
        for pid, (parent, _) in found.items():
            children.setdefault(parent, []).append(pid)
        shared: dict[int, set[int]] = {}
        if self.cache is not None:
            for pid in below(self.cache.server.pid, children):
                shared.setdefault(self.cache.owner(pid), set()).add(pid)
            self.listen_to_cache()
        for call in self.all_calls():
            if call.state == "waiting":
                continue
            own = below(call.shim, children) | shared.get(call.number, set())
            if call.state == "gone":
                own |= {pid for pid in call.members if pid in found}
                for pid in own:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            call.members = own
            call.memory = sum(found[pid][1] for pid in own if pid in found)
            call.peak = max(call.peak, call.memory)
            if call.memory > call.estimate:
                call.estimate = min(int(call.memory * _GROWTH), self.order.budget)
        self.gone = [call for call in self.gone if call.members]
        self.make_room(children)
        self.looked = time.monotonic()
        self.cost = self.looked - began

    def make_room(self, children: dict[int, list[int]]) -> None:
        """End the youngest calls where estimates, once raised, pass the budget together."""
        running = [call for call in self.calls.values() if call.state == "running"]
        near = sum(call.memory for call in running) >= self.order.budget * _NEAR
        near = near and not any(call.yielded for call in running)
        left = sorted((c for c in running if not c.yielded), key=lambda call: call.since)
        while len(left) > 1 and (near or self.held() > self.order.budget):
            youngest, near = left.pop(), False
            youngest.yielded = True
            guards = set(children.get(youngest.shim, ()))  # they tell the shim how the tool ended
            for pid in youngest.members - guards:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def listen_to_cache(self) -> None:
        """Give what the compile cache's log says to the calls that it speaks of."""
        if self.cache is None:
            return
        running = [call for call in self.calls.values() if call.state == "running"]
        for name, said in self.cache.heard():
            stem = name.split(".")[0]
            of_name = [c for c in running if os.path.basename(c.what).split(".")[0] == stem]
            for call in of_name if len(of_name) == 1 else ():
                if said == "hit":
                    call.hits += 1
                else:
                    call.misses += 1

    def publish(self, *, last: bool = False) -> None:
        """Leave the state for the live view."""
        now = time.monotonic()
        if now - self.published < _PUBLISH and not last:
            return
        self.published = now
        state = {
            "version": 1,
            "time": time.time(),
            "budget": self.order.budget,
            "slots": self.order.slots,
            "admitted": self.held(),
            "running": [shown(c) for c in self.all_calls() if c.state != "waiting"],
            "waiting": [shown(c) for c in self.all_calls() if c.state == "waiting"],
            "done": self.done,
            "failed": self.failed,
            "retried": self.retried,
        }
        draft = f"{self.order.live}.draft"
        with contextlib.suppress(OSError):
            with open(draft, "w", encoding="utf-8") as stream:
                json.dump(state, stream)
            os.replace(draft, self.order.live)


def parsed(line: bytes) -> dict[str, object] | None:
    """A shim's message; None where it is none."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    asks = all(isinstance(said.get(name), str) for name in ("tool", "kind", "what"))
    return said if asks or isinstance(said.get("exit"), int) else None


def shown(call: Call) -> dict[str, object]:
    """A call as the live view gets it."""
    return {
        "call": str(call.number),
        "tool": call.asked.get("tool"),
        "what": call.what,
        "archs": call.asked.get("archs"),
        "since": call.since,
        "memory": call.memory,
        "estimate": call.estimate,
        "expected": call.expected,
        "alone": call.alone,
    }


def cut_network() -> None:
    """Leave the network that the compile cache's server needs; best effort, in the new child."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        os.write(2, b"kernforge steward: the network cannot be cut for the backend\n")
        return
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with contextlib.suppress(OSError), open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)


def started_cache(order: Order) -> CompileCache | None:
    """The compile cache's server, or None where there is none or it does not start."""
    if order.cache is None:
        return None
    try:
        cache = CompileCache(order.cache)
    except OSError as error:
        os.write(2, f"kernforge steward: no compile cache: {error}\n".encode())
        return None
    if cache.started(cache.env["SCCACHE_SERVER_UDS"]):
        return cache
    cache.server.kill()
    cache.server.wait()
    text = b"" if cache.log is None else (cache.log.read() or b"")
    os.write(2, b"kernforge steward: the compile cache does not start: " + text[-500:] + b"\n")
    return None


def recall_of(order: Order) -> Recall | None:
    """The whole calls that are kept, by the program that lies beside this one."""
    if order.calls is None:
        return None
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    recall: Recall = importlib.import_module("recall").Recall(order.calls)
    return recall


def main(argv: list[str]) -> int:
    """Run a backend to its end; returns its exit status."""
    order = Order(argv[0])
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    cache = started_cache(order)
    steward = Steward(order, cache, recall_of(order))
    try:
        child = subprocess.Popen(argv[1:], preexec_fn=cut_network if order.cut else None)  # noqa: PLW1509 - no thread here
    except OSError as error:
        os.write(2, f"kernforge steward: {argv[1]}: {error.strerror}\n".encode())
        return 127
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # after the build has its own
    status = steward.serve(child, woken)
    steward.publish(last=True)
    if cache is not None:
        with open(order.stats, "wb") as stream:
            stream.write(cache.statistics())
        cache.stop()
    if steward.kept is not None:
        steward.kept.trim()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
