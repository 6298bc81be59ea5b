"""HTTP servers for the tests: smart git, and files sent in every wrong way."""

import base64
import contextlib
import http.server
import os
import re
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar


def wait_for(port: int) -> None:
    """Return once somebody listens."""
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(port)


class _Handler(http.server.BaseHTTPRequestHandler):
    @property
    def state(self):
        return self.server.state

    def authorised(self) -> bool:
        if self.state.account is None:
            return True
        pair = base64.b64encode(":".join(self.state.account).encode()).decode()
        return self.headers.get("Authorization") == f"Basic {pair}"

    def plain(self, status, **headers):
        """An answer without a body."""
        self.send_response(status)
        for name, value in {"Content-Length": "0", "Connection": "close", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_words):
        pass


class _Bridge(_Handler):
    """The CGI of git http-backend."""

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.answer(_chunked(self.rfile))
        else:
            self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self, body):
        self.state.requests.append(f"{self.command} {self.path}")
        if self.state.failing:
            self.state.failing -= 1
            self.plain(503)
        elif not self.authorised():
            self.plain(401, WWW_Authenticate='Basic realm="t"')
        else:
            self.backend(body)

    def backend(self, body):
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env=self.variables(len(body)),
            capture_output=True,
            check=False,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200")[:3]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.state.sent += len(content)
        self.wfile.write(content)

    def variables(self, length):
        path, _, query = self.path.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.state.root),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(self.state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(length),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        if not self.state.old:
            env["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        return env


def _chunked(file) -> bytes:
    parts = []
    while size := int(file.readline().strip() or b"0", 16):
        parts.append(file.read(size))
        file.readline()
    file.readline()
    return b"".join(parts)


class _Files(_Handler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.close_connection = True
        state = self.state
        state.seen.append({"path": self.path, **dict(self.headers)})
        body = state.bodies.get(self.path.partition("?")[0])
        if not self.authorised():
            self.plain(401)
        elif body is None:
            self.plain(404)
        else:
            step = state.script.pop(0) if len(state.script) > 1 else state.script[0]
            self.play(body, *step.partition(" ")[::2])

    def play(self, body, word, rest):
        if word.isdigit():
            self.plain(int(word))
        elif word == "to":
            self.plain(302, Location=rest)
        else:
            with contextlib.suppress(OSError):  # clients hang up here
                getattr(self, f"send_{word}")(body, rest)

    def head(self, body, length, *, ranged=True):
        """Status and headers; answers what is left to send."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and ranged else 0
        if start and start >= len(body):
            self.plain(416)
            return b""
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        kind = self.state.types.get(self.path.partition("?")[0], "application/octet-stream")
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length - start))
        self.send_header("Connection", "close")
        self.end_headers()
        return body[start:]

    def send_ok(self, body, _rest):
        self.wfile.write(self.head(body, len(body)))

    def send_whole(self, body, _rest):
        self.wfile.write(self.head(body, len(body), ranged=False))

    def send_wrong(self, body, _rest):
        """Another range than was asked for."""
        self.send_response(206)
        self.send_header("Content-Range", f"bytes 1-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - 1))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[1:])

    def send_cut(self, body, size):
        self.wfile.write(self.head(body, len(body))[: int(size)])

    def send_lie(self, body, more):
        self.wfile.write(self.head(body, len(body) + int(more)))

    def send_open(self, body, _rest):
        """No length at all."""
        self.wfile.write(self.head(body, None))

    def send_endless(self, body, _rest):
        self.head(body, None)
        while not self.state.over.is_set():
            self.wfile.write(body)

    def send_stall(self, body, _rest):
        self.wfile.write(self.head(body, len(body))[:10])
        self.wfile.flush()
        self.state.over.wait(30)

    def send_trickle(self, body, _rest):
        self.head(body, None)
        while not self.state.over.wait(0.1):
            self.wfile.write(b"x")
            self.wfile.flush()


@dataclass(kw_only=True)
class GitServer:
    """Smart HTTP: what it serves and how, and what it was asked.

    ``old`` hides protocol version 2; ``account`` is the user and password that it wants; as many
    requests as ``failing`` are answered with 503; ``sent`` counts bytes of all bodies.
    """

    handler: ClassVar = _Bridge
    root: Path
    url: str = ""
    old: bool = False
    account: tuple[str, str] | None = None
    failing: int = 0
    requests: list[str] = field(default_factory=list)
    sent: int = 0
    over: threading.Event = field(default_factory=threading.Event)


@dataclass(kw_only=True)
class FileServer:
    """Files by path. ``script`` says how each request goes, its last word for all after it.

    Words: a status, ``to URL``, or a ``send_`` method of the handler with what it takes.
    """

    handler: ClassVar = _Files
    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    script: list[str] = field(default_factory=lambda: ["ok"])
    seen: list[dict[str, str]] = field(default_factory=list)
    account: tuple[str, str] | None = None
    over: threading.Event = field(default_factory=threading.Event)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        """A client that hangs up is what the tests want."""


@contextlib.contextmanager
def serving(state):
    """Serve until the end of the block; ``state.url`` is where."""
    with _Server(("127.0.0.1", 0), state.handler) as server:
        server.state = state
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield
        state.over.set()
        server.shutdown()
        thread.join()
