"""Helper functions for the roles: the skills that a text cites, and the words in it that repeat another one.

This is not part of `prompts`, so that checking a text does not load the prompt files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from ace.arguments import instance_of
from ace.protocols.roles import SkillbookReader

__all__ = [
    "WordRun",
    "extract_cited_skill_ids",
    "first_repeated",
    "format_optional",
    "make_skillbook_excerpt",
    "repeated_share",
    "word_runs",
]

# The first word of a section, a hyphen, and at least five digits; with or without brackets.
_SKILL_ID = re.compile(r"(?<![\w-])[^\W_](?:[\w-]*\w)?-\d{5,}(?!-?\w)")


def extract_cited_skill_ids(text: str) -> list[str]:
    """Return the ids of the skills that a text cites, in the order of their first citation, without duplicates.

    Args:
        text: The reasoning of an agent.

    Example:
        >>> extract_cited_skill_ids("By [maths-00002] and [geography-00001, maths-00002] it is 4.")
        ['maths-00002', 'geography-00001']
    """
    instance_of("text", text, str)
    return list(dict.fromkeys(_SKILL_ID.findall(text)))


def format_optional(value: str | None) -> str:
    """Return the text, or `(none)` if it is empty or None.

    Example:
        >>> format_optional(""), format_optional("yes")
        ('(none)', 'yes')
    """
    return value or "(none)"


def make_skillbook_excerpt(skillbook: SkillbookReader, skill_ids: Iterable[str]) -> str:
    """Return the skills with these ids as lines of the form `[id] content`.

    Args:
        skillbook: The skillbook that contains the skills.
        skill_ids: The ids; unknown ids are skipped, duplicates are shown once.
    """
    found = (skillbook.get_skill(skill_id) for skill_id in dict.fromkeys(skill_ids))
    return "\n".join(f"[{skill.id}] {skill.content}" for skill in found if skill is not None)


WordRun = tuple[str, ...]
"""Consecutive words, in lower case."""

# Scripts without spaces between words: each character counts as a word.
_SIGN: Final = r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]"
_WORD: Final = re.compile(rf"{_SIGN}|(?:(?!{_SIGN})\w)+")


def word_runs(text: str, length: int) -> Iterator[WordRun]:
    """Yield every run of `length` consecutive words in a text.

    Example:
        >>> list(word_runs("Check the units first.", 3))
        [('check', 'the', 'units'), ('the', 'units', 'first')]
    """
    words = _WORD.findall(text.casefold())
    for start in range(len(words) - length + 1):
        yield tuple(words[start : start + length])


def first_repeated(text: str, known: Collection[WordRun], length: int) -> str:
    """Return the first run of `length` words in a text that is among the known runs; empty if none is.

    Example:
        >>> first_repeated("Always write down the rule.", set(word_runs("Write down the rule that it teaches.", 4)), 4)
        'write down the rule'
    """
    return next((" ".join(run) for run in word_runs(text, length) if run in known), "") if known else ""


def repeated_share(text: str, known: Collection[WordRun], length: int) -> float:
    """Return the share of the words of a text that are in known runs of `length` words, from 0 to 1.

    Example:
        >>> repeated_share("Always write down the rule.", set(word_runs("Write down the rule that it teaches.", 4)), 4)
        0.8
    """
    repeated = {
        start + place for start, run in enumerate(word_runs(text, length)) if run in known for place in range(length)
    }
    count = len(_WORD.findall(text))
    return len(repeated) / count if count else 0.0
