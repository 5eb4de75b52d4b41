"""Send one request over HTTP/1.1 and receive the whole answer before a deadline, from plain or asynchronous code.

A command sends its first request sooner without an HTTP client: importing and creating one costs ten times the CPU
time of `h11`, which parses here. What such a client does beyond this is not needed for the two protocols of
`ace.providers.direct_requests`: proxies, redirects, cookies, compression and HTTP/2. `_exchange` knows nothing of
sockets; `post` and `apost` only carry bytes between it and the server.
"""

from __future__ import annotations

import atexit
import functools
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import h11

if TYPE_CHECKING:
    import asyncio

__all__ = ["CutAnswerError", "HttpReply", "apost", "post"]

_PIECE = 65_536
"""The maximum number of bytes received at once."""
_IDLE_SECONDS = 5.0
"""The time for which an idle connection is kept, in seconds; many servers close theirs slightly later."""
_MOST_IDLE = 32
"""The maximum number of idle connections for each server."""


class CutAnswerError(ConnectionError):
    """The server closed the connection, or sent something other than HTTP, before its answer was complete."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The reply of a server."""

    status: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """The headers, with their names in lower case."""
    body: bytes
    """The complete body."""


_Exchange = Generator[bytes, bytes, HttpReply]
"""Yields the bytes to send first, then nothing; accepts the received bytes; returns the reply."""


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class _Target(NamedTuple):
    origin: _Origin
    path: str
    host_header: str


def _target(url: str) -> _Target:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return _Target(_Origin(parts.scheme, host, port), path, parts.netloc.rpartition("@")[2])


def post(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> HttpReply:
    """Send a request and return the answer. Connections are kept for a few seconds and reused.

    Args:
        url: The address, with `http` or `https`.
        headers: The headers beside `Host` and `Content-Length`.
        body: The body.
        timeout: The time limit of the whole exchange, in seconds.

    Raises:
        TimeoutError: The answer was not complete in time.
        CutAnswerError: The connection ended before the answer was complete.
        OSError: No connection could be made; `ssl.SSLError` if the server's certificate is not trusted.
        ValueError: A header cannot be sent.
    """
    deadline = time.monotonic() + timeout
    target = _target(url)
    connection = _idle.take(target.origin) or _Connection(target.origin, _connected(target.origin, deadline))
    try:
        reply = connection.exchange(_exchange(connection.http, target, headers, body), deadline)
    except BaseException:
        connection.close()
        raise
    _idle.keep(connection)
    return reply


async def apost(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> HttpReply:  # noqa: ASYNC109  # twin of `post`
    """Send a request as `post` does, from asynchronous code and over a new connection."""
    import asyncio  # importing this module for plain code must not load it

    target = _target(url)
    context = await asyncio.to_thread(_tls_context) if target.origin.scheme == "https" else None
    exchange = _exchange(h11.Connection(h11.CLIENT), target, {**headers, "Connection": "close"}, body)
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(target.origin.host, target.origin.port, ssl=context)
        try:
            return await _carried(exchange, reader, writer)
        finally:
            # A server stops working on an answer when the connection is gone.
            writer.transport.abort()


async def _carried(exchange: _Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpReply:
    try:
        writer.write(next(exchange))
        await writer.drain()
        while True:
            exchange.send(await reader.read(_PIECE))
    except StopIteration as done:
        reply: HttpReply = done.value
        return reply
    except ConnectionError as error:
        raise _cut(error) from error


def _exchange(http: h11.Connection, target: _Target, headers: Mapping[str, str], body: bytes) -> _Exchange:
    """Exchange one HTTP request and reply, without a socket.

    Raises:
        CutAnswerError: The connection ended before the answer was complete, or the received bytes are not HTTP.
        ValueError: A header cannot be sent.
    """
    lines = [("Host", target.host_header), *headers.items(), ("Content-Length", str(len(body)))]
    try:
        request = h11.Request(method="POST", target=target.path, headers=lines)
    except h11.LocalProtocolError:  # it quotes the header, which may hold the key
        request = None
    if request is None:
        raise ValueError("the request cannot be sent: a header contains a character that HTTP does not allow")
    sent = b"".join(filter(None, map(http.send, (request, h11.Data(data=body), h11.EndOfMessage()))))
    http.receive_data((yield sent))
    status, found, pieces = 0, {}, bytearray()
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as error:
            raise _cut(error) from error
        match event:
            case h11.Response():
                status = event.status_code
                found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
            case h11.Data():
                pieces += event.data
            case h11.EndOfMessage():
                return HttpReply(status, found, bytes(pieces))
            case h11.ConnectionClosed():
                raise _cut("no answer was received")
            case h11.NEED_DATA:
                http.receive_data((yield b""))


def _cut(reason: object) -> CutAnswerError:
    return CutAnswerError(f"the server closed the connection before its answer was complete ({reason})")


class _Connection:
    """A socket with the state of HTTP on it; used by one thread at a time."""

    def __init__(self, origin: _Origin, sock: socket.socket) -> None:
        self.origin = origin
        self.http = h11.Connection(h11.CLIENT)
        self.idle_since = 0.0
        self._socket = sock

    def exchange(self, exchange: _Exchange, deadline: float) -> HttpReply:
        """Send and receive until the reply is complete.

        Args:
            exchange: Yields the bytes to send, and accepts the received bytes.
            deadline: The time by which it must be complete, on the monotonic clock.
        """
        sent = next(exchange)
        try:
            self._limit(deadline)
            self._socket.sendall(sent)
            while True:
                # A timeout of a socket starts anew with every piece that comes.
                self._limit(deadline)
                exchange.send(self._socket.recv(_PIECE))
        except StopIteration as done:
            reply: HttpReply = done.value
            return reply
        except ConnectionError as error:
            raise error if isinstance(error, CutAnswerError) else _cut(error) from error

    def _limit(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer was not complete in time")
        self._socket.settimeout(left)

    def is_reusable(self) -> bool:
        """Return whether both sides are done and keep the connection open; prepares it for the next request."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        self.idle_since = time.monotonic()
        return True

    def is_alive(self) -> bool:
        """Return whether the connection may take another request: it is readable if the server has closed it."""
        if time.monotonic() - self.idle_since > _IDLE_SECONDS:
            return False
        try:
            return not select.select([self._socket], [], [], 0)[0]
        except (OSError, ValueError):  # closed; or a number too large for select
            return False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class _IdleConnections:
    """Idle connections. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[_Origin, list[_Connection]] = {}

    def take(self, origin: _Origin) -> _Connection | None:
        """Return a connection to a server, or None.

        Args:
            origin: The server.
        """
        while True:
            with self._lock:
                waiting = self._connections.get(origin)
                if not waiting:
                    return None
                connection = waiting.pop()
            if connection.is_alive():
                return connection
            connection.close()

    def keep(self, connection: _Connection) -> None:
        """Keep a connection, or close it if it cannot be reused.

        Args:
            connection: One whose exchange is complete.
        """
        if connection.is_reusable():
            with self._lock:
                waiting = self._connections.setdefault(connection.origin, [])
                if len(waiting) < _MOST_IDLE:
                    waiting.append(connection)
                    return
        connection.close()

    def forget(self) -> None:
        """Drop all connections, because a forked child must not write to those of its parent."""
        self._lock = threading.Lock()
        for connection in [idle for waiting in self._connections.values() for idle in waiting]:
            connection.close()
        self._connections.clear()


_idle = _IdleConnections()
atexit.register(_idle.forget)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.forget)


def _connected(origin: _Origin, deadline: float) -> socket.socket:
    """Return a socket that is connected to a server, encrypted if the address says so."""
    # Looking up the name is bounded by the resolver's own limits.
    plain = socket.create_connection((origin.host, origin.port), max(0.001, deadline - time.monotonic()))
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if origin.scheme != "https":
            return plain
        plain.settimeout(max(0.001, deadline - time.monotonic()))
        return _tls_context().wrap_socket(plain, server_hostname=origin.host)
    except BaseException:
        plain.close()
        raise


def _tls_context() -> ssl.SSLContext:
    """Return the context in which certificates are checked, as LiteLLM does: SSL_CERT_FILE, else those of certifi."""
    return _tls_context_with(os.environ.get("SSL_CERT_FILE", ""))


@functools.lru_cache(maxsize=4)
def _tls_context_with(certificates: str) -> ssl.SSLContext:
    import certifi

    return ssl.create_default_context(cafile=certificates if Path(certificates).is_file() else certifi.where())
