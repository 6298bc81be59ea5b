"""Web servers on loopback for an index: a plain one, one that negotiates JSON, and bad ones."""

import contextlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

JSON = "application/vnd.pypi.simple.v1+json"


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder; remembers what was asked for."""

    asked: list[str]

    def log_message(self, *words):
        self.asked.append(self.path)


class Negotiating(Quiet):
    """As the documented nginx settings: a folder's JSON page to who asks for it."""

    def do_GET(self):
        if JSON in self.headers.get("Accept", "") and self.path.endswith("/"):
            self.path += "index.json"
        super().do_GET()

    def guess_type(self, path):
        return JSON if str(path).endswith("index.json") else super().guess_type(path)


class Failing(Quiet):
    """Answers 500 to everything."""

    def do_GET(self):
        self.send_error(500)


@contextlib.contextmanager
def serving(folder: Path, kind=Quiet):
    """The address of a server of a folder, and what is asked of it."""
    asked: list[str] = []
    handler = type("Handler", (kind,), {"asked": asked})
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *words: handler(*words, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
