"""DSPy with GEPA: rewrites the instruction after reflecting on what went wrong; the corrections are its feedback."""

from __future__ import annotations

from typing import Any

from benchmarks.learning_quality.programs.dspy_program import metric, predictor, trainset
from benchmarks.learning_quality.programs.job import Answerer, Job, carry_out, needed


def learn(job: Job) -> tuple[Answerer, str]:
    """Optimise the instruction of a predictor within the budget."""
    dspy = needed("dspy")
    needed("gepa")
    predict = predictor(dspy, job)

    def with_feedback(gold: Any, prediction: Any, *rest: object) -> Any:
        right = metric(gold, prediction)
        feedback = "This is right." if right else f"{gold.correction} The right answer is: {gold.answer}"
        return dspy.Prediction(score=float(right), feedback=feedback)

    optimiser = dspy.GEPA(metric=with_feedback, max_metric_calls=job.max_calls, reflection_lm=dspy.settings.lm)
    compiled: Any = optimiser.compile(predict, trainset=trainset(dspy, job), valset=trainset(dspy, job))
    return (lambda question: str(compiled(question=question).answer)), str(compiled.signature.instructions)


if __name__ == "__main__":
    carry_out(learn)
