"""Converts feedback to the traces that are learned from.

A correction is the right answer. A score or a thumb is feedback in words: a thumbs-up does not make our own answer the
right one. An answer without feedback is judged by its form, and the reflector is told that it was not verified.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ace_server import tables

if TYPE_CHECKING:
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
        connection: A transaction that writes.
        batch: The id of the batch.
    """
    chosen = sa.select(_FEEDBACK).where(_FEEDBACK.c.batch == batch, _FEEDBACK.c.state == "batched")
    rows = connection.execute(chosen.order_by(_FEEDBACK.c.at, _FEEDBACK.c.id)).all()
    requests = _by_id(connection, _REQUEST, [row.request for row in rows if row.request is not None])
    traces: dict[str, object] = {}
    purged: list[str] = []
    for row in rows:
        request = requests.get(row.request)
        if row.kind == "trace" and row.trace is not None:
            traces[row.id] = json.loads(service.seal.open(row.trace))
        elif request is None:
            purged.append(row.id)
        else:
            traces[row.id] = _trace(service.seal, row, request)
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


def _trace(seal: Seal, feedback: Row, request: Row) -> dict[str, object]:
    """Return the standard trace of one answer and what was said about it."""
    shown = {
        "question": seal.open(request.question),
        "context": _opened(seal, request.context) or "",
        "reasoning": _opened(seal, request.reasoning) or "",
        "answer": seal.open(request.answer),
    }
    correction = _opened(seal, feedback.correction)
    # What a user writes is often a rule with its reason, so a skill may say the same, unlike a right answer.
    corrections = [] if correction is None else [_corrected(shown["question"], shown["answer"], correction)]
    trace: dict[str, object] = {
        "schema": 1,
        "success": None,
        "skill_ids": request.skill_ids.split(),
        "ground_truth": None,
        "steps": [],
        "corrections": corrections,
        "metrics": {},
        "metadata": {},
    }
    if feedback.kind == "judgement":
        return trace | shown | _judgement(shown["question"], shown["context"], shown["answer"], request.skill_ids)
    said = feedback_in_words(
        thumb=feedback.thumb,
        score=feedback.score,
        correction=correction,
        comment=_opened(seal, feedback.comment),
    )
    return trace | shown | {"feedback": said}


def _corrected(question: str, answer: str, correction: str) -> dict[str, str]:
    """Return the correction of an answer, as a field of its trace."""
    return {"question": question, "wrong": answer, "correction": correction, "right": "", "place": "feedback"}


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
