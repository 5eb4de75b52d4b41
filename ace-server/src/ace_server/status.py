"""What `ace server status` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ace.integrations import counted
from ace.skillbook import SkillbookError, shown_location
from ace_server import audit, tables
from ace_server.database import Database, now
from ace_server.opening import book_opener
from ace_server.settings import ServerSettings

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["BookStatus", "Status", "books_of", "status_of"]

_OPEN_BATCHES = ("queued", "running")
_LEARNS: Final[Mapping[str, str]] = {
    "off": "does not learn",
    "feedback": "learns from feedback",
    "heuristic": "learns from answers with and without feedback",
    "reviewed": "learns from reviewed feedback",
}


@dataclass(frozen=True, slots=True)
class BookStatus:
    """The state of a book."""

    name: str
    """Its name."""
    learning: str
    """What it learns from."""
    release: str | None
    """The published release."""
    version: int | None
    """Its version."""
    new_feedback: int
    """The number of feedback items that wait for a batch."""
    location: str
    """Its location, without a password."""
    unchanged: str | None = None
    """Why the last batch that has ended has changed no skill; None if it has changed one, or there is none."""

    @property
    def shown_release(self) -> str:
        """The version of the published release as text."""
        return "no release" if self.version is None else f"version {self.version}"

    def as_json(self) -> Mapping[str, object]:
        """Return the fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a service."""

    books: Sequence[BookStatus]
    """The books."""
    workers: int
    """The number of workers that are alive."""
    batches: Mapping[str, int]
    """The number of batches by state."""
    feedback: Mapping[str, int]
    """The number of feedback items in each state."""
    open_reviews: int
    """The number of open reviews."""
    audit_rows: int
    """The number of rows of the audit log that are right, up to the first one that is not."""
    audit_problem: str | None
    """The first thing that is wrong with the audit log; None if all is right."""
    audit_head: str
    """The newest row of the audit log; if it is noted elsewhere, it proves later that the log was not replaced."""
    problems: Sequence[str]
    """The problems that need attention."""

    def as_json(self) -> Mapping[str, object]:
        """Return the fields."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return them as text."""
        lines = [
            f"{book.name}: {book.shown_release}, {_LEARNS.get(book.learning, book.learning)}, "
            f"{counted(book.new_feedback, 'new feedback item')}, at {book.location}"
            for book in self.books
        ]
        lines += [
            f"{book.name}: the last batch has changed no skill: {book.unchanged}"
            for book in self.books
            if book.unchanged is not None
        ]
        batches = ", ".join(f"{count} {state}" for state, count in self.batches.items()) or "none"
        lines.append(f"batches: {batches}")
        lines.append(f"workers: {self.workers} alive; to review: {self.open_reviews}")
        rows = counted(self.audit_rows, "row")
        found = f"{rows}, all right" if self.audit_problem is None else f"{rows} right, and then {self.audit_problem}"
        lines.append(f"audit log: {found}; head {self.audit_head}")
        return [*lines, *(f"problem: {problem}" for problem in self.problems)]


def books_of(database: Database, settings: ServerSettings) -> list[BookStatus]:
    """Return the books by name."""
    book, release, feedback = tables.book, tables.release, tables.feedback
    with database.reading() as connection:
        books = connection.execute(sa.select(book).order_by(book.c.name)).all()
        published = {
            row.book: row for row in connection.execute(sa.select(release).where(release.c.state == "published"))
        }
        query = sa.select(feedback.c.book, sa.func.count().label("waiting")).where(feedback.c.state == "new")
        waiting = {row.book: row.waiting for row in connection.execute(query.group_by(feedback.c.book))}
    return [
        BookStatus(
            name=row.name,
            learning=row.learning,
            release=published[row.name].id if row.name in published else None,
            version=published[row.name].version if row.name in published else None,
            new_feedback=waiting.get(row.name, 0),
            location=shown_location(row.location or settings.book_location(row.name)),
        )
        for row in books
    ]


def _why_unchanged(database: Database, settings: ServerSettings, name: str) -> str | None:
    batch = tables.batch
    ended = sa.select(batch).where(batch.c.book == name, batch.c.state.in_(("learned", "failed")))
    with database.reading() as connection:
        last = connection.execute(ended.order_by(batch.c.id.desc()).limit(1)).first()
    if last is None or last.state == "failed" or last.release is not None:
        return None
    try:
        with closing(book_opener(settings, database)(name)) as book:
            return _told_by_history(book, last.id)
    except SkillbookError as error:
        return f"its skillbook cannot be read ({error})"


def status_of(database: Database, settings: ServerSettings, *, known: audit.AuditHead | None = None) -> Status:
    """Return the state of a service, with a check of its audit log.

    Args:
        known: A head of the audit log that was noted earlier.
    """
    alive_since = now() - settings.silent_seconds
    with database.reading() as connection:
        alive = sa.select(sa.func.count()).where(tables.worker.c.at > alive_since, tables.worker.c.stopped_at.is_(None))
        workers = connection.scalar(alive) or 0
        batches = _by_state(connection, tables.batch)
        feedback = _by_state(connection, tables.feedback)
        deletions = connection.scalar(sa.select(sa.func.count()).where(tables.deletion.c.failed)) or 0
        reviews = connection.scalar(sa.select(sa.func.count()).where(tables.review.c.state == "open")) or 0
    checked = audit.check(database, known=known)
    problems = [] if checked.problem is None else [f"the audit log was changed: {checked.problem}"]
    if not workers and any(batches.get(state) for state in _OPEN_BATCHES):
        problems.append("batches are waiting, but no worker is alive; start one with 'ace server worker'")
    if deletions:
        problems.append(f"{counted(deletions, 'deletion')} of a subject could not be completed yet; it is tried again")
    if failed := batches.get("failed"):
        problems.append(f"{failed} {'batch' if failed == 1 else 'batches'} failed; the page /runs says why")
    return Status(
        books=[
            replace(book, unchanged=_why_unchanged(database, settings, book.name))
            for book in books_of(database, settings)
        ],
        workers=workers,
        batches=batches,
        feedback=feedback,
        open_reviews=reviews,
        audit_rows=checked.rows,
        audit_problem=checked.problem,
        audit_head=str(checked.head),
        problems=problems,
    )


def _by_state(connection: sa.Connection, table: sa.Table) -> dict[str, int]:
    rows = connection.execute(sa.select(table.c.state, sa.func.count()).group_by(table.c.state)).all()
    return {str(state): int(count) for state, count in rows}


def _told_by_history(book: Skillbook, batch: str) -> str:
    """Return in words why a batch that has ended has changed no skill.

    Args:
        book: Its skillbook.
        batch: The id of the batch, which is the name of its run.

    Raises:
        SkillbookError: The skillbook cannot be read.
    """
    store = book.store
    versions = [] if store is None else [row.version for row in store.progress(batch) if row.version is not None]
    later = book.history(min(versions) - 1) if versions else []
    own = [entry for entry in later if entry.key is not None and entry.key.run == batch]
    reasons = Counter(str(note.get("reason", "")) for entry in own for note in entry.skipped)
    if not reasons:
        return "the model found nothing to learn in its feedback"
    return "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in reasons.most_common())
