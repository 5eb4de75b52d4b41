"""Cancelling a run from outside, and detecting that inside a step."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import final


@final
class CancellationToken:
    """Ends a run from outside: pass it to `Pipeline.run` and call `cancel()` from any thread.

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
            reason: Why, in one word. Later calls do not change it.
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
        """Why the run was cancelled; empty if it was not."""
        return self._reason

    def __repr__(self) -> str:
        return f"CancellationToken(is_cancelled={self.is_cancelled})"


cancel_token_var: ContextVar[CancellationToken | None] = ContextVar("cancel_token_var", default=None)
"""The token of the run that a step belongs to, or None. A long step may check it to end early."""


@final
class Interruption:
    """Whether Ctrl-C or `SystemExit` has ended a run; set at most once, on any thread."""

    has_come = False


interruption_var: ContextVar[Interruption | None] = ContextVar("interruption_var", default=None)
"""The interruption of the run that a step belongs to."""


def is_interrupted() -> bool:
    """Return whether Ctrl-C has ended the run that a step belongs to while the step was running.

    The run waits for the samples that are in a step. A foreground step that takes long, such as one that drives a
    browser, may check this to end early. Samples in the background are finished in any case.

    Returns:
        True if `KeyboardInterrupt` or `SystemExit` has ended the run; False otherwise, and outside a run.

    Example:
        >>> is_interrupted()
        False
    """
    interruption = interruption_var.get()
    return interruption is not None and interruption.has_come
