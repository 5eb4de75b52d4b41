"""Writes accepted lessons where coding agents read them: the managed block of AGENTS.md. Nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ace.integrations import own_file, read_managed_block, write_managed_block
from ace.plugins import KeptSkillbook
from ace.skillbook import Skillbook
from ace_sleep.projects import Project, project_of
from ace_sleep.repository import find_repository

__all__ = ["MOST_LINES", "publish", "skillbooks_of"]

MOST_LINES: Final = 40
"""The most lessons in the block; the newest ones are in it."""
_IMPORT: Final = "@AGENTS.md"
_READ_INSTEAD: Final = ("CLAUDE.md", "GEMINI.md")
"""Files that agents read instead of AGENTS.md, which they can be made to import."""


def skillbooks_of(folder: Path) -> Iterator[KeptSkillbook]:
    """Yield the skillbook of the repository that a folder is in, if lessons were found for it.

    Args:
        folder: Any folder of the repository.
    """
    repository = find_repository(str(folder))
    if repository is None:
        return
    project = project_of(repository)
    if project.skillbook.is_file():
        title = f"lessons that `ace sleep` found for {project.name}"
        yield KeptSkillbook(str(project.skillbook), title, lambda: publish(project))


def publish(project: Project) -> list[Path]:
    """Write the active skills of a project to the block in AGENTS.md, and return the files that changed.

    What else is in the block, such as exported skills, is kept.

    Args:
        project: Whose lessons to write.

    Raises:
        OSError: The file is a link that leads out of the repository, or cannot be written.
        ManagedBlockError: The marks in the file do not form one block.
    """
    with Skillbook.open(project.skillbook) as book:
        lessons = [f"- {' '.join(skill.content.split())}" for skill in book.skills()][-MOST_LINES:]
    path = own_file(project.root / "AGENTS.md")
    before = path.read_bytes() if path.exists() else b""
    block = read_managed_block(before)
    if block is None and not lessons:
        return []
    earlier = project.published()
    kept = [line for line in (block or "").splitlines() if line not in earlier]
    importing = [own_file(project.root / name) for name in _READ_INSTEAD if (project.root / name).exists()]
    project.note_published(lessons)
    texts = {path: "\n".join([*kept, *(lesson for lesson in lessons if lesson not in kept)])}
    texts |= {other: _IMPORT for other in importing if other != path and not _imports(other)}
    return [file for file, text in texts.items() if _is_written(file, text)]


def _imports(path: Path) -> bool:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(_IMPORT in line.split() for line in lines)


def _is_written(path: Path, text: str) -> bool:
    """Write the block of a file, and return whether that changed the file."""
    before = path.read_bytes() if path.exists() else None
    write_managed_block(path, text)
    return path.read_bytes() != before
