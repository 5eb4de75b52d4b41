"""What is remembered about one repository: its skillbook, and which lessons were proposed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from ace.integrations import replace_file
from ace.skill import Evidence, InsightSource
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from ace_sleep.repository import Repository, find_repository
from ace_sleep.workspace import state_folder

__all__ = ["LessonFacts", "Project", "StagedLesson", "all_folders", "all_projects", "personal_project", "project_of"]

_AUTHOR: Final = "ace sleep"
_PERSONAL: Final = "personal"
_PROVEN: Final = "proven by running; accept it, and agents are shown it"

Landing = Literal["block", "folder"]
"""Where a lesson is written: a line in the block of AGENTS.md, or a skill folder."""


class LessonFacts(BaseModel):
    """What is remembered about a lesson beside its skill."""

    model_config = ConfigDict(frozen=True)

    lands: Landing = "block"
    command: str = ""
    """The command that it advises; empty if it advises none."""
    mistake: str = ""
    """The command that it advises against."""
    steps: tuple[str, ...] = ()
    """The commands of a procedure."""
    removes: str = ""
    """For the proposal to remove a lesson: the id of its skill."""


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
    pending: str = _PROVEN
    """Why agents are not shown it yet."""
    kind: Evidence = "recovery"
    also: Sequence[str] = ()
    """Further keys, so that nothing with one of them is proposed again."""
    about: LessonFacts = field(default_factory=LessonFacts)
    """What is needed after it was accepted."""
    quotes: Sequence[tuple[str, str]] = ()
    """What people said, each with the session."""


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

    @property
    def is_personal(self) -> bool:
        """Whether it is not a repository, but what holds for the person in all of them."""
        return self.folder.name == _PERSONAL

    def staged(self) -> dict[str, str]:
        """Return the ids of the skills of all lessons that were ever proposed, by the keys of the lessons."""
        return dict(self._recorded().get("lessons", {}))

    def facts(self) -> Mapping[str, LessonFacts]:
        """Return what is remembered about lessons, by the ids of their skills."""
        return {id: LessonFacts.model_validate(found) for id, found in self._recorded().get("about", {}).items()}

    def stage(self, lessons: Sequence[StagedLesson]) -> list[str]:
        """Add lessons to the skillbook as pending skills, and return their ids.

        A lesson with the text of one that was rejected is not added.
        """
        if not lessons:
            return []
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        staged, facts = self.staged(), dict(self.facts())
        with Skillbook.open(self.skillbook) as book:
            refused = {skill.content: skill.id for skill in book.rejected_skills()}
            added = [lesson for lesson in lessons if lesson.text not in refused]
            report = book.apply_update(UpdateBatch("", [_operation(lesson) for lesson in added]), author=_AUTHOR)
        ids = [applied.skill_id for applied in report.applied]
        for applied in report.applied:
            lesson = added[applied.index]
            staged |= dict.fromkeys((lesson.key, *lesson.also), applied.skill_id)
            facts[applied.skill_id] = lesson.about
        staged |= {lesson.key: refused[lesson.text] for lesson in lessons if lesson.text in refused}
        about = {id: found.model_dump(exclude_defaults=True) for id, found in facts.items()}
        record = {"root": str(self.root), "lessons": staged, "about": about}
        replace_file(self._record, json.dumps(record, indent=1).encode())
        return ids

    def _recorded(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._record.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    @property
    def _record(self) -> Path:
        return self.folder / "lessons.json"


def _operation(lesson: StagedLesson) -> UpdateOperation:
    source = InsightSource(
        trace_id=lesson.sessions[0],
        sample_question=lesson.task,
        integration="sleep",
        error_identification=lesson.error,
        evidence=lesson.kind,
    )
    return UpdateOperation(
        "ADD",
        lesson.section,
        lesson.text,
        evidence=lesson.evidence,
        insight_source=source,
        metadata={"evidence_traces": list(lesson.sessions)},
        pending=lesson.pending,
    )


def project_of(repository: Repository) -> Project:
    """Return the project of a repository, the same for all of its worktrees."""
    root = repository.main_root
    digest = hashlib.sha256(str(repository.common).encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return Project(root, state_folder() / "projects" / f"{root.name}-{digest}")


def personal_project() -> Project:
    """Return what holds for the person in all repositories."""
    return Project(Path.home(), state_folder() / _PERSONAL)


def all_folders() -> dict[str, Path]:
    """Return the folders of all projects by their names, also of those without a lesson."""
    return {folder.name: folder for folder in sorted((state_folder() / "projects").glob("*/")) if folder.is_dir()}


def all_projects() -> list[Project]:
    """Return the projects with lessons, of repositories that still exist."""
    found = []
    for record in sorted((state_folder() / "projects").glob("*/lessons.json")):
        root = Path(json.loads(record.read_text(encoding="utf-8"))["root"])
        if find_repository(str(root)) is not None:
            found.append(Project(root, record.parent))
    return found
