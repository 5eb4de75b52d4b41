"""The ids of skills: the first word of the section and a number."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

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


def number_after(ids: Iterable[str]) -> int:
    """Return the first number above every number in the ids: where the counter goes on.

    Example:
        >>> number_after(["geography-00007", "math-00003", "free text"])
        8
    """
    numbers = (int(match.group(1)) for id in ids if (match := _NUMBER.search(id)))
    return max(numbers, default=0) + 1
