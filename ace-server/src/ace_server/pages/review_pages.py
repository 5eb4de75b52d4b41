"""`/review`: the open reviews, one at a time, and the export of the decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import sqlalchemy as sa
from starlette.responses import RedirectResponse, Response

from ace.integrations import counted
from ace.skillbook import SkillbookDiff, compared_skills
from ace_server import reviews, tables
from ace_server.candidates import changes_with_origins, withdraw
from ace_server.pages.book_pages import NotFoundError
from ace_server.pages.rendering import address
from ace_server.pages.service_site import RefusedError, ServiceSite

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from ace_server.candidates import Withdrawn
    from ace_server.pages.sessions import Visitor
    from ace_server.reviews import ReviewDecision

__all__ = ["ReviewItem", "ReviewPages", "release_changes"]

_REVIEW: Final = tables.review
_IDS_IN_A_ROW: Final = 200
"""How many reviews a row of the audit log names."""
_DECISIONS: Final[Mapping[str, ReviewDecision]] = {"accept": "accept", "edit": "edit", "reject": "reject"}
_EXPORTED_AT_ONCE: Final = 200

Row = sa.Row[Any]


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """One item, with the texts that it is about."""

    row: Row
    question: str | None
    context: str | None
    answer: str | None
    skill_ids: Sequence[str]
    thumb: str | None
    score: float | None
    comment: str | None
    correction: str | None


@final
class ReviewPages:
    """The routes of the review.

    Args:
        site: The service.
    """

    def __init__(self, site: ServiceSite) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            self._site.get("/review", self.show, "review"),
            self._site.get("/review/decisions.jsonl", self.export, "review"),
            self._site.get("/review/{review}", self.show, "review"),
            self._site.post("/review/{review}", self.decide, "review"),
        ]

    def show(self, request: Request, visitor: Visitor) -> Response:
        """Show the oldest open item, or the one in the address."""
        wanted = request.path_params.get("review")
        waiting = self._waiting(visitor)
        if wanted is None:
            wanted = waiting[0] if waiting else None
        if wanted is None:
            return self._site.page(
                request, visitor, "review.html", item=None, release=None, left=0, before=None, after=None
            )
        row = self._site.one(_REVIEW, wanted, visitor)
        if row.state != "open":
            return self._decided(request, visitor, row, status=200)
        item = self._item(row)
        self._site.record(request, visitor, "text.read", row.id)
        place = waiting.index(row.id) if row.id in waiting else 0
        release, changes, origins = None, None, {}
        if row.release is not None:
            release = self._site.one(tables.release, row.release, visitor)
            changes = release_changes(self._site, row.book, release.version)
        if changes is not None:
            service = self._site.service
            found = changes_with_origins(service.database, service.seal, changes)
            origins = {change.skill.id: change.origins for change in found}
        return self._site.page(
            request,
            visitor,
            "review.html",
            item=item,
            release=release,
            changes=changes,
            origins=origins,
            left=len(waiting),
            before=waiting[place - 1] if place else None,
            after=waiting[place + 1] if place + 1 < len(waiting) else None,
        )

    def decide(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Decide an item, and show the next one."""
        row = self._site.one(_REVIEW, request.path_params["review"], visitor)
        decision = _DECISIONS.get(form.get("decision", ""))
        if decision is None:
            raise RefusedError(400, "The decision must be accept, edit or reject.")
        texts = {name: form.get(name, "").strip() or None for name in ("content", "ground_truth", "note")}
        if decision != "edit":
            texts = {**texts, "content": None, "ground_truth": None}
        elif not texts["content"] and not texts["ground_truth"]:
            raise RefusedError(400, "An edited item needs a remark or the right answer. Go back and write one.")

        withdrawn = self._release_decided(row, visitor, decision, form) if row.state == "open" else None

        def make(connection: sa.Connection) -> None:
            reviews.decide(
                connection, self._site.service.seal, row.id, decision, by=visitor.id, withdrawn=withdrawn, **texts
            )

        waiting = self._waiting(visitor)
        try:
            self._site.change(request, visitor, "review.decide", row.id, make)
        except reviews.AlreadyDecidedError:
            return self._decided(request, visitor, self._site.one(_REVIEW, row.id, visitor), status=409)
        except reviews.UnknownReviewError as error:  # deleted since it was read
            raise NotFoundError(str(error)) from None
        except reviews.ReleaseNotEditableError:
            raise RefusedError(400, "A release can be accepted or rejected, but not edited.") from None
        if row.release is not None:
            self._site.state(request).inference.wake()
        following = next((id for id in waiting if id > row.id), None)
        return RedirectResponse(address("review", following) if following else "/review", 303)

    def _release_decided(
        self, row: Row, visitor: Visitor, decision: ReviewDecision, form: Mapping[str, str]
    ) -> Withdrawn | None:
        """Prepare the decision about a release: check that nothing is removed unasked, or withdraw what is rejected."""
        if row.release is None:
            return None
        release = self._site.one(tables.release, row.release, visitor)
        if decision == "reject":
            return withdraw(self._site.service.database, self._site.service.open_book, release, by=visitor.id)
        if decision == "accept" and not form.get("confirm_removals"):
            changes = release_changes(self._site, row.book, release.version)
            if changes is not None and changes.removed:
                removed = counted(len(changes.removed), "skill")
                raise RefusedError(409, f"Publishing it would remove {removed} for users. Go back and confirm that.")
        return None

    def export(self, request: Request, visitor: Visitor) -> Response:
        """Return all decisions with their texts, one JSON object per line."""
        query = sa.select(_REVIEW).where(_REVIEW.c.state != "open").order_by(_REVIEW.c.id)
        rows = [row for row in self._site.rows(query) if visitor.is_for(row.book)]
        for start in range(0, len(rows), _IDS_IN_A_ROW):
            ids = [row.id for row in rows[start : start + _IDS_IN_A_ROW]]
            self._site.record(request, visitor, "text.read", " ".join(ids))
        names = self._site.names()
        text = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in self._exported(rows, names))
        headers = {"Content-Disposition": 'attachment; filename="decisions.jsonl"'}
        return Response(text.encode("utf-8", "backslashreplace"), media_type="application/jsonl", headers=headers)

    def _exported(self, rows: Sequence[Row], names: Mapping[str, str]) -> Iterator[dict[str, object]]:
        for row in rows:
            item = self._item(row)
            yield {
                "id": row.id,
                "book": row.book,
                "kind": row.kind,
                "reason": row.reason,
                "decision": row.state,
                "decided_at": row.decided_at,
                "decided_by": names.get(row.decided_by, row.decided_by),
                "question": item.question,
                "context": item.context,
                "answer": item.answer,
                "comment": item.comment,
                "correction": item.correction,
                **{name: self._opened(row, name) for name in ("content", "ground_truth", "note")},
                "release": row.release,
            }

    def _waiting(self, visitor: Visitor) -> list[str]:
        query = sa.select(_REVIEW.c.id, _REVIEW.c.book).where(_REVIEW.c.state == "open").order_by(_REVIEW.c.id)
        return [row.id for row in self._site.rows(query) if visitor.is_for(row.book)]

    def _decided(self, request: Request, visitor: Visitor, row: Row, *, status: int) -> Response:
        names = self._site.names()
        left = len(self._waiting(visitor))
        by = names.get(row.decided_by, row.decided_by)
        return self._site.page(request, visitor, "review_decided.html", status=status, row=row, by=by, left=left)

    def _item(self, row: Row) -> ReviewItem:
        request, feedback = tables.request, tables.feedback
        asked = self._first(sa.select(request).where(request.c.id == row.request)) if row.request else None
        said = self._first(sa.select(feedback).where(feedback.c.id == row.feedback)) if row.feedback else None
        return ReviewItem(
            row,
            question=self._opened(asked, "question"),
            context=self._opened(asked, "context"),
            answer=self._opened(asked, "answer"),
            skill_ids=() if asked is None else asked.skill_ids.split(),
            thumb=None if said is None else said.thumb,
            score=None if said is None else said.score,
            comment=self._opened(said, "comment"),
            correction=self._opened(said, "correction"),
        )

    def _first(self, query: sa.Select[Any]) -> Row | None:
        return next(iter(self._site.rows(query)), None)

    def _opened(self, row: Row | None, name: str) -> str | None:
        sealed = None if row is None else row._mapping[name]
        return None if sealed is None else self._site.service.seal.open(sealed)


def release_changes(site: ServiceSite, book: str, version: int) -> SkillbookDiff | None:
    """Return how a version differs from the one that is published; None if the history cannot be read.

    Args:
        site: The service.
        book: The name of the book.
    """
    release = tables.release
    query = sa.select(release.c.version).where(release.c.book == book, release.c.state == "published")
    published = next((row.version for row in site.rows(query)), 0)
    reader = site.reader(book)
    if reader is None:
        return None
    with reader.reading() as opened:
        if opened.timeline is None:
            return None
        before, after = (opened.timeline.skills_at(number) for number in (published, version))
    return compared_skills(before, after)
