"""Accepted lessons: how often sessions have used them since, and which should be removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace.skill import Skill
from ace.skillbook import Skillbook
from ace_sleep.lessons import digest_of
from ace_sleep.mining import error_line
from ace_sleep.notes import Notes, SessionNotes
from ace_sleep.projects import LessonFacts, Project, StagedLesson
from ace_sleep.publishing import MOST_FOLDERS, MOST_LINES, published
from ace_sleep.repository import NoCopyError, Repository, copy_at, find_repository
from ace_sleep.sandbox import Limits, RefusedError, Sandbox, SandboxError
from ace_sleep.skills import SCRIPT
from ace_sleep.workspace import remove_tree

__all__ = ["LiveLesson", "lessons_to_remove", "live_lessons"]

_TIMES: Final = 2
_NOT_FOUND: Final = 127
_PENDING: Final = "proposed for removal; accept it, and agents are not shown the lesson anymore"


@dataclass(frozen=True, slots=True)
class LiveLesson:
    """A lesson that agents are shown."""

    id: str
    text: str
    lands: str
    """`block` or `folder`."""
    since: str
    """When it was written: ISO 8601, UTC."""
    uses: int
    """How many sessions since then ran its command or opened its skill."""
    failures: int
    """How many sessions since then made the mistake again, or failed with its command."""


def live_lessons(project: Project) -> list[LiveLesson]:
    """Return the lessons of a project that agents are shown.

    Args:
        project: Whose lessons to look at.
    """
    facts, notes = project.facts(), list(Notes(project.folder))
    with Skillbook.open(project.skillbook) as book:
        skills = [(book.get_skill(id), since) for id, since in published(project).since.items()]
    return [_live(skill, facts.get(skill.id, LessonFacts()), since, notes) for skill, since in skills if skill]


def _live(skill: Skill, facts: LessonFacts, since: str, notes: list[SessionNotes]) -> LiveLesson:
    later = [note for note in notes if note.began > since]
    uses = sum(_uses(note, skill, facts) for note in later)
    failures = sum(bool({facts.command, facts.mistake, *facts.steps} & {*note.failed}) for note in later)
    return LiveLesson(skill.id, skill.content, facts.lands, since, uses, failures)


def _uses(note: SessionNotes, skill: Skill, facts: LessonFacts) -> bool:
    if facts.lands == "folder":
        opened = any(f"skills/{skill.section}/" in path for path in note.read)
        return opened or any(f"skills/{skill.section}/{SCRIPT}" in command for command in note.worked)
    return bool(facts.command) and facts.command in note.worked


def lessons_to_remove(project: Project, sandbox: Sandbox, scratch: Path, limits: Limits) -> Iterator[StagedLesson]:
    """Yield proposals to remove lessons: those that fail now, and the least used one if there are too many.

    Args:
        project: Whose lessons to look at.
        sandbox: Where commands run.
        scratch: A folder for copies of the repository.
        limits: What a command may use.
    """
    live, facts, known = live_lessons(project), project.facts(), project.staged()
    repository = find_repository(str(project.root))
    for lesson in live:
        command = facts.get(lesson.id, LessonFacts()).command
        if not command or repository is None or _key(lesson.id) in known:
            continue
        if error := _error_now(command, repository, sandbox, scratch, limits):
            yield _removal(lesson, f"`{command}` fails now", f'  {command}   "{error}"   {_TIMES} of {_TIMES} runs')
    for lands, most in (("block", MOST_LINES), ("folder", MOST_FOLDERS)):
        there = [lesson for lesson in live if lesson.lands == lands]
        if len(there) >= most:
            least = min(there, key=lambda lesson: (lesson.uses, lesson.since))
            if _key(least.id) not in known:
                yield _removal(
                    least, f"{most} is the most, and it is the least used", f"  used in {least.uses} sessions"
                )


def _error_now(command: str, repository: Repository, sandbox: Sandbox, scratch: Path, limits: Limits) -> str:
    """Return how a command fails in the current commit; empty if it works, sometimes works, or cannot be run here."""
    error = ""
    for number in range(_TIMES):
        folder = scratch / f"now-{number}"
        try:
            place = copy_at(repository, repository.head(), folder, shows_copy_as_root=sandbox.shows_copy_as_root)
            outcome = sandbox.run(command, place, limits=limits)
        except (NoCopyError, RefusedError, SandboxError):
            return ""
        finally:
            if folder.exists():
                remove_tree(folder)
        if outcome.worked or outcome.limit or outcome.exit_code == _NOT_FOUND or outcome.missed_network:
            return ""
        error = error_line(outcome.output) or f"exit {outcome.exit_code}"
    return error


def _key(id: str) -> str:
    return digest_of(f"X\n{id}")


def _removal(lesson: LiveLesson, why: str, evidence: str) -> StagedLesson:
    used = f"  since {lesson.since[:10]}: used in {lesson.uses} sessions"
    return StagedLesson(
        key=_key(lesson.id),
        section="removals",
        text=f"Remove {lesson.id}, because {why}. It says: {' '.join(lesson.text.split())}",
        evidence=f"Checked in the current commit\n{evidence}\n{used}",
        sessions=[f"ace sleep {lesson.id}"],
        task="",
        error="",
        pending=_PENDING,
        kind="none",
        about=LessonFacts(removes=lesson.id),
    )
