"""The account of what a client has used."""

from __future__ import annotations

import threading

from ace.protocols.llm import Usage

__all__ = ["UsageAccount"]


class UsageAccount:
    """Adds up usage from several threads.

    Example:
        >>> account = UsageAccount()
        >>> account.add(Usage(calls=1, input_tokens=7))
        >>> account.total.input_tokens
        7
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = Usage()

    def add(self, usage: Usage) -> None:
        """Add what one call has used.

        Args:
            usage: The usage of the call.
        """
        with self._lock:
            self._total = self._total + usage

    @property
    def total(self) -> Usage:
        """The sum so far."""
        with self._lock:
            return self._total
