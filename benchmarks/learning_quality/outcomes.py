"""What one method reached on one set in one order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ace.evaluation import JudgedAnswer
from ace.protocols.llm import Usage

__all__ = ["Learned", "Outcome"]


@dataclass(frozen=True)
class Learned:
    """What learning made, and what it used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    traces: int = 0
    calls_by_role: dict[str, int] = field(default_factory=dict)
    skills: int = 0
    proven: int = 0
    """How many of the skills are proven."""
    cases: int = 0
    cases_passing: int = 0
    """How many of the book's own cases the finished book answers correctly."""
    without_value: int = 0
    """Skills whose text lacks a value that decides one of their cases."""
    rolled_back: int = 0
    """Changes that were found to break another case, and were not kept."""
    text: str = ""
    """The skills, or what another method has made, as text."""


NOTHING_USED, NOTHING_LEARNED = Usage(), Learned()


@dataclass(frozen=True)
class Outcome:
    """The answers of one method to the questions of one set, after learning in one order."""

    method: str
    set_name: str
    order: int
    """The seed of the order; 0 for a method that does not depend on it."""
    answers: tuple[JudgedAnswer, ...] = ()
    answering: Usage = NOTHING_USED
    """What the answers used, all questions together."""
    learned: Learned = NOTHING_LEARNED
    problems: tuple[str, ...] = ()
    """What is wrong with the run itself, such as a skill that the store has lost."""
    skipped: str = ""
    """Why the method was not run; empty if it was."""

    @property
    def right(self) -> tuple[bool, ...]:
        """Whether each answer is right."""
        return tuple(answer.is_right for answer in self.answers)

    @property
    def input_tokens(self) -> float:
        """The mean tokens of the prompts for one answer."""
        return self.answering.input_tokens / len(self.answers)

    @property
    def input_tokens_beyond_question(self) -> float:
        """An upper bound of the mean tokens beyond the question: a word of it is counted as one token."""
        return self.input_tokens - fmean(len(answer.question.split()) for answer in self.answers)

    @property
    def output_tokens(self) -> float:
        """The mean tokens of one answer."""
        return self.answering.output_tokens / len(self.answers)


def usage_of(answers: Sequence[JudgedAnswer]) -> Usage:
    """Return what the answers of an evaluation have used together."""
    return Usage(
        calls=sum(answer.calls for answer in answers),
        input_tokens=sum(answer.input_tokens for answer in answers),
        output_tokens=sum(answer.output_tokens for answer in answers),
    )
