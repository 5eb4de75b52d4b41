"""Finds skills by their ids, and proposes the nearest id where there is none."""

from __future__ import annotations

import difflib

from ace.cli.errors import UsageError
from ace.skill import Skill
from ace.skillbook import Skillbook
from ace.skillbook.stores import shown_location

__all__ = ["bare_id", "find_active", "find_skill", "unknown_skill"]


def find_skill(book: Skillbook, location: str, skill_id: str) -> Skill:
    """Return a skill, active or not.

    Args:
        book: The book.
        location: Where it was opened.
        skill_id: The id, with or without the brackets of a citation.

    Raises:
        UsageError: There is none; the text proposes the nearest id.
    """
    skill = book.get_skill(bare_id(skill_id))
    if skill is None:
        raise unknown_skill(book, location, skill_id)
    return skill


def find_active(book: Skillbook, location: str, skill_id: str) -> Skill:
    """Return a skill that agents can see.

    Args:
        book: The book.
        location: Where it was opened.
        skill_id: The id, with or without the brackets of a citation.

    Raises:
        UsageError: There is no such skill, or it was removed or merged into another one.
    """
    skill = find_skill(book, location, skill_id)
    if skill.merged_into is not None:
        raise UsageError(f"the skill {skill.id!r} was merged into {skill.merged_into!r}; use that id")
    if not skill.is_active:
        raise UsageError(f"the skill {skill.id!r} was removed; `ace skillbook restore {skill.id}` brings it back")
    return skill


def bare_id(skill_id: str) -> str:
    """Return an id without the brackets of a citation.

    Args:
        skill_id: What the user typed.

    Example:
        >>> bare_id("[maths-00001]")
        'maths-00001'
    """
    return skill_id.strip().removeprefix("[").removesuffix("]")


def unknown_skill(book: Skillbook, location: str, skill_id: str) -> UsageError:
    """Return the error for an id that does not exist.

    Args:
        book: The book.
        location: Where it was opened.
        skill_id: What the user typed.
    """
    known = [skill.id for skill in book.skills(include_invalid=True)]
    near = difflib.get_close_matches(bare_id(skill_id), known, n=1)
    what_to_do = f"did you mean {near[0]!r}?" if near else "`ace skillbook show --all` lists all skills"
    return UsageError(f"the skillbook {shown_location(location)!r} has no skill {skill_id!r}; {what_to_do}")
