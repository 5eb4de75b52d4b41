"""Selects skills of a skillbook: one by its id, those that fit a question, or some as a separate book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from ace._internal.arguments import closest_name
from ace._internal.json_fields import JsonValue
from ace.cli.errors import UsageError
from ace.skill import Skill
from ace.skillbook import Skillbook
from ace.skillbook.locations import shown_location

__all__ = ["bare_id", "chosen_skills", "find_active", "find_skill", "part_of", "unknown_skill"]


def chosen_skills(skills: Sequence[Skill], query: str | None, budget: int | None) -> list[Skill]:
    """Return the skills: with a question, only those that fit it and the pinned ones, the most relevant first.

    Args:
        skills: The skills to choose from.
        query: The question, or None.
        budget: The maximum number of tokens of their lines in a prompt, or None.

    Example:
        >>> skills = [Skill("a-00001", "a", "Round at the end."), Skill("a-00002", "a", "Check the units.")]
        >>> [skill.id for skill in chosen_skills(skills, "Which units?", 15)]
        ['a-00002']
    """
    if query is None and budget is None:
        return list(skills)
    from ace.retrieval import MeaningRanker
    from ace.skillbook.line_formats import FORMATS
    from ace.skillbook.selection import estimate_tokens, fitting, ranked, write_ranked

    order = ranked(skills, query, MeaningRanker())
    if budget is None:
        return order
    written: dict[str, Sequence[Skill]] = {"": ()}

    def write(some: Sequence[Skill]) -> str:
        text = write_ranked(FORMATS["markdown"], some)
        written[text] = some
        return text

    return list(written[fitting(lambda count: order[:count], len(order), write, budget, estimate_tokens)])


def find_skill(book: Skillbook, location: str, skill_id: str) -> Skill:
    """Return a skill, active or not.

    Args:
        location: Where it was opened.
        skill_id: The id, with or without the brackets of a citation.

    Raises:
        UsageError: It does not exist; the text suggests the most similar id.
    """
    skill = book.get_skill(bare_id(skill_id))
    if skill is None:
        raise unknown_skill(book, location, skill_id)
    return skill


def find_active(book: Skillbook, location: str, skill_id: str) -> Skill:
    """Return a skill that agents can see.

    Args:
        location: Where it was opened.
        skill_id: The id, with or without the brackets of a citation.

    Raises:
        UsageError: There is no such skill, or it is pending, or was rejected, removed or merged into another one.
    """
    skill = find_skill(book, location, skill_id)
    if skill.merged_into is not None:
        raise UsageError(f"the skill {skill.id!r} was merged into {skill.merged_into!r}; use that id")
    if skill.is_pending or skill.is_rejected:
        state = "pending" if skill.is_pending else "rejected"
        raise UsageError(f"the skill {skill.id!r} is {state}; `ace review --accept {skill.id}` makes it active")
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
        location: Where it was opened.
        skill_id: What the user typed.
    """
    known = [skill.id for skill in book.skills(include_invalid=True)]
    near = closest_name(bare_id(skill_id), known)
    what_to_do = f"did you mean {near!r}?" if near else "`ace skillbook show --all` lists all skills"
    if Path(skill_id).is_file():
        what_to_do = f"for another skillbook, give --skillbook {skill_id}"
    return UsageError(f"the skillbook {shown_location(location)!r} has no skill {skill_id!r}; {what_to_do}")


def part_of(book: Skillbook, ids: Set[str]) -> Skillbook:
    """Return a book in memory with some skills of another one.

    Args:
        book: The book; it is not changed.
        ids: The skills.

    Example:
        >>> book = Skillbook()
        >>> first, second = (book.add_skill("maths", text) for text in ("Check the units.", "Round at the end."))
        >>> [skill.id for skill in part_of(book, {second.id})]
        ['maths-00002']
    """
    whole = book.to_dict()
    skills, sections, decisions = (_object(whole[name]) for name in ("skills", "sections", "similarity_decisions"))
    members = {
        name: [id for id in listed if id in ids] for name, listed in sections.items() if isinstance(listed, list)
    }
    kept_pairs = {",".join(pair) for pair in book.similarity_decisions() if ids >= set(pair)}
    return Skillbook.from_dict(
        {
            **whole,
            "skills": {id: skill for id, skill in skills.items() if id in ids},
            "sections": {name: listed for name, listed in members.items() if listed},
            "similarity_decisions": {pair: decision for pair, decision in decisions.items() if pair in kept_pairs},
        }
    )


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
