"""Whether an answer says the same as the right answer of a case, as far as code can tell.

Code compares values: numbers with their units, codes and names. What the right answer says in other words is left to a
judge, and so is which of several values the question asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from ace.cases.checks import why_not
from ace.cases.values import (
    FUNCTION_WORDS,
    SENTENCE_END,
    SPELLINGS,
    content_words,
    has_digit,
    holds,
    is_strong,
    number_in,
    tokens,
)
from ace.skill import SkillCase

__all__ = ["answer_passes"]

_SIZES: Final = {
    "km": ("m", "1000"),
    "m": ("m", "1"),
    "cm": ("m", "0.01"),
    "mm": ("m", "0.001"),
    "kg": ("g", "1000"),
    "g": ("g", "1"),
    "l": ("l", "1"),
    "ml": ("l", "0.001"),
    "h": ("s", "3600"),
    "min": ("s", "60"),
    "s": ("s", "1"),
}
"""The base unit of each unit, and how many of it are in one."""
_GLUED: Final = re.compile(r"([-\u2212]?\d[\d.,]*)([^\W\d_]+|%)")


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A number with its unit, if it has a known one."""

    size: Decimal
    unit: str


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a text."""

    quantities: Mapping[_Quantity, tuple[Decimal, str]]
    """The numbers, as they are written, with the words that follow them."""
    codes: frozenset[str]
    names: Mapping[str, str]
    """The names in lower case, and as they are written."""

    @property
    def exact(self) -> set[object]:
        """The values that have only one spelling."""
        return {*self.quantities, *self.codes}


def answer_passes(case: SkillCase, answer: str) -> bool | None:
    """Return whether an answer passes the check of a case.

    It is None if code cannot tell: a model has to judge it, or the environment of the run, for a case with that check.

    The accepted answer always passes, and the wrong one never does. Where the check names values, an answer passes if
    it contains the right ones and no other number or code. It fails if it contains another one instead of a right one,
    the value that was wrong, or another alternative of the question.

    Example:
        >>> from ace.skill import CaseCheck
        >>> case = SkillCase.make("Pier A or C?", CaseCheck("contains", "C"), wrong="Pier A", expected="Pier C")
        >>> answer_passes(case, "Pier C"), answer_passes(case, "Pier A or C"), answer_passes(case, "Beside the crane.")
        (True, False, None)
    """
    if case.check.kind in ("environment", "judge"):
        return None
    said = " ".join(answer.split())
    if not said:
        return False
    if case.expected and said == " ".join(case.expected.split()):
        return True
    if case.wrong and said == " ".join(case.wrong.split()):
        return False
    problem = why_not(case.check, answer, question=case.question, wrong=case.wrong, expected=case.expected)
    if case.check.kind not in ("contains", "numeric"):
        return not problem
    is_rejected = problem.startswith(("names ", "repeats "))
    return False if is_rejected else _compared(case, answer)


def _compared(case: SkillCase, answer: str) -> bool | None:
    right, expected = _values_of(case.check.value), _values_of(case.expected)
    is_quantity = len(expected.quantities) == 1 and len(tokens(case.expected)) <= 2
    if is_quantity or len(right.exact) == len(expected.exact) == 1:
        right = expected  # which has both the number and its unit
    found, asked = _values_of(answer, bare=right), _values_of(case.question)
    further = found.exact - expected.exact - right.exact - asked.exact
    is_wrong_number = case.check.kind == "numeric" and further & _values_of(case.wrong).exact
    if is_wrong_number or _is_crossed(expected, found):
        return False
    if right.exact or right.names:
        is_held = right.exact <= found.exact and all(holds(answer, name) for name in right.names.values())
    else:
        is_held = all(holds(answer, value) for value in case.check.value.splitlines())
    if is_held:
        return None if further else True
    # Something else instead. Otherwise, the answer says less than the right one, or says it in other words.
    if right.exact - found.exact:
        # A number may be said in words, but a code by itself must appear as such.
        is_other = bool(further) or not (right.quantities or right.names)
    else:
        others = found.names.keys() - expected.names.keys() - asked.names.keys()
        is_other = bool(others) and right.names.keys().isdisjoint(map(str.lower, tokens(answer)))
    return False if is_other or _only_repeats(case, answer) else None


def _only_repeats(case: SkillCase, answer: str) -> bool:
    """Return whether an answer says nothing that is not in the wrong answer or in the question."""
    known = set(content_words(f"{case.wrong} {case.question}"))
    return bool(case.wrong) and set(content_words(answer)) <= known


def _is_crossed(right: _Values, found: _Values) -> bool:
    """Return whether a number is followed by the word that follows another number in the right answer."""
    after: dict[str, set[_Quantity]] = {}
    for quantity, (_, word) in right.quantities.items():
        after.setdefault(word, set()).add(quantity)
    return any(
        word and len(after.get(word, ())) == 1 and quantity not in after[word]
        for quantity, (_, word) in found.quantities.items()
    )


def _values_of(text: str, *, bare: _Values | None = None) -> _Values:
    """Return the values of a text; a number without a word after it is taken for the same number of `bare`."""
    written = {} if bare is None else {number: quantity for quantity, (number, _) in bare.quantities.items()}
    quantities: dict[_Quantity, tuple[Decimal, str]] = {}
    codes: set[str] = set()
    names: dict[str, str] = {}
    for sentence in SENTENCE_END.split(text):
        words = [word for word in tokens(sentence.replace("%", " % ")) if word == "%" or any(map(str.isalnum, word))]
        for place, word in enumerate(words):
            following = words[place + 1] if place + 1 < len(words) else ""
            glued = _GLUED.fullmatch(word)
            if (number := number_in(word)) is not None:
                quantity = written.get(number) if not following else None
                quantities[quantity or _quantity(number, following)] = number, following.lower()
            elif glued and glued[2].casefold() in SPELLINGS and (number := number_in(glued[1])) is not None:
                quantities[_quantity(number, glued[2])] = number, glued[2].lower()
            elif has_digit(word) and not re.search("[A-Za-z]", word) and re.search(r"[^\W\d_]", word):
                # Languages without spaces.
                numbers = map(Decimal, re.findall(r"\d+", word))
                quantities |= {_Quantity(number, ""): (number, "") for number in numbers}
            elif is_strong(word) and (has_digit(word) or not word.isalpha() or (len(word) > 1 and word.isupper())):
                codes.add(word.lower())
            elif is_strong(word) and (place or len(words) == 1) and word.lower() not in FUNCTION_WORDS:
                names[word.lower()] = word
    return _Values(quantities, frozenset(codes), names)


def _quantity(number: Decimal, word: str) -> _Quantity:
    """Return a number in its base unit. The word after it counts only if it is a known unit."""
    symbol = SPELLINGS.get(word.casefold(), ("",))[0]
    base, size = _SIZES.get(symbol, (symbol, "1"))
    return _Quantity((number * Decimal(size)).normalize(), base)
