"""A part of a skillbook as a book of its own."""

from __future__ import annotations

from collections.abc import Mapping, Set

from ace.skillbook import Skillbook
from ace.skillbook.json_write import JsonValue

__all__ = ["part_of"]


def part_of(book: Skillbook, ids: Set[str]) -> Skillbook:
    """Return a book in memory that holds some skills of another one.

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
            "similarity_decisions": {pair: each for pair, each in decisions.items() if pair in kept_pairs},
        }
    )


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
