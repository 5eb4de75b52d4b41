"""Converts feedback to the traces that are learned from.

A correction is the right answer. A score or a thumb is feedback in words: a thumbs-up does not make our own answer the
right one. An answer without feedback is judged by its form, and the reflector is told that nothing was verified.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from ace_server import tables
from ace_server.anonymise import BuiltInFinder, anonymise, load_finder

if TYPE_CHECKING:
    from ace_server.anonymise import Finder
    from ace_server.database import Row
    from ace_server.seal import Seal
    from ace_server.service import Service

__all__ = ["feedback_in_words", "traces_of"]

_FEEDBACK: Final = tables.feedback
_REQUEST: Final = tables.request


def traces_of(service: Service, connection: sa.Connection, batch: str) -> dict[str, object]:
    """Return the traces of a batch by the ids of the feedback, in the order in which it was given.

    The same feedback becomes the same trace every time, so that a resumed run knows it. Feedback whose request was
    deleted in the meantime becomes `purged`.

    Args:
        service: The service.
        connection: A transaction that writes.
        batch: The id of the batch.
    """
    chosen = sa.select(_FEEDBACK).where(_FEEDBACK.c.batch == batch, _FEEDBACK.c.state == "batched")
    rows = connection.execute(chosen.order_by(_FEEDBACK.c.at, _FEEDBACK.c.id)).all()
    requests = _by_id(connection, _REQUEST, [row.request for row in rows if row.request is not None])
    finder = _finder(connection, batch)
    traces: dict[str, object] = {}
    purged: list[str] = []
    for row in rows:
        request = requests.get(row.request)
        if row.kind == "trace" and row.trace is not None:
            traces[row.id] = _marked(json.loads(service.seal.open(row.trace)), finder)
        elif request is None:
            purged.append(row.id)
        else:
            traces[row.id] = _trace(service.seal, row, request, finder)
    if purged:
        connection.execute(sa.update(_FEEDBACK).where(_FEEDBACK.c.id.in_(purged)).values(state="purged"))
    return traces


def feedback_in_words(
    *,
    thumb: str | None = None,
    score: float | None = None,
    correction: str | None = None,
    comment: str | None = None,
) -> str:
    """Return what a user said about an answer, for the reflector.

    Args:
        thumb: `up` or `down`.
        score: From 0 to 1.
        correction: The right answer.
        comment: Anything else.

    Example:
        >>> feedback_in_words(thumb="up", comment="Short and clear.")
        'The user likes the answer. The user comments: Short and clear.'
        >>> feedback_in_words(correction="Lyon")
        'The user says that the answer is wrong: Lyon'
    """
    said = []
    if correction is not None:
        said.append(f"The user says that the answer is wrong: {correction}")
    if thumb is not None:
        said.append(f"The user {'likes' if thumb == 'up' else 'does not like'} the answer.")
    if score is not None:
        said.append(f"The user gives the answer a score of {score:g}, on a scale from 0 to 1.")
    if comment is not None:
        said.append(f"The user comments: {comment}")
    return " ".join(said)


def _trace(seal: Seal, feedback: Row, request: Row, finder: Finder | None) -> dict[str, object]:
    """Return the standard trace of one answer and what was said about it."""
    texts = {
        "question": seal.open(request.question),
        "context": _opened(seal, request.context) or "",
        "reasoning": _opened(seal, request.reasoning) or "",
        "answer": seal.open(request.answer),
        "correction": _opened(seal, feedback.correction),
        "comment": _opened(seal, feedback.comment),
    }
    shown: dict[str, str] = {name: text for name, text in _marked(texts, finder).items() if text is not None}
    correction, comment = shown.pop("correction", None), shown.pop("comment", None)
    trace: dict[str, object] = {
        "schema": 1,
        "success": None,
        "skill_ids": request.skill_ids.split(),
        "ground_truth": correction,
        "steps": [],
        "metrics": {},
        "metadata": {},
    }
    if feedback.kind == "judgement":
        return trace | shown | _judgement(shown["question"], shown["context"], shown["answer"], request.skill_ids)
    said = feedback_in_words(thumb=feedback.thumb, score=feedback.score, correction=correction, comment=comment)
    return trace | shown | {"feedback": said}


def _finder(connection: sa.Connection, batch: str) -> Finder | None:
    """Return what finds the personal data that a model must not see; None if the book does not replace any."""
    name = sa.select(tables.batch.c.book).where(tables.batch.c.id == batch).scalar_subquery()
    book = connection.execute(sa.select(tables.book).where(tables.book.c.name == name)).one()
    if not book.anonymise:
        return None
    return BuiltInFinder() if book.anonymiser is None else load_finder(book.anonymiser)


def _marked(trace: Any, finder: Finder | None) -> Any:
    """Return a trace in which personal data is replaced by marks, the same ones in all of its texts."""
    if finder is None:
        return trace
    texts = list(_texts_in(trace))
    marked = iter(anonymise(texts, finder).texts)
    return _with_texts(trace, marked)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(each)


def _with_texts(value: Any, texts: Iterator[str]) -> Any:
    """Return a value with the next texts in place of its own, which `_texts_in` yields in the same order."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, dict):
        return {name: _with_texts(each, texts) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_texts(each, texts) for each in value]
    return value


def _judgement(question: str, context: str, answer: str, skill_ids: str) -> dict[str, object]:
    """Return what is said about an answer without feedback, by its form."""
    from ace import Sample
    from ace.environments import HeuristicEnvironment, cites_skill, not_empty
    from ace.outputs import AgentOutput

    output = AgentOutput(reasoning="", final_answer=answer, skill_ids=skill_ids.split())
    judged = HeuristicEnvironment([not_empty(), cites_skill()]).evaluate(Sample(question, context), output)
    return {"feedback": judged.feedback, "metrics": judged.metrics, "verified": judged.verified}


def _by_id(connection: sa.Connection, table: sa.Table, ids: list[str]) -> dict[str, Row]:
    return {row.id: row for row in connection.execute(sa.select(table).where(table.c.id.in_(set(ids))))}


def _opened(seal: Seal, sealed: bytes | None) -> str | None:
    return None if sealed is None else seal.open(sealed)
