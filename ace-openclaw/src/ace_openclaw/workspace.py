"""Writes the skills where OpenClaw reads them: the top ones to AGENTS.md, all of them to a workspace skill."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ace.integrations import (
    BEGIN_MARK,
    END_MARK,
    BlockBefore,
    ManagedBlockError,
    folder_lock,
    read_managed_block,
    replace_managed_block,
    restore_block,
    write_durably,
)
from ace.skillbook import Skillbook

__all__ = ["FILE_LIMIT", "SKILL_NAME", "remove_skills", "write_skills"]

SKILL_NAME = "ace-skillbook"
FILE_LIMIT = 20_000
"""The number of characters of AGENTS.md that OpenClaw shows. It omits the middle of a longer file."""
BLOCK_LIMIT = 6_000
"""The maximum number of characters in our block, because AGENTS.md and the prompt have other contents."""
_HEADING = "Strategies learned from earlier sessions. Cite the ones you use by their ids, in brackets."
_POINTER = f"All strategies are in `skills/{SKILL_NAME}/SKILL.md`."
_NO_LINE_END = "<!-- ace: the file had no line end before this block -->"
_LINE_ENDS = 16
_DESCRIPTION = "Strategies learned from earlier sessions. Read before a task that is more than a question."


def write_skills(workspace: Path, skillbook: Skillbook) -> None:
    """Write the top skills to the managed block of AGENTS.md, and all of them to `skills/ace-skillbook`.

    AGENTS.md is not changed outside the marks. If the skillbook is empty and nothing was written before, nothing is
    written.

    Args:
        workspace: The folder that the agent works in.
        skillbook: The skills.

    Raises:
        ManagedBlockError: The marks in AGENTS.md do not form one block; the file is not changed.
        OSError: A file cannot be written.
    """
    target = workspace / "AGENTS.md"
    folder = workspace / "skills" / SKILL_NAME
    if not len(skillbook) and not folder.exists() and not _has_block(target):
        return
    with folder_lock(target):
        original = target.read_bytes() if target.exists() else b""
        others = (_without_block(original) if _has_block(target) else original).decode("utf-8", "replace")
        around = len(BEGIN_MARK) + len(END_MARK) + len(_NO_LINE_END) + _LINE_ENDS
        room = min(BLOCK_LIMIT, FILE_LIMIT - len(others) - around)
        changed = _replaced(target, original, _top_skills(skillbook, room))
        if changed != original:
            write_durably(target, changed)
    skillbook.save_skill_folder(folder, name=SKILL_NAME, description=_DESCRIPTION)


def remove_skills(workspace: Path) -> bool:
    """Remove what `write_skills` wrote, so that AGENTS.md has its original bytes again.

    Args:
        workspace: The folder that the agent works in.

    Returns:
        Whether there was anything to remove.

    Raises:
        ManagedBlockError: The marks in AGENTS.md do not form one block; nothing is removed.
    """
    target = workspace / "AGENTS.md"
    folder = workspace / "skills" / SKILL_NAME
    was_there = (folder / "SKILL.md").exists()
    if _has_block(target):
        was_there = True
        with folder_lock(target):
            rest = _without_block(target.read_bytes())
            if rest:
                write_durably(target, rest)
            else:
                target.unlink()
    if folder.is_dir():
        with folder_lock(folder / "SKILL.md"):  # also removes the temporary files of a killed writer
            (folder / "SKILL.md").unlink(missing_ok=True)
    for empty in (folder, folder.parent):
        with contextlib.suppress(OSError):  # it contains other files of the user, or does not exist
            empty.rmdir()
    return was_there


def _top_skills(skillbook: Skillbook, room: int) -> str:
    """Return the most helpful skills that fit into `room` characters, with a line that refers to all skills."""
    skills = skillbook.as_prompt(budget_tokens=max(0, room - len(_HEADING) - len(_POINTER) - 4), count_tokens=len)
    parts = [_HEADING, skills, _POINTER] if skills else [_POINTER] if room > len(_POINTER) else []
    return "\n\n".join(parts)


def _has_block(target: Path) -> bool:
    try:
        return read_managed_block(target.read_bytes()) is not None
    except FileNotFoundError:
        return False
    except ManagedBlockError as error:
        raise ManagedBlockError(f"{target}: {error}") from None


def _replaced(target: Path, original: bytes, content: str) -> bytes:
    """Return the file with the content in our block, which records whether the file ended with a newline before."""
    try:
        before = read_managed_block(original)
        had_none = bool(original) and not original.endswith(b"\n") if before is None else _NO_LINE_END in before
        return replace_managed_block(original, f"{_NO_LINE_END}\n{content}" if had_none else content)
    except ManagedBlockError as error:
        raise ManagedBlockError(f"{target}: {error}") from None


def _without_block(original: bytes) -> bytes:
    """Return the file as it was before the block was inserted."""
    before = read_managed_block(original)
    if before is None:
        return original
    return restore_block(original, BlockBefore(None, has_line_end=_NO_LINE_END not in before))
