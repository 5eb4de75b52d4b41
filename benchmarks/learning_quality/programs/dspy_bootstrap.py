"""DSPy with `BootstrapFewShotWithRandomSearch`: chooses the demonstrations of the prompt by their effect."""

from __future__ import annotations

from typing import Any

from benchmarks.learning_quality.programs.dspy_program import demonstrations, metric, predictor, trainset
from benchmarks.learning_quality.programs.job import Answerer, Job, carry_out, needed

PROGRAM_CALLS = 16
"""A candidate program is scored on every example once."""


def learn(job: Job) -> tuple[Answerer, str]:
    """Optimise a predictor within the budget."""
    dspy = needed("dspy")
    predict = predictor(dspy, job)
    # Three candidates come beside the random ones: without demonstrations, with plain and with bootstrapped ones.
    candidates = max(0, job.max_calls // PROGRAM_CALLS - 3)
    optimiser = dspy.BootstrapFewShotWithRandomSearch(
        metric=metric, max_bootstrapped_demos=4, max_labeled_demos=16, num_candidate_programs=candidates, num_threads=4
    )
    compiled: Any = optimiser.compile(predict, trainset=trainset(dspy, job), valset=trainset(dspy, job))
    return (lambda question: str(compiled(question=question).answer)), demonstrations(compiled)


if __name__ == "__main__":
    carry_out(learn)
