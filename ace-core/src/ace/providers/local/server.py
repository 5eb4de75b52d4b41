"""One server for each model in this process, shared by all clients and closed when the process exits."""

from __future__ import annotations

import atexit
import http.client
import io
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from ace.providers.local.reply import Reply
from ace.providers.local.runtime import NativeServer, start_server

__all__ = ["LocalServer", "ServerSettings", "close_servers", "shared_server"]


_PIECE = 65_536
"""How many bytes are read at once."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What one server is started with. Clients with equal settings share a server."""

    path: Path
    """The GGUF file."""
    slots: int
    """How many requests are answered side by side."""
    context_tokens: int
    """The most tokens of one request and its answer."""
    threads: int
    """How many threads compute."""
    repeatable: bool
    """Whether equal requests get equal answers."""


class LocalServer:
    """A model that is loaded in this process.

    Requests go over a loopback port, so that Ctrl-C and a timeout can interrupt one; the port requires a key that only
    this process knows.

    Args:
        settings: What to start.

    Raises:
        LocalModelError: The model cannot be loaded, or nothing is there to run it.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._key = secrets.token_hex(16)
        self._native: NativeServer | None = start_server(
            settings.path,
            slots=settings.slots,
            context_tokens=settings.context_tokens,
            threads=settings.threads,
            repeatable=settings.repeatable,
            key=self._key,
        )
        self._address = urlsplit(self._native.listening_address)
        self._host, self._port = self._address.hostname or "", self._address.port or 0

    def post(self, path: str, request: Mapping[str, Any], timeout: float) -> Reply:
        """Send one request.

        Args:
            path: Such as `/v1/chat/completions`.
            request: The JSON object.
            timeout: How long the whole answer may take, in seconds.

        Raises:
            OSError: No whole answer came, `TimeoutError` where the time was over.
        """
        deadline = time.monotonic() + timeout
        received = bytearray()
        with socket.create_connection((self._host, self._port), timeout) as connection:
            connection.sendall(self._head_and_body(path, request))
            # A timeout of a socket starts anew with every piece that comes.
            while (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                piece = connection.recv(_PIECE)
                if not piece:
                    return _reply_in(received)
                received += piece
        raise TimeoutError(f"the answer was not complete within {timeout:g} s")

    async def apost(self, path: str, request: Mapping[str, Any], timeout: float) -> Reply:  # noqa: ASYNC109  # twin of `post`
        """Send one request from asynchronous code; otherwise like `post`.

        Args:
            path: Such as `/v1/chat/completions`.
            request: The JSON object.
            timeout: How long the whole answer may take, in seconds.

        Raises:
            OSError: No whole answer came, `TimeoutError` where the time was over.
        """
        import asyncio

        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(self._host, self._port)
            try:
                writer.write(self._head_and_body(path, request))
                await writer.drain()
                return _reply_in(await reader.read())
            finally:
                # The server stops to compute an answer when the connection is gone.
                writer.close()

    def _head_and_body(self, path: str, request: Mapping[str, Any]) -> bytes:
        body = json.dumps(request).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {self._key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body

    def close(self) -> None:
        """Stop the server and give its memory back."""
        self._native = None


class _Received:
    """What a socket received, as the standard library reads a response of it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *args: object, **kwargs: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _reply_in(received: bytes | bytearray) -> Reply:
    """Read a whole HTTP response."""
    # The class asks of a socket only that it makes a file.
    response = http.client.HTTPResponse(cast("socket.socket", _Received(bytes(received))))
    try:
        response.begin()
        return Reply(response.status, _object_in(response.read()))
    except http.client.HTTPException as error:
        raise ConnectionError(f"its answer was cut ({error!r})") from error


def _object_in(body: bytes) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(body)
    except ValueError as error:
        raise ConnectionError(f"it sent no JSON object, but {body[:60]!r}") from error
    return found


_lock = threading.Lock()
_servers: dict[tuple[int, ServerSettings], LocalServer] = {}


def shared_server(settings: ServerSettings) -> LocalServer:
    """Return the server of these settings; the first call loads the model.

    Args:
        settings: What to start.
    """
    # A forked child has the numbers of its parent's server, but not its threads.
    key = (os.getpid(), settings)
    with _lock:
        if key not in _servers:
            _servers[key] = LocalServer(settings)
        return _servers[key]


def close_servers() -> None:
    """Stop all servers of this process and give their memory back. A client that is used again starts its own."""
    with _lock:
        for (process, _), server in list(_servers.items()):
            if process == os.getpid():
                server.close()
        _servers.clear()


atexit.register(close_servers)
