"""`SaveSkillbookStep`: keeps the JSON file of a skillbook up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ace.arguments import whole_number
from ace.context import ACEStepContext
from ace.skillbook.errors import SkillbookError, SkillbookStoreError

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["SaveSkillbookStep"]


class SaveSkillbookStep:
    """Saves a skillbook to its JSON file, every so many samples and at the end of the run.

    What somebody else wrote into the file meanwhile is kept: the changes of this run are made again after it.

    Args:
        path: The JSON file.
        skillbook: The book to save.
        interval: After how many samples it acts.

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

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Act if it is time; the context stays as it is."""
        if ctx.global_sample_index % self.interval == 0:
            self.save()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Act once more."""
        self.save()

    def save(self) -> None:
        """Save now.

        Raises:
            SkillbookStoreError: It cannot be saved. The file, and the book in memory, stay as they are.
        """
        try:
            self.skillbook.save_to_file(self.path, merge=True)
        except (OSError, SkillbookError) as error:
            raise SkillbookStoreError(f"the skillbook {self.path} cannot be saved: {error}") from error
