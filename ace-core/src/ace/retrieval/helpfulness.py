"""How much a skill has proven itself, and what that does to its relevance."""

from __future__ import annotations

from typing import Final

from ace.skill import Skill

__all__ = ["helpfulness", "proven_relevance"]

WEIGHT: Final = 0.25
"""By which part of itself the relevance of a skill that always helped grows, and of one that always harmed shrinks."""


def helpfulness(skill: Skill) -> float:
    """Return how much the counters speak for a skill, between -1 and 1; 0 for an untried one.

    Example:
        >>> helpfulness(Skill("a-00001", "a", "Sort first.", helpful=6))
        0.75
    """
    return (skill.helpful - skill.harmful) / (skill.helpful + skill.harmful + 2)


def proven_relevance(relevance: float, skill: Skill) -> float:
    """Return the relevance, raised for a skill that helped and lowered for one that harmed.

    Args:
        relevance: What a ranker said, from 0.
        skill: The skill.

    Example:
        >>> proven_relevance(2.0, Skill("a-00001", "a", "Sort first.", helpful=6))
        2.375
    """
    return relevance * (1 + WEIGHT * helpfulness(skill))
