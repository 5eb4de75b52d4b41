"""`TopSkills`: the few skills that a question gets to see; and what it works with, by protocols."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Protocol, final, runtime_checkable

from ace.arguments import checked_class
from ace.retrieval.lexical import LexicalRanker, helpfulness, proven_relevance
from ace.skill import Skill

__all__ = ["FindsBest", "HasSkills", "RanksSkills", "TopSkills"]

_is_pinned = attrgetter("pinned")


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


@checked_class
@final
class TopSkills:
    """Chooses the skills that fit a question best, for `ACE.from_roles(retrieval=...)`.

    What counts is the relevance, raised or lowered by how often the skill helped or harmed.

    Args:
        limit: The most skills to choose, from 1; pinned skills, and those of pinned sections, are always chosen.
        ranker: Scores skills against a question; by default their words (BM25).
        pinned_sections: Sections whose skills come first, whatever the question.

    Raises:
        ValueError: The limit is below 1.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> book = Skillbook()
        >>> skills = [book.add_skill("a", text) for text in ("Sort the list first.", "Name the capital.")]
        >>> [skill.content for skill in TopSkills(1)("Which capital?", book)]
        ['Name the capital.']
    """

    def __init__(
        self, limit: int = 20, *, ranker: RanksSkills | None = None, pinned_sections: Collection[str] = ()
    ) -> None:
        if limit < 1:
            raise ValueError(f"the limit is a number of skills from 1, not {limit!r}")
        self.limit = limit
        self.pinned_sections = frozenset(pinned_sections)
        self._ranker: RanksSkills = LexicalRanker() if ranker is None else ranker

    def __call__(self, question: str, skillbook: HasSkills) -> list[Skill]:
        """Return the chosen skills: the pinned ones in the order of the book, then the others, the best first."""
        skills = skillbook.skills()
        if not self.pinned_sections and not any(map(_is_pinned, skills)):  # as in most books; so it costs least
            return self._best(question, skills, self.limit)
        pinned = [skill for skill in skills if skill.pinned or skill.section in self.pinned_sections]
        chosen = {skill.id for skill in pinned}
        others = [skill for skill in skills if skill.id not in chosen]
        left = self.limit - len(pinned)
        return [*pinned, *(self._best(question, others, left) if left > 0 else [])]

    def _best(self, question: str, skills: Sequence[Skill], limit: int) -> list[Skill]:
        if isinstance(self._ranker, FindsBest):
            return list(self._ranker.best(question, skills, limit))
        scores = self._ranker(question, skills)
        relevant = [place for place, score in enumerate(scores) if score > 0]
        best = heapq.nsmallest(
            limit, relevant, key=lambda at: (-proven_relevance(scores[at], skills[at]), -helpfulness(skills[at]), at)
        )
        if len(best) < limit:
            rest = set(range(len(skills))) - set(relevant)
            best += heapq.nsmallest(limit - len(best), rest, key=lambda at: (-helpfulness(skills[at]), at))
        return [skills[place] for place in best]
