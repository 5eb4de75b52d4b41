"""The words of a text, as the lexical searches compare them."""

from __future__ import annotations

import re

__all__ = ["words"]

_WORD = re.compile(r"\w+")
_VOWEL = re.compile(r"[aeiouy]")
_NO_PLURAL = ("ss", "us", "is")
_STAYS_DOUBLE = "aeioulsz"
_SHORTEST = 3
"""The letters that must be left of a word."""


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without common English endings.

    The forms of a word become one; what that is need not be a word.

    Example:
        >>> words("Checking the capitals")
        ['check', 'the', 'capital']
        >>> words("files") == words("file"), words("queries") == words("query"), words("stopped") == words("stop")
        (True, True, True)
    """
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    if len(word) > _SHORTEST and word.endswith("s") and not word.endswith(_NO_PLURAL):
        word = word[:-1]
    for ending in ("ing", "ed"):
        left = word.removesuffix(ending)
        if left != word and len(left) >= _SHORTEST and _VOWEL.search(left):
            is_doubled = len(left) > _SHORTEST and left[-1] == left[-2] and left[-1] not in _STAYS_DOUBLE
            word = left[:-1] if is_doubled else left
            break
    # "file" meets "filing" and "boxes" meets "box"; "query" meets "querie", which is left of "queries".
    if len(word) > _SHORTEST and word.endswith("e"):
        word = word[:-1]
    return f"{word[:-1]}i" if len(word) >= _SHORTEST and word.endswith("y") else word
