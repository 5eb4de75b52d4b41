"""`EvaluateStep`: has an environment judge the answer, and builds the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.context import ACEStepContext
from ace.steps.answer_trace import answer_trace
from ace.steps.needed import needed
from ace.steps.stopping import is_learned

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment

__all__ = ["EvaluateStep"]


class EvaluateStep:
    """Builds the trace of a live run, with the judgement of an environment where there is one.

    The trace is a dict: question, context, ground_truth, reasoning, answer, skill_ids, and feedback and metrics
    where an environment judged.

    Args:
        environment: Who judges.
    """

    requires = frozenset({"sample", "agent_output"})
    provides = frozenset({"trace"})

    def __init__(self, environment: TaskEnvironment | None = None) -> None:
        self.environment = environment

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the trace on the context."""
        if is_learned(ctx):
            return ctx
        sample = needed(ctx.sample, "sample", self)
        output = needed(ctx.agent_output, "agent_output", self)
        trace = answer_trace(sample.question, sample.context, sample.ground_truth, output)
        if self.environment is not None:
            result = self.environment.evaluate(sample, output)
            trace["feedback"] = result.feedback
            trace["metrics"] = dict(result.metrics)
            if result.ground_truth is not None:
                trace["ground_truth"] = result.ground_truth
        return ctx.replace(trace=trace)
