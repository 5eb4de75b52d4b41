"""The skills that calls get: a copy in memory, which a thread of its own keeps up to date.

A call never waits for the skillbook. While its file is locked or damaged, calls get the skills of the last good copy.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, final

from ace.integrations import SKILLBOOK_USAGE_INSTRUCTIONS, UsageError
from ace.skillbook import Skillbook, SkillbookError, has_scheme
from ace_proxy.reports import OnceReport

__all__ = ["SkillSource"]

_SECONDS_BETWEEN_LOOKS: Final = 1.0
_SECONDS_BETWEEN_LOADS: Final = 10.0
"""For stores that are not files."""


@final
class SkillSource:
    """Chooses the skills for conversations.

    Args:
        location: The skillbook, which need not exist yet.
        open_book: Opens it.
        budget: The maximum size of the skills, in tokens.
        tell: Called once with a sentence if the skillbook cannot be read.
    """

    def __init__(
        self,
        location: str,
        open_book: Callable[[], AbstractContextManager[Skillbook]],
        *,
        budget: int,
        tell: Callable[[str], None],
    ) -> None:
        self._location = location
        self._open_book = open_book
        self._budget = budget
        self._report = OnceReport(tell)
        self._book = Skillbook()
        self._stamp: object = None
        self._stop = threading.Event()
        self._first_load = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ace-proxy-skills", daemon=True)

    def start(self, seconds: float = 2.0) -> None:
        """Begin to load the skillbook.

        Args:
            seconds: How long to wait for it at most, so that the first calls have skills too.
        """
        self._thread.start()
        self._first_load.wait(seconds)

    def close(self) -> None:
        """Stop following the skillbook. A load that waits for a locked store is not waited for."""
        self._stop.set()

    def text_for(self, query: str) -> str:
        """Return instructions and the skills that fit; empty if none does.

        Args:
            query: What the conversation is about.
        """
        skills = self._book.as_prompt(self._budget, query)
        return f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n{skills}" if skills.strip() else ""

    def _watch(self) -> None:
        while not self._stop.is_set():
            stamp = self._current_stamp()
            if stamp != self._stamp:
                self._load()
                self._stamp = stamp  # taken before the load: a change during it is loaded by the next look
            self._first_load.set()
            self._stop.wait(_SECONDS_BETWEEN_LOOKS)

    def _load(self) -> None:
        if not has_scheme(self._location) and not Path(self._location).exists():
            self._book = Skillbook()
            return
        try:
            with self._open_book() as book:
                pass
        except (SkillbookError, UsageError, OSError, ValueError) as error:
            self._report(f"the skills are not up to date: {error}")
            return
        self._book = book  # closed, but it can be read

    def _current_stamp(self) -> object:
        """Return what differs as soon as the skillbook has changed."""
        if has_scheme(self._location):
            return time.monotonic() // _SECONDS_BETWEEN_LOADS
        stamps = []
        for path in (self._location, f"{self._location}-wal"):
            with contextlib.suppress(OSError):
                status = Path(path).stat()
                stamps.append((path, status.st_ino, status.st_mtime_ns, status.st_size))
        return stamps
