"""Shows on standard error how far a run or an evaluation is: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol, final

from ace.cli.console import counted, duration_text, is_terminal, note
from ace.cli.signals import on_forced_exit
from ace.pipeline import PipelineCancelled
from ace.protocols.observers import Event, ReflectionTurn, SampleEnded, SkillsChanged, SubQuestionAnswered

if TYPE_CHECKING:
    from ace.evaluation import JudgedAnswer

__all__ = ["AnswerTally", "Display", "Tally", "answers_shown", "displayed", "run_progress_shown"]

_SECONDS_BETWEEN_LINES = 10.0
_ERASE_LINE = b"\r\x1b[2K"
_SHOW_CURSOR = b"\x1b[?25h"


class Tally(Protocol):
    """What has been counted so far."""

    @property
    def total(self) -> int:
        """How much there is to do."""

    @property
    def ended(self) -> int:
        """How much of it is done."""

    @property
    def skipped(self) -> int:
        """How much of it took no work, such as what an earlier run had done."""

    @property
    def text(self) -> str:
        """The same for people."""


class Display(Protocol):
    """What shows a tally. Its methods may be called from any thread."""

    def show(self) -> None:
        """Show the tally as it is now."""

    def start(self) -> None:
        """Begin to show the tally."""

    def close(self) -> None:
        """Leave the terminal as it was. May be called twice."""

    def restore(self) -> None:
        """Leave the terminal as it was, without waiting for anything: the process is about to be ended."""


@contextmanager
def displayed(tally: Tally, *, quiet: bool = False) -> Iterator[Display]:
    """Show a tally while the block runs.

    Args:
        tally: The tally.
        quiet: Whether to show nothing.
    """
    display: Display
    if quiet:
        display = _Nothing()
    elif is_terminal(sys.stderr):
        display = _Bar(tally)
    else:
        display = _Lines(tally)
    with on_forced_exit(display.restore):
        try:
            display.start()
            yield display
        finally:
            display.close()


class _Estimate:
    """Estimates the time left from the time that the work so far took.

    The first results also waited for a model to start, and several are under way when one is there: an estimate from
    them would be several times too long.
    """

    _FIRST_RESULTS: Final = 2

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._begun = time.monotonic()

    def text(self) -> str:
        """Return the remaining time as text; an empty text after the first results, and at the end."""
        worked = self._tally.ended - self._tally.skipped
        left = self._tally.total - self._tally.ended
        if worked <= self._FIRST_RESULTS or left <= 0:
            return ""
        return f"about {duration_text((time.monotonic() - self._begun) / worked * left)} left"


@final
class _Nothing:
    def start(self) -> None:
        pass

    def show(self) -> None:
        pass

    def close(self) -> None:
        pass

    def restore(self) -> None:
        pass


@final
class _Lines:
    """Plain lines, at most one in ten seconds, and one at the end."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._estimate = _Estimate(tally)
        self._lock = threading.Lock()
        self._next = time.monotonic()
        self._shown = ""

    def start(self) -> None:
        pass

    def show(self) -> None:
        with self._lock:
            if time.monotonic() >= self._next:
                self._print(self._estimate.text())

    def close(self) -> None:
        with self._lock:
            if self._shown or self._tally.ended:
                self._print("")

    def restore(self) -> None:
        pass

    def _print(self, time_left: str) -> None:
        text = self._tally.text
        if text != self._shown:
            self._shown = text
            self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
            note(", ".join(filter(None, (text, time_left))))


@final
class _Bar:
    """A bar of rich. A terminal that has gone away raises when it is written to; that does not concern the run."""

    def __init__(self, tally: Tally) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._tally = tally
        self._lock = threading.Lock()
        self._estimate = _Estimate(tally)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[time_left]}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(tally.text, total=tally.total, time_left="")
        self._terminal = sys.stderr.fileno()

    def start(self) -> None:
        with suppress(OSError):
            self._bar.start()

    def show(self) -> None:
        with self._lock, suppress(OSError):
            self._bar.update(
                self._task,
                completed=self._tally.ended,
                description=self._tally.text,
                time_left=self._estimate.text(),
            )

    def close(self) -> None:
        try:
            with suppress(OSError):
                self._bar.stop()
        finally:  # a signal may have come while it stopped
            self._write(_SHOW_CURSOR)

    def restore(self) -> None:
        self._write(_ERASE_LINE + _SHOW_CURSOR)

    def _write(self, sequence: bytes) -> None:
        with suppress(OSError):
            os.write(self._terminal, sequence)


@final
class _Exploring:
    """How far a recursive reflection is."""

    def __init__(self) -> None:
        self._turn = 0
        self._questions = 0

    def count(self, event: ReflectionTurn | SubQuestionAnswered) -> None:
        """Take an event in."""
        if isinstance(event, ReflectionTurn):
            self._turn = event.iteration
        else:
            self._questions += 1

    @property
    def text(self) -> str:
        """The numbers for people."""
        return f"turn {self._turn}, {counted(self._questions, 'question')}"


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
        self._exploring: dict[str, _Exploring] = {}

    def count(self, event: Event) -> bool:
        """Take an event in; tell whether there is something new to show."""
        if isinstance(event, ReflectionTurn | SubQuestionAnswered):
            # The one that has changed last is shown, so it goes to the end.
            exploring = self._exploring.pop(event.trace_id, _Exploring())
            self._exploring[event.trace_id] = exploring
            exploring.count(event)
            return True
        if isinstance(event, SampleEnded):
            self._exploring.pop(event.trace_id, None)
        if isinstance(event, SkillsChanged):
            self._exploring.pop(event.trace_id, None)
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
        exploring = "".join(f", {exploration.text}" for exploration in list(self._exploring.values())[-1:])
        done = f"{self.ended} of {counted(self.total, self.noun)}, {counted(self.added, 'new skill')}"
        return f"{done}{failed}{exploring}"


@final
class _RunProgress:
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
            has_changed = self._tally.count(event)
        if has_changed:
            self._display.show()

    def close(self) -> None:
        """Leave the terminal as it was. May be called from any thread, and twice."""
        self._display.close()

    def restore(self) -> None:
        """Leave the terminal as it was, without waiting for anything: the process is about to be ended."""
        self._display.restore()


@contextmanager
def run_progress_shown(total: int, noun: str = "trace", *, quiet: bool = False) -> Iterator[_RunProgress]:
    """Show the progress of a run while the block runs.

    Args:
        total: How many inputs there are, over all epochs.
        noun: What one input is called.
        quiet: Whether to show nothing.
    """
    tally = RunTally(total, noun)
    with displayed(tally, quiet=quiet) as display:
        yield _RunProgress(tally, display)


@final
class AnswerTally:
    """The answers so far, as `displayed` shows them.

    Args:
        total: How many there will be.
    """

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.ended = 0
        self.skipped = 0
        self.failed = 0

    @property
    def text(self) -> str:
        """The numbers as text."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.ended} of {counted(self.total, 'answer')}{failed}"


@contextmanager
def answers_shown(total: int, *, quiet: bool = False) -> Iterator[Callable[[JudgedAnswer], None]]:
    """Show how many answers are there while the block runs, which calls what it is given with each.

    Args:
        total: How many there will be.
        quiet: Whether to show nothing.
    """
    tally = AnswerTally(total)
    begun = time.monotonic()
    with displayed(tally, quiet=quiet) as display:

        def count(answer: JudgedAnswer) -> None:
            tally.ended += 1
            # One that took longer than this has been running was kept in a file by an earlier command.
            tally.skipped += answer.seconds > time.monotonic() - begun
            tally.failed += answer.error is not None
            display.show()

        yield count
