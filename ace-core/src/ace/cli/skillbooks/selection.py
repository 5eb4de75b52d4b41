"""Chooses skills for a question and a budget, as a prompt would."""

from __future__ import annotations

from collections.abc import Sequence

from ace.skill import Skill

__all__ = ["chosen_skills"]


def chosen_skills(skills: Sequence[Skill], query: str | None, budget: int | None) -> list[Skill]:
    """Return the skills, the most wanted first where a question or a budget is given.

    Args:
        skills: The skills to choose from.
        query: The question, or None.
        budget: The most tokens that their lines in a prompt may have, or None.

    Example:
        >>> skills = [Skill("a-00001", "a", "Round at the end."), Skill("a-00002", "a", "Check the units.")]
        >>> [skill.id for skill in chosen_skills(skills, "Which units?", 15)]
        ['a-00002']
    """
    if query is None and budget is None:
        return list(skills)
    from ace.retrieval import LexicalRanker
    from ace.skillbook.line_formats import FORMATS
    from ace.skillbook.selection import estimate_tokens, fitting, ranked, write_ranked

    order = ranked(skills, query, LexicalRanker())
    if budget is None:
        return order
    written: dict[str, Sequence[Skill]] = {"": ()}

    def write(some: Sequence[Skill]) -> str:
        text = write_ranked(FORMATS["markdown"], some)
        written[text] = some
        return text

    return list(written[fitting(order, write, budget, estimate_tokens)])
