"""A receiver on loopback with the REST paths of Opik, which decodes what arrives and answers as it is told."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Receiver:
    """Serves while it is entered. `status` is what it answers; with `silent`, it never answers."""

    status: int = 204
    silent: bool = False
    requests: list[Received] = field(default_factory=list)
    traces: list[dict[str, Any]] = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._ends = threading.Event()
        handler = type("Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ends.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/api"

    @property
    def environ(self) -> dict[str, str]:
        return {"OPIK_URL_OVERRIDE": self.address, "OPIK_API_KEY": "opik-key-of-ann", "OPIK_WORKSPACE": "glass"}

    @property
    def text(self) -> str:
        """Everything that has arrived, as one text."""
        with self._lock:
            return json.dumps([self.traces, self.spans], ensure_ascii=False)

    def receive(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> int:
        if self.silent:
            self._ends.wait()
        with self._lock:
            self.requests.append(Received(method, path, headers))
            if self.status >= 400:
                return self.status
            if (method, path) == ("POST", "/api/v1/private/traces/batch"):
                self.traces += json.loads(body)["traces"]
            elif (method, path) == ("POST", "/api/v1/private/spans/batch"):
                self.spans += json.loads(body)["spans"]
            elif (method, path) != ("GET", "/api/is-alive/ping"):
                return 404
            return 200 if method == "GET" else self.status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = self.receiver.receive(self.command, self.path, headers, body)
        try:
            self.send_response(status)
            if status != 204:
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "2")
            self.end_headers()
            if status != 204:
                self.wfile.write(b"{}")
        except OSError:  # the client has given up
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        pass
