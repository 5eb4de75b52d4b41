"""Writes accepted lessons where coding agents read them, and takes them away again. Nothing is committed.

A fact is a line in a block of AGENTS.md. The block has a mark of its own: that of `ace:skills` belongs to the skillbook
of the project, if its settings name the file, and is never touched. A procedure is a skill folder. What holds for a
person everywhere is in the files that their agents read in every project. Everything that is written is recorded first,
so that every byte can be restored.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from ace.integrations import (
    BlockBefore,
    block_before,
    own_file,
    read_managed_block,
    real_path,
    replace_file,
    replace_managed_block,
    restore_block,
    write_durably,
)
from ace.plugins import FileChange, KeptSkillbook
from ace.skill import Skill
from ace.skillbook import Skillbook
from ace_sleep.projects import LessonFacts, Project, personal_project, project_of
from ace_sleep.repository import find_repository
from ace_sleep.skills import files_of

__all__ = ["BLOCK", "MOST_FOLDERS", "MOST_LINES", "Published", "preview", "publish", "published", "skillbooks_of"]

BLOCK: Final = "sleep"
"""The name in the marks of the block."""
MOST_LINES: Final = 40
"""The most lessons in the block."""
MOST_FOLDERS: Final = 20
"""The most skill folders."""
_IMPORT: Final = "@AGENTS.md"
_READ_INSTEAD: Final = ("CLAUDE.md", "GEMINI.md")
"""Files that agents read instead of AGENTS.md, which they can be made to import."""
_OF_PERSON: Final = (
    ("CLAUDE_CONFIG_DIR", ".claude", "CLAUDE.md"),
    ("CODEX_HOME", ".codex", "AGENTS.md"),
    ("", ".gemini", "GEMINI.md"),
    ("", ".qwen", "QWEN.md"),
    ("", ".config/opencode", "AGENTS.md"),
)
"""What agents read in every project: the variable with their folder, the folder in the home folder, and the file."""


class _Block(BaseModel):
    """What a file was without the block."""

    is_new: bool
    has_line_end: bool
    before: str | None = None
    """The block that was there, encoded with base64."""


class _File(BaseModel):
    """A file that was written as a whole."""

    digest: str
    folders: list[str]
    """The folders that were made for it, outermost first."""


class Published(BaseModel):
    """What is written of a project."""

    since: dict[str, str] = {}
    """When the lessons that agents are shown were first written, by the ids of their skills: ISO 8601, UTC."""
    blocks: dict[str, _Block] = {}
    files: dict[str, _File] = {}


def skillbooks_of(folder: Path) -> Iterator[KeptSkillbook]:
    """Yield the skillbook of the repository that a folder is in, and that of the person, if lessons were found.

    Args:
        folder: Any folder of the repository.
    """
    repository = find_repository(str(folder))
    project = None if repository is None else project_of(repository)
    if project is not None and project.skillbook.is_file():
        yield _kept(project, f"lessons that `ace sleep` found for {project.name}")
    personal = personal_project()
    if personal.skillbook.is_file():
        files = ", ".join(map(str, _files_of_person())) or "the files of your agents, none of which has a folder"
        yield _kept(personal, f"what `ace sleep` found for you in all repositories; accepted ones go to {files}")


def _kept(project: Project, title: str) -> KeptSkillbook:
    return KeptSkillbook(
        str(project.skillbook), title, lambda: publish(project), lambda accepted: preview(project, accepted)
    )


def published(project: Project) -> Published:
    """Return what is written of a project.

    Args:
        project: Whose lessons may be written.
    """
    path = _record(project)
    return Published.model_validate_json(path.read_bytes()) if path.exists() else Published()


def publish(project: Project) -> list[Path]:
    """Write the active skills of a project, remove what is not active anymore, and return the files that changed.

    Args:
        project: Whose lessons to write.

    Raises:
        OSError: A file is a link that leads out of the repository, or cannot be written.
        ValueError: The marks in a file do not form one block, the block or the folders are full, or a file with
            the name of one that would be written is not ours.
    """
    record, wanted = published(project), _wanted(project)
    _check_own(project, wanted.files, record)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record.since = {skill.id: record.since.get(skill.id, now) for skill in (*wanted.lines, *wanted.folders)}
    changed = [
        *_written_blocks(project, wanted.lines, record),
        *_written_files(project, wanted.files, record),
        *_removed_files(project, wanted.files, record),
    ]
    _save(project, record)
    no_line, no_folder = wanted.no_line, wanted.no_folder
    if no_line or no_folder:
        what = f"{MOST_LINES} lines" if no_line else f"{MOST_FOLDERS} skill folders"
        raise ValueError(
            f"{what} is the most, so {', '.join(skill.id for skill in (*no_line, *no_folder))} is not written; "
            "reject another lesson with 'ace review --reject ID --because TEXT'"
        )
    return changed


def preview(project: Project, accepted: str) -> list[FileChange]:
    """Return what accepting a lesson would change, without changing anything.

    Args:
        project: Whose lessons may be written.
        accepted: The id of the skill.

    Raises:
        OSError: A file is a link that leads out of the repository, or cannot be read.
        ValueError: As for `publish`.
    """
    record, wanted = published(project), _wanted(project, accepted)
    _check_own(project, wanted.files, record)
    changes = list(_block_changes(project, wanted.lines, record))
    for name, data in wanted.files.items():
        path = project.root / name
        changes.append((path, path.read_bytes() if path.exists() else None, data))
    for name in record.files:
        path = project.root / name
        if name not in wanted.files and path.is_file():
            changes.append((path, path.read_bytes(), None))
    return [
        FileChange(path, *((data or b"").decode("utf-8", "replace") for data in (before, after)))
        for path, before, after in changes
        if before != after
    ]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be written."""

    lines: list[Skill]
    no_line: list[Skill]
    """The lessons for which the block has no room."""
    folders: list[Skill]
    no_folder: list[Skill]
    files: Mapping[str, bytes]
    """The files of the skill folders, relative to the repository."""


def _wanted(project: Project, accepted: str = "") -> _Wanted:
    """Return what is to be written if a pending skill is accepted, too."""
    record, facts = published(project), project.facts()
    with Skillbook.open(project.skillbook) as book:
        skills = [*book.skills(), *(skill for skill in book.pending_skills() if skill.id == accepted)]
    active = [(skill, facts.get(skill.id, LessonFacts())) for skill in skills]
    removed = {of.removes for _, of in active}
    live = [(skill, of) for skill, of in active if not of.removes and skill.id not in removed]
    lines, no_line = _with_room([skill for skill, of in live if of.lands == "block"], record, MOST_LINES)
    folders, no_folder = _with_room([skill for skill, of in live if of.lands == "folder"], record, MOST_FOLDERS)
    files = {path: data for skill in folders for path, data in files_of(skill, facts[skill.id], project.root).items()}
    return _Wanted(lines, no_line, folders, no_folder, files)


def _with_room(skills: list[Skill], record: Published, most: int) -> tuple[list[Skill], list[Skill]]:
    """Return the skills that fit, and the others: what was written first stays."""
    ordered = sorted(skills, key=lambda skill: record.since.get(skill.id, "~"))
    return ordered[:most], ordered[most:]


def _record(project: Project) -> Path:
    return project.folder / "published.json"


def _save(project: Project, record: Published) -> None:
    replace_file(_record(project), record.model_dump_json(indent=1).encode())


def _written_blocks(project: Project, skills: Sequence[Skill], record: Published) -> list[Path]:
    """Write the blocks, or restore what was there before them if no lesson is left."""
    changed = []
    for path, original, new in list(_block_changes(project, skills, record)):
        if not skills:
            record.blocks.pop(str(path))
        elif str(path) not in record.blocks:
            before = block_before(original or b"", BLOCK)
            block = None if before.block is None else base64.b64encode(before.block).decode()
            record.blocks[str(path)] = _Block(is_new=original is None, has_line_end=before.has_line_end, before=block)
            _save(project, record)  # before the file is written, so that a crash in between loses nothing
        if new != original:
            _replace(path, new)
            changed.append(path)
    return changed


def _block_changes(
    project: Project, skills: Sequence[Skill], record: Published
) -> Iterator[tuple[Path, bytes | None, bytes | None]]:
    """Yield the files with a block, with their content before and after; None means no file."""
    paths = _block_files(project) if skills else [Path(path) for path in record.blocks]
    text = "\n".join(f"- {' '.join(skill.content.split())}" for skill in skills)
    for path in paths:
        original = path.read_bytes() if path.exists() else None
        if not skills:
            yield path, original, _restored(original, record.blocks[str(path)])
            continue
        is_import = not project.is_personal and path != paths[0]
        if is_import and str(path) not in record.blocks and _imports(original or b""):
            continue
        yield path, original, replace_managed_block(original or b"", _IMPORT if is_import else text, BLOCK)


def _block_files(project: Project) -> list[Path]:
    if project.is_personal:
        return _files_of_person()
    names = ["AGENTS.md", *(name for name in _READ_INSTEAD if (project.root / name).exists())]
    return list(dict.fromkeys(own_file(project.root / name) for name in names))


def _files_of_person() -> list[Path]:
    """Return the files of the agents that have a folder; a person may keep them elsewhere and link to them."""
    found = []
    for variable, folder, name in _OF_PERSON:
        place = Path(os.environ.get(variable, "") or Path.home() / folder)
        if place.is_dir():
            found.append(real_path(place / name))
    return list(dict.fromkeys(found))


def _imports(original: bytes) -> bool:
    outside = original.decode("utf-8", "replace").splitlines()
    return any(_IMPORT in line.split() for line in outside)


def _restored(original: bytes | None, block: _Block) -> bytes | None:
    """Return a file as it was before its block; None if it did not exist and has nothing else."""
    if original is None or read_managed_block(original, BLOCK) is None:
        return original
    # A new file had no text without a line end; what is there now was written by someone else.
    earlier = None if block.before is None else base64.b64decode(block.before)
    before = BlockBefore(earlier, block.has_line_end or block.is_new)
    restored = restore_block(original, before, BLOCK)
    return None if block.is_new and not restored else restored


def _replace(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
    else:
        write_durably(path, data)


def _check_own(project: Project, files: Mapping[str, bytes], record: Published) -> None:
    """Check that no file would be written through a link, or over one of someone else."""
    for name in files:
        path = project.root / name
        for part in (path, *path.parents):
            if part == project.root:
                break
            if part.is_symlink():
                raise OSError(f"{part} is a link, which is not followed")
        if path.exists() and name not in record.files:
            raise ValueError(f"{path} exists already; move it, or reject the lesson")


def _written_files(project: Project, files: Mapping[str, bytes], record: Published) -> Iterator[Path]:
    for name, data in files.items():
        path = project.root / name
        if path.exists() and record.files[name].digest != _digest(path.read_bytes()):
            continue  # someone has edited it since
        if path.exists() and path.read_bytes() == data:
            continue
        made = [str(part) for part in reversed(path.parents) if not part.exists()]
        earlier = record.files[name].folders if name in record.files else []
        record.files[name] = _File(digest=_digest(data), folders=list(dict.fromkeys([*earlier, *made])))
        _save(project, record)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
        if name.endswith(".sh"):
            path.chmod(0o755)
        yield path


def _removed_files(project: Project, files: Mapping[str, bytes], record: Published) -> Iterator[Path]:
    """Remove what was written and is not wanted anymore. A file that someone has edited since is left to them."""
    folders: list[str] = []
    for name in [name for name in record.files if name not in files]:
        written, path = record.files.pop(name), project.root / name
        folders += written.folders
        if path.is_file() and not path.is_symlink() and _digest(path.read_bytes()) == written.digest:
            path.unlink()
            yield path
    for folder in sorted(set(folders), key=len, reverse=True):
        if Path(folder).is_dir() and not os.listdir(folder):
            os.rmdir(folder)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
