"""Comparison of answers with and without skills, on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ace._internal.arguments import checked_arguments
from ace.evaluation.evaluation import Evaluation, JudgedAnswer
from ace.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    mcnemar_test,
    mean_interval,
    paired_interval,
    pass_hat_k,
    sign_flip_test,
)

__all__ = ["Comparison", "Measure", "SampleChange", "compare", "sample_changes"]

Outcome = Literal["gained", "lost", "both right", "both wrong"]

_NUMBERS = {
    "input tokens": "input_tokens",
    "output tokens": "output_tokens",
    "cost (USD)": "cost",
    "seconds": "seconds",
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One measured number, with and without skills, as a mean over the samples."""

    name: str
    """The name of the measure."""
    baseline: Interval
    """The value without skills."""
    learned: Interval
    """The value with skills."""
    difference: Interval
    """Learned minus baseline, sample by sample."""
    p_value: float
    """The probability of a difference this large by chance."""
    test: str
    """The name of the test."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of the samples, from 0 to 1, and not an amount."""
        return self.name not in _NUMBERS


@dataclass(frozen=True, slots=True)
class SampleChange:
    """One sample, with and without skills."""

    sample_id: str
    """The name of the sample."""
    question: str
    """The question."""
    ground_truth: str | None
    """The right answer."""
    baseline_correct: float
    """The mean over the repeats, without skills."""
    learned_correct: float
    """The mean over the repeats, with skills."""
    baseline: tuple[JudgedAnswer, ...]
    """The answers without skills."""
    learned: tuple[JudgedAnswer, ...]
    """The answers with skills."""

    @property
    def outcome(self) -> Outcome:
        """Whether it was gained, lost, or did not change; with repeats, `both right` only if all are right."""
        if self.learned_correct != self.baseline_correct:
            return "gained" if self.learned_correct > self.baseline_correct else "lost"
        return "both right" if self.learned_correct == 1 else "both wrong"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The effect of skills."""

    baseline: Evaluation
    """The answers without skills."""
    learned: Evaluation
    """The answers with skills."""
    measures: tuple[Measure, ...]
    """Accuracy first, then pass^k if samples were repeated, tokens, cost and time."""
    samples: tuple[SampleChange, ...]
    """Every sample, in the order of the input."""
    confidence: float
    """The level of the intervals."""

    @property
    def accuracy(self) -> Measure:
        """The measure of accuracy."""
        return self.measures[0]

    @property
    def has_costs(self) -> bool:
        """Whether the prices of all calls are known, so that the measures include the cost."""
        return _has_costs(self.baseline, self.learned)

    def count(self, outcome: Outcome) -> int:
        """Return the number of samples with an outcome.

        Args:
            outcome: `gained`, `lost`, `both right` or `both wrong`.
        """
        return sum(sample.outcome == outcome for sample in self.samples)


@checked_arguments()
def compare(baseline: Evaluation, learned: Evaluation, *, confidence: float = 0.95, seed: int = 0) -> Comparison:
    """Compare two evaluations of the same samples.

    If every `correct` is 0 or 1 and no sample was repeated, the accuracies are tested with McNemar's exact test;
    everything else with a sign-flip permutation test over the samples. The cost is omitted if a price is not known.

    Args:
        baseline: Without skills.
        learned: With them.
        confidence: The level of the intervals.
        seed: For random numbers.

    Raises:
        UnfinishedEvaluationError: Answers are missing.
        ValueError: The evaluations do not have the same samples.
    """
    changes = sample_changes(baseline, learned)
    most = min(baseline.repeats, learned.repeats)
    has_costs = _has_costs(baseline, learned)
    measures = tuple(_measures(changes, most, has_costs=has_costs, confidence=confidence, seed=seed))
    return Comparison(baseline, learned, measures, changes, confidence)


def sample_changes(baseline: Evaluation, learned: Evaluation) -> tuple[SampleChange, ...]:
    """Pair the answers of two evaluations sample by sample, in the order of `baseline`.

    Raises:
        UnfinishedEvaluationError: Answers are missing.
        ValueError: The evaluations do not have the same samples.
    """
    baseline.check_complete()
    learned.check_complete()
    names = list(baseline.by_sample)
    if set(names) != set(learned.by_sample):
        odd = min(set(names) ^ set(learned.by_sample))
        raise ValueError(f"both evaluations need the same samples; only one of them has {odd!r}")
    return tuple(_change(name, baseline.by_sample[name], learned.by_sample[name]) for name in names)


def _has_costs(*evaluations: Evaluation) -> bool:
    return all(evaluation.cost is not None for evaluation in evaluations)


def _measures(
    changes: Sequence[SampleChange], most_repeats: int, *, has_costs: bool, confidence: float, seed: int
) -> Iterator[Measure]:
    before = [change.baseline_correct for change in changes]
    after = [change.learned_correct for change in changes]
    is_binary = all(value in (0, 1) for value in (*before, *after))
    yield _measure("accuracy", before, after, confidence, seed, is_binary=is_binary)
    for k in sorted({2, most_repeats}) if most_repeats > 1 else ():
        before = [_pass_hat(change.baseline, k) for change in changes]
        after = [_pass_hat(change.learned, k) for change in changes]
        yield _measure(f"pass^{k}", before, after, confidence, seed)
    for name, field in _NUMBERS.items():
        if field != "cost" or has_costs:
            before = [_mean(change.baseline, field) for change in changes]
            after = [_mean(change.learned, field) for change in changes]
            yield _measure(name, before, after, confidence, seed)


def _measure(
    name: str,
    before: Sequence[float],
    after: Sequence[float],
    confidence: float,
    seed: int,
    *,
    is_binary: bool = False,
) -> Measure:
    moved = [new - old for old, new in zip(before, after, strict=True)]
    if name in _NUMBERS:  # an amount may happen to be 0 or 1 everywhere
        baseline, learned, difference = (
            bootstrap_interval(values, confidence=confidence, seed=seed) for values in (before, after, moved)
        )
    else:
        baseline, learned = (mean_interval(values, confidence=confidence, seed=seed) for values in (before, after))
        difference = paired_interval(before, after, confidence=confidence, seed=seed)
    if is_binary:
        p_value = mcnemar_test([value == 1 for value in before], [value == 1 for value in after])
        return Measure(name, baseline, learned, difference, p_value, "McNemar, exact")
    return Measure(name, baseline, learned, difference, sign_flip_test(moved, seed=seed), "sign flips")


def _change(name: str, baseline: tuple[JudgedAnswer, ...], learned: tuple[JudgedAnswer, ...]) -> SampleChange:
    first = baseline[0]
    return SampleChange(
        name,
        first.question,
        first.ground_truth,
        _mean(baseline, "correct"),
        _mean(learned, "correct"),
        baseline,
        learned,
    )


def _mean(answers: Sequence[JudgedAnswer], field: str) -> float:
    return float(sum(getattr(answer, field) for answer in answers) / len(answers))


def _pass_hat(answers: Sequence[JudgedAnswer], k: int) -> float:
    return pass_hat_k(sum(answer.is_right for answer in answers), len(answers), k)
