"""Runs a learning pipeline with validations in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ace.evaluation.validate_step import ValidateStep
from ace.pipeline import CancellationToken, SampleResult
from ace.protocols.observers import observing
from ace.runners.settings import recomposed

if TYPE_CHECKING:
    from ace.context import ACESample, ACEStepContext
    from ace.evaluation.validation_course import ValidationCourse
    from ace.runners import ACE

__all__ = ["run_validated"]


def run_validated(
    runner: ACE,
    course: ValidationCourse,
    samples: Sequence[ACESample],
    epochs: int = 1,
    *,
    cancel_token: CancellationToken,
    max_cost: float | None = None,
    **arguments: Any,
) -> list[SampleResult[ACEStepContext]]:
    """Validate the book as it is, run, and validate in between and at the end.

    Args:
        runner: Learns; for this run it gets one more step, which validates.
        course: The validations. An interrupted course is resumed.
        samples: What is learned from.
        epochs: The number of passes over the samples.
        cancel_token: Stops the run. Its reason tells afterwards what did: `early_stopping` and `max_cost` too.
        max_cost: US dollars, validation included. When so much is spent, no further sample begins.
        **arguments: The others of the runner's `run`.

    Returns:
        What became of the samples; nothing if the run was over before the first of them.

    Raises:
        UnfinishedEvaluationError: It was stopped before the book was validated once.
    """
    paid = course.start(max_cost=max_cost, cancel_token=cancel_token)
    left = None if max_cost is None else max_cost - paid
    if left is not None and left <= 0:
        cancel_token.cancel("max_cost")
    elif course.is_exhausted:
        cancel_token.cancel("early_stopping")
    if cancel_token.is_cancelled:
        return []
    own = runner.pipeline
    runner.pipeline = recomposed(own, [*own.steps, ValidateStep(course)])
    try:
        with observing(course.learning_costs):
            return runner.run(samples, epochs, max_cost=left, cancel_token=cancel_token, **arguments)
    finally:
        runner.pipeline = own
