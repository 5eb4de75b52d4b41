"""Accepts and rejects skills of a skillbook, there and where they land."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ace.cli.errors import UsageError
from ace.cli.skillbooks.landing import Landing
from ace.cli.skillbooks.opened_book import save
from ace.skill import INVALID, Skill
from ace.skillbook import Skillbook

__all__ = ["AUTHOR", "Decider"]

AUTHOR = "ace review"
"""The author of the decisions in the history."""


@dataclass(frozen=True, slots=True)
class Decider:
    """Makes the decisions about an open skillbook."""

    book: Skillbook
    location: str
    """Where it was opened."""
    landing: Landing | None
    """The file that shows its skills to agents."""

    def decide(
        self, accepted: Sequence[Skill], rejected: Sequence[Skill], because: str = ""
    ) -> tuple[list[tuple[str, Skill]], int | None]:
        """Accept and reject skills, as one version.

        Args:
            accepted: The skills that agents are to be shown.
            rejected: The skills that are wrong or not wanted.
            because: Why.

        Returns:
            Each decision as a verb with the skill after it, and the version; None for a skillbook without history.

        Raises:
            UsageError: One of the decisions is not possible, or the file that shows the skills cannot be written.
        """
        if problem := _problem(accepted, rejected):
            raise UsageError(f"{problem}, so nothing was changed")
        if self.landing is not None:
            self.landing.check()
        with self.book.deferred_commits():
            changes = [("accepted", self.book.accept_skill(skill.id)) for skill in accepted]
            changes += [("rejected", self.book.reject_skill(skill.id, because)) for skill in rejected]
            version = save(self.book, self.location, author=AUTHOR)
        if self.landing is not None:
            self.landing.decided(self.book, [skill.id for skill in accepted])
        return changes, version


def _problem(accepted: Sequence[Skill], rejected: Sequence[Skill]) -> str:
    """Return why not all of the decisions are possible; empty if they are."""
    for skill in accepted:
        if skill in rejected:
            return f"the skill {skill.id!r} cannot be both accepted and rejected"
        if not (skill.is_pending or skill.is_rejected):
            return f"the skill {skill.id!r} is neither pending nor rejected"
    for skill in rejected:
        if skill.status == INVALID:
            return f"the skill {skill.id!r} is neither active nor pending"
        if skill.pinned:
            return f"the skill {skill.id!r} is pinned"
    return ""
