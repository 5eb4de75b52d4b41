"""How often an agent repeats the mistakes of recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ace._internal.arguments import checked_arguments
from ace.environments import Sample
from ace.evaluation.evaluation import Evaluation
from ace.evaluation.held_out import case_of
from ace.evaluation.statistics import Interval, mcnemar_test, share_interval, sign_flip_test

__all__ = ["MistakeRate", "is_mistake", "mistake_rates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MistakeRate:
    """How often the mistakes of recorded runs were repeated in one evaluation."""

    name: str
    """The name of the evaluation."""
    repeated: Interval
    """The share of the mistakes that were repeated, with its score interval."""
    mistakes: int
    """The number of questions that were answered wrong in the runs."""
    new: float
    """The number of questions that were answered right in the runs, and wrong in the evaluation."""
    right: int
    """The number of questions that were answered right in the runs."""
    p_value: float
    """The probability of such a difference from the first evaluation by chance, over the mistakes; 1 for itself."""


@checked_arguments()
def is_mistake(question: Sample) -> bool:
    """Return whether the question was answered wrong in its run.

    Args:
        question: A sample of `case_questions`.
    """
    case = case_of(question)
    return case is not None and bool(case.wrong)


@checked_arguments()
def mistake_rates(
    questions: Sequence[Sample], evaluations: Sequence[Evaluation], *, seed: int = 0
) -> list[MistakeRate]:
    """Return how often each evaluation repeats the mistakes of the runs that the questions come from.

    The p-values are those of McNemar's exact test or, if questions were repeated, of a sign-flip test.

    Args:
        questions: What was asked: samples of `case_questions`.
        evaluations: The answers; the others are compared with the first one.
        seed: For random numbers.

    Raises:
        UnfinishedEvaluationError: Answers are missing.
        ValueError: No question was answered wrong in its run.
    """
    if not any(map(is_mistake, questions)):
        raise ValueError("none of the questions was answered wrong in its run, so no mistake can be repeated")
    shares = [_wrong_shares(evaluation) for evaluation in evaluations]
    rates = []
    for evaluation, wrong in zip(evaluations, shares, strict=True):
        repeated = _of(questions, wrong, mistakes=True)
        new = _of(questions, wrong, mistakes=False)
        rates.append(
            MistakeRate(
                name=evaluation.name,
                repeated=share_interval(fmean(repeated), len(repeated)),
                mistakes=len(repeated),
                new=sum(new),
                right=len(new),
                p_value=_p_value(_of(questions, shares[0], mistakes=True), repeated, seed),
            )
        )
    return rates


def _wrong_shares(evaluation: Evaluation) -> list[float]:
    evaluation.check_complete()
    return [1 - share for share in evaluation.values("correct")]


def _of(questions: Sequence[Sample], wrong: Sequence[float], *, mistakes: bool) -> list[float]:
    return [share for question, share in zip(questions, wrong, strict=True) if is_mistake(question) == mistakes]


def _p_value(before: Sequence[float], after: Sequence[float], seed: int) -> float:
    if all(share in (0, 1) for share in (*before, *after)):
        return mcnemar_test([share == 1 for share in before], [share == 1 for share in after])
    return sign_flip_test([new - old for old, new in zip(before, after, strict=True)], seed=seed)
