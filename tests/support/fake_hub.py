"""A stand-in for Hugging Face on 127.0.0.1 that serves one file."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

REPO, FILE = "tests/tiny-GGUF", "tiny.gguf"


@dataclass
class FakeHub:
    """What it serves, and what was asked of it.

    Attributes:
        content: of the file.
        break_after: the first answer with content ends after so many bytes; None never does.
        ranges: the Range header of every GET of the file, "" where there was none.
        tokens: the Authorization headers of all requests for the file.
    """

    content: bytes
    break_after: int | None = None
    etag: str = ""
    ranges: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serve(hub: FakeHub) -> Iterator[FakeHub]:
    """Serves until the block ends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            if self.path != f"/{REPO}/resolve/main/{FILE}":
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            hub.tokens.add(self.headers.get("Authorization", ""))
            asked = self.headers.get("Range", "")
            start = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
            body = hub.content[start:]
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{len(hub.content) - 1}/{len(hub.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hub.etag or hashlib.sha256(hub.content).hexdigest()}"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.end_headers()
            if not with_body:
                return
            hub.ranges.append(asked)
            if hub.break_after is not None:
                body, hub.break_after = body[: hub.break_after], None
                self.close_connection = True
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
