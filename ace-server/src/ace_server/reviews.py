"""Reviews: what a person has to decide, and the decisions."""

from __future__ import annotations

from typing import Final, Literal

import sqlalchemy as sa

from ace_server import releases, tables
from ace_server.candidates import Withdrawn
from ace_server.database import new_id, now
from ace_server.seal import Seal

__all__ = [
    "AlreadyDecidedError",
    "ReleaseNotEditableError",
    "ReviewDecision",
    "UnknownReviewError",
    "add_review",
    "decide",
]

ReviewDecision = Literal["accept", "edit", "reject"]

_REVIEW: Final = tables.review
_FEEDBACK: Final = tables.feedback
_STATES: Final = {"accept": "accepted", "edit": "edited", "reject": "rejected"}


class UnknownReviewError(LookupError):
    """There is no review with this id."""


class AlreadyDecidedError(Exception):
    """The review was decided before."""


class ReleaseNotEditableError(Exception):
    """The decision is to edit a release, which can only be accepted or rejected."""


def add_review(
    connection: sa.Connection,
    book: str,
    kind: str,
    *,
    reason: str | None = None,
    request: str | None = None,
    feedback: str | None = None,
    release: str | None = None,
    subject: str | None = None,
) -> str:
    """Add a review, and return its id.

    Args:
        connection: A transaction that writes.
        book: The name of the book.
        kind: feedback, contradiction, uncertain or release.
        reason: The reason for the review, without text of users.
        request: The id of the request.
        feedback: The id of the feedback.
        release: The id of the release.
        subject: The subject of the request.
    """
    review = new_id("rev")
    connection.execute(
        sa.insert(_REVIEW).values(
            id=review,
            at=now(),
            book=book,
            kind=kind,
            reason=reason,
            request=request,
            feedback=feedback,
            release=release,
            subject=subject,
            state="open",
        )
    )
    return review


def decide(
    connection: sa.Connection,
    seal: Seal,
    review: str,
    decision: ReviewDecision,
    *,
    by: str,
    content: str | None = None,
    ground_truth: str | None = None,
    note: str | None = None,
    withdrawn: Withdrawn | None = None,
) -> None:
    """Decide a review, and apply the consequences.

    - Feedback that was accepted is learned from with the next batch; `content` replaces its comment, and `ground_truth`
      its correction. Feedback that was rejected is not learned from.
    - A release that was accepted is published, one that was rejected is retired. Later candidates contain what was
      rejected, so they are superseded by one without it.
    - A request that was uncertain becomes feedback, if the right answer or a remark is given.

    Args:
        connection: A transaction that writes.
        seal: Seals the texts.
        review: The id of the review.
        decision: What was decided.
        by: The id of the key.
        content: The new comment of the feedback.
        ground_truth: The right answer.
        note: The reason, for other reviewers.
        withdrawn: What `candidates.withdraw` has returned for a release that is rejected.

    Raises:
        UnknownReviewError: The review does not exist.
        AlreadyDecidedError: It was decided before.
        ReleaseNotEditableError: The decision is `edit`, and it is about a release.
    """
    decided = connection.execute(
        sa.update(_REVIEW)
        .where(_REVIEW.c.id == review, _REVIEW.c.state == "open")
        .values(
            state=_STATES[decision],
            decided_at=now(),
            decided_by=by,
            content=_sealed(seal, content),
            ground_truth=_sealed(seal, ground_truth),
            note=_sealed(seal, note),
        )
    )
    row = connection.execute(sa.select(_REVIEW).where(_REVIEW.c.id == review)).first()
    if row is None:
        raise UnknownReviewError(f"no such review: {review!r}")
    if decided.rowcount != 1:
        raise AlreadyDecidedError(f"the review {review!r} was decided before")
    if row.release is not None:
        _decide_release(connection, row.release, decision, by, withdrawn)
    elif row.feedback is not None:
        _decide_feedback(connection, seal, row.feedback, decision, content, ground_truth)
    elif row.request is not None and decision != "reject" and (content or ground_truth):
        _add_feedback(connection, seal, row, content, ground_truth, by)


def _decide_release(
    connection: sa.Connection, release: str, decision: ReviewDecision, by: str, withdrawn: Withdrawn | None
) -> None:
    if decision == "edit":
        raise ReleaseNotEditableError("a release can be accepted or rejected, but not edited")
    if decision == "reject":
        table = tables.release
        connection.execute(
            sa.update(table).where(table.c.id == release, table.c.state == "candidate").values(state="retired")
        )
        if withdrawn is not None:
            _offer_the_rest(connection, release, by, withdrawn)
    else:
        releases.publish(connection, release, by=by, reason="accepted in review")


def _offer_the_rest(connection: sa.Connection, rejected: str, by: str, withdrawn: Withdrawn) -> None:
    """Replace the candidates that contain what was rejected by one that does not."""
    table = tables.release
    row = connection.execute(sa.select(table).where(table.c.id == rejected)).one()
    replaced = releases.supersede(connection, row.book, table.c.version > row.version)
    reason = f"without what was rejected with version {row.version}"
    rest = releases.add_release(connection, row.book, withdrawn.version, by=by, reason=reason)
    if replaced and withdrawn.differs:
        add_review(connection, row.book, "release", reason=reason, release=rest)
    else:  # it is kept because a batch that is being learned from must not offer an older version
        unpublished = sa.update(table).where(table.c.id == rest, table.c.state == "candidate")
        connection.execute(unpublished.values(state="retired"))


def _decide_feedback(
    connection: sa.Connection,
    seal: Seal,
    feedback: str,
    decision: ReviewDecision,
    content: str | None,
    ground_truth: str | None,
) -> None:
    values: dict[str, object] = {"state": "rejected" if decision == "reject" else "new"}
    if content is not None:
        values["comment"] = seal.seal(content)
    if ground_truth is not None:
        values["correction"] = seal.seal(ground_truth)
    connection.execute(
        sa.update(_FEEDBACK).where(_FEEDBACK.c.id == feedback, _FEEDBACK.c.state == "held").values(values)
    )


def _add_feedback(
    connection: sa.Connection,
    seal: Seal,
    review: sa.Row[tuple[object, ...]],
    content: str | None,
    ground_truth: str | None,
    by: str,
) -> None:
    feedback = new_id("fbk")
    connection.execute(
        sa.insert(_FEEDBACK).values(
            id=feedback,
            at=now(),
            book=review.book,
            kind="feedback",
            request=review.request,
            key=by,
            subject=review.subject,
            comment=_sealed(seal, content),
            correction=_sealed(seal, ground_truth),
            state="new",
        )
    )
    # So it is known that a person has accepted it.
    connection.execute(sa.update(_REVIEW).where(_REVIEW.c.id == review.id).values(feedback=feedback))


def _sealed(seal: Seal, text: str | None) -> bytes | None:
    return None if text is None else seal.seal(text)
