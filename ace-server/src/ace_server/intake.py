"""Stores requests and feedback.

The functions return rows and changes for `GroupWriter`, which seal the texts when they are called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ace_server import tables
from ace_server.database import new_id, now
from ace_server.experiments import RunningExperiment
from ace_server.inference import GivenAnswer, LoadedRelease
from ace_server.seal import Seal

__all__ = ["GivenFeedback", "IdempotencyError", "request_row", "store_feedback", "store_trace"]

_FEEDBACK: Final = tables.feedback
_SKILLS_OF_A_FULL_BOOK: Final = 20
_DOES_NOT_KNOW: Final = re.compile(
    r"\W*(i (do not|don['\u2019]t) know|unknown\b|no idea\b|cannot be known)", re.IGNORECASE
)


class IdempotencyError(Exception):
    """The idempotency key was used for other feedback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFeedback:
    """What a user says about an answer."""

    request: str
    """The id of the request."""
    book: str
    """The name of the book."""
    subject: str | None
    """The subject of the request."""
    key: str
    """The id of the key."""
    thumb: str | None = None
    """up or down."""
    score: float | None = None
    """From 0 to 1."""
    correction: str | None = None
    """The right answer."""
    comment: str | None = None
    """The comment of the user."""
    idempotency_key: str | None = None
    """The pseudonym of a key with which the same feedback may be sent again."""


def request_row(
    seal: Seal,
    release: LoadedRelease,
    given: GivenAnswer,
    *,
    request: str,
    key: str,
    model: str,
    question: str,
    context: str | None,
    subject: str | None,
    metadata: Mapping[str, object] | None,
    experiment: RunningExperiment | None,
    arm: int | None,
) -> Callable[[], dict[str, object]]:
    """Return what makes the row of a request and its answer, with the texts sealed.

    Args:
        seal: Seals the texts.
        release: The release that was used.
        given: The answer.
        request: The id of the request.
        key: The id of the key.
        model: The model string.
        question: The question.
        context: Further material.
        subject: The pseudonym of the user that the request belongs to.
        metadata: Data of the client that is stored with the request.
        experiment: The experiment.
        arm: The number of the arm.
    """
    at = now()
    uncertain = _why_uncertain(release, given)

    def values() -> dict[str, object]:
        return {
            "id": request,
            "at": at,
            "book": release.book,
            "release": release.id,
            "key": key,
            "subject": subject,
            "question": seal.seal(question),
            "context": None if context is None else seal.seal(context),
            "answer": seal.seal(given.answer),
            "reasoning": seal.seal(given.reasoning),
            "metadata": None if metadata is None else seal.seal(json.dumps(metadata)),
            "skill_ids": " ".join(given.skill_ids),
            "model": model,
            "model_calls": given.usage.calls,
            "prompt_tokens": given.usage.input_tokens,
            "completion_tokens": given.usage.output_tokens,
            "cost": None if given.usage.unpriced_calls else given.usage.cost,
            "seconds": given.seconds,
            "experiment": None if experiment is None else experiment.id,
            "arm": arm,
            "uncertain": uncertain,
        }

    return values


def _why_uncertain(release: LoadedRelease, given: GivenAnswer) -> str | None:
    if _DOES_NOT_KNOW.match(given.answer):
        return "the answer is that it does not know"
    if not given.skill_ids and len(release.skills) >= _SKILLS_OF_A_FULL_BOOK:
        return "no skill was cited"
    return None


def store_feedback(seal: Seal, given: GivenFeedback) -> Callable[[sa.Connection], str]:
    """Return the change that stores feedback, and returns its id.

    Args:
        seal: Seals the texts.
        given: The feedback.

    Raises:
        IdempotencyError: By the change: its idempotency key was used for other feedback.
    """
    identifier = new_id("fbk")
    at = now()

    def change(connection: sa.Connection) -> str:
        values = {
            "id": identifier,
            "at": at,
            "book": given.book,
            "kind": "feedback",
            "request": given.request,
            "key": given.key,
            "subject": given.subject,
            "thumb": given.thumb,
            "score": given.score,
            "correction": None if given.correction is None else seal.seal(given.correction),
            "comment": None if given.comment is None else seal.seal(given.comment),
            "idempotency_key": given.idempotency_key,
            "state": "new",
        }
        if not _inserted(connection, values):
            return _same_feedback(connection, seal, given)
        return identifier

    return change


def store_trace(
    seal: Seal, book: str, trace: str, *, key: str, subject: str | None, idempotency_key: str | None
) -> Callable[[sa.Connection], str]:
    """Return the change that stores a recorded trace, and returns its id.

    Args:
        seal: Seals the trace.
        book: The name of the book.
        trace: The trace, as JSON.
        key: The id of the key.
        subject: The pseudonym of the user that it belongs to.
        idempotency_key: The pseudonym of a key with which the same trace may be sent again.

    Raises:
        IdempotencyError: By the change: the key was used for another trace.
    """
    identifier = new_id("fbk")
    at = now()

    def change(connection: sa.Connection) -> str:
        values = {
            "id": identifier,
            "at": at,
            "book": book,
            "kind": "trace",
            "key": key,
            "subject": subject,
            "trace": seal.seal(trace),  # in the transaction: the key is replaced before or after it
            "idempotency_key": idempotency_key,
            "state": "new",
        }
        if _inserted(connection, values):
            return identifier
        row = _stored(connection, key, idempotency_key)
        if row.trace is None or seal.open(row.trace) != trace:
            raise IdempotencyError
        return str(row.id)

    return change


def _inserted(connection: sa.Connection, values: Mapping[str, object]) -> bool:
    """Insert a row of feedback, unless its idempotency key is known."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(_FEEDBACK).values(**values).on_conflict_do_nothing(index_elements=["key", "idempotency_key"])
    return connection.execute(statement.returning(_FEEDBACK.c.id)).first() is not None


def _stored(connection: sa.Connection, key: str, idempotency_key: str | None) -> sa.Row[tuple[object, ...]]:
    return connection.execute(
        sa.select(_FEEDBACK).where(_FEEDBACK.c.key == key, _FEEDBACK.c.idempotency_key == idempotency_key)
    ).one()


def _same_feedback(connection: sa.Connection, seal: Seal, given: GivenFeedback) -> str:
    row = _stored(connection, given.key, given.idempotency_key)
    texts = [None if sealed is None else seal.open(sealed) for sealed in (row.correction, row.comment)]
    same = (row.request, row.thumb, row.score, *texts)
    if same != (given.request, given.thumb, given.score, given.correction, given.comment):
        raise IdempotencyError
    return str(row.id)
