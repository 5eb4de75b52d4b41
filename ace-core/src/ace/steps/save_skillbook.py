"""`SaveSkillbookStep`: keeps the JSON file of a skillbook up to date."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ace.arguments import checked_class, whole_number
from ace.context import ACEStepContext
from ace.skillbook.errors import SkillbookError, SkillbookStoreError

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["SaveSkillbookStep"]

_SHORT = 0.1
"""Seconds; a save that takes no longer is short beside the model calls of a sample."""
_PATIENCE = 10
"""How many times as long as a long save took the next one waits."""


@checked_class
class SaveSkillbookStep:
    """Saves a skillbook to its JSON file after each sample, so that a killed run loses nothing that it has reported.

    A book so large that a save takes longer than a tenth of a second is saved less often: saving then takes at most a
    tenth of the time, and at most `interval` samples are unsaved. The end of a run always saves.

    What another process wrote into the file in the meantime is kept: the changes of this run are made again after it.

    Args:
        path: The JSON file.
        skillbook: The book to save.
        interval: How many samples may be unsaved at most.

    Raises:
        ValueError: The interval is below 1.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, path: str | Path, skillbook: Skillbook, *, interval: int = 10) -> None:
        self.path = Path(path)
        self.skillbook = self.lane_key = skillbook
        self.interval = whole_number("interval", interval, of="samples")
        # Only read and written in the lane of the book, and after the last sample.
        self._unsaved = 0
        self._seconds = 0.0
        self._saved_at = 0.0

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Save if it is time; the context stays as it is."""
        self._unsaved += 1
        waited = time.monotonic() - self._saved_at
        if self._seconds <= _SHORT or waited >= _PATIENCE * self._seconds or self._unsaved >= self.interval:
            self.save()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Save what is left."""
        self.save()

    def save(self) -> None:
        """Save now.

        Raises:
            SkillbookStoreError: It cannot be saved. The file, and the book in memory, stay as they are.
        """
        started = time.monotonic()
        try:
            self.skillbook.save_to_file(self.path, merge=True)
        except (OSError, SkillbookError) as error:
            raise SkillbookStoreError(f"the skillbook {self.path} cannot be saved: {error}") from error
        self._saved_at = time.monotonic()
        self._seconds = self._saved_at - started
        self._unsaved = 0
