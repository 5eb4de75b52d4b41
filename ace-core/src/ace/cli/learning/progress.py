"""Shows on standard error how far a run is: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ace.cli.console import is_terminal, note
from ace.cli.wording import counted
from ace.pipeline import PipelineCancelled
from ace.protocols.observers import Event, SampleEnded, SkillsChanged

__all__ = ["Progress", "progress_shown"]

_SECONDS_BETWEEN_LINES = 10.0


class Progress(Protocol):
    """What shows the progress. It is an observer."""

    def __call__(self, event: Event) -> None:
        """Take one event in."""

    def close(self) -> None:
        """Leave the terminal as it was. May be called from any thread, and twice."""


@contextmanager
def progress_shown(total: int, noun: str = "trace", *, quiet: bool = False) -> Iterator[Progress]:
    """Show the progress while the block runs.

    Args:
        total: How many inputs there are, over all epochs.
        noun: What one input is called.
        quiet: Whether to show nothing.
    """
    progress: Progress
    if quiet:
        progress = _Silence()
    elif is_terminal(sys.stderr):
        progress = _Bar(_Counted(total, noun))
    else:
        progress = _Lines(_Counted(total, noun))
    try:
        yield progress
    finally:
        progress.close()


class _Silence:
    def __call__(self, event: Event) -> None:
        pass

    def close(self) -> None:
        pass


class _Counted:
    """How many inputs have ended, and how many skills were added."""

    def __init__(self, total: int, noun: str) -> None:
        self.total = total
        self.noun = noun
        self.ended = 0
        self.failed = 0
        self.added = 0

    def count(self, event: Event) -> bool:
        """Take an event in; tell whether one more input has ended."""
        if isinstance(event, SkillsChanged):
            self.added += sum(change.kind == "ADD" for change in event.applied)
        if not isinstance(event, SampleEnded):
            return False
        if isinstance(event.error, PipelineCancelled):  # not begun, or not finished, since the run was stopped
            return False
        self.ended += 1
        self.failed += event.error is not None
        return True

    @property
    def text(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.ended} of {counted(self.total, self.noun)}, {counted(self.added, 'new skill')}{failed}"


class _Lines:
    """Plain lines, at most one in ten seconds, and one at the end."""

    def __init__(self, counted_so_far: _Counted) -> None:
        self._counted = counted_so_far
        self._lock = threading.Lock()
        self._next = time.monotonic()
        self._shown = ""

    def __call__(self, event: Event) -> None:
        with self._lock:
            if self._counted.count(event) and time.monotonic() >= self._next:
                self._show()

    def close(self) -> None:
        with self._lock:
            self._show()

    def _show(self) -> None:
        if self._counted.text != self._shown:
            self._shown = self._counted.text
            self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
            note(self._shown)


class _Bar:
    """A bar of rich."""

    def __init__(self, counted_so_far: _Counted) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._counted = counted_so_far
        self._lock = threading.Lock()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("learning", total=self._counted.total)
        self._bar.start()

    def __call__(self, event: Event) -> None:
        with self._lock:
            if self._counted.count(event):
                self._bar.update(self._task, completed=self._counted.ended, description=self._counted.text)

    def close(self) -> None:
        self._bar.stop()
