"""Training several times, in several orders, and comparing the results with no skills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

from ace._internal.arguments import checked_arguments, checked_class
from ace.evaluation.comparison import Comparison, compare
from ace.evaluation.evaluation import Evaluation, JudgedAnswer
from ace.evaluation.splits import Splits
from ace.evaluation.trainer import Trainer, TrainingResult
from ace.runners import LearningOptions
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.context import ACESample

__all__ = ["Experiment", "ExperimentRun", "pooled", "run_experiment"]


@dataclass(frozen=True, slots=True)
class ExperimentRun:
    """One training and its test."""

    order: int
    """The seed of the order of the training samples."""
    training: TrainingResult
    """The result of the training."""
    test: Evaluation
    """The answers to the test samples with the best state of the skillbook."""


@checked_class
@dataclass(frozen=True, slots=True)
class Experiment:
    """Several trainings, compared with no skills."""

    runs: tuple[ExperimentRun, ...]
    """The trainings, one for each order."""
    comparison: Comparison
    """All of them together, compared with the baseline, on the test samples."""


@checked_arguments(LearningOptions)
def run_experiment(
    trainer: Trainer,
    splits: Splits[ACESample],
    *,
    orders: Sequence[int] = (0, 1, 2),
    epochs: int = 1,
    repeats: int = 1,
    seed: int = 0,
    new_skillbook: Callable[[int], Skillbook] | None = None,
    on_answer: Callable[[JudgedAnswer], None] | None = None,
    **options: Unpack[LearningOptions],
) -> Experiment:
    """Train once in each order, from the same state, and test each result on samples that no training saw.

    Args:
        trainer: Trains; its evaluator also makes the tests.
        splits: The samples in three parts.
        orders: A seed for each training, which shuffles the training samples.
        epochs: The number of passes over the samples in each training.
        repeats: How often each test sample is answered, with and without skills.
        seed: For intervals and tests.
        new_skillbook: Returns the book that a training begins with, for the seed of its order; by default an empty one.
        on_answer: Called with each answer to a test sample.
        **options: The other settings of learning, except the skillbook, because each training has its own; see
            `LearningSettings`.

    Raises:
        ValueError: `orders` is empty, or an argument is invalid.
    """
    if not orders:
        raise ValueError("orders must contain a seed for at least one training, such as orders=[0]")
    shared = {"skillbook", "skillbook_path"} & options.keys()
    if shared:
        raise ValueError(
            f"all trainings would share one {min(shared)}; pass new_skillbook, a function from the seed of an order "
            "to the skillbook of its training"
        )
    evaluator = trainer.evaluator
    baseline = evaluator.evaluate(splits.test, name="baseline", repeats=repeats, on_answer=on_answer)
    runs = []
    for order in orders:
        own: LearningOptions = {**options, "skillbook": Skillbook() if new_skillbook is None else new_skillbook(order)}
        training = trainer.train(splits.train, splits.validate, epochs=epochs, shuffle=order, **own)
        name = f"learned, order {order}"
        test = evaluator.evaluate(splits.test, training.skillbook, name=name, repeats=repeats, on_answer=on_answer)
        runs.append(ExperimentRun(order, training, test))
    return Experiment(tuple(runs), compare(baseline, pooled("learned", [run.test for run in runs]), seed=seed))


@checked_arguments()
def pooled(name: str, evaluations: Sequence[Evaluation]) -> Evaluation:
    """Return several evaluations of the same samples as one, in which each is a repeat.

    Args:
        name: The name of the result.

    Raises:
        UnfinishedEvaluationError: Answers are missing.
    """
    for evaluation in evaluations:
        evaluation.check_complete()
    answers: list[JudgedAnswer] = []
    for sample_id in evaluations[0].by_sample:
        of_sample = [answer for evaluation in evaluations for answer in evaluation.by_sample[sample_id]]
        answers += [replace(answer, repeat=repeat) for repeat, answer in enumerate(of_sample, 1)]
    return Evaluation(name, tuple(answers), sum(evaluation.planned for evaluation in evaluations))
