"""`/releases` and `/experiments`: what users get, publishing and rolling back, and comparisons of releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from starlette.responses import RedirectResponse, Response

from ace.skillbook import compared_skills
from ace_server import experiments, releases, tables
from ace_server.database import new_id, now
from ace_server.experiments import Arm, arms_from_json, arms_to_json
from ace_server.pages.book_pages import NotFoundError, without_vectors
from ace_server.pages.exporting import iso_time, table_response, wants_file
from ace_server.pages.rendering import address, step_chart
from ace_server.pages.review_pages import release_changes
from ace_server.pages.service_site import RefusedError, ServiceSite

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from ace_server.api.schemas import ArmReport
    from ace_server.pages.sessions import Visitor

__all__ = ["ReleasePages"]

_RELEASE: Final = tables.release
_EXPERIMENT: Final = tables.experiment
_MOST: Final = 200
"""The number of rows that a list shows."""

Row = sa.Row[Any]


@final
class ReleasePages:
    """The routes of releases and experiments.

    Args:
        site: The service.
    """

    def __init__(self, site: ServiceSite) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        site = self._site
        return [
            site.get("/releases", self.releases, "read"),
            site.get("/releases/{release}/publish", self.confirm, "review"),
            site.post("/releases/{release}/publish", self.publish, "review"),
            site.get("/books/{book}/versions/{version:int}/restore", self.confirm_restoring, "review"),
            site.post("/books/{book}/versions/{version:int}/restore", self.restore, "review"),
            site.get("/experiments", self.experiments, "admin"),
            site.post("/experiments", self.start, "admin"),
            site.post("/experiments/{experiment}/stop", self.stop, "admin"),
        ]

    def releases(self, request: Request, visitor: Visitor) -> Response:
        """List the releases of each book, newest first."""
        books = [
            (name, rows, _score_chart(rows))
            for name in self._site.books(visitor)
            if (rows := self._of_book(name)) or not request.query_params.get("book")
        ]
        names = self._site.names()
        if wants_file(request):
            cells = [_release_cells(row, names) for _, rows, _ in books for row in rows]
            return table_response(request, "releases", _RELEASE_COLUMNS, cells)
        has_releases = any(rows for _, rows, _ in books)
        return self._site.page(request, visitor, "releases.html", books=books, names=names, has_releases=has_releases)

    def confirm(self, request: Request, visitor: Visitor) -> Response:
        """Show what publishing a release would change, and ask."""
        row = self._site.one(_RELEASE, request.path_params["release"], visitor)
        published = next((release for release in self._of_book(row.book) if release.state == "published"), None)
        changes = release_changes(self._site, row.book, row.version)
        return self._site.page(request, visitor, "release_confirm.html", row=row, published=published, changes=changes)

    def publish(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Publish a release, also one that was published before."""
        row = self._site.one(_RELEASE, request.path_params["release"], visitor)
        is_new = self._site.change(
            request,
            visitor,
            "release.publish",
            row.id,
            lambda connection: releases.publish(connection, row.id, by=visitor.id),
        )
        if not is_new:
            raise RefusedError(409, "This release is published already.")
        self._site.state(request).inference.wake()
        return RedirectResponse("/releases", 303)

    def confirm_restoring(self, request: Request, visitor: Visitor) -> Response:
        """Show what restoring a version of the skillbook would change, and ask."""
        name, version = request.path_params["book"], request.path_params["version"]
        reader = self._site.reader(name)
        if reader is None:
            raise NotFoundError(f"no such book: {name!r}")
        with reader.reading() as opened:
            newest, wanted = opened.newest, opened.at(version)
            if wanted is None:
                raise NotFoundError(f"the skillbook has no version {version}")
            is_newest = wanted.version == newest.version
            changes = None if is_newest else compared_skills(*map(without_vectors, (newest.skills, wanted.skills)))
        return self._site.page(
            request,
            visitor,
            "restore_confirm.html",
            name=name,
            version=version,
            newest=newest.version,
            is_newest=is_newest,
            changes=release_changes(self._site, name, version) if is_newest else changes,
        )

    def restore(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Publish a version of the skillbook at once; one that is not the newest is restored as a new version."""
        name, version = request.path_params["book"], request.path_params["version"]
        if self._site.reader(name) is None:
            raise NotFoundError(f"no such book: {name!r}")
        with self._site.service.open_book(name) as book:
            is_newest = version == book.version
            restored = version if is_newest else book.rollback(version, author=visitor.name)
        reason = "published by hand" if is_newest else f"restores version {version}"

        def make(connection: sa.Connection) -> bool:
            release = releases.add_release(connection, name, restored, by=visitor.id, reason=reason)
            return releases.publish(connection, release, by=visitor.id)

        what = "book.publish" if is_newest else "book.restore"
        if not self._site.change(request, visitor, what, f"{name} {version}", make):
            raise RefusedError(409, "This version is published already.")
        self._site.state(request).inference.wake()
        return RedirectResponse(address("books", name, "versions", str(restored)), 303)

    def experiments(self, request: Request, visitor: Visitor) -> Response:
        """List the experiments, newest first, and offer to start one."""
        rows = self._site.rows(sa.select(_EXPERIMENT).order_by(_EXPERIMENT.c.id.desc()).limit(_MOST))
        database = self._site.service.database
        shown = [
            (row, experiments.report(database, row.id, arms_from_json(row.arms)))
            for row in rows
            if visitor.is_for(row.book)
        ]
        if wants_file(request):
            cells = [_arm_cells(row, arm) for row, arms in shown for arm in arms]
            return table_response(request, "experiments", _ARM_COLUMNS, cells)
        running = {row.book for row, _ in shown if row.state == "running"}
        books = [(name, self._of_book(name)) for name in self._site.books(visitor) if name not in running]
        releases = self._site.rows(sa.select(_RELEASE.c.id, _RELEASE.c.version))
        return self._site.page(
            request,
            visitor,
            "experiments.html",
            shown=shown,
            books=[(name, found) for name, found in books if len(found) > 1],
            versions={row.id: row.version for row in releases},
        )

    def start(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Answer the requests of a book with two releases."""
        wanted = [form.get("first", ""), form.get("second", "")]
        found = [self._site.one(_RELEASE, id, visitor) for id in wanted]
        book = found[0].book
        if wanted[0] == wanted[1] or found[1].book != book:
            raise RefusedError(400, "An experiment needs two different releases of one book.")
        share = _small_number(form.get("share", "50"))
        if share is None or not 1 <= share <= 99:
            raise RefusedError(400, "The share must be a whole number of per cent from 1 to 99.")
        arms = (Arm(wanted[0], 100 - share), Arm(wanted[1], share))
        identifier = new_id("exp")
        values = {
            "id": identifier,
            "at": now(),
            "book": book,
            "by": visitor.id,
            "arms": arms_to_json(arms),
            "state": "running",
        }
        try:
            self._site.change(
                request,
                visitor,
                "experiment.start",
                identifier,
                lambda connection: connection.execute(sa.insert(_EXPERIMENT).values(values)),
            )
        except IntegrityError:
            raise RefusedError(409, f"The book {book} has a running experiment; stop it first.") from None
        self._site.state(request).inference.wake()
        return RedirectResponse("/experiments", 303)

    def stop(self, request: Request, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Stop an experiment, and publish the release of the arm that won, if one is chosen."""
        row = self._site.one(_EXPERIMENT, request.path_params["experiment"], visitor)
        arms = arms_from_json(row.arms)
        chosen = _small_number(form.get("winner", ""))
        winner = None if chosen is None or chosen >= len(arms) else chosen

        def make(connection: sa.Connection) -> bool:
            return experiments.stop(connection, row.id, winner, arms, by=visitor.id)

        if not self._site.change(request, visitor, "experiment.stop", row.id, make):
            raise RefusedError(409, "This experiment was stopped already.")
        self._site.state(request).inference.wake()
        return RedirectResponse("/experiments", 303)

    def _of_book(self, book: str) -> Sequence[Row]:
        return self._site.rows(
            sa.select(_RELEASE).where(_RELEASE.c.book == book).order_by(_RELEASE.c.id.desc()).limit(_MOST)
        )


def _small_number(text: str) -> int | None:
    """Return a number of up to three digits, or None: what a form sends may be anything, and of any length."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else None


_RELEASE_COLUMNS: Final = (
    "release", "book", "version", "state", "score", "reason", "run", "made_by", "made", "published_by", "published",
)  # fmt: skip
_ARM_COLUMNS: Final = (
    "experiment", "book", "state", "started", "release", "weight", "requests", "feedback_rate", "mean_score",
    "corrections", "tokens", "cost_usd", "seconds",
)  # fmt: skip


def _release_cells(row: Row, names: Mapping[str, str]) -> Sequence[str | int | float | None]:
    made = (names.get(row.by, row.by), iso_time(row.at))
    published = (names.get(row.published_by, row.published_by), iso_time(row.published_at))
    return (row.id, row.book, row.version, row.state, row.score, row.reason, row.batch, *made, *published)


def _arm_cells(row: Row, arm: ArmReport) -> Sequence[str | int | float | None]:
    figures = (arm.requests, arm.feedback_rate, arm.mean_score, arm.corrections, arm.tokens, arm.cost, arm.seconds)
    return (row.id, row.book, row.state, iso_time(row.at), arm.release, arm.weight, *figures)


def _score_chart(rows: Sequence[Row]) -> Markup | None:
    points = [(float(row.version), round(100 * row.score, 1)) for row in reversed(rows) if row.score is not None]
    if not points:
        return None
    return step_chart(
        {"score": points},
        label="Held-out score by release",
        x_title="version of the release",
        y_title="score (%)",
        top=100,
    )
