"""Keeps notes of the sessions of a night, and finds in all notes what several sessions show but nothing proves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ace.protocols import LLMCallError, UnusableAnswerError
from ace.redaction import Redactor
from ace_sleep.budget import Budget
from ace_sleep.notes import Correction, Notes, note_of
from ace_sleep.noticed import personal_rejections, procedures, read_every_time, rejected_calls
from ace_sleep.projects import Project, StagedLesson, all_folders, personal_project, project_of
from ace_sleep.repository import Repository
from ace_sleep.said import Remark, ask_for_lessons, corrections_in, has_replies, remarks_in
from ace_sleep.sessions import Session
from ace_sleep.skills import SKILL_FOLDERS

if TYPE_CHECKING:
    from ace.protocols import LLMClientLike

__all__ = ["Unproven"]


@dataclass
class Unproven:
    """What one night finds beside the lessons that it proves.

    Args:
        redactor: Replaces secrets.
        client: The model that finds and words what people said; None looks at structure only.
        budget: What the calls may use.
    """

    redactor: Redactor
    client: LLMClientLike | None
    budget: Budget
    outage: LLMCallError | None = field(default=None, init=False)
    """Why the model could not be called."""
    open_keys: set[str] = field(default_factory=set, init=False)
    """The keys of the sessions that the model should have been asked about, and was not."""

    def note(self, sessions: Mapping[Path, Sequence[tuple[Session, Repository]]]) -> None:
        """Keep notes of sessions.

        Args:
            sessions: The sessions of a night by the folders of their repositories.
        """
        for pairs in sessions.values():
            project = project_of(pairs[0][1])
            noted = [note_of(session, of, self.redactor, self._corrections(session)) for session, of in pairs]
            Notes(project.folder).add(noted)

    def lessons(self, projects: Iterable[Project], room: int) -> Iterator[tuple[Project, list[StagedLesson]]]:
        """Yield what the notes show, by project, until there are enough. What is left is found again the next night.

        Args:
            projects: The projects of the night.
            room: How many lessons are wanted.
        """
        personal, subjects = personal_project(), set[str]()
        for rejection, lesson in personal_rejections({name: Notes(folder) for name, folder in all_folders().items()}):
            subjects.add(rejection.subject)
            if room and lesson.key not in personal.staged():
                yield personal, [lesson]
                room -= 1
        if room:
            everywhere = self._said_everywhere(personal, room)
            room -= len(everywhere)
            yield personal, everywhere
        for project in projects:
            if not room:
                return
            lessons = self._of_project(project, subjects, room)
            room -= len(lessons)
            yield project, lessons

    def _corrections(self, session: Session) -> list[Correction]:
        if self.client is None or not has_replies(session.run):
            return []
        if self.outage is not None or self.budget.spent():
            self.open_keys.add(session.key)
            return []
        self.budget.note_call()
        try:
            return corrections_in(session.run, self.client, self.redactor)
        except UnusableAnswerError:
            return []
        except LLMCallError as error:
            self.outage = error
            self.open_keys.add(session.key)
            return []

    def _of_project(self, project: Project, subjects: set[str], room: int) -> list[StagedLesson]:
        notes = Notes(project.folder)
        known = {*project.staged(), *personal_project().staged()}
        remarks = remarks_in(notes, known, project.name)
        found = self._asked(notes, remarks, room, is_personal=False)
        used = subjects | _subjects_of(notes, project, {*known, *(key for lesson in found for key in _keys(lesson))})
        structural = [
            *rejected_calls(notes, used),
            *procedures(notes, _names_taken(project), str(project.root)),
            *read_every_time(notes, project.root),
        ]
        return [*found, *(lesson for lesson in structural if lesson.key not in known)][:room]

    def _said_everywhere(self, personal: Project, room: int) -> list[StagedLesson]:
        """Return the lessons of what a person says in several projects."""
        known = set(personal.staged())
        remarks: list[Remark] = []
        for name, folder in all_folders().items():
            remarks += remarks_in(Notes(folder), known, name)
        if len({remark.place for remark in remarks}) < 2:
            return []
        return self._asked(Notes(personal.folder), remarks, room, is_personal=True)

    def _asked(self, notes: Notes, remarks: Sequence[Remark], room: int, *, is_personal: bool) -> list[StagedLesson]:
        """Return the lessons that the model finds in remarks, if some of them are new to it."""
        keys = {remark.key for remark in remarks}
        if self.client is None or self.outage is not None or keys <= notes.asked or self.budget.spent():
            return []
        self.budget.note_call()
        try:
            found = list(ask_for_lessons(self.client, remarks, self.redactor, is_personal=is_personal))
        except LLMCallError as error:
            self.outage = error
            return []
        except UnusableAnswerError:
            found = []
        notes.note_asked(keys - {key for lesson in found[room:] for key in _keys(lesson)})
        return found[:room]


def _keys(lesson: StagedLesson) -> list[str]:
    return [lesson.key, *lesson.also]


def _subjects_of(notes: Notes, project: Project, keys: set[str]) -> set[str]:
    """Return what was rejected in remarks with some keys: there is a lesson about it already."""
    found = set()
    for note in notes:
        for rejection in note.rejections:
            if rejection.why and Remark(note, "", rejection.why, project.name).key in keys:
                found.add(rejection.subject)
    return found


def _names_taken(project: Project) -> list[str]:
    """Return the names of the skill folders in the repository, and of those that were proposed for it."""
    folders = [project.root / folder for folder in SKILL_FOLDERS if (project.root / folder).is_dir()]
    return [name for folder in folders for name in os.listdir(folder)]
