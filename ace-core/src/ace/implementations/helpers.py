"""Small functions that the roles share."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ace.protocols.roles import SkillbookReader

__all__ = ["extract_cited_skill_ids", "format_optional", "make_skillbook_excerpt"]

# First word of a section, a hyphen, and at least five digits; in brackets or not.
_SKILL_ID = re.compile(r"(?<![\w-])[^\W_](?:[\w-]*\w)?-\d{5,}(?!-?\w)")


def extract_cited_skill_ids(text: str) -> list[str]:
    """Return the skill ids that a text cites, in the order of their first use, each once.

    Args:
        text: The reasoning of an agent.

    Example:
        >>> extract_cited_skill_ids("By [maths-00002] and [geography-00001, maths-00002] it is 4.")
        ['maths-00002', 'geography-00001']
    """
    return list(dict.fromkeys(_SKILL_ID.findall(text)))


def format_optional(value: str | None) -> str:
    """Return the value, or `(none)` where there is nothing.

    Args:
        value: A text that may be missing.

    Example:
        >>> format_optional(""), format_optional("yes")
        ('(none)', 'yes')
    """
    return value or "(none)"


def make_skillbook_excerpt(skillbook: SkillbookReader, skill_ids: Iterable[str]) -> str:
    """Return the skills with these ids, one to a line, as `[id] content`.

    Args:
        skillbook: The skills.
        skill_ids: The ids; an unknown one is skipped, a repeated one is shown once.
    """
    found = (skillbook.get_skill(skill_id) for skill_id in dict.fromkeys(skill_ids))
    return "\n".join(f"[{skill.id}] {skill.content}" for skill in found if skill is not None)
