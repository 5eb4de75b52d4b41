"""`PersistStep`: writes the skills where a coding agent reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ace.context import ACEStepContext
from ace.marked_block import write_marked_block

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["PersistStep"]


class PersistStep:
    """Writes the skills into a marked block of a text file such as CLAUDE.md or AGENTS.md.

    Every other byte of the file stays; the file is created if there is none. A target that ends in `.json` gets
    the skillbook's JSON instead.

    Args:
        target_path: The file.
        skillbook: The book to write out.
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, target_path: str | Path, skillbook: Skillbook) -> None:
        self.target_path = Path(target_path)
        self.skillbook = self.lane_key = skillbook

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
            SkillbookFileError: The `.json` target is there and is no skillbook.
            SkillbookChangedError: Somebody else changed the `.json` target since it was written here.
            OSError: The file cannot be written. In each case it is left as it is.
        """
        if self.target_path.suffix.lower() == ".json":
            self.skillbook.save_to_file(self.target_path)
        else:
            write_marked_block(self.target_path, self.skillbook.as_markdown())
