"""The difference between two texts, word by word, and the places where a search matches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

__all__ = ["DiffPart", "marked", "word_diff"]

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_MOST_WORDS: Final = 1500
"""Longer texts are compared by lines: the time for a comparison grows with the square of the number of parts."""


class DiffPart(NamedTuple):
    """A part of a text that was kept, added or removed."""

    kind: Literal["same", "added", "removed"]
    text: str


def word_diff(before: str, after: str) -> list[DiffPart]:
    """Return the parts of both texts, in the order in which they are read.

    Args:
        before: The old text.
        after: The new text.

    Example:
        >>> [(part.kind, part.text) for part in word_diff("Check the units.", "Check all units.")]
        [('same', 'Check '), ('removed', 'the'), ('added', 'all'), ('same', ' units.')]
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > _MOST_WORDS:
        old, new = _LINES.findall(before), _LINES.findall(after)
    parts = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(DiffPart("same", "".join(old[first:last])))
            continue
        if first < last:
            parts.append(DiffPart("removed", "".join(old[first:last])))
        if new_first < new_last:
            parts.append(DiffPart("added", "".join(new[new_first:new_last])))
    return parts


def marked(text: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """Return a text in pieces, each with whether it is one of the words that were searched for.

    Args:
        text: The text.
        words: The words, in any case.

    Example:
        >>> marked("Check the units.", ["UNIT"])
        [('Check the ', False), ('unit', True), ('s.', False)]
    """
    if not words:
        return [(text, False)]
    found = re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE)
    pieces, end = [], 0
    for match in found.finditer(text):
        pieces += [(text[end : match.start()], False), (match.group(), True)]
        end = match.end()
    return [piece for piece in [*pieces, (text[end:], False)] if piece[0]]
