"""All judged answers of one agent with one skillbook."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from statistics import fmean
from typing import Any

from ace.evaluation.statistics import Interval, mean_interval

__all__ = ["Evaluation", "JudgedAnswer", "UnfinishedEvaluationError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """An agent's answer to a sample, and its score.

    Example:
        >>> answer = JudgedAnswer(sample_id="a", question="2+2?", correct=1.0, answer="4")
        >>> JudgedAnswer.from_dict(answer.to_dict()) == answer
        True
    """

    sample_id: str
    """The name of the sample."""
    question: str
    """The question."""
    repeat: int = 1
    """The number of the attempt at the sample, from 1."""
    correct: float
    """From 0 (wrong) to 1 (right). A sample that failed is wrong."""
    answer: str = ""
    """The answer; empty if the sample failed."""
    ground_truth: str | None = None
    """The right answer, if it is known."""
    feedback: str = ""
    """The feedback of the environment."""
    error: str | None = None
    """The error, if the sample failed."""
    calls: int = 0
    """The number of model calls."""
    input_tokens: int = 0
    """The tokens of the prompts."""
    output_tokens: int = 0
    """The tokens of the answers."""
    cost: float | None = None
    """US dollars; None if a price is not known."""
    seconds: float = 0.0
    """The time to answer and judge, in seconds."""
    shown: tuple[str, ...] = ()
    """The ids of the skills that the agent saw."""
    cited: tuple[str, ...] = ()
    """The ids of the skills that its reasoning cites."""
    cached_input_tokens: int = 0
    """The part of `input_tokens` that the provider had in its cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the provider wrote to its cache."""

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= 1 or math.isnan(self.correct):
            raise ValueError(f"correct must be a share from 0 to 1, got {self.correct!r}")

    @property
    def is_right(self) -> bool:
        """Whether the answer is completely right."""
        return self.correct == 1

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {**asdict(self), "shown": list(self.shown), "cited": list(self.cited)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JudgedAnswer:
        """Create one from the values of `to_dict`.

        Raises:
            ValueError: A field is missing or unknown, or has an invalid value.
        """
        known = {field.name for field in fields(cls)}
        if unknown := data.keys() - known:
            raise ValueError(f"a judged answer has no field {min(unknown)!r}")
        try:
            return cls(**{**data, "shown": tuple(data.get("shown", ())), "cited": tuple(data.get("cited", ()))})
        except TypeError as error:
            raise ValueError(f"not a judged answer: {error}") from error


class UnfinishedEvaluationError(RuntimeError):
    """An evaluation was stopped before all samples were answered, so its numbers would be misleading.

    Args:
        message: What is missing, and what to do.
        reached: Its progress, such as `3 of 5 answers without skills`.
    """

    def __init__(self, message: str, reached: str = "") -> None:
        super().__init__(message)
        self.reached = reached


@dataclass(frozen=True)
class Evaluation:
    """The answers of an agent to all samples, in every repeat.

    Example:
        >>> answers = [JudgedAnswer(sample_id=name, question="?", correct=1.0) for name in "ab"]
        >>> Evaluation("learned", tuple(answers), planned=2).accuracy
        1.0
    """

    name: str
    """The name of the evaluation, such as `baseline`."""
    answers: tuple[JudgedAnswer, ...]
    """The answers in the order of the samples; the repeats of a sample follow each other."""
    planned: int
    """The number of answers requested."""
    stopped_by: str = ""
    """What stopped it before all samples were answered: `max_cost` or `cancelled`; else empty."""
    paid: float = 0.0
    """US dollars that were paid in this call; answers from a file were paid for before."""

    @cached_property
    def by_sample(self) -> Mapping[str, tuple[JudgedAnswer, ...]]:
        """The answers to each sample."""
        found: dict[str, list[JudgedAnswer]] = {}
        for answer in self.answers:
            found.setdefault(answer.sample_id, []).append(answer)
        return {name: tuple(answers) for name, answers in found.items()}

    @property
    def is_complete(self) -> bool:
        """Whether no answer is missing."""
        return len(self.answers) == self.planned

    @property
    def failed(self) -> tuple[JudgedAnswer, ...]:
        """The answers that failed; they count as wrong."""
        return tuple(answer for answer in self.answers if answer.error is not None)

    @property
    def accuracy(self) -> float:
        """The mean of `correct`, over samples.

        Raises:
            UnfinishedEvaluationError: Answers are missing.
        """
        self.check_complete()
        return fmean(self.values("correct"))

    @property
    def repeats(self) -> int:
        """The smallest number of answers to a sample."""
        return min((len(answers) for answers in self.by_sample.values()), default=0)

    @property
    def cost(self) -> float | None:
        """The US dollars of all answers; None if a price is not known."""
        costs = [answer.cost for answer in self.answers]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def values(self, field: str) -> list[float]:
        """Return the mean of a field for each sample.

        Args:
            field: A field of `JudgedAnswer` that is a number, such as `seconds`.
        """
        return [fmean(getattr(answer, field) for answer in answers) for answers in self.by_sample.values()]

    def interval(self, *, confidence: float = 0.95, seed: int = 0) -> Interval:
        """Return the accuracy with its interval.

        Args:
            confidence: The level, between 0 and 1.
            seed: For random numbers.

        Raises:
            UnfinishedEvaluationError: Answers are missing.
        """
        self.check_complete()
        return mean_interval(self.values("correct"), confidence=confidence, seed=seed)

    def check_complete(self) -> None:
        """Raise if answers are missing.

        Raises:
            UnfinishedEvaluationError: Answers are missing.
        """
        if not self.answers or not self.is_complete:
            reason = f" (stopped by {self.stopped_by})" if self.stopped_by else ""
            raise UnfinishedEvaluationError(
                f"the evaluation {self.name!r} has {len(self.answers)} of {self.planned} answers{reason}; "
                "evaluate again with the same answers_path to resume it",
                f"{len(self.answers)} of {self.planned} answers {self.name}",
            )
