"""Finds the characters of a text that a reader does not see, or that change the order in which a text is shown.

A skill may say to a model what its reviewer cannot read, for example in tag characters, which fonts do not show.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["first_hidden", "with_hidden_shown"]

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that look like nothing."""
_JOINERS: Final = "\u200c\u200d"
"""Scripts such as Persian and families of emoji need them between two visible characters."""
_CANDIDATE: Final = re.compile(r"[^\n\t -~]")
_LINE_END: Final = re.compile(r"\r\n?")


def first_hidden(text: str) -> str | None:
    """Return the first hidden character of a text, as `U+202E`; None if all are visible.

    Example:
        >>> first_hidden("Check the\u202e units."), first_hidden("Ça\u00a0va ? 👩\u200d🌾")
        ('U+202E', None)
    """
    text = _LINE_END.sub("\n", text)
    found = (match.start() for match in _CANDIDATE.finditer(text) if _is_hidden(text, match.start()))
    place = next(found, None)
    return None if place is None else _name(text[place])


def with_hidden_shown(text: str) -> str:
    """Return a text with its hidden characters as `[U+202E]`.

    Example:
        >>> with_hidden_shown("Check the\u202e units.")
        'Check the[U+202E] units.'
    """
    text = _LINE_END.sub("\n", text)
    return _CANDIDATE.sub(lambda found: f"[{_name(found[0])}]" if _is_hidden(text, found.start()) else found[0], text)


def _is_hidden(text: str, place: int) -> bool:
    character = text[place]
    if character in _JOINERS:
        around = text[place - 1 : place] + text[place + 1 : place + 2]
        return len(around) < 2 or around.isascii() or any(_is_invisible(neighbour) for neighbour in around)
    return _is_invisible(character)


def _is_invisible(character: str) -> bool:
    is_selector = 0xE0100 <= ord(character) <= 0xE01EF  # of variants of letters; a run of them can encode any text
    return is_selector or character in _BLANK or unicodedata.category(character) in _HIDDEN_CATEGORIES


def _name(character: str) -> str:
    return f"U+{ord(character):04X}"
