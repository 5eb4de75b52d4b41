"""What a retrieval works with. Nobody has to inherit from these classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ace.skill import Skill

__all__ = ["FindsBest", "HasSkills", "RanksSkills"]


class HasSkills(Protocol):
    """What a retrieval reads: a skillbook, or a view of one."""

    def skills(self) -> Sequence[Skill]:
        """Return the active skills in the order of the book."""
        ...


class RanksSkills(Protocol):
    """Says how relevant skills are."""

    def __call__(self, query: str, skills: Sequence[Skill]) -> Sequence[float]:
        """Return one relevance for each skill, from 0, which means none.

        Args:
            query: What the skills are wanted for.
            skills: The skills, in the order of the book.
        """
        ...


@runtime_checkable
class FindsBest(Protocol):
    """A ranker that finds the best skills without a score for each of the others."""

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> Sequence[Skill]:
        """Return the skills with the highest proven relevance, the best first.

        Args:
            query: What the skills are wanted for.
            skills: The skills, in the order of the book.
            limit: The most to return.
        """
        ...
