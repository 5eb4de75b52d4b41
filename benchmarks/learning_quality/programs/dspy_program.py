"""What the optimisers of DSPy share: the predictor, the examples and the metric."""

from __future__ import annotations

from typing import Any

from benchmarks.learning_quality.programs.job import Job

__all__ = ["demonstrations", "metric", "predictor", "trainset"]


def predictor(dspy: Any, job: Job) -> Any:
    """Return a program with one call, and make the benchmark's model the one that DSPy asks."""
    model = dspy.LM(
        "openai/local", api_base=job.api_base, api_key="not-needed", temperature=0.0, max_tokens=600, cache=False
    )
    dspy.configure(lm=model)
    return dspy.Predict("question -> answer")


def trainset(dspy: Any, job: Job) -> list[Any]:
    """Return the corrections as examples of DSPy."""
    return [
        dspy.Example(
            question=each.question, answer=each.right, correction=each.correction, passes=each.passes
        ).with_inputs("question")
        for each in job.examples
    ]


def metric(example: Any, prediction: Any, trace: object = None) -> bool:
    """Tell whether the answer holds what decides."""
    return bool(example.passes(str(prediction.answer)))


def demonstrations(program: Any) -> str:
    """Return the demonstrations of the prompt, one on a line."""
    return "\n".join(f"{each.question} -> {each.answer}" for each in program.demos)
