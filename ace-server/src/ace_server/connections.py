"""Ends connections on which the service waits for a client: those who send nothing must not keep others out."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

__all__ = ["TimedProtocol"]

_FEWEST: Final = 64
_MOST: Final = 1000


def _most_connections() -> int:
    """Return how many connections are open at once: half of the files that the process may open, for its other ones."""
    try:
        import resource
    except ImportError:  # Windows
        return _MOST
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files < 0 else max(_FEWEST, min(_MOST, files // 2))


class TimedProtocol(H11Protocol):
    """A connection that ends if a request does not arrive in time.

    If there are too many connections, the one ends that has waited for a request for the longest time.
    """

    silent_seconds = 20.0
    """How long a client may send nothing before its request is complete."""
    request_seconds = 300.0
    """How long a whole request may take to arrive."""
    interval = 1.0
    """How often a connection is looked at, in seconds."""
    most = _most_connections()
    """How many connections may be open."""

    _began = _heard = 0.0
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to send something."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        is_answered = cycle is None or cycle.response_complete
        has_to_send = self.conn.their_state is h11.SEND_BODY or (self.conn.their_state is h11.IDLE and is_answered)
        return has_to_send and not self.flow.read_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start to watch a connection, and make room for it."""
        super().connection_made(transport)
        self._began = self._heard = self.loop.time()
        if len(self.connections) > self.most:
            self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Note that the client has sent something."""
        self._heard = self.loop.time()
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._began = self._heard
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching the connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.transport.is_closing():
            return
        moment = self.loop.time()
        is_late = moment - self._heard > self.silent_seconds or moment - self._began > self.request_seconds
        if self.is_waiting and is_late:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(self.interval, self._watch)

    def _make_room(self) -> None:
        waiting = [other for other in self.connections if isinstance(other, TimedProtocol) and other.is_waiting]
        oldest = min(waiting, key=lambda other: other._began, default=self)
        oldest.transport.abort()
