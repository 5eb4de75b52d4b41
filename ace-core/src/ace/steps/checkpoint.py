"""The steps that write a skillbook to files: copies, its JSON file, a marked block, and Markdown."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ace.arguments import checked_class, whole_number
from ace.context import ACEStepContext
from ace.durable_file import replace_file
from ace.marked_block import write_marked_block
from ace.skillbook.errors import SkillbookError, SkillbookStoreError

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["CheckpointStep", "ExportSkillbookMarkdownStep", "PersistStep", "SaveSkillbookStep"]

_SHORT = 0.1
"""Seconds; a save that takes no longer is short beside the model calls of a sample."""
_PATIENCE = 10
"""How many times as long as a long save took the next one waits."""


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


@checked_class
class PersistStep:
    """Writes the skills into a marked block of a text file such as CLAUDE.md or AGENTS.md.

    Every other byte of the file stays; the file is created if it does not exist. A target that ends in `.json` gets
    the skillbook's JSON instead.

    Args:
        target_path: The file.
        skillbook: The book to write out.
        overwrite: Whether a `.json` target is this step's own copy, to be replaced whatever skillbook it holds. By
            default, a skillbook that `skillbook` was not loaded from is an error, now rather than after the first
            sample has been paid for.

    Raises:
        SkillbookChangedError: The `.json` target holds a skillbook that this one was not loaded from.
        SkillbookFileError: The `.json` target is not a skillbook.
        OSError: The `.json` target cannot be written.
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, target_path: str | Path, skillbook: Skillbook, *, overwrite: bool = False) -> None:
        self.target_path = Path(target_path)
        self.skillbook = self.lane_key = skillbook
        self.overwrite = overwrite
        if self._is_json:
            skillbook.check_save(self.target_path, overwrite=overwrite)

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write; the context stays as it is."""
        self.write()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Write once more: the last merge may have come after the last sample."""
        self.write()

    def write(self) -> None:
        """Write now.

        Raises:
            MarkedBlockError: The marks in the file do not make one block.
            SkillbookFileError: The `.json` target exists and is not a skillbook.
            SkillbookChangedError: Another writer changed the `.json` target since it was written here.
            OSError: The file cannot be written. In each case it is not changed.
        """
        if self._is_json:
            self.skillbook.save_to_file(self.target_path, overwrite=self.overwrite)
        else:
            write_marked_block(self.target_path, self.skillbook.as_markdown())

    @property
    def _is_json(self) -> bool:
        return self.target_path.suffix.lower() == ".json"


@checked_class
class ExportSkillbookMarkdownStep:
    """Writes the active skills to a Markdown file, which is theirs alone: it is replaced each time.

    Args:
        path: The file.
        skillbook: The book to write out.
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, path: str | Path, skillbook: Skillbook) -> None:
        self.path = Path(path)
        self.skillbook = self.lane_key = skillbook

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write; the context stays as it is."""
        self.write()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Write once more: the last merge may have come after the last sample."""
        self.write()

    def write(self) -> None:
        """Write now, in one step that survives a crash."""
        replace_file(self.path, f"{self.skillbook.as_markdown().rstrip()}\n".encode())
