"""The ids of skills: the first word of the section and a number."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

FALLBACK_WORD = "skill"
LONGEST_WORD = 40
_WORD = re.compile(r"[a-z0-9][a-z0-9_-]*")
_OURS = re.compile(r"[a-z0-9][a-z0-9_-]*-\d{5,9}\Z", re.ASCII)
_NUMBER = re.compile(r"-(\d{1,9})\Z", re.ASCII)
"""A longer number in a foreign id is a hash or a date, not our counter."""


@functools.lru_cache(maxsize=1024)
def id_word(section: str) -> str:
    """Return the word with which the ids of a section begin.

    Example:
        >>> id_word("Error handling"), id_word("Über uns"), id_word("")
        ('error', 'skill', 'skill')
    """
    words = section.lower().split(maxsplit=1)
    if not words or not section.isascii():
        return FALLBACK_WORD
    match = _WORD.search(words[0])
    return match.group()[:LONGEST_WORD].rstrip("-_") if match else FALLBACK_WORD


def skill_id(section: str, number: int) -> str:
    """Return the id of the skill with this number.

    Example:
        >>> skill_id("geography", 1)
        'geography-00001'
    """
    return f"{id_word(section)}-{number:05d}"


def looks_like_ours(id: str) -> bool:
    """Return whether a book could have made this id.

    Example:
        >>> looks_like_ours("geography-00001"), looks_like_ours("new skill")
        (True, False)
    """
    return _OURS.match(id) is not None


def is_citable(id: str) -> bool:
    """Return whether an id can be cited in brackets: it is visible, without blanks and brackets.

    Example:
        >>> is_citable("geography-00001"), is_citable("new skill"), is_citable("a]-1"), is_citable("")
        (True, False, False, False)
    """
    return bool(id) and id.isprintable() and not any(sign in id for sign in " []")


def citable_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return new ids for those that cannot be cited, each as near to the old one as possible.

    Args:
        ids: All ids of a book, which differ.

    Example:
        >>> citable_ids(["a-1", "a 1", "a]1", ""])
        {'a 1': 'a_1', 'a]1': 'a_1_2', '': 'skill'}
    """
    taken = set(ids)
    renamed: dict[str, str] = {}
    for id in ids:
        if is_citable(id):
            continue
        plain = "".join(sign if is_citable(sign) else "_" for sign in id) or FALLBACK_WORD
        new, number = plain, 1
        while new in taken:
            number += 1
            new = f"{plain}_{number}"
        taken.add(new)
        renamed[id] = new
    return renamed


def number_after(ids: Iterable[str]) -> int:
    """Return the first number above every number in the ids: where the counter goes on.

    Example:
        >>> number_after(["geography-00007", "math-00003", "free text"])
        8
    """
    numbers = (int(match.group(1)) for id in ids if (match := _NUMBER.search(id)))
    return max(numbers, default=0) + 1
