"""A gate that only the event loop of a test opens, once several requests wait at it together."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["Gate"]


class Gate:
    """Keeps requests waiting until as many as expected are there and the loop has noticed.

    A loop that is blocked never opens it, and runs that do not overlap never fill it.
    """

    def __init__(self, expected: int) -> None:
        self.is_open = threading.Event()
        self._expected = expected
        self._waiting = 0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait at the gate; for the thread of a server."""
        with self._lock:
            self._waiting += 1
        if not self.is_open.wait(120):
            raise AssertionError(f"{self._waiting} of {self._expected} came, or the loop did not open the gate")

    async def filled(self) -> None:
        """Return when all are there."""
        while self._waiting < self._expected:  # noqa: ASYNC110  # server threads fill it
            await asyncio.sleep(0.01)

    async def open(self) -> None:
        """Open it when all are there."""
        await self.filled()
        self.is_open.set()
