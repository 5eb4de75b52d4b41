"""How far a run is: the inputs that have ended, and the skills that they taught."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from ace.cli.learning.progress import Display, displayed
from ace.cli.wording import counted
from ace.pipeline import PipelineCancelled
from ace.protocols.observers import Event, SampleEnded, SkillsChanged

__all__ = ["RunProgress", "run_progress_shown"]


@final
class RunTally:
    """How many inputs have ended, and how many skills were added.

    Args:
        total: How many inputs there are, over all epochs.
        noun: What one input is called.
    """

    def __init__(self, total: int, noun: str) -> None:
        self.total = total
        self.noun = noun
        self.ended = 0
        self.skipped = 0
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
        self.skipped += event.already_learned
        self.failed += event.error is not None
        return True

    @property
    def text(self) -> str:
        """The numbers for people."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.ended} of {counted(self.total, self.noun)}, {counted(self.added, 'new skill')}{failed}"


@final
class RunProgress:
    """Shows the progress of a run. It is an observer.

    Args:
        tally: What is counted.
        display: What shows it.
    """

    def __init__(self, tally: RunTally, display: Display) -> None:
        self._tally = tally
        self._display = display
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Take one event in."""
        with self._lock:
            has_ended = self._tally.count(event)
        if has_ended:
            self._display.show()

    def close(self) -> None:
        """Leave the terminal as it was. May be called from any thread, and twice."""
        self._display.close()

    def restore(self) -> None:
        """Leave the terminal as it was, without waiting for anything: the process is about to be ended."""
        self._display.restore()


@contextmanager
def run_progress_shown(total: int, noun: str = "trace", *, quiet: bool = False) -> Iterator[RunProgress]:
    """Show the progress of a run while the block runs.

    Args:
        total: How many inputs there are, over all epochs.
        noun: What one input is called.
        quiet: Whether to show nothing.
    """
    tally = RunTally(total, noun)
    with displayed(tally, quiet=quiet) as display:
        yield RunProgress(tally, display)
