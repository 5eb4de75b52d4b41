"""A loopback server that speaks the OpenAI protocol and answers with the client of the benchmark.

Other methods ask it, so that all methods use the same model, and their calls are counted in one place.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ace.protocols.errors import LLMCallError
from ace.protocols.llm import Usage
from benchmarks.learning_quality.cached_client import BenchmarkClient

__all__ = ["ModelServer", "model_server"]

PASSED_ON = ("max_tokens", "temperature", "stop", "seed", "top_p", "response_format")
"""The settings of a request that are passed on; all others are ignored."""


class ModelServer(ThreadingHTTPServer):
    """Answers chat requests with a client. `usage` may be read from any thread."""

    daemon_threads = True

    def __init__(self, client: BenchmarkClient) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.client = client
        self._lock = threading.Lock()
        self._usage = Usage()

    @property
    def api_base(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def usage(self) -> Usage:
        """What all answers so far have used."""
        with self._lock:
            return self._usage

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one chat request.

        Raises:
            LLMCallError: The model gave no answer.
        """
        settings = {name: request[name] for name in PASSED_ON if request.get(name) is not None}
        if "max_completion_tokens" in request:
            settings.setdefault("max_tokens", request["max_completion_tokens"])
        response = self.client.complete_messages(request["messages"], **settings)
        with self._lock:
            self._usage += response.usage
        return {
            "id": "chatcmpl-benchmark",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.get("model", ""),
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": response.text},
                    "finish_reason": response.finish_reason or "stop",
                }
            ],
            "usage": {
                "prompt_tokens": response.usage.input_tokens,
                "completion_tokens": response.usage.output_tokens,
                "total_tokens": response.usage.total_tokens,
            },
        }


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat request; everything else is not found."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.path.endswith("/chat/completions"):
            self._send(HTTPStatus.NOT_FOUND, {"error": {"message": f"there is nothing at {self.path}"}})
            return
        try:
            self._send(HTTPStatus.OK, self.server.answer(json.loads(body)))
        except LLMCallError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": {"message": str(error), "type": "invalid_request_error"}})

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _send(self, status: HTTPStatus, values: Mapping[str, Any]) -> None:
        data = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def model_server(client: BenchmarkClient) -> Iterator[ModelServer]:
    """Serve a client on loopback while the block runs."""
    with ModelServer(client) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
