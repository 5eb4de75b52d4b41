"""What can be said about the text of a rule without asking a model: which forms to try, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ace.cases import missing_values
from ace.cases.recoveries import call_lacks, shows_failed_call
from ace.cases.values import inverted_number, tokens
from ace.proof.trace_facts import was_corrected

if TYPE_CHECKING:
    from ace.skill import SkillCase
    from ace.updates import UpdateOperation

__all__ = ["narrowness", "problem_with_answer", "texts_to_try", "uncovered"]


def texts_to_try(operation: UpdateOperation) -> Iterator[str]:
    """Yield the texts of an operation that are tried: without the answer to its own case at the end, then as it is.

    A text such as "Round boats up: 4" is right for the case that taught it, and the 4 is copied for other questions. A
    value that the rule needs is needed for the proof too, which then fails without it.
    """
    text = operation.content or ""
    answer = operation.cases[0].expected.strip(" .") if operation.cases else ""
    # Only a number that the question leads to is an answer to this one question.
    if any(map(str.isdigit, answer)) and any(map(str.isdigit, operation.cases[0].question)):
        shorter = re.sub(rf"\s*(?:[:=→]|->|=>)\s*{re.escape(answer)}[\s.]*\Z", ".", text)
        if shorter != text:
            yield shorter
    yield text


def uncovered(text: str, case: SkillCase) -> str:
    """Describe what a rule lacks, inverts or must not show; empty if there is nothing of the kind."""
    if shows_failed_call(text, case):
        return "It shows the call that failed."
    if not was_corrected(case):
        return ""
    # What is left of a code without the number of its case decides nothing: no text is held back for it.
    said = {word.lower() for word in tokens(case.correction)}
    missing = [value for value in missing_values(text, case) if said.issuperset(map(str.lower, tokens(value)))]
    if missing:
        return f"It lacks {', '.join(missing)}."
    number = inverted_number(text, case)
    return f"It gives the wrong answer for its condition on {number}." if number else ""


def narrowness(text: str, case: SkillCase) -> str:
    """Describe what a rule contains that only applies to its case; empty if there is nothing of the kind."""
    if not was_corrected(case):
        return ""
    said = {word.lower() for word in tokens(case.correction)}
    names = [word for word in tokens(case.question)[1:] if word[:1].isupper() and word[1:2].islower()]
    answer = [word for word in tokens(case.expected) if any(character.isdigit() for character in word)]
    in_text = {word.lower() for word in tokens(text)}
    quoted = [word for word in (*names, *answer) if word.lower() in in_text - said]
    return f"It contains {', '.join(quoted)}, which only applies to this case." if quoted else ""


def problem_with_answer(case: SkillCase, answer: str) -> str:
    """Say that a rule led to this answer, for the reflector and for the person who reviews the skill."""
    if case.check.kind == "call":
        return f"With it the answer {answer!r} {call_lacks(case.check.value, answer)}."
    right = case.expected or " ".join(case.check.value.splitlines())
    return f"With it the task was answered {answer!r}; right is {right!r}."
