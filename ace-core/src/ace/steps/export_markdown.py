"""`ExportSkillbookMarkdownStep`: writes the skills as a Markdown file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ace.arguments import checked_class
from ace.context import ACEStepContext
from ace.durable_file import replace_file

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["ExportSkillbookMarkdownStep"]


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
