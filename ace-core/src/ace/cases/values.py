"""The values that decide a case: numbers, codes and names that the correction brought in."""

from __future__ import annotations

import re
from typing import Final

from ace.skill import SkillCase

__all__ = ["deciding_values", "missing_values", "right_values", "tokens", "worked_example"]

_TOKEN: Final = re.compile(r"(?:\d+(?:,\d{3})+(?![\d,])|[^\s,;!?\"'()])+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:])\s+")
_CODE_MARKS: Final = "/-_#@"
_FUNCTION_WORD_LIST: Final = (
    "a an the of in on at to for is are was were be it its this that then and or so as by with not no yes "
    "do does did has have had must should into from you we i me my our your their his her they he she "
    "them all any each always never again wrong right understood than up only what which who when where "
    "how why there here will would can could may please sorry moved put now if"
)
_FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORD_LIST.split())
"""Words that never decide anything by themselves."""


def tokens(text: str) -> list[str]:
    """Return the words, numbers and codes of a text as they are written, without punctuation around them.

    Args:
        text: Any text.

    Example:
        >>> tokens("It is K7-BLUE, at 14:30.")
        ['It', 'is', 'K7-BLUE', 'at', '14:30']
    """
    return [token for found in _TOKEN.findall(text) if (token := found.strip(".:"))]


def right_values(question: str, wrong: str, correction: str, right: str) -> tuple[str, ...]:
    """Return what a correct answer must hold: what the accepted answer has and the wrong one lacks.

    Of these words, those of the correction that the question does not hold come before all others.

    Args:
        question: What was asked.
        wrong: The answer that was corrected.
        correction: What was said about it.
        right: The answer that was accepted.

    Example:
        >>> right_values("When is high water?", "2:30 pm", "Write it as 14h30.", "It is 14h30.")
        ('14h30',)
    """
    in_wrong, in_correction, in_question = ({word.lower() for word in tokens(t)} for t in (wrong, correction, question))
    new = [
        word
        for place, word in enumerate(tokens(right))
        if word.lower() not in in_wrong and (word.lower() not in _FUNCTION_WORDS or _is_letter_code(word, place))
    ]
    corrected = [word for word in new if word.lower() in in_correction]
    choices = (
        [word for word in corrected if word.lower() not in in_question],
        corrected,
        [word for word in new if word.lower() not in in_question and _has_digit(word)],
        new,
    )
    return tuple(dict.fromkeys(next((words for words in choices if words), [])))


def deciding_values(case: SkillCase) -> tuple[str, ...]:
    """Return the values of the correction that a rule must keep: those that the question did not bring in.

    Args:
        case: The case.

    Example:
        >>> from ace.skill import CaseCheck
        >>> case = SkillCase.make(
        ...     "Who signs the contract over 12,000 dollars?", CaseCheck("contains", "Petersen"), wrong="Anna",
        ...     correction="No, contracts above 10,000 dollars are signed by Petersen.", expected="Petersen",
        ... )
        >>> deciding_values(case)
        ('10,000', 'Petersen')
    """
    in_question = set(tokens(case.question))
    numbers = sorted((word for word in in_question if _has_digit(word)), key=len, reverse=True)
    found: list[str] = []
    for sentence in _deciding_sentences(case):
        for place, word in enumerate(tokens(sentence)):
            value = _value_in(word, place, in_question, numbers)
            if value and value not in found:
                found.append(value)
    return tuple(found)


def missing_values(text: str, case: SkillCase) -> tuple[str, ...]:
    """Return the deciding values of a case that a rule does not hold.

    Args:
        text: The rule.
        case: The case that taught it.
    """
    lowered = text.lower()
    return tuple(value for value in deciding_values(case) if value.lower() not in lowered)


def worked_example(case: SkillCase) -> str:
    """Return the case as one line that shows how its question is answered, and how it is not.

    Args:
        case: The case.

    Example:
        >>> from ace.skill import CaseCheck
        >>> worked_example(SkillCase.make("High water?", CaseCheck("contains", "14h30"), expected="14h30"))
        'Example: High water? -> 14h30'
    """
    answer = case.expected or " ".join(case.check.value.splitlines())
    example = f"Example: {case.question} -> {answer}"
    return f"{example} (not: {case.wrong})" if case.wrong else example


def _deciding_sentences(case: SkillCase) -> list[str]:
    sentences = _SENTENCE_END.split(case.correction)
    right = [word.lower() for word in right_values(case.question, case.wrong, case.correction, case.expected)]
    return [each for each in sentences if any(word in each.lower() for word in right)] or sentences


def _value_in(word: str, place: int, in_question: set[str], numbers: list[str]) -> str:
    """Return the value that a word of the correction brings in; empty if it brings none."""
    known = word in in_question and not _has_digit(word) and not word[:1].isupper()
    if word.lower() in _FUNCTION_WORDS or known or not _is_value(word, place):
        return ""
    inner = next((number for number in numbers if number in word and number != word), None)
    value = word if inner is None else word.replace(inner, "")
    if value in numbers or (inner is not None and _has_digit(value)):
        return ""
    return value


def _is_value(word: str, place: int) -> bool:
    return (
        _has_digit(word)
        or any(mark in word for mark in _CODE_MARKS)
        or (word[:1].isupper() and place > 0)
        or (len(word) > 1 and word.isupper())
    )


def _is_letter_code(word: str, place: int) -> bool:
    """Whether a single letter is a name, such as the A of "pier A", rather than the article at the start."""
    return place > 0 and len(word) == 1 and word.isupper()


def _has_digit(word: str) -> bool:
    return any(each.isdigit() for each in word)
