"""Whether a text repeats another one word for word.

Apart from the prompts, whose texts are files: what checks a text is imported where no prompt is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

__all__ = ["WordRun", "first_repeated", "repeated_share", "word_runs"]

WordRun = tuple[str, ...]
"""Consecutive words, in lower case."""

# Scripts that are written without blanks have no words to count, so each of their signs counts.
_SIGN: Final = r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]"
_WORD: Final = re.compile(rf"{_SIGN}|(?:(?!{_SIGN})\w)+")


def word_runs(text: str, length: int) -> Iterator[WordRun]:
    """Yield every run of so many consecutive words.

    Args:
        text: The text.
        length: How many words a run has.

    Example:
        >>> list(word_runs("Check the units first.", 3))
        [('check', 'the', 'units'), ('the', 'units', 'first')]
    """
    words = _WORD.findall(text.casefold())
    for start in range(len(words) - length + 1):
        yield tuple(words[start : start + length])


def first_repeated(text: str, known: Collection[WordRun], length: int) -> str:
    """Return the first so many words of a text that are among the known ones; empty if none are.

    Args:
        text: The text.
        known: Runs of this length.
        length: How many words a run has.

    Example:
        >>> first_repeated("Always write down the rule.", set(word_runs("Write down the rule that it teaches.", 4)), 4)
        'write down the rule'
    """
    return next((" ".join(run) for run in word_runs(text, length) if run in known), "") if known else ""


def repeated_share(text: str, known: Collection[WordRun], length: int) -> float:
    """Return which share of the words of a text is in runs that are among the known ones, from 0 to 1.

    Args:
        text: The text.
        known: Runs of this length.
        length: How many words a run has.

    Example:
        >>> repeated_share("Always write down the rule.", set(word_runs("Write down the rule that it teaches.", 4)), 4)
        0.8
    """
    repeated = {
        start + place for start, run in enumerate(word_runs(text, length)) if run in known for place in range(length)
    }
    count = len(_WORD.findall(text))
    return len(repeated) / count if count else 0.0
