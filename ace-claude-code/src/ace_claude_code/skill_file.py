"""Writes the skills to a file that every session of Claude Code in a project loads."""

from __future__ import annotations

import os
from pathlib import Path

from ace.context import ACEStepContext
from ace.integrations import SKILLBOOK_USAGE_INSTRUCTIONS, checked_arguments, checked_class, write_managed_block
from ace.protocols import SkillbookReader

__all__ = ["RULES_FILE", "SkillFileStep", "write_skill_file"]

RULES_FILE = Path(".claude", "rules", "ace-skillbook.md")
"""Claude Code loads the files in this folder when a session starts, even if CLAUDE.md does not refer to them."""


@checked_arguments()
def write_skill_file(
    path: str | os.PathLike[str], skillbook: SkillbookReader, budget_tokens: int | None = None
) -> None:
    """Write the skills to the managed block of a file, without changing the rest. Without skills, no file is created.

    Args:
        path: The file, such as `.claude/rules/ace-skillbook.md` or `CLAUDE.md`; it is created if it does not exist.
        skillbook: The skills.
        budget_tokens: Their maximum size, in tokens; None includes all skills.

    Raises:
        ManagedBlockError: The marks in the file do not form one block; it is not changed.
        OSError: The file cannot be written; it is not changed.
    """
    skills = skillbook.as_prompt() if budget_tokens is None else skillbook.as_prompt(budget_tokens=budget_tokens)
    if skills:
        write_managed_block(Path(path), f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n{skills}")
    elif Path(path).exists():
        write_managed_block(Path(path), "")


@checked_class
class SkillFileStep:
    """Writes the skills after each sample, and once more at the end of a run.

    Args:
        path: The file; see `write_skill_file`.
        budget_tokens: The maximum size of the skills, in tokens.
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, path: str | os.PathLike[str], *, budget_tokens: int | None = None) -> None:
        self.path = Path(path)
        self.budget_tokens = budget_tokens
        self._skillbook: SkillbookReader | None = None

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write the skills; the context is returned unchanged."""
        if ctx.skillbook is None:
            raise ValueError("SkillFileStep needs ctx.skillbook; run it in a runner, or set it in the context")
        # The view always shows the current skills, so it can be used again at the end of the run.
        self._skillbook = ctx.skillbook
        write_skill_file(self.path, ctx.skillbook, self.budget_tokens)
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Write once more, because skills may have been merged after the last sample.

        Args:
            last_index: The number of the last sample.
            interrupted: Whether the run was interrupted.
        """
        if self._skillbook is not None:
            write_skill_file(self.path, self._skillbook, self.budget_tokens)
