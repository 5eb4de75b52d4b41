"""Tells the user once about something that keeps failing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

__all__ = ["OnceReport"]


@final
class OnceReport:
    """Calls a function with the first sentence only.

    Args:
        tell: Called with the sentence. If it raises `OSError`, because standard error is on the disk that is full, the
            next sentence is tried.

    Example:
        >>> report = OnceReport(print)
        >>> report("the disk is full")
        the disk is full
        >>> report("the disk is full")
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._has_told = False

    def __call__(self, sentence: str) -> None:
        """Tell a sentence, unless one was told before."""
        with self._lock:
            if self._has_told:
                return
            try:
                self._tell(sentence)
            except OSError:
                return
            self._has_told = True
