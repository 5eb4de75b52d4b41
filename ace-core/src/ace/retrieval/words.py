"""The words of a text, as the lexical searches compare them."""

from __future__ import annotations

import re

__all__ = ["words"]

_WORD = re.compile(r"\w+")
_ENDINGS = ("ing", "ies", "ed", "es", "s")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without common English endings.

    Example:
        >>> words("Checking the capitals")
        ['check', 'the', 'capital']
    """
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
