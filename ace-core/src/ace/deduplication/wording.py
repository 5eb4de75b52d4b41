"""The words of a skill that carry its meaning: what "says the same" is decided by, without a model.

Numbers, negations, operators and the order of the words all count, so two texts with the same telling
words differ in case, sentence punctuation, articles and plural endings at most.
"""

from __future__ import annotations

import unicodedata

__all__ = ["telling_words"]

_FILLER = frozenset({"a", "an", "the", "please", "just", "really", "very"})
_SENTENCE_SIGNS = ".,;:!?"
_QUOTES = "`\"'\u201c\u201d\u2018\u2019"
_AROUND = "()[]" + _QUOTES
_APOSTROPHES = str.maketrans("", "", "'\u2019")
_SHORTEST_WITH_ENDING = 4


def telling_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, in the form in which they are compared.

    Args:
        text: The text of a skill.

    Example:
        >>> telling_words("Check the units!") == telling_words("check unit")
        True
        >>> telling_words("Use x != 1") == telling_words("Use x == 1")
        False
    """
    words = [_compared(word) for word in unicodedata.normalize("NFC", text).split()]
    telling = tuple(word for word in words if word not in _FILLER)
    return telling or tuple(words)


def _compared(word: str) -> str:
    ended = word.rstrip(_SENTENCE_SIGNS) or word
    bare = ended.strip(_AROUND).rstrip(_SENTENCE_SIGNS) or ended
    if word[0] in _QUOTES or not bare.translate(_APOSTROPHES).isalpha():
        # Quoted words, numbers and code: case and endings mean something.
        return bare
    folded = bare.casefold()
    if len(folded) >= _SHORTEST_WITH_ENDING and folded.endswith("s") and not folded.endswith("ss"):
        return folded[:-1]
    return folded
