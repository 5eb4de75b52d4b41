"""The strict checks of answers: a part of a code, or an answer that names both alternatives, does not pass."""

from __future__ import annotations

import re
from typing import Final

from ace.cases.values import tokens
from ace.skill import CaseCheck, SkillCase

__all__ = ["answer_passes", "check_passes"]

_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?!\w)")


def answer_passes(case: SkillCase, answer: str) -> bool | None:
    """Tell whether an answer passes the check of a case and does not repeat the answer that was corrected.

    Args:
        case: The case.
        answer: The answer.

    Returns:
        None where the check needs an environment or a judge.

    Example:
        >>> case = SkillCase.make("Pier A or C?", CaseCheck("contains", "C"), wrong="Pier A")
        >>> answer_passes(case, "Pier C"), answer_passes(case, "Pier A or C")
        (True, False)
    """
    passed = check_passes(case.check, answer)
    if not passed or case.check.kind == "regex":
        return passed
    allowed = {word.lower() for word in tokens(f"{case.expected} {case.check.value} {case.question}")}
    rejected = [word for word in tokens(case.wrong) if word.lower() not in allowed]
    alternatives = {word.lower() for word in tokens(case.wrong)} - {w.lower() for w in tokens(case.check.value)}
    named = {word.lower() for word in tokens(answer)}
    if any(word.lower() in named and (any(c.isdigit() for c in word) or word[:1].isupper()) for word in rejected):
        return False
    telling = alternatives - {word.lower() for word in tokens(case.expected)}
    return not (telling and telling <= named)


def check_passes(check: CaseCheck, answer: str) -> bool | None:
    """Tell whether an answer passes a check.

    Args:
        check: The check.
        answer: The answer.

    Returns:
        None where it needs an environment or a judge.

    Example:
        >>> check_passes(CaseCheck("contains", "K7"), "K7-BLUE"), check_passes(CaseCheck("numeric", "12"), "12.0 km")
        (False, True)
    """
    match check.kind:
        case "exact":
            return " ".join(answer.split()).casefold() == " ".join(check.value.split()).casefold()
        case "contains":
            return all(_holds(answer, value) for value in check.value.splitlines())
        case "any_of":
            return any(_holds(answer, value) for value in check.value.splitlines())
        case "numeric":
            wanted = _number(check.value)
            return wanted is not None and {_number(each) for each in _NUMBER.findall(answer)} == {wanted}
        case "regex":
            return re.search(check.value, answer) is not None
        case "environment" | "judge":
            return None


def _holds(answer: str, value: str) -> bool:
    """Whether the answer holds the value: a number by its value, everything else between boundaries."""
    number = _number(value)
    if number is not None:
        return number in [_number(each) for each in _NUMBER.findall(answer)]
    pattern = rf"(?<![\w.\-/]){re.escape(value.casefold())}(?![\w\-]|\.\d)"
    return re.search(pattern, answer.casefold()) is not None


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
