"""`CheckpointStep`: keeps copies of the skillbook on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ace.arguments import checked_class, whole_number
from ace.context import ACEStepContext
from ace.durable_file import replace_file

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["CheckpointStep"]


@checked_class
class CheckpointStep:
    """Writes `checkpoint_<index>.json` and `latest.json`, every so many samples and at the end of the run.

    Args:
        directory: Where the files go; it is made if it is missing.
        skillbook: The book to copy.
        interval: The number of samples between two copies.

    Raises:
        ValueError: The interval is below 1.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, directory: str | Path, skillbook: Skillbook, *, interval: int = 10) -> None:
        self.directory = Path(directory)
        self.skillbook = self.lane_key = skillbook
        self.interval = whole_number("interval", interval, of="samples")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Act if it is time; the context stays as it is."""
        if ctx.global_sample_index % self.interval == 0:
            self.write(ctx.global_sample_index)
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Act once more: the last merge may have come after the last checkpoint."""
        self.write(last_index)

    def write(self, index: int) -> None:
        """Write both files now, each in one step that survives a crash."""
        data = self.skillbook.dumps().encode("utf-8")
        replace_file(self.directory / f"checkpoint_{index}.json", data)
        replace_file(self.directory / "latest.json", data)
