"""Cancelling a run from outside, and seeing that from inside a step."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import final


@final
class CancellationToken:
    """A switch that ends a run: give it to `Pipeline.run` and call `cancel()` from any thread.

    Example:
        >>> token = CancellationToken()
        >>> token.is_cancelled
        False
        >>> token.cancel()
        >>> token.cancel("too_slow")  # a second time changes nothing
        >>> token.is_cancelled, token.reason
        (True, 'cancelled')
    """

    __slots__ = ("_listeners", "_reason")

    def __init__(self) -> None:
        self._reason = ""
        self._listeners: dict[Callable[[], None], None] = {}  # adding, removing and listing are atomic each

    def cancel(self, reason: str = "cancelled") -> None:
        """Ask the run to stop before its next foreground step. Idempotent, and safe from any thread.

        Args:
            reason: Why, in one word; that of the first call stays.
        """
        self._reason = self._reason or reason or "cancelled"
        for listener in list(self._listeners):
            listener()

    def _listen(self, listener: Callable[[], None]) -> None:
        """Call this at each `cancel()`, on any thread and from signal handlers: it must take no lock, and not raise."""
        self._listeners[listener] = None

    def _forget(self, listener: Callable[[], None]) -> None:
        self._listeners.pop(listener, None)

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel()` has been called."""
        return bool(self._reason)

    @property
    def reason(self) -> str:
        """Why it was cancelled; empty if it was not."""
        return self._reason

    def __repr__(self) -> str:
        return f"CancellationToken(is_cancelled={self.is_cancelled})"


cancel_token_var: ContextVar[CancellationToken | None] = ContextVar("cancel_token_var", default=None)
"""The token of the run that a step belongs to, or None. A long step may look at it to end early."""
