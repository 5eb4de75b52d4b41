"""Reads instructions literally: what is in backquotes is wanted, unless its clause says no."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Wishes", "wishes_of"]

_SPAN: Final = re.compile(r"`([^`]+)`")
_CLAUSE: Final = re.compile(r"[;:]\s|\.\s|\.$|,\s|\b(?=(?:instead of|rather than|not|never|but)\b)")
_NO: Final = re.compile(
    r"\b(?:never|not|don't|fails?|failed|instead of|rather than|avoid|without|no longer)\b", re.IGNORECASE
)
_IF: Final = re.compile(r"^(?:if|when)\s+(?P<condition>.*?fails?\b.*),\s+(?P<rest>.+)$", re.IGNORECASE)
_HOLD: Final = "\0"


@dataclass(frozen=True)
class Wishes:
    """What instructions want and what they do not want, in the order of the text."""

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


def wishes_of(text: str, failed: Collection[str] = ()) -> Wishes:
    """Return what instructions want.

    Args:
        text: The instructions.
        failed: The commands that have failed; a line that begins with "If ... fails" counts only then.

    Example:
        >>> wishes_of("Run `make check`, not `pytest`.")
        Wishes(wanted=('make check',), unwanted=('pytest',))
    """
    wanted: list[str] = []
    unwanted: list[str] = []
    for line in text.splitlines():
        sentence = line.strip().lstrip("-* ")
        if found := _IF.match(sentence):
            if not set(_spans(found["condition"])) & set(failed):
                continue
            sentence = found["rest"]
        for clause in _clauses(sentence):
            (unwanted if _NO.search(_SPAN.sub("", clause)) else wanted).extend(_spans(clause))
    return Wishes(tuple(dict.fromkeys(wanted)), tuple(name for name in dict.fromkeys(unwanted) if name not in wanted))


def _spans(text: str) -> Iterator[str]:
    for span in _SPAN.findall(text):
        yield from (" ".join(part.split()) for part in span.split("&&"))


def _clauses(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence; what is in backquotes is never split."""
    spans = _SPAN.findall(sentence)
    for clause in _CLAUSE.split(_SPAN.sub(_HOLD, sentence)):
        parts = clause.split(_HOLD)
        yield parts[0] + "".join(f"`{spans.pop(0)}`{part}" for part in parts[1:])
