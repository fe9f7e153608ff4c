"""Web servers on 127.0.0.1: one that always gives the same answer, and a proxy that fails."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@contextlib.contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server with this handler, and yield its address."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answering(status: int, text: str) -> contextlib.AbstractContextManager[str]:
    """Run a server that gives every request the same answer."""

    class Handler(_Handler):
        def answer(self) -> None:
            self.body()
            self.send(status, {}, text.encode())

    return serving(Handler)


@dataclass
class Proxy:
    """What a proxy does to requests, and the requests that it has seen.

    Attributes
    ----------
    delay_s : float
        The time that every request waits.
    fate : callable
        A function of the method and the path of a request. It returns None to answer as the server
        does, ``"lost"`` to close the connection after the server's answer, or a status to answer
        instead of asking the server.
    replaced : mapping
        New names and values of request headers. All names are in lower case.
    added : mapping
        More headers of every request.
    seen : list of (str, str, float, float)
        Method, path, start and end of each request, in seconds of ``time.monotonic``.
    """

    delay_s: float = 0
    fate: Callable[[str, str], str | int | None] = lambda method, path: None
    replaced: dict[str, tuple[str, str]] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[str, str, float, float]] = field(default_factory=list)

    def rounds(self) -> int:
        """The greatest number of requests of which each began after the end of the one before."""
        count, free = 0, 0.0
        for _, _, start, end in sorted(self.seen, key=lambda request: request[3]):
            if start >= free:
                count, free = count + 1, end
        return count

    def before(self, server: str) -> contextlib.AbstractContextManager[str]:
        """Run the proxy in front of ``server``, and yield its own address."""
        target, proxy = urlsplit(server), self

        class Handler(_Handler):
            def answer(self) -> None:
                start, data = time.monotonic(), self.body()
                fate = proxy.fate(self.command, self.path)
                time.sleep(proxy.delay_s)
                try:
                    answer = (fate, {}, b"not now") if isinstance(fate, int) else self.ask(data)
                finally:
                    # The client goes on once it has the answer, so the request is noted before.
                    proxy.seen.append((self.command, self.path, start, time.monotonic()))
                if fate == "lost":
                    self.close_connection = True
                else:
                    self.send(*answer)

            def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
                given = dict(
                    proxy.replaced.get(name.lower(), (name.lower(), value))
                    for name, value in self.headers.items()
                    if name.lower() != "content-length"
                )
                given |= proxy.added
                connection = http.client.HTTPConnection(target.hostname or "", target.port)
                with contextlib.closing(connection):
                    connection.request(self.command, self.path, data, given)
                    answer = connection.getresponse()
                    return answer.status, dict(answer.getheaders()), answer.read()

        return serving(Handler)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # connections beyond it would wait for a second


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the content of an answer would wait for an acknowledgement

    def answer(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status: int, headers: dict[str, Any], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        size = headers.get("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(size or 0))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
