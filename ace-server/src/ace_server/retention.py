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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from ace.skillbook import ForgetsAnswers, SkillbookError, shown_location
from ace_server import audit, tables
from ace_server.batches import validation_answers
from ace_server.database import DatabaseUnavailableError, new_id, now
from ace_server.tables import METADATA, batch, book, deletion, feedback, login_token, request, review, worker

if TYPE_CHECKING:
    from ace import Skillbook
    from ace_server.database import Database
    from ace_server.settings import ServerSettings

__all__ = ["PurgeReport", "last_purge", "purge", "request_deletion", "run_deletions", "scrub"]

_DAY: Final = 86_400.0
_PURGE: Final = "purge"
"""What the audit log calls it."""
_ROWS_AT_ONCE: Final = 1_000
_WAITING: Final = ("new", "held", "batched")
_UNFINISHED: Final = ("queued", "running")
_IN_FILES: Final = deletion.c.done_at.is_not(None) & deletion.c.failed
"""The deletions whose rows are deleted, but may still be in unused parts of the files."""
_MARGIN_SECONDS: Final = 10.0
"""How long a request may wait before it is answered, and its row before it is written."""


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What was deleted, or would be."""

    rows: Mapping[str, int]
    """The number of rows by their kind, such as `requests`."""
    answers: int
    """The number of forgotten answers of models."""
    is_scrubbed: bool
    """Whether the deleted texts are no longer in the files. If not, a reader prevented it: the next call does it."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Rows that are deleted or, with `values`, overwritten."""

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
        older_than: An age in days, instead of the periods for requests, feedback and reviews. The audit log keeps its
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
    answers = _forget_finished(database, settings, open_book, now() - _days(settings.keep_feedback, older_than) * _DAY)
    with database.writing() as connection:
        counts = [f"{name.replace(' ', '-')}:{count}" for name, count in rows.items() if count]
        audit.record(connection, who=by, what=_PURGE, target=" ".join(counts) or None)
    return PurgeReport(rows, answers, scrub(database))


def last_purge(database: Database) -> float:
    """Return when `purge` was last completed, in seconds since 1970; 0 if never.

    Args:
        database: The database.
    """
    with database.reading() as connection:
        select = sa.select(sa.func.max(tables.audit.c.at)).where(tables.audit.c.what == _PURGE)
        return connection.scalar(select) or 0.0


def request_deletion(connection: sa.Connection, subject: str, *, by: str, origin: str | None = None) -> str:
    """Request the deletion of all data of a subject, and return the id of the deletion.

    It is guaranteed once the transaction is committed: `run_deletions` does it, also after a restart.

    Args:
        connection: A transaction that writes.
        subject: The pseudonym of the subject, as it is in the table of requests.
        by: The id of the key that asks for it.
        origin: The address of the client.
    """
    found = new_id("del")
    connection.execute(sa.insert(deletion).values(id=found, at=now(), subject=subject, by=by))
    audit.record(connection, who=by, what="subject.delete", target=subject, origin=origin)
    return found


def run_deletions(
    database: Database,
    settings: ServerSettings,
    open_book: Callable[[str], Skillbook],
    *,
    at: float | None = None,
    wait: float = 30.0,
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
        wait: How long to wait for transactions that read from the log of SQLite, in seconds.

    Raises:
        DatabaseUnavailableError: The database cannot be written. The next call continues.
    """
    time_now = now() if at is None else at
    with database.reading() as connection:
        waiting = connection.execute(sa.select(deletion).where(deletion.c.done_at.is_(None))).all()
        in_files = connection.scalars(sa.select(deletion.c.id).where(_IN_FILES)).all()
    if not waiting and not in_files:
        return 0
    deleted = sum(_delete_subject(database, row.id, row.subject, row.at) for row in waiting)
    done = _complete(database, open_book, [row.id for row in waiting if _is_over(settings, row.at, time_now)])
    with database.writing() as connection:
        # The pseudonym of the subject goes first: it is in the files, too.
        change = sa.update(deletion).where(deletion.c.id.in_(done))
        connection.execute(change.values(subject=None, done_at=time_now, failed=True))
    is_clean = (deleted > 0 or bool(done) or bool(in_files)) and scrub(database, wait=wait)
    if is_clean:
        with database.writing() as connection:
            ids = [*done, *in_files]
            connection.execute(sa.update(deletion).where(deletion.c.id.in_(ids)).values(failed=False))
    return len(waiting) + len(in_files) - (len(done) + len(in_files) if is_clean else 0)


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
    try:
        if not database.is_sqlite:
            _vacuum_postgres(database)
            return True
        with closing(sqlite3.connect(database.location, timeout=wait, isolation_level=None)) as file:
            file.execute("VACUUM")
            (is_busy, *_) = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # waits for readers
            return not is_busy
    except (sqlite3.OperationalError, OperationalError) as error:
        why = error.orig if isinstance(error, OperationalError) else error
        reason = shown_location(" ".join(str(why).split()))
        raise DatabaseUnavailableError(f"the database {database.shown} cannot be rewritten: {reason}") from error


def _vacuum_postgres(database: Database) -> None:
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in METADATA.sorted_tables:
            name = database.engine.dialect.identifier_preparer.quote(table.name)
            connection.exec_driver_sql(f'VACUUM "{database.schema}".{name}')


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
            reviews & sa.or_(*(text.is_not(None) for text in texts)) & (review.c.state != "open"),
            {text.name: None for text in texts},
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


def _is_over(settings: ServerSettings, asked_at: float, time_now: float) -> bool:
    """Return whether all requests that were in flight at the time of a deletion have been written."""
    return time_now >= asked_at + settings.answer_seconds + _MARGIN_SECONDS


def _delete_subject(database: Database, deletion_id: str, subject: str, until: float) -> int:
    """Delete the rows of a subject up to a time, note which batches have learned from them, and return how many."""
    # The time of a request is that of its answer: those that were in flight at the time of the deletion belong to it.
    old = (request.c.subject == subject) & (request.c.at - request.c.seconds <= until + _MARGIN_SECONDS)
    ids = sa.select(request.c.id).where(old)
    # Another process may have accepted feedback on a request that was deleted.
    is_orphan = feedback.c.request.is_not(None) & feedback.c.request.not_in(sa.select(request.c.id))
    judged = ((feedback.c.subject == subject) & ((feedback.c.at <= until) | is_orphan)) | feedback.c.request.in_(ids)
    judged_ids = sa.select(feedback.c.id).where(judged)
    about = review.c.request.in_(ids) | review.c.feedback.in_(judged_ids)
    _note_batches(database, deletion_id, sa.select(feedback.c.batch).where(judged & feedback.c.batch.is_not(None)))
    rules = (
        _Rule("reviews", review, ((review.c.subject == subject) & (review.c.at <= until)) | about),
        _Rule("feedback", feedback, judged),
        _Rule("requests", request, old),
    )
    return sum(sum(_apply(database, rule)) for rule in rules)


def _note_batches(database: Database, deletion_id: str, batches_of_subject: sa.Select[tuple[str | None]]) -> None:
    """Add batches to those of a deletion: their recorded answers will be forgotten."""
    with database.writing() as connection:
        found = [str(id) for id in connection.scalars(batches_of_subject.distinct())]
        if found:
            noted = sa.select(deletion.c.batches).where(deletion.c.id == deletion_id)
            known = connection.scalar(noted.with_for_update()) or ""  # another process may add batches at the same time
            batches = " ".join(dict.fromkeys([*known.split(), *found]))
            connection.execute(sa.update(deletion).where(deletion.c.id == deletion_id).values(batches=batches))


def _complete(database: Database, open_book: Callable[[str], Skillbook], over: Sequence[str]) -> list[str]:
    """Forget the answers of the batches of all open deletions, and return which of some deletions are complete."""
    with database.reading() as connection:
        select = sa.select(deletion.c.id, deletion.c.batches).where(deletion.c.done_at.is_(None))
        batches = {row.id: set(row.batches.split()) for row in connection.execute(select)}
        running = set(connection.scalars(sa.select(batch.c.id).where(batch.c.state.in_(_UNFINISHED))))
        runs = set().union(*batches.values())
        books = connection.scalars(sa.select(batch.c.book).where(batch.c.id.in_(runs)).distinct()).all()
    try:
        for name in books:
            _forget(open_book, name, runs)
        failed = False
    except SkillbookError:  # it cannot be opened at the moment; the next call tries again
        failed = True
    with database.writing() as connection:
        connection.execute(sa.update(deletion).where(deletion.c.id.in_(list(batches))).values(failed=failed))
    return [] if failed else [id for id in over if id in batches and not running & batches[id]]


def _forget_finished(
    database: Database, settings: ServerSettings, open_book: Callable[[str], Skillbook], before: float
) -> int:
    """Forget the answers of batches that have learned, and of those that failed before a time."""
    is_old = (batch.c.state == "failed") & (sa.func.coalesce(batch.c.ended_at, batch.c.at) < before)
    with database.reading() as connection:
        runs = set(connection.scalars(sa.select(batch.c.id).where((batch.c.state == "learned") | is_old)))
        books = connection.scalars(sa.select(book.c.name)).all()
    kept = settings.data.glob(validation_answers(settings, "*").name)  # few, while there may be any number of runs
    for file in {validation_answers(settings, run) for run in runs}.intersection(kept):
        file.unlink(missing_ok=True)
    return sum(_forget(open_book, name, runs) for name in books) if runs else 0


def _forget(open_book: Callable[[str], Skillbook], name: str, runs: set[str]) -> int:
    with open_book(name) as opened:
        store: object = opened.store
        if opened.store is None or not isinstance(store, ForgetsAnswers):
            return 0
        recorded = {str(json.loads(key)[0]) for key, _ in opened.store.recorded_answers()}
        return store.forget_answers(*sorted(recorded & runs)) if recorded & runs else 0
