"""DSPy with `BootstrapFewShotWithRandomSearch`: chooses the demonstrations of the prompt by their effect."""

from __future__ import annotations

from typing import Any

from benchmarks.learning_quality.programs.dspy_program import demonstrations, metric, predictor, trainset
from benchmarks.learning_quality.programs.job import Answerer, Job, carry_out, needed

FIXED_PROGRAMS = 4
"""Passes over the examples for the candidates that there always are: three scores and one bootstrap."""
RANDOM_PROGRAM = 2
"""Passes for one random candidate: a bootstrap and a score."""


def learn(job: Job) -> tuple[Answerer, str]:
    """Optimise a predictor within the budget."""
    dspy = needed("dspy")
    predict = predictor(dspy, job)
    passes = job.max_calls // len(job.examples)
    candidates = max(0, (passes - FIXED_PROGRAMS) // RANDOM_PROGRAM)
    optimiser = dspy.BootstrapFewShotWithRandomSearch(
        metric=metric, max_bootstrapped_demos=4, max_labeled_demos=16, num_candidate_programs=candidates, num_threads=4
    )
    compiled: Any = optimiser.compile(predict, trainset=trainset(dspy, job), valset=trainset(dspy, job))
    return (lambda question: str(compiled(question=question).answer)), demonstrations(compiled)


if __name__ == "__main__":
    carry_out(learn)
