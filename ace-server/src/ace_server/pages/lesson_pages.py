"""`/review/lessons`: what is pending in the skillbooks that plugins keep for projects on the machine of the service.

`ace review` shows the same lessons in a terminal. They come through the hook `ace_skillbooks` only.
"""

from __future__ import annotations

import difflib
import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from starlette.responses import RedirectResponse, Response

from ace.plugins import FileChange, KeptSkillbook, kept_skillbooks
from ace.skillbook import Skillbook, SkillbookError, shown_location
from ace_server.pages.book_pages import NotFoundError
from ace_server.pages.rendering import address
from ace_server.pages.service_site import RefusedError, ServiceSite

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from ace.skill import Skill
    from ace_server.pages.sessions import Visitor

__all__ = ["LessonPages"]

_CONTEXT_LINES: Final = 2


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A pending skill, and where it is kept."""

    kept: KeptSkillbook
    skill: Skill

    @property
    def book(self) -> str:
        """The name of the skillbook in addresses."""
        return _name(self.kept)

    @property
    def path(self) -> str:
        """The path of its page."""
        return address("review", "lessons", self.book, self.skill.id)

    @property
    def target(self) -> str:
        """Its name in the audit log."""
        return f"{shown_location(self.kept.location)}#{self.skill.id}".replace(" ", "%20")


@final
class LessonPages:
    """The routes of the lessons of projects.

    Args:
        site: The service.
    """

    def __init__(self, site: ServiceSite) -> None:
        self._site = site
        self._deciding = threading.Lock()

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            self._site.get("/review/lessons", self.show_all, "review"),
            self._site.get("/review/lessons/{kept}/{skill}", self.show, "review"),
            self._site.post("/review/lessons/{kept}/{skill}", self.decide, "review"),
        ]

    def show_all(self, request: Request, visitor: Visitor) -> Response:
        """Show the pending lessons, and where none can be shown."""
        lessons, problems = self._waiting(visitor)
        folders = self._site.service.settings.projects
        return self._site.page(request, visitor, "lessons.html", lessons=lessons, problems=problems, folders=folders)

    def show(self, request: Request, visitor: Visitor) -> Response:
        """Show a lesson: what proves it, and what exactly accepting it changes."""
        lesson = self._lesson(request, visitor)
        self._site.record(request, visitor, "text.read", lesson.target)
        problem, changes = "", []
        try:
            changes = [(str(change.path), _difference(change)) for change in lesson.kept.preview(lesson.skill.id)]
        except (OSError, ValueError) as error:
            problem = str(error)
        waiting, _ = self._waiting(visitor)
        paths = [other.path for other in waiting]
        place = paths.index(lesson.path) if lesson.path in paths else 0
        return self._site.page(
            request,
            visitor,
            "lesson.html",
            lesson=lesson,
            changes=changes,
            problem=problem,
            left=len(paths),
            before=paths[place - 1] if place else None,
            after=paths[place + 1] if place + 1 < len(paths) else None,
        )

    def decide(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Accept or reject a lesson, write the files that agents read, and show the next one."""
        decision, because = form.get("decision", ""), form.get("because", "").strip()
        if decision not in ("accept", "reject"):
            raise RefusedError(400, "The decision must be accept or reject.")
        if decision == "reject" and not because:
            raise RefusedError(400, "Rejecting a lesson needs a reason, which later reflections are shown.")
        with self._deciding:  # two decisions at once would write the same files
            lesson = self._lesson(request, visitor)
            waiting, _ = self._waiting(visitor)
            _decide(lesson, because if decision == "reject" else "", author=visitor.name)
            self._site.record(request, visitor, f"lesson.{decision}", lesson.target)
            try:
                lesson.kept.publish()
            except (OSError, ValueError) as error:
                raise RefusedError(409, f"The decision is saved, but agents cannot be shown it yet: {error}") from error
        paths = [other.path for other in waiting]
        later = paths[paths.index(lesson.path) + 1 :] if lesson.path in paths else []
        return RedirectResponse(later[0] if later else "/review/lessons", 303)

    def _kept(self, visitor: Visitor) -> list[KeptSkillbook]:
        """Return the skillbooks of the folders, each once: that of a person is the same in all of them."""
        if visitor.book is not None:
            raise RefusedError(403, "Your key is for one book, to which the lessons of projects do not belong.")
        folders = [Path(folder) for folder in self._site.service.settings.projects]
        found = [kept for folder in folders if folder.is_dir() for kept in kept_skillbooks(folder.resolve())]
        return list({kept.location: kept for kept in found}.values())

    def _waiting(self, visitor: Visitor) -> tuple[Sequence[_Lesson], Sequence[str]]:
        """Return the pending lessons, and why some may be missing."""
        lessons: list[_Lesson] = []
        folders = self._site.service.settings.projects
        problems = [f"{folder} is not a folder on this machine." for folder in folders if not Path(folder).is_dir()]
        for kept in self._kept(visitor):
            try:
                with Skillbook.open(kept.location) as book:
                    lessons += [_Lesson(kept, skill) for skill in book.pending_skills()]
            except (SkillbookError, OSError) as error:
                problems.append(f"{shown_location(kept.location)} cannot be read: {error}")
        return lessons, problems

    def _lesson(self, request: Request, visitor: Visitor) -> _Lesson:
        name, id = request.path_params["kept"], request.path_params["skill"]
        for kept in self._kept(visitor):
            if _name(kept) == name:
                with Skillbook.open(kept.location) as book:
                    skill = book.get_skill(id)
                if skill is not None and skill.is_pending:
                    return _Lesson(kept, skill)
                if skill is not None:
                    raise RefusedError(409, "This lesson was decided already. Its folder's `ace undo` undoes that.")
        raise NotFoundError(f"no such lesson: {id!r}")


def _name(kept: KeptSkillbook) -> str:
    return hashlib.sha256(kept.location.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _decide(lesson: _Lesson, because: str, *, author: str) -> None:
    """Accept a lesson, or reject it if there is a reason."""
    with Skillbook.open(lesson.kept.location) as book:
        with book.deferred_commits(author=author):
            if because:
                book.reject_skill(lesson.skill.id, because)
            else:
                book.accept_skill(lesson.skill.id)
        if book.store is None:
            book.save_to_file(lesson.kept.location, merge=True)


def _difference(change: FileChange) -> Sequence[tuple[str, str]]:
    """Return the changed lines of a file with some around them, each with what happens to it."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    before, after = change.before.splitlines(), change.after.splitlines()
    lines = [*difflib.unified_diff(before, after, n=_CONTEXT_LINES, lineterm="")][2:]
    return [(kinds.get(line[0], "same"), line[1:] if line[0] != "@" else line) for line in lines]
