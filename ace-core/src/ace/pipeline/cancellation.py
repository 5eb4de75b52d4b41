"""Cancelling a run from outside, and seeing that from inside a step."""

from __future__ import annotations

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
        >>> token.cancel()  # a second time changes nothing
        >>> token.is_cancelled
        True
    """

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        self._cancelled = False

    def cancel(self) -> None:
        """Ask the run to stop before its next foreground step. Idempotent, and safe from any thread."""
        self._cancelled = True

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel()` has been called."""
        return self._cancelled

    def __repr__(self) -> str:
        return f"CancellationToken(is_cancelled={self._cancelled})"


cancel_token_var: ContextVar[CancellationToken | None] = ContextVar("cancel_token_var", default=None)
"""The token of the run that a step belongs to, or None. A long step may look at it to end early."""
