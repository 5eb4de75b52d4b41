"""Makes batches of feedback, which are learned from together.

The states of feedback: `new`, then `held` if a person has to decide about it, `batched`, and in the end `learned`,
`failed` or `rejected`; `purged` when its texts were deleted. A batch is `queued`, `running`, and in the end `learned`
or `failed`. All changes of one book by `make_batches` are one transaction, so several workers may call it at once.

At most one batch of a book is queued, and the keys whose feedback waits fill it in turn. So however much feedback one
key sends, that of the others is in the next batch; and a book waits for no more than one batch of each other one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ace_server import tables
from ace_server.database import new_id, now
from ace_server.reviews import add_review

if TYPE_CHECKING:
    from pathlib import Path

    from ace_server.database import Row
    from ace_server.service import Service
    from ace_server.settings import Learning, Publish, ServerSettings

__all__ = ["BatchNotFailedError", "BookRules", "book_rules", "make_batches", "retry_batch", "validation_answers"]

_FEEDBACK: Final = tables.feedback
_REQUEST: Final = tables.request
_REVIEW: Final = tables.review
_BATCH: Final = tables.batch

_NEEDED: Final = (
    _FEEDBACK.c.id,
    _FEEDBACK.c.at,
    _FEEDBACK.c.book,
    _FEEDBACK.c.kind,
    _FEEDBACK.c.request,
    _FEEDBACK.c.subject,
)
_MOST_AT_ONCE: Final = 1_000
"""How many rows of a book one transaction looks at; the next one looks at the others."""


class BatchNotFailedError(ValueError):
    """Only a failed batch can be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookRules:
    """The settings of a book: its own, and those of the service where it has none."""

    name: str
    """The name of the book."""
    learning: Learning
    """What it learns from."""
    publish: Publish
    """Who publishes what it has learned."""
    validation: str | None
    """The file of its validation samples."""
    batch_size: int
    """The number of new feedback items that start a batch."""
    batch_age: float
    """The age of the oldest new feedback at which a batch is made, in seconds."""
    review_share: float
    """The largest share of requests that are listed for review because they are uncertain."""


def book_rules(service: Service, connection: sa.Connection, name: str) -> BookRules:
    """Return the settings of a book, and prevent others from making batches of it until the transaction ends.

    Args:
        connection: A transaction that writes.
        name: The name of the book.
    """
    row = connection.execute(sa.select(tables.book).where(tables.book.c.name == name).with_for_update()).one()
    settings = service.settings
    default: Publish = "review" if row.validation is None else "gate"
    return BookRules(
        name=name,
        learning=row.learning,
        publish=row.publish or settings.publish or default,
        validation=row.validation,
        batch_size=settings.batch_size if row.batch_size is None else row.batch_size,
        batch_age=settings.batch_age if row.batch_age is None else row.batch_age,
        review_share=settings.review_share if row.review_share is None else row.review_share,
    )


def make_batches(service: Service) -> list[str]:
    """Make a batch of each book that has enough new feedback, or whose new feedback is old enough.

    Feedback that a person has to decide about is held, and listed for review. Books with a queued batch are left alone.

    Returns:
        The ids of the new batches.

    Raises:
        DatabaseUnavailableError: The database cannot be read or written.
    """
    with service.database.reading() as connection:
        busy = [row.name for row in connection.execute(_BUSY_BOOKS)]
    made = [_make_batch_of(service, name) for name in busy]
    return [batch for batch in made if batch is not None]


def retry_batch(connection: sa.Connection, batch: str) -> int:
    """Queue a failed batch again. What it has learned already is not learned a second time.

    Args:
        connection: A transaction that writes.
        batch: The id of the batch.

    Returns:
        The number of feedback items that are tried again.

    Raises:
        BatchNotFailedError: The batch does not exist or has not failed.
    """
    changed = connection.execute(
        sa.update(_BATCH).where(_BATCH.c.id == batch, _BATCH.c.state == "failed").values(state="queued", ended_at=None)
    )
    if changed.rowcount == 0:
        raise BatchNotFailedError(f"the batch {batch!r} has not failed, so it cannot be tried again")
    again = connection.execute(
        sa.update(_FEEDBACK)
        .where(_FEEDBACK.c.batch == batch, _FEEDBACK.c.state == "failed")
        .values(state="batched", problem=None)
    )
    return again.rowcount


def _make_batch_of(service: Service, book: str) -> str | None:
    with service.database.writing() as connection:
        rules = book_rules(service, connection, book)
        _list_uncertain(connection, rules)
        if rules.learning == "off" or _has_queued(connection, book):
            return None
        if rules.learning == "heuristic":
            _add_judgements(connection, rules)
        ready = _hold(service, connection, rules, _new_feedback(connection, book))
        if not _is_due(rules, ready):
            return None
        return _add_batch(connection, book, _first_batch(rules, ready, service.settings.max_trace_mb * 1_000_000))


def _has_queued(connection: sa.Connection, book: str) -> bool:
    queued = sa.select(_BATCH.c.id).where(_BATCH.c.book == book, _BATCH.c.state == "queued")
    return connection.scalar(queued.limit(1)) is not None


def _new_feedback(connection: sa.Connection, book: str) -> Sequence[Row]:
    """Return the new feedback of a book without its texts: the oldest of each key, then the second one of each."""
    oldest_first = (_FEEDBACK.c.at, _FEEDBACK.c.id)
    turn = sa.func.row_number().over(partition_by=_FEEDBACK.c.key, order_by=oldest_first)
    size = sa.func.coalesce(sa.func.length(_FEEDBACK.c.trace), 0).label("size")
    chosen = sa.select(*_NEEDED, size).where(_FEEDBACK.c.book == book, _FEEDBACK.c.state == "new")
    return connection.execute(chosen.order_by(turn, *oldest_first).limit(_MOST_AT_ONCE)).all()


def _is_due(rules: BookRules, rows: Sequence[Row]) -> bool:
    """Return whether there are enough rows for a batch, or one of them has waited for long enough."""
    return len(rows) >= rules.batch_size or any(now() - row.at >= rules.batch_age for row in rows)


def _first_batch(rules: BookRules, rows: Sequence[Row], most: int) -> Sequence[Row]:
    """Return the first rows, of which one at least: as many as a batch may have, with traces of at most this size."""
    size = 0
    for place, row in enumerate(rows[: rules.batch_size]):
        size += row.size
        if place and size > most:
            return rows[:place]
    return rows[: rules.batch_size]


def _add_batch(connection: sa.Connection, book: str, rows: Sequence[Row]) -> str:
    batch = new_id("bat")
    connection.execute(sa.insert(_BATCH).values(id=batch, at=now(), book=book, state="queued", samples=len(rows)))
    ids = [row.id for row in rows]
    connection.execute(sa.update(_FEEDBACK).where(_FEEDBACK.c.id.in_(ids)).values(state="batched", batch=batch))
    return batch


def _hold(service: Service, connection: sa.Connection, rules: BookRules, rows: Sequence[Row]) -> list[Row]:
    """List for review what a person has to decide about, and return the other rows."""
    decided = _decided(connection, rows)
    open_rows = [row for row in rows if row.id not in decided]
    if rules.learning == "reviewed":
        to_review = {row.id: ("feedback", "this book only learns what a person has accepted") for row in open_rows}
    else:
        contradictions = _contradictions(service, connection, open_rows)
        to_review = {row: ("contradiction", why) for row, why in contradictions.items()}
    for row in open_rows:
        if row.id in to_review:
            kind, reason = to_review[row.id]
            about = {"request": row.request, "feedback": row.id, "subject": row.subject}
            add_review(connection, row.book, kind, reason=reason, **about)
    if to_review:
        connection.execute(sa.update(_FEEDBACK).where(_FEEDBACK.c.id.in_(list(to_review))).values(state="held"))
    return [row for row in rows if row.id not in to_review]


def _decided(connection: sa.Connection, rows: Sequence[Row]) -> set[str]:
    """Return the ids of those that a person has accepted."""
    ids = [row.id for row in rows]
    accepted = _REVIEW.c.state.in_(("accepted", "edited"))
    return set(connection.scalars(sa.select(_REVIEW.c.feedback).where(_REVIEW.c.feedback.in_(ids), accepted)))


def _contradictions(service: Service, connection: sa.Connection, rows: Sequence[Row]) -> dict[str, str]:
    """Return the ids of the rows that contradict other feedback on the same request, each with the reason."""
    requests = {row.request for row in rows if row.kind == "feedback" and row.request is not None}
    counts = _FEEDBACK.c.state.not_in(("rejected", "purged"))
    chosen = sa.select(_FEEDBACK).where(_FEEDBACK.c.request.in_(requests), _FEEDBACK.c.kind == "feedback", counts)
    on_request: dict[str, list[Row]] = defaultdict(list)
    for row in connection.execute(chosen):
        on_request[row.request].append(row)
    several = {request: found for request, found in on_request.items() if len(found) > 1}
    reasons = {request: _contradiction(service, found) for request, found in several.items()}
    return {row.id: reason for row in rows if row.request is not None and (reason := reasons.get(row.request))}


def _contradiction(service: Service, rows: Sequence[Row]) -> str:
    """Return how the feedback on one request contradicts itself; empty if it does not."""
    if {"up", "down"} <= {row.thumb for row in rows}:
        return "one user says that the answer is good, another one that it is bad"
    corrections = [row.correction for row in rows if row.correction is not None]
    if len(corrections) > 1 and len({_compared(service.seal.open(sealed)) for sealed in corrections}) > 1:
        return "the corrections differ"
    return ""


def _compared(text: str) -> str:
    return " ".join(text.split()).casefold()


def _add_judgements(connection: sa.Connection, rules: BookRules) -> None:
    """Add a judgement for each request that has received no feedback for as long as a batch may wait."""
    due = sa.select(_REQUEST.c.id, _REQUEST.c.subject).where(
        _REQUEST.c.book == rules.name, _REQUEST.c.judged.is_(sa.false()), _REQUEST.c.at <= now() - rules.batch_age
    )
    requests = connection.execute(due.order_by(_REQUEST.c.id).limit(_MOST_AT_ONCE)).all()
    ids = [row.id for row in requests]
    answered = set(connection.scalars(sa.select(_FEEDBACK.c.request).where(_FEEDBACK.c.request.in_(ids))))
    added = [
        {
            "id": new_id("fbk"),
            "at": now(),
            "book": rules.name,
            "kind": "judgement",
            "request": row.id,
            "key": "worker",
            "subject": row.subject,
            "state": "new",
        }
        for row in requests
        if row.id not in answered
    ]
    if added:
        connection.execute(sa.insert(_FEEDBACK), added)
    if ids:
        connection.execute(sa.update(_REQUEST).where(_REQUEST.c.id.in_(ids)).values(judged=True))


def _list_uncertain(connection: sa.Connection, rules: BookRules) -> None:
    """List the newest uncertain request for review, if there were enough requests since the last one."""
    if rules.review_share <= 0:
        return
    last: str = connection.scalar(_last_listed(rules.name)) or ""
    since = (_REQUEST.c.book == rules.name) & (_REQUEST.c.id > last)
    wanted = math.ceil(1 / min(rules.review_share, 1.0))
    counted = sa.select(sa.literal(1)).where(since).limit(wanted).subquery()
    if (connection.scalar(sa.select(sa.func.count()).select_from(counted)) or 0) < wanted:
        return
    newest = sa.select(_REQUEST).where(since, _REQUEST.c.uncertain.is_not(None)).order_by(_REQUEST.c.id.desc())
    row = connection.execute(newest.limit(1)).first()
    if row is not None:
        about = {"request": row.id, "subject": row.subject}
        add_review(connection, rules.name, "uncertain", reason=row.uncertain, **about)


def _last_listed(book: sa.ColumnElement[str] | str) -> sa.Select[tuple[str | None]]:
    return sa.select(sa.func.max(_REVIEW.c.request)).where(_REVIEW.c.book == book, _REVIEW.c.kind == "uncertain")


def _busy_books() -> sa.Select[tuple[str]]:
    """Return the query for the books with rows to process; it only uses indexes."""
    book = tables.book.c
    of_book = _REQUEST.c.book == book.name
    has_new = sa.exists().where(_FEEDBACK.c.book == book.name, _FEEDBACK.c.state == "new")
    has_unjudged = sa.exists().where(of_book, _REQUEST.c.judged.is_(sa.false()))
    since = _REQUEST.c.id > sa.func.coalesce(_last_listed(book.name).scalar_subquery(), "")
    has_uncertain = sa.exists().where(of_book, _REQUEST.c.uncertain.is_not(None), since)
    is_heuristic = book.learning == "heuristic"
    return sa.select(book.name).where(has_new | (is_heuristic & has_unjudged) | has_uncertain).order_by(book.name)


_BUSY_BOOKS: Final = _busy_books()


def validation_answers(settings: ServerSettings, batch: str) -> Path:
    """Return where the answers to the validation samples of a batch are kept until it has ended.

    Args:
        settings: The settings of the service.
        batch: The id of the batch.
    """
    return settings.data / f"validation-{batch}.jsonl"
