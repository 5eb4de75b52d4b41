"""`/` and `/runs` of the service: each book at a glance, and the batches that learn from feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, final

import sqlalchemy as sa
from starlette.responses import RedirectResponse, Response

from ace_server import tables
from ace_server.batches import BatchNotFailedError, retry_batch
from ace_server.learning import steps_from_json
from ace_server.pages.book_pages import (
    BookOverview,
    Refusal,
    changes_of_run,
    overview_of,
    preparing,
    refusals_of,
    samples_of,
    samples_response,
)
from ace_server.pages.exporting import iso_time, table_response, wants_file
from ace_server.pages.service_site import RefusedError, ServiceSite

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from ace.runners import RunSummary
    from ace.skillbook import HistoryEntry, SkillChange
    from ace_server.pages.sessions import Visitor

__all__ = ["BookFacts", "RunPages"]

_BATCH: Final = tables.batch
_MOST: Final = 200
_STATES: Final = ("queued", "running", "learned", "failed")
_BUSY: Final = ("queued", "running")
_SHOWN_CHANGES: Final = 5
_SHOWN_TEXTS: Final = 50
"""Of more samples, the questions are not shown: each has a row in the audit log."""

Row = sa.Row[Any]
_COLUMNS: Final = (
    "run", "book", "state", "samples", "learned", "failed", "accepted", "refused", "model_calls", "tokens", "cost_usd",
    "attempts", "queued", "started", "ended", "release", "problem",
)  # fmt: skip


def _cells(row: Row) -> Sequence[str | int | float | None]:
    counts = (row.samples, row.learned, row.failed, row.accepted, row.refused, row.model_calls, row.tokens, row.cost)
    times = (iso_time(row.at), iso_time(row.started_at), iso_time(row.ended_at))
    return (row.id, row.book, row.state, *counts, row.attempts, *times, row.release, row.problem)


@dataclass(frozen=True, slots=True)
class BookFacts:
    """What the service knows about a book besides its skills."""

    overview: BookOverview
    published: Row | None
    """The release that users get."""
    candidates: int
    """How many releases wait to be published."""
    waiting: int
    """The number of feedback items that will be learned from."""
    reviews: int
    """The number of open reviews."""
    last_batch: Row | None
    cost: float | None
    """What answers have cost since midnight (UTC), in USD, as far as prices are known; None if no price is."""
    requests: int
    """How many answers were given since midnight (UTC)."""

    @property
    def waits(self) -> bool:
        """Whether a person has something to decide."""
        return bool(self.candidates or self.reviews)

    @property
    def recent(self) -> Sequence[HistoryEntry]:
        """The newest versions that changed something."""
        return self.overview.recent[:_SHOWN_CHANGES]


@final
class RunPages:
    """The routes of the first page and of the runs.

    Args:
        site: The service.
    """

    def __init__(self, site: ServiceSite) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            self._site.get("/", self.home, "read"),
            self._site.get("/runs", self.runs, "read"),
            self._site.get("/runs/{run}", self.run, "read"),
            self._site.post("/runs/{run}/retry", self.retry, "review"),
        ]

    def home(self, request: Request, visitor: Visitor) -> Response:
        """Show each book at a glance."""
        facts = [found for name in self._site.books(visitor) if (found := self._facts(name)) is not None]
        said = {
            name: self._site.said(request, visitor, name, samples_of(fact.recent))
            for fact in facts
            for name in [fact.overview.book.name]
        }
        page = self._site.page(request, visitor, "service_home.html", facts=facts, said=said)
        return preparing(page, [fact.overview.book.reader for fact in facts])

    def runs(self, request: Request, visitor: Visitor) -> Response:
        """List the batches of feedback, newest first."""
        names = self._site.books(visitor)
        book, state = request.query_params.get("book", ""), request.query_params.get("state", "")
        query = sa.select(_BATCH).where(_BATCH.c.book.in_([book] if book else names))
        if state:
            query = query.where(_BATCH.c.state == state)
        query = query.order_by(_BATCH.c.id.desc()).limit(_MOST)
        if wants_file(request):
            return table_response(request, "runs", _COLUMNS, map(_cells, self._site.rows(query.limit(None))))
        rows = self._site.rows(query)
        is_busy = any(row.state in ("queued", "running") for row in rows)
        return self._site.page(
            request,
            visitor,
            "service_runs.html",
            rows=rows,
            is_busy=is_busy,
            names=names,
            book_name=book,
            state=state,
            states=_STATES,
        )

    def run(self, request: Request, visitor: Visitor) -> Response:
        """Show one batch, with the samples that the skillbook has recorded of it."""
        row = self._site.one(_BATCH, request.path_params["run"], visitor)
        run, changes, refusals = self._recorded(row)
        if run is not None and wants_file(request):
            return samples_response(request, run)
        problems = self._problems(row)
        # Not while the page reloads itself every two seconds: each time that texts are read is noted in the audit log.
        samples = () if run is None else (sample.key.sample for sample in run.samples)
        names = [] if row.state in _BUSY else [*(feedback for feedback, _ in problems), *samples]
        return self._site.page(
            request,
            visitor,
            "service_run.html",
            row=row,
            run=run,
            changes=changes,
            refusals=refusals,
            said=self._site.said(request, visitor, row.book, names[:_SHOWN_TEXTS]),
            problems=problems,
            steps=steps_from_json(row.steps),
            release=self._release(row),
        )

    def retry(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Queue a failed batch again, so that its feedback is learned from."""
        row = self._site.one(_BATCH, request.path_params["run"], visitor)
        try:
            self._site.change(
                request, visitor, "batch.retry", row.id, lambda connection: retry_batch(connection, row.id)
            )
        except BatchNotFailedError as error:
            raise RefusedError(409, f"{error}.") from None
        return RedirectResponse("/runs", 303)

    def _recorded(self, row: Row) -> tuple[RunSummary | None, Mapping[int, Sequence[SkillChange]], Sequence[Refusal]]:
        """Return what the skillbook has recorded of a batch: its samples, their changes, and what was omitted."""
        reader = self._site.reader(row.book)
        if reader is None:
            return None, {}, ()
        with reader.reading() as opened:
            run = next((run for run in opened.runs() if run.run_id == row.id), None)
            if run is None:
                return None, {}, ()
            return run, changes_of_run(opened, row.id), refusals_of(opened, row.id)

    def _problems(self, row: Row) -> list[tuple[str, str]]:
        """Return the feedback of a batch that has failed, each with the reason."""
        feedback = tables.feedback
        query = sa.select(feedback.c.id, feedback.c.problem).where(feedback.c.batch == row.id)
        rows = self._site.rows(query.where(feedback.c.problem.is_not(None)).order_by(feedback.c.id))
        return [(failure.id, failure.problem) for failure in rows]

    def _release(self, row: Row) -> Row | None:
        release = tables.release
        return next(iter(self._site.rows(sa.select(release).where(release.c.id == row.release))), None)

    def _facts(self, name: str) -> BookFacts | None:
        reader = self._site.reader(name)
        if reader is None:
            return None
        release, feedback, review, request = tables.release, tables.feedback, tables.review, tables.request
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        spent = sa.select(
            sa.func.coalesce(sa.func.sum(request.c.cost), 0.0).label("cost"),
            sa.func.count(request.c.cost).label("priced"),
            sa.func.count().label("requests"),
        )
        published = self._site.rows(sa.select(release).where(release.c.book == name, release.c.state == "published"))
        batches = self._site.rows(sa.select(_BATCH).where(_BATCH.c.book == name).order_by(_BATCH.c.id.desc()).limit(1))
        today: Row = self._site.rows(spent.where(request.c.book == name, request.c.at >= midnight))[0]
        with reader.reading() as opened:
            overview = overview_of(opened)
        return BookFacts(
            overview,
            published=next(iter(published), None),
            candidates=self._count(release, release.c.book == name, release.c.state == "candidate"),
            waiting=self._count(feedback, feedback.c.book == name, feedback.c.state == "new"),
            reviews=self._count(review, review.c.book == name, review.c.state == "open"),
            last_batch=next(iter(batches), None),
            cost=today.cost if today.priced or not today.requests else None,
            requests=today.requests,
        )

    def _count(self, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
        rows: Sequence[Row] = self._site.rows(sa.select(sa.func.count()).select_from(table).where(*conditions))
        return int(rows[0][0])
