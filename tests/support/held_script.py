"""A script that answers a process only until it is to be killed, so that its progress does not depend on the machine.

script = HeldScript(answer)
with ScriptedServer(script) as server:
script.hold_from(3, more=1)
process = start()
script.wait()  # three requests have come; one of them or of the next ones was the last to be answered
process.kill()
process.wait()
script.release()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from tests.support.scripted_server import Script, ScriptedRequest

__all__ = ["HeldScript"]


class HeldScript:
    """Answers like another script, and holds requests from a certain one on until they are released.

    Args:
        script: The other script.
        kind: What is counted as the role of a request.
    """

    def __init__(self, script: Script, kind: Callable[[ScriptedRequest], str] = attrgetter("role")) -> None:
        self._script = script
        self._kind = kind
        self._lock = threading.Lock()
        self._role: str | None = None
        self._left = 0
        self._more = 0
        # Each hold has its own events: a request that was released is not held by the next one.
        self._reached = threading.Event()
        self._released = threading.Event()
        self._released.set()

    def hold_from(self, count: int, *, more: int = 0, role: str | None = None) -> None:
        """Hold the requests from the `count`th one of a role on.

        Args:
            count: The number of that request, at least 1.
            more: How many requests are answered from that one on, before the others are held.
            role: Whose requests are counted; `None` counts all.
        """
        with self._lock:
            self._role, self._left, self._more = role, count, more
            self._reached, self._released = threading.Event(), threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until that request has come, and return whether it came within so many seconds."""
        return self._reached.wait(timeout)

    def release(self) -> None:
        """Answer all requests, those that are held too."""
        self._released.set()

    def __call__(self, request: ScriptedRequest) -> Any:
        with self._lock:
            released = self._released
            is_held = not released.is_set() and self._counts(request)
        if is_held:
            released.wait()
        return self._script(request)

    def _counts(self, request: ScriptedRequest) -> bool:
        """Count a request, and return whether it is held."""
        if self._left and self._role in (None, self._kind(request)):
            self._left -= 1
        if self._left:
            return False
        self._reached.set()
        self._more -= 1
        return self._more < 0
