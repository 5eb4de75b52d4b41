"""`TopSkills`: selects the most relevant skills for a question; and the protocols that it uses."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Protocol, final, runtime_checkable

from ace._internal.arguments import checked_class, instance_of, whole_number
from ace.retrieval.lexical import helpfulness, proven_relevance
from ace.retrieval.meaning import MeaningRanker
from ace.skill import Skill

__all__ = ["FindsBest", "HasSkills", "RanksSkills", "TopSkills"]

_is_pinned = attrgetter("pinned")


class HasSkills(Protocol):
    """The input of a retrieval: a skillbook or a view of one."""

    def skills(self) -> Sequence[Skill]:
        """Return the active skills in the order of the skillbook."""
        ...


class RanksSkills(Protocol):
    """Scores the relevance of skills."""

    def __call__(self, query: str, skills: Sequence[Skill]) -> Sequence[float]:
        """Return one score for each skill; 0 means not relevant.

        Args:
            query: The question or task.
            skills: The skills, in the order of the skillbook.
        """
        ...


@runtime_checkable
class FindsBest(Protocol):
    """A ranker that finds the best skills without a score for each of the others."""

    def best(self, query: str, skills: Sequence[Skill], limit: int) -> Sequence[Skill]:
        """Return the relevant skills with the highest proven relevance, the best first.

        Args:
            query: The question or task.
            skills: The skills, in the order of the skillbook.
            limit: The maximum number to return; there are fewer if fewer are relevant.
        """
        ...


@checked_class
@final
class TopSkills:
    """Selects the skills that are most relevant to a question, for `ACE.from_roles(retrieval=...)`.

    Skills are ranked by relevance, weighted by how often they were helpful or harmful. Those that are not relevant are
    not selected, so that a question to which no skill applies gets none.

    Args:
        limit: The maximum number of skills, at least 1; pinned skills and those of pinned sections are always selected.
        ranker: Scores skills against a question; by default a `MeaningRanker`.
        pinned_sections: Sections whose skills always come first.

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
        self.limit = whole_number("limit", limit)
        self.pinned_sections = frozenset([pinned_sections] if isinstance(pinned_sections, str) else pinned_sections)
        self._ranker: RanksSkills = MeaningRanker() if ranker is None else ranker

    def __call__(self, question: str, skillbook: HasSkills) -> list[Skill]:
        """Return the selected skills: the pinned ones in the order of the skillbook, then the others, best first."""
        instance_of("question", question, str)
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
        return [skills[place] for place in best]
