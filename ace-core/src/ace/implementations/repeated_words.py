"""Finds out whether a text repeats another one word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["repeats"]

_WORD: Final = re.compile(r"\w+")


def repeats(text: str, other: str, *, count: int) -> bool:
    """Tell whether a text has so many consecutive words of another one.

    Args:
        text: The text.
        other: What it may not repeat.
        count: How many words make a repetition.

    Example:
        >>> repeats("Always write down the rule.", "Write down the rule that it teaches.", count=4)
        True
        >>> repeats("Write the rule down.", "Write down the rule that it teaches.", count=4)
        False
    """
    known = set(_runs(other, count))
    return any(run in known for run in _runs(text, count))


def _runs(text: str, count: int) -> Iterator[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    for start in range(len(words) - count + 1):
        yield tuple(words[start : start + count])
