"""An HTTP server on a free port of 127.0.0.1, on which the scripted models are built."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["LoopbackHandler", "LoopbackServer"]


class _HttpServer(ThreadingHTTPServer):
    """Serves each connection on a thread of its own, and counts the open ones."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.open_connections = 0
        self.connections_changed = threading.Condition()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.connections_changed:
            self.open_connections += 1
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.connections_changed:
                self.open_connections -= 1
                self.connections_changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect. Errors of scripts are kept by the server."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """Reads and writes bodies, and says nothing on standard error."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def body(self) -> bytes:
        """Read the body of the request."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a response, as JSON unless the headers say otherwise."""
        self.send_head(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_head(self, status: int, length: int, headers: Mapping[str, str] | None = None) -> None:
        """Send what precedes a body."""
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(length))
        self.end_headers()


class LoopbackServer:
    """Serves in a `with` block, which raises the first error of the script when it ends.

    Args:
        handler: Its attribute `scripted` becomes this server.
    """

    def __init__(self, handler: type[LoopbackHandler]) -> None:
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._http = _HttpServer(("127.0.0.1", 0), type("Handler", (handler,), {"scripted": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        if self._errors and error is None:
            raise AssertionError("the script of the scripted model failed") from self._errors[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"
