"""Hands the skills of a run to a middleware that the agent brings along."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

__all__ = ["SkillOffer", "offered_skills", "offering"]


@final
class SkillOffer:
    """The skills of one run, and whether anybody took them.

    Args:
        skills: The skills as text.
    """

    def __init__(self, skills: str) -> None:
        self._skills = skills
        self.is_taken = False

    def take(self) -> str:
        """Return the skills, and remember that they were taken."""
        self.is_taken = True
        return self._skills


_offer: ContextVar[SkillOffer | None] = ContextVar("ace_langchain_offer", default=None)


@contextmanager
def offering(skills: str) -> Iterator[SkillOffer]:
    """Offer skills to the middleware of whatever runs inside the `with` block.

    Args:
        skills: The skills as text.

    Example:
        >>> with offering("[maths-00001] Add.") as offer:
        ...     offered_skills()
        '[maths-00001] Add.'
        >>> offer.is_taken
        True
    """
    offer = SkillOffer(skills)
    token = _offer.set(offer)
    try:
        yield offer
    finally:
        _offer.reset(token)


def offered_skills() -> str | None:
    """Take the skills that are offered; None if there is no offer."""
    offer = _offer.get()
    return None if offer is None else offer.take()
