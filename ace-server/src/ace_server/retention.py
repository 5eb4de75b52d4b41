"""How long texts of users are kept, and how they are deleted.

`purge` applies the periods of the settings; the service calls it every night, and `ace server purge` at once.
`request_deletion` and `run_deletions` delete everything of a subject. Both work in three steps:

1. Rows are deleted, a thousand in a transaction, so that requests do not have to wait for long.
2. The answers of models that batches have recorded in the skillbooks are forgotten.
3. `scrub` makes sure that the deleted texts are no longer in the files of the database.

Skills remain: they are patterns, and the guard against leaks keeps personal data out of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ace.skillbook import ForgetsAnswers, SkillbookError
from ace_server import audit
from ace_server.database import DatabaseUnavailableError, new_id, now
from ace_server.tables import METADATA, batch, book, deletion, feedback, login_token, request, review, worker

if TYPE_CHECKING:
    from ace import Skillbook
    from ace_server.database import Database
    from ace_server.settings import ServerSettings

__all__ = ["PurgeReport", "purge", "request_deletion", "run_deletions", "scrub"]

_DAY: Final = 86_400.0
_ROWS_AT_ONCE: Final = 1_000
_WAITING: Final = ("new", "held", "batched")
_UNFINISHED: Final = ("queued", "running")
_MARGIN_SECONDS: Final = 10.0
"""How long a request may wait before it is answered, and its row after that."""


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What was deleted, or would be."""

    rows: Mapping[str, int]
    """The number of rows by what they are, such as `requests`."""
    answers: int
    """The number of forgotten answers of models."""
    is_scrubbed: bool
    """Whether the deleted texts are no longer in the files. If not, a reader prevented it: the next call does it."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Rows that are deleted; or emptied, if there are values for them."""

    name: str
    table: sa.Table
    where: sa.ColumnElement[bool]
    values: Mapping[str, object] | None = None


def purge(
    database: Database,
    settings: ServerSettings,
    open_book: Callable[[str], Skillbook],
    *,
    older_than: float | None = None,
    dry_run: bool = False,
    by: str = "worker",
) -> PurgeReport:
    """Delete what is older than the periods of the settings.

    Args:
        database: The database.
        settings: The periods: `keep_requests`, `keep_feedback`, `keep_reviews` and `keep_audit`.
        open_book: Opens the skillbook of a book.
        older_than: An age in days, in place of the periods for requests, feedback and reviews. The audit log keeps its
            period.
        dry_run: Only count.
        by: Who asked for it, for the audit log.

    Raises:
        DatabaseUnavailableError: The database cannot be written. Calling it again continues.
        SkillbookError: A skillbook cannot be opened.
    """
    rules = _rules(settings, older_than, now())
    if dry_run:
        with database.reading() as connection:
            rows = {rule.name: _count(connection, rule) for rule in rules}
        return PurgeReport(rows, 0, is_scrubbed=False)
    rows = {rule.name: sum(_apply(database, rule)) for rule in rules}
    with database.writing() as connection:
        rows["audit rows"] = audit.purge(connection, now() - settings.keep_audit * _DAY)
    answers = _forget_finished(database, open_book, now() - _days(settings.keep_feedback, older_than) * _DAY)
    with database.writing() as connection:
        counts = [f"{name.replace(' ', '-')}:{count}" for name, count in rows.items() if count]
        audit.record(connection, who=by, what="purge", target=" ".join(counts) or None)
    return PurgeReport(rows, answers, scrub(database))


def request_deletion(connection: sa.Connection, subject: str, *, by: str, origin: str | None = None) -> str:
    """Note that everything of a subject is to be deleted, and return the id of the deletion.

    It is certain once the transaction is committed: `run_deletions` does it, also after a restart.

    Args:
        connection: A transaction that writes.
        subject: The subject, as it is in the table of requests.
        by: The id of the key that asks for it.
        origin: The address of the client.
    """
    found = new_id("del")
    connection.execute(sa.insert(deletion).values(id=found, at=now(), subject=subject, by=by))
    audit.record(connection, who=by, what="subject.delete", target=audit.subject_digest(subject), origin=origin)
    return found


def run_deletions(
    database: Database, settings: ServerSettings, open_book: Callable[[str], Skillbook], *, at: float | None = None
) -> int:
    """Delete what was asked for with `request_deletion`, and return how many deletions are still open.

    The service calls this every few seconds. The first call deletes the rows. A deletion stays open until requests that
    were in flight have been written and deleted too, and until no batch is running that has learned from feedback of
    the subject; every call repeats the deletion. Several processes may call it at once.

    Args:
        database: The database.
        settings: `answer_seconds` tells how long a request may be in flight.
        open_book: Opens the skillbook of a book.
        at: The time, in seconds since 1970; by default now.

    Raises:
        DatabaseUnavailableError: The database cannot be written. The next call continues.
    """
    with database.reading() as connection:
        waiting = connection.execute(sa.select(deletion).where(deletion.c.done_at.is_(None))).all()
    if not waiting:
        return 0
    time_now = now() if at is None else at
    for each in waiting:
        _delete_subject(database, each.id, each.subject, each.at)
    with database.reading() as connection:
        batches = {row.id: _listed(row.batches) for row in connection.execute(sa.select(deletion))}
        running = set(connection.scalars(sa.select(batch.c.id).where(batch.c.state.in_(_UNFINISHED))))
    wanted = {run for each in waiting for run in batches[each.id]}
    is_clean = _forgotten(database, open_book, wanted) and scrub(database)
    done = [
        each.id
        for each in waiting
        if is_clean
        and time_now >= each.at + settings.answer_seconds + _MARGIN_SECONDS
        and not running & set(batches[each.id])
    ]
    with database.writing() as connection:
        connection.execute(sa.update(deletion).where(deletion.c.id.in_(done)).values(subject=None, done_at=time_now))
        others = [each.id for each in waiting if each.id not in done]
        connection.execute(sa.update(deletion).where(deletion.c.id.in_(others)).values(failed=not is_clean))
    if done:
        scrub(database)  # the name of the subject was in the table of deletions
    return len(waiting) - len(done)


def scrub(database: Database, *, wait: float = 30.0) -> bool:
    """Make sure that what was deleted is no longer in the files of the database.

    SQLite rewrites its file and empties its log; readers continue, and writers wait. PostgreSQL frees the rows; its own
    log and backups keep them for as long as they are set up to.

    Args:
        database: The database.
        wait: How long to wait for other transactions, in seconds.

    Returns:
        Whether it is done. If another transaction reads from the log of SQLite for longer than that, it is not.

    Raises:
        DatabaseUnavailableError: The disk is full, or the database is locked.
    """
    if not database.is_sqlite:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in METADATA.sorted_tables:
                name = database.engine.dialect.identifier_preparer.quote(table.name)
                connection.exec_driver_sql(f'VACUUM "{database.schema}".{name}')
        return True
    try:
        with closing(sqlite3.connect(database.location, timeout=wait, isolation_level=None)) as file:
            file.execute("VACUUM")
            (is_busy, *_) = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # waits for readers
            return not is_busy
    except sqlite3.OperationalError as error:
        raise DatabaseUnavailableError(f"the database {database.shown} cannot be rewritten: {error}") from error


def _days(period: float, older_than: float | None) -> float:
    return period if older_than is None else older_than


def _rules(settings: ServerSettings, older_than: float | None, at: float) -> list[_Rule]:
    requests = at - _days(settings.keep_requests, older_than) * _DAY
    reviews = review.c.at < at - _days(settings.keep_reviews, older_than) * _DAY
    texts = (review.c.content, review.c.ground_truth, review.c.note)
    kept = sa.select(request.c.id).where(request.c.at >= requests)
    no_request = feedback.c.request.is_not(None) & feedback.c.request.not_in(kept)
    return [
        _Rule("requests", request, request.c.at < requests),
        _Rule("feedback", feedback, feedback.c.at < at - _days(settings.keep_feedback, older_than) * _DAY),
        _Rule(
            "waiting feedback without its request",
            feedback,
            # Feedback may come before the request is written.
            feedback.c.state.in_(_WAITING) & no_request & (feedback.c.at < requests),
            {"state": "purged", "correction": None, "comment": None, "trace": None},
        ),
        _Rule("open reviews", review, reviews & (review.c.state == "open")),
        _Rule(
            "texts of reviews",
            review,
            reviews & sa.or_(*(each.is_not(None) for each in texts)) & (review.c.state != "open"),
            {each.name: None for each in texts},
        ),
        _Rule("login tokens", login_token, login_token.c.expires_at < at - _DAY),
        _Rule("workers", worker, worker.c.at < at - settings.keep_workflows * _DAY),
    ]


def _count(connection: sa.Connection, rule: _Rule) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(rule.table).where(rule.where)) or 0


def _apply(database: Database, rule: _Rule) -> Iterator[int]:
    """Apply a rule, and yield the number of rows of each transaction."""
    (key,) = rule.table.primary_key.columns
    some = sa.select(key).where(rule.where).limit(_ROWS_AT_ONCE)
    change = sa.delete(rule.table) if rule.values is None else sa.update(rule.table).values(**rule.values)
    while True:
        with database.writing() as connection:
            changed = connection.execute(change.where(key.in_(some))).rowcount
        yield changed
        if changed < _ROWS_AT_ONCE:
            return


def _delete_subject(database: Database, deletion_id: str, subject: str, until: float) -> None:
    """Delete the rows of a subject up to a time, and note which batches have learned from them."""
    of_subject = feedback.c.request.in_(sa.select(request.c.id).where(request.c.subject == subject))
    by_subject = (feedback.c.at <= until) & (feedback.c.subject == subject)
    with database.writing() as connection:
        learned = connection.scalars(
            sa.select(feedback.c.batch).where((by_subject | of_subject) & feedback.c.batch.is_not(None)).distinct()
        ).all()
        judged = connection.scalars(
            sa.select(request.c.judged).where((request.c.subject == subject) & request.c.judged.is_not(None)).distinct()
        ).all()
        known = _listed(connection.scalar(sa.select(deletion.c.batches).where(deletion.c.id == deletion_id)) or "")
        batches = " ".join(dict.fromkeys([*known, *learned, *judged]))
        connection.execute(sa.update(deletion).where(deletion.c.id == deletion_id).values(batches=batches))
    # The time of a request is that of its answer: those that were in flight at the time of the deletion belong to it.
    old = (request.c.subject == subject) & (request.c.at - request.c.seconds <= until + _MARGIN_SECONDS)
    ids = sa.select(request.c.id).where(old)
    about = review.c.request.in_(ids) | review.c.feedback.in_(sa.select(feedback.c.id).where(by_subject | of_subject))
    for rule in (
        _Rule("reviews", review, ((review.c.subject == subject) & (review.c.at <= until)) | about),
        _Rule("feedback", feedback, by_subject | feedback.c.request.in_(ids)),
        _Rule("requests", request, old),
    ):
        for _ in _apply(database, rule):
            pass


def _forget_finished(database: Database, open_book: Callable[[str], Skillbook], before: float) -> int:
    """Forget the answers of batches that have learned, and of those that failed before a time."""
    is_old = (batch.c.state == "failed") & (sa.func.coalesce(batch.c.ended_at, batch.c.at) < before)
    with database.reading() as connection:
        runs = set(connection.scalars(sa.select(batch.c.id).where((batch.c.state == "learned") | is_old)))
        books = connection.scalars(sa.select(book.c.name)).all()
    return sum(_forget(open_book, name, runs) for name in books) if runs else 0


def _forgotten(database: Database, open_book: Callable[[str], Skillbook], runs: Iterable[str]) -> bool:
    """Forget the answers of these batches; return False if a skillbook cannot be opened at the moment."""
    with database.reading() as connection:
        books = connection.scalars(sa.select(batch.c.book).where(batch.c.id.in_(set(runs))).distinct()).all()
    try:
        for name in books:
            _forget(open_book, name, set(runs))
    except SkillbookError:
        return False
    return True


def _forget(open_book: Callable[[str], Skillbook], name: str, runs: set[str]) -> int:
    with open_book(name) as opened:
        store: object = opened.store
        if opened.store is None or not isinstance(store, ForgetsAnswers):
            return 0
        recorded = {str(json.loads(key)[0]) for key, _ in opened.store.recorded_answers()}
        return store.forget_answers(*sorted(recorded & runs)) if recorded & runs else 0


def _listed(text: str) -> list[str]:
    return text.split()
