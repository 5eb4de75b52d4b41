"""How far an evaluation, or a test of a skillbook, is: the answers that are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from ace.cli.learning.progress import displayed
from ace.cli.wording import counted

if TYPE_CHECKING:
    from ace.evaluation import JudgedAnswer

__all__ = ["AnswerTally", "answers_shown"]


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
        """The numbers in words."""
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
