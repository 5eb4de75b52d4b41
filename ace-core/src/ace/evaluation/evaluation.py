"""All judged answers of one agent with one skillbook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from ace.evaluation.judged import JudgedAnswer
from ace.evaluation.statistics import Interval, bootstrap_interval

__all__ = ["Evaluation", "UnfinishedEvaluationError"]


class UnfinishedEvaluationError(RuntimeError):
    """An evaluation was stopped before all its answers were there, so its numbers would mislead.

    Args:
        message: What is missing, and what to do.
        reached: How far it came, such as `3 of 5 answers without skills`.
    """

    def __init__(self, message: str, reached: str = "") -> None:
        super().__init__(message)
        self.reached = reached


@dataclass(frozen=True)
class Evaluation:
    """What an agent answered to all samples, in every repeat.

    Example:
        >>> answers = [JudgedAnswer(sample_id=name, question="?", correct=1.0) for name in "ab"]
        >>> Evaluation("learned", tuple(answers), planned=2).accuracy
        1.0
    """

    name: str
    """What was evaluated, such as `baseline`."""
    answers: tuple[JudgedAnswer, ...]
    """The answers in the order of the samples; the repeats of a sample follow each other."""
    planned: int
    """How many answers were asked for."""
    stopped_by: str = ""
    """What stopped it before all were there: `max_cost` or `cancelled`; else empty."""
    paid: float = 0.0
    """US dollars that were paid for it just now; an answer that was kept in a file was paid before."""

    @cached_property
    def by_sample(self) -> Mapping[str, tuple[JudgedAnswer, ...]]:
        """The answers to each sample."""
        found: dict[str, list[JudgedAnswer]] = {}
        for answer in self.answers:
            found.setdefault(answer.sample_id, []).append(answer)
        return {name: tuple(answers) for name, answers in found.items()}

    @property
    def is_complete(self) -> bool:
        """Whether all answers are there."""
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
        """How often each sample was answered, at least."""
        return min((len(answers) for answers in self.by_sample.values()), default=0)

    @property
    def cost(self) -> float | None:
        """The US dollars of all answers; None where a price is not known."""
        costs = [answer.cost for answer in self.answers]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def values(self, field: str) -> list[float]:
        """Return the mean of a field for each sample.

        Args:
            field: A field of `JudgedAnswer` that is a number, such as `seconds`.
        """
        return [fmean(getattr(answer, field) for answer in answers) for answers in self.by_sample.values()]

    def interval(self, *, confidence: float = 0.95, seed: int = 0) -> Interval:
        """Return the accuracy with its bootstrap interval.

        Args:
            confidence: The level, between 0 and 1.
            seed: For the drawing.

        Raises:
            UnfinishedEvaluationError: Answers are missing.
        """
        self.check_complete()
        return bootstrap_interval(self.values("correct"), confidence=confidence, seed=seed)

    def check_complete(self) -> None:
        """Raise if answers are missing.

        Raises:
            UnfinishedEvaluationError: They are.
        """
        if not self.answers or not self.is_complete:
            reason = f" (stopped by {self.stopped_by})" if self.stopped_by else ""
            raise UnfinishedEvaluationError(
                f"the evaluation {self.name!r} has {len(self.answers)} of {self.planned} answers{reason}; "
                "evaluate again with the same answers_path to resume it",
                f"{len(self.answers)} of {self.planned} answers {self.name}",
            )
