"""The skills as text for a prompt, whole as long as they are not too many."""

from __future__ import annotations

from ace.protocols.skillbook import SkillbookReader
from ace.skillbook.selection import estimate_tokens

__all__ = ["skillbook_for_prompt"]

_MOST_TOKENS = 20_000
_LONGEST_QUERY = 2000


def skillbook_for_prompt(skillbook: SkillbookReader, query: str) -> str:
    """Return all skills, or, of a book that is too large, the ones that fit the query best.

    Args:
        skillbook: The skills.
        query: What the skills are needed for.
    """
    whole = skillbook.as_prompt()
    if estimate_tokens(whole) <= _MOST_TOKENS:
        return whole
    return skillbook.as_prompt(budget_tokens=_MOST_TOKENS, query=query[:_LONGEST_QUERY])
