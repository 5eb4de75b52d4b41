"""`ace server review`: the candidates that wait for a person, with what each would change and why, and the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from ace.integrations import UsageError, counted, print_text, visible
from ace.skillbook import SkillbookError
from ace_server import audit, reviews, tables
from ace_server.candidates import CandidateChange, candidate_changes, changes_with_origins, withdraw
from ace_server.opening import book_opener, opened_seal

if TYPE_CHECKING:
    from ace_server.database import Database, Row
    from ace_server.settings import ServerSettings

__all__ = ["OpenReview", "decide_review", "open_reviews", "print_reviews"]

_BY = "command"


class OpenReview(NamedTuple):
    """A candidate that waits for a person."""

    row: Row
    changes: Sequence[CandidateChange]

    def as_json(self) -> dict[str, object]:
        """Return it for a program."""
        changes = [
            {
                "kind": change.kind,
                "skill": change.skill.id,
                "before": None if change.before is None else change.before.content,
                "after": None if change.after is None else change.after.content,
                "origins": [asdict(origin) for origin in change.origins],
            }
            for change in self.changes
        ]
        return {"id": self.row.id, "book": self.row.book, "release": self.row.release, "changes": changes}


def open_reviews(settings: ServerSettings, database: Database) -> list[OpenReview]:
    """Return the candidates that wait for a person, oldest first.

    Raises:
        UsageError: A skillbook cannot be read, or the keys of the seal are missing.
    """
    review, release = tables.review, tables.release
    query = (
        sa.select(review, release.c.version)
        .join(release, release.c.id == review.c.release)
        .where(review.c.state == "open")
        .order_by(review.c.id)
    )
    with database.reading() as connection:
        rows = connection.execute(query).all()
    seal = opened_seal(settings, database)
    found = []
    for row in rows:
        try:
            difference = candidate_changes(database, book_opener(settings, database), row.book, row.version)
        except SkillbookError as error:
            raise UsageError(str(error)) from error
        found.append(OpenReview(row, changes_with_origins(database, seal, difference)))
    with database.writing() as connection:
        audit.record(connection, who=_BY, what="text.read", target=" ".join(row.id for row in rows))
    return found


def print_reviews(found: Sequence[OpenReview]) -> None:
    """Print candidates, with invisible characters shown.

    Args:
        found: The candidates.
    """
    if not found:
        print_text("Nothing waits for a decision.")
    for review in found:
        print_text(f"{review.row.id}: version {review.row.version} of {review.row.book}")
        for change in review.changes:
            print_text(f"  {change.kind} [{visible(change.skill.id)}] {visible(change.skill.content)}")
            if change.kind == "changed" and change.before is not None:
                print_text(f"    before: {visible(change.before.content)}")
            for origin in change.origins:
                for name in ("question", "answer", "correction", "comment"):
                    text = getattr(origin, name)
                    if text:
                        print_text(f"    {name}: {visible(text)}")


def decide_review(
    settings: ServerSettings, database: Database, review: str, decision: reviews.ReviewDecision, *, removes: bool
) -> None:
    """Accept or reject a candidate.

    Args:
        settings: The settings of the service.
        database: Its database.
        review: The id of the review.
        decision: Whether it is published.
        removes: Whether skills may be removed from what users get.

    Raises:
        UsageError: There is no such open review, or it removes skills and that was not confirmed.
    """
    chosen = next((found for found in open_reviews(settings, database) if found.row.id == review), None)
    if chosen is None:
        raise UsageError(f"no such open review of a release: {review!r}; 'ace server review list' lists them")
    removed = sum(change.kind == "removed" for change in chosen.changes)
    if decision == "accept" and removed and not removes:
        raise UsageError(f"it would remove {counted(removed, 'skill')} from what users get; give --confirm-removals")
    release = tables.release
    withdrawn = None
    if decision == "reject":
        with database.reading() as connection:
            row = connection.execute(sa.select(release).where(release.c.id == chosen.row.release)).one()
        try:
            withdrawn = withdraw(database, book_opener(settings, database), row, by=_BY)
        except SkillbookError as error:
            raise UsageError(str(error)) from error
    seal = opened_seal(settings, database)
    try:
        with database.writing() as connection:
            reviews.decide(connection, seal, review, decision, by=_BY, withdrawn=withdrawn)
            audit.record(connection, who=_BY, what="review.decide", target=review)
    except (reviews.AlreadyDecidedError, reviews.UnknownReviewError) as error:
        raise UsageError(str(error)) from error
