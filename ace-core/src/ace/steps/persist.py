"""`PersistStep`: writes the skills where a coding agent reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ace.arguments import checked_class
from ace.context import ACEStepContext
from ace.marked_block import write_marked_block

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["PersistStep"]


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
            OSError: The file cannot be written. In each case it is left as it is.
        """
        if self._is_json:
            self.skillbook.save_to_file(self.target_path, overwrite=self.overwrite)
        else:
            write_marked_block(self.target_path, self.skillbook.as_markdown())

    @property
    def _is_json(self) -> bool:
        return self.target_path.suffix.lower() == ".json"
