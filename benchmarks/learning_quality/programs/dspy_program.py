"""The optimisers of DSPy, on a predictor with one call: `python -m ...dspy_program bootstrap` or `gepa`.

`bootstrap` is `BootstrapFewShotWithRandomSearch`, which chooses the demonstrations of the prompt by their effect;
`gepa` is GEPA, which rewrites the instruction after reflecting on what went wrong, with the corrections as its
feedback.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.learning_quality.programs.job import Answerer, Job, carry_out, needed

FIXED_PROGRAMS = 4
"""Passes over the examples for the candidates that there always are: three scores and one bootstrap."""
RANDOM_PROGRAM = 2
"""Passes for one random candidate: a bootstrap and a score."""


def bootstrap(job: Job) -> tuple[Answerer, str]:
    """Choose demonstrations within the budget."""
    dspy = needed("dspy")
    predict = _predictor(dspy, job)
    passes = job.max_calls // len(job.examples)
    candidates = max(0, (passes - FIXED_PROGRAMS) // RANDOM_PROGRAM)
    optimiser = dspy.BootstrapFewShotWithRandomSearch(
        metric=_metric, max_bootstrapped_demos=4, max_labeled_demos=16, num_candidate_programs=candidates, num_threads=4
    )
    examples = _examples(dspy, job)
    compiled: Any = optimiser.compile(predict, trainset=examples, valset=examples)
    text = "\n".join(f"{demo.question} -> {demo.answer}" for demo in compiled.demos)
    return (lambda question: str(compiled(question=question).answer)), text


def gepa(job: Job) -> tuple[Answerer, str]:
    """Rewrite the instruction within the budget."""
    dspy = needed("dspy")
    needed("gepa")
    predict = _predictor(dspy, job)

    def with_feedback(gold: Any, prediction: Any, *rest: object) -> Any:
        right = _metric(gold, prediction)
        feedback = "This is right." if right else f"{gold.correction} The right answer is: {gold.answer}"
        return dspy.Prediction(score=float(right), feedback=feedback)

    optimiser = dspy.GEPA(metric=with_feedback, max_metric_calls=job.max_calls, reflection_lm=dspy.settings.lm)
    examples = _examples(dspy, job)
    compiled: Any = optimiser.compile(predict, trainset=examples, valset=examples)
    return (lambda question: str(compiled(question=question).answer)), str(compiled.signature.instructions)


def _predictor(dspy: Any, job: Job) -> Any:
    """Return a program with one call, and make the benchmark's model the one that DSPy asks."""
    model = dspy.LM(
        "openai/local", api_base=job.api_base, api_key="not-needed", temperature=0.0, max_tokens=600, cache=False
    )
    dspy.configure(lm=model)
    return dspy.Predict("question -> answer")


def _examples(dspy: Any, job: Job) -> list[Any]:
    """Return the corrections as examples of DSPy."""
    return [
        dspy.Example(
            question=example.question, answer=example.right, correction=example.correction, passes=example.passes
        ).with_inputs("question")
        for example in job.examples
    ]


def _metric(example: Any, prediction: Any, trace: object = None) -> bool:
    """Tell whether the answer holds what decides."""
    return bool(example.passes(str(prediction.answer)))


if __name__ == "__main__":
    carry_out({"bootstrap": bootstrap, "gepa": gepa}[sys.argv[1]])
