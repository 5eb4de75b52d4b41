"""What a person has to decide about: feedback, uncertain answers and candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import sqlalchemy as sa

from ace_server import releases, tables
from ace_server.database import new_id, now

if TYPE_CHECKING:
    from ace_server.seal import Seal

__all__ = ["AlreadyDecidedError", "Decision", "ReviewKind", "UnknownReviewError", "add_review", "decide"]

Decision = Literal["accept", "edit", "reject"]
ReviewKind = Literal["feedback", "contradiction", "uncertain", "release"]

_REVIEW: Final = tables.review
_FEEDBACK: Final = tables.feedback
_STATES: Final = {"accept": "accepted", "edit": "edited", "reject": "rejected"}


class UnknownReviewError(LookupError):
    """There is nothing to decide with this id."""


class AlreadyDecidedError(ValueError):
    """It was decided before."""


def add_review(
    connection: sa.Connection,
    book: str,
    kind: ReviewKind,
    reason: str,
    *,
    request: str | None = None,
    feedback: str | None = None,
    release: str | None = None,
    subject: str | None = None,
) -> str:
    """List something for review, and return the id of the item.

    Args:
        connection: A transaction that writes.
        book: The name of the book.
        kind: What it is about.
        reason: Why a person should look at it; it must not quote a user.
        request: The id of the request.
        feedback: The id of the feedback.
        release: The id of the release.
        subject: Whose data it is about.
    """
    item = new_id("rev")
    about = {"request": request, "feedback": feedback, "release": release, "subject": subject}
    connection.execute(
        sa.insert(_REVIEW).values(id=item, at=now(), book=book, kind=kind, reason=reason, state="open", **about)
    )
    return item


def decide(
    connection: sa.Connection,
    seal: Seal,
    review: str,
    decision: Decision,
    *,
    by: str,
    content: str | None = None,
    ground_truth: str | None = None,
    note: str | None = None,
) -> None:
    """Decide about an item, and do what follows from it.

    Feedback that is accepted is learned from, with the right answer of the person if there is one; feedback that is
    rejected is not. The answer to an uncertain request is learned from as if a user had judged it: as good if it is
    accepted, as wrong if the right answer is given. A release that is accepted is published.

    Args:
        connection: A transaction that writes.
        seal: Seals the texts.
        review: The id of the item.
        decision: What was decided.
        by: The id of the key.
        content: What the person wrote instead of the proposal.
        ground_truth: The right answer.
        note: Why.

    Raises:
        UnknownReviewError: There is no such item.
        AlreadyDecidedError: It was decided before.
    """
    row = connection.execute(sa.select(_REVIEW).where(_REVIEW.c.id == review).with_for_update()).first()
    if row is None:
        raise UnknownReviewError(f"there is nothing to review with the id {review!r}")
    if row.state != "open":
        raise AlreadyDecidedError(f"{review!r} was decided before: it is {row.state}")
    texts = {"content": content, "ground_truth": ground_truth, "note": note}
    sealed = {name: None if text is None else seal.seal(text) for name, text in texts.items()}
    feedback = row.feedback
    if row.kind == "uncertain" and decision != "reject":
        feedback = _add_judged(connection, row.book, row.request, row.subject, by, sealed["ground_truth"])
    elif feedback is not None:
        _release_held(connection, feedback, is_accepted=decision != "reject")
    if row.kind == "release" and decision != "reject":
        releases.publish(connection, row.release, by=by)
    decided = {"state": _STATES[decision], "decided_at": now(), "decided_by": by, "feedback": feedback}
    connection.execute(sa.update(_REVIEW).where(_REVIEW.c.id == review).values(decided | sealed))


def _release_held(connection: sa.Connection, feedback: str, *, is_accepted: bool) -> None:
    changed = sa.update(_FEEDBACK).where(_FEEDBACK.c.id == feedback, _FEEDBACK.c.state == "held")
    connection.execute(changed.values(state="new" if is_accepted else "rejected"))


def _add_judged(
    connection: sa.Connection, book: str, request: str, subject: str | None, by: str, correction: bytes | None
) -> str:
    """Add what a person says about an answer as feedback, and return its id."""
    feedback = new_id("fb")
    judged = {"thumb": "up"} if correction is None else {"correction": correction}
    about = {"book": book, "kind": "feedback", "request": request, "key": by, "subject": subject}
    connection.execute(sa.insert(_FEEDBACK).values(id=feedback, at=now(), state="new", **about, **judged))
    return feedback
