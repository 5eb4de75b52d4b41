"""What is remembered about one repository: its skillbook, and which lessons were proposed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace.integrations import replace_file
from ace.skill import InsightSource
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from ace_sleep.repository import Repository, find_repository
from ace_sleep.workspace import state_folder

__all__ = ["Project", "StagedLesson", "all_projects", "project_of"]

_AUTHOR: Final = "ace sleep"
_PENDING: Final = "proven by running; accept it, and agents are shown it"


@dataclass(frozen=True, slots=True)
class StagedLesson:
    """A lesson as it enters the skillbook, without secrets."""

    key: str
    """Identifies the lesson, so that it is proposed once."""
    section: str
    text: str
    evidence: str
    sessions: Sequence[str]
    """The sessions that it was seen in."""
    task: str
    """The task of the first of them."""
    error: str
    """What failed."""


@dataclass(frozen=True, slots=True)
class Project:
    """A repository with the folder of what is remembered about it."""

    root: Path
    folder: Path

    @property
    def name(self) -> str:
        """The name of its folder, for people."""
        return self.root.name

    @property
    def skillbook(self) -> Path:
        """The skillbook, which is outside the repository, so that no one who changes that can change it."""
        return self.folder / "skills.db"

    def staged(self) -> dict[str, str]:
        """Return the ids of the skills of all lessons that were ever proposed, by the keys of the lessons."""
        try:
            found = json.loads(self._record.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return dict(found["lessons"])

    def stage(self, lessons: Sequence[StagedLesson]) -> list[str]:
        """Add lessons to the skillbook as pending skills, and return their ids.

        A lesson with the text of one that was rejected is not added.
        """
        if not lessons:
            return []
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        staged = self.staged()
        with Skillbook.open(self.skillbook) as book:
            refused = {skill.content: skill.id for skill in book.rejected_skills()}
            added = [lesson for lesson in lessons if lesson.text not in refused]
            report = book.apply_update(UpdateBatch("", [_operation(lesson) for lesson in added]), author=_AUTHOR)
        ids = [applied.skill_id for applied in report.applied]
        for applied in report.applied:
            staged[added[applied.index].key] = applied.skill_id
        staged |= {lesson.key: refused[lesson.text] for lesson in lessons if lesson.text in refused}
        record = {"root": str(self.root), "lessons": staged}
        replace_file(self._record, json.dumps(record, indent=1).encode())
        return ids

    def published(self) -> list[str]:
        """Return the lines that were last written to AGENTS.md."""
        try:
            return list(json.loads(self._published.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return []

    def note_published(self, lines: Sequence[str]) -> None:
        """Remember lines before they are written to AGENTS.md, together with those that are replaced.

        Args:
            lines: What is written to the block, without its marks.
        """
        known = list(dict.fromkeys([*self.published(), *lines]))  # a crash before they are written does no harm
        replace_file(self._published, json.dumps(known, indent=1).encode())

    @property
    def _published(self) -> Path:
        return self.folder / "published.json"

    @property
    def _record(self) -> Path:
        return self.folder / "lessons.json"


def _operation(lesson: StagedLesson) -> UpdateOperation:
    source = InsightSource(
        trace_id=lesson.sessions[0],
        sample_question=lesson.task,
        integration="sleep",
        error_identification=lesson.error,
        evidence="recovery",
    )
    return UpdateOperation(
        "ADD",
        lesson.section,
        lesson.text,
        evidence=lesson.evidence,
        insight_source=source,
        metadata={"evidence_traces": list(lesson.sessions)},
        pending=_PENDING,
    )


def project_of(repository: Repository) -> Project:
    """Return the project of a repository, the same for all of its worktrees."""
    root = repository.main_root
    digest = hashlib.sha256(str(repository.common).encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return Project(root, state_folder() / "projects" / f"{root.name}-{digest}")


def all_projects() -> list[Project]:
    """Return the projects with lessons, of repositories that still exist."""
    found = []
    for record in sorted((state_folder() / "projects").glob("*/lessons.json")):
        root = Path(json.loads(record.read_text(encoding="utf-8"))["root"])
        if find_repository(str(root)) is not None:
            found.append(Project(root, record.parent))
    return found
