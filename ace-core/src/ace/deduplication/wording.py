"""The significant words and values of a skill, by which duplicates are detected without a model.

Numbers, negations, operators and the order of the words all count, so two texts with the same significant words
differ at most in case, sentence punctuation, articles and plural endings. Contradictory rules may differ in no more
than that ("pier A" and "a pier", "Peters" and "Peter", "mW" and "MW"), so values are compared literally as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from ace.retrieval import words

__all__ = ["compared_words", "may_contradict", "plain_words", "stated_values", "telling_words"]

_FILLER: Final = frozenset({"a", "an", "the", "please", "just", "really", "very"})
_EMPHASIS_WORDS: Final = (
    "after all always any at before both do don't each every first last must never no none not only or should"
)
_EMPHASIS: Final = frozenset(_EMPHASIS_WORDS.split())
"""Words that are written in capitals for emphasis and are therefore not names."""
_FUNCTION_WORDS: Final = frozenset(
    words(
        "a an and are as at be by for from in into is it its of on or that the their there this to was were which "
        "with you your"
    )
)
"""Words that carry no topic."""
_CONTRASTS: Final = (
    "all always any both don't down except fewer first high higher last least less low lower maximum minimum more most "
    "never no none nor not nothing only up without above below over under one two three four five six seven eight nine "
    "ten"
)
_DECIDING_WORDS: Final = frozenset(_CONTRASTS.split())
"""Words with which one of two otherwise similar texts may say the opposite."""
_ORDERING_WORDS: Final = frozenset({"after", "before", "instead", "than", "then", "unless", "until"})
"""Words that make the meaning of a text depend on the order of the others."""
_SENTENCE_SIGNS: Final = ".,;:!?"
_SENTENCE_ENDS: Final = ".:!?"
_QUOTES: Final = "`\"'\u201c\u201d\u2018\u2019"
_QUOTE_SIGNS: Final = frozenset(_QUOTES)
_AROUND: Final = "()[]" + _QUOTES
_BULLETS: Final = frozenset("-*\u2022")
_APOSTROPHES: Final = str.maketrans("", "", "'\u2019")
_ONE_APOSTROPHE: Final = str.maketrans("\u2018\u2019", "''")
_SHORTEST_WITH_ENDING: Final = 4
_QUOTED: Final = re.compile(
    r"`([^`]+)`|\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|\u2018([^\u2019]+)\u2019(?!\w)|(?<!\w)'([^']+)'(?!\w)"
)


def telling_words(text: str) -> tuple[str, ...]:
    """Return the significant words of a text in order, normalized for comparison.

    Args:
        text: The text of a skill.

    Example:
        >>> telling_words("Check the units!") == telling_words("check unit")
        True
        >>> telling_words("Use x != 1") == telling_words("Use x == 1")
        False
    """
    words = [_compared(word) for word in _split(text)]
    telling = tuple(word for word in words if word not in _FILLER)
    return telling or tuple(words)


def plain_words(text: str) -> tuple[str, ...]:
    """Return all words of a text in order, without case and sentence punctuation.

    Args:
        text: The text of a skill.

    Example:
        >>> plain_words("Check the units!") == plain_words("check  the units")
        True
        >>> plain_words("Check the units!") == plain_words("check unit")
        False
    """
    return tuple(_compared(word, with_ending=True) for word in _split(text))


def compared_words(text: str) -> frozenset[str]:
    """Return the stems by which texts are compared: those of the significant words without function words.

    Args:
        text: The text of a skill.

    Example:
        >>> sorted(compared_words("Maintaining factual knowledge is crucial."))
        ['crucial', 'factual', 'knowledg', 'maintain']
    """
    stems = frozenset(words(" ".join(telling_words(text))))
    return stems - _FUNCTION_WORDS or stems


def may_contradict(first: str, second: str) -> bool:
    """Return whether two similar texts may contradict each other, as far as rules can tell.

    They may if they differ in a number, code, name or quoted phrase, in a word such as "not", "only", "more" or "two",
    or in a single word, or if the order of their words matters because one contains a word such as "before".

    Args:
        first: The text of a skill.
        second: The text of another one.

    Example:
        >>> may_contradict("Always check the units.", "Never check the units.")
        True
        >>> may_contradict("Maintain factual knowledge for accuracy.", "Maintaining factual knowledge is crucial.")
        False
    """
    one, other = frozenset(plain_words(first)), frozenset(plain_words(second))
    return (
        bool(_DECIDING_WORDS & (one ^ other))
        or bool(_ORDERING_WORDS & (one | other))
        or stated_values(first) != stated_values(second)
        or _differ_in_one_word(telling_words(first), telling_words(second))
    )


def _differ_in_one_word(first: Sequence[str], second: Sequence[str]) -> bool:
    return len(first) == len(second) and sum(a != b for a, b in zip(first, second, strict=True)) == 1


def stated_values(text: str) -> frozenset[str]:
    """Return the numbers, codes, names and quoted phrases of a text as written.

    A name is a word that is capitalised although it does not start a sentence.

    Args:
        text: The text of a skill.

    Example:
        >>> sorted(stated_values("Above 10,000 dollars, ask Petersen for form K7-BLUE."))
        ['10,000', 'K7-BLUE', 'Petersen']
    """
    normal = _normal(text)
    has_quotes = not _QUOTE_SIGNS.isdisjoint(normal)
    quoted = {next(filter(None, found)) for found in _QUOTED.findall(normal)} if has_quotes else set()
    has_case = any(letter.islower() for letter in normal)
    unquoted = _QUOTED.sub(" ", normal) if quoted else normal
    return frozenset(quoted | {value for value in _values(unquoted, has_case=has_case) if value})


def _values(text: str, *, has_case: bool) -> Iterator[str]:
    for line in text.splitlines():
        starts = True
        for word in line.split():
            yield _value(word, starts=starts, has_case=has_case)
            starts = word[-1] in _SENTENCE_ENDS or (starts and word in _BULLETS)


def _value(word: str, *, starts: bool, has_case: bool) -> str:
    """Return a word if it is a value; empty if it is an ordinary word."""
    if word.isalpha() and word.islower():  # most words
        return ""
    bare = word.rstrip(_SENTENCE_SIGNS).strip(_QUOTES)
    name = bare.strip(_AROUND).rstrip(_SENTENCE_SIGNS)
    if not _is_word(name):
        # Brackets around a number may be its sign; those around a phrase only look like it, and cost a merge.
        return bare
    if not has_case or name.lower() in _EMPHASIS or (name.lower() in _FILLER and len(name) > 1) or name == "I":
        return ""
    is_written_so = any(letter.isupper() for letter in name[1:])
    return name if is_written_so or (name[0].isupper() and not starts) else ""


def _is_word(text: str) -> bool:
    """Return whether a text consists of letters and apostrophes."""
    return text.isalpha() or text.translate(_APOSTROPHES).isalpha()


def _split(text: str) -> list[str]:
    return _normal(text).split()


def _normal(text: str) -> str:
    """Return a text in which the same characters and apostrophes are written in the same way."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_ONE_APOSTROPHE)


def _compared(word: str, *, with_ending: bool = False) -> str:
    ended = word.rstrip(_SENTENCE_SIGNS) or word
    bare = ended.strip(_AROUND).rstrip(_SENTENCE_SIGNS) or ended
    if word[0] in _QUOTES or not _is_word(bare):
        # Quoted words, numbers and code: case and endings mean something.
        return bare
    folded = bare.casefold()
    # The ending of a capitalised word may belong to a name: Peters is not Peter.
    has_ending = bare[0].islower() and len(folded) >= _SHORTEST_WITH_ENDING and folded.endswith("s")
    return folded[:-1] if has_ending and not with_ending and not folded.endswith("ss") else folded
