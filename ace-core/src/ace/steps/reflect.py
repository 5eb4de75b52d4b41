"""`ReflectStep`: has the reflector find out what a trace teaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.context import ACEStepContext
from ace.steps.asking import asking
from ace.steps.needed import needed
from ace.steps.stopping import is_learned, stop_if_cancelled

if TYPE_CHECKING:
    from ace.protocols.reflector import ReflectorLike

__all__ = ["ReflectStep"]


class ReflectStep:
    """Has the reflector find out what a trace teaches. From here on, a sample is in the background.

    The reflector gets the whole trace, and what can be read of it under the usual names. A sample of a run that
    was cancelled is not begun.

    Args:
        reflector: Who reflects.
        max_workers: How many reflections this step makes at once; by default three, which all instances share.
    """

    requires = frozenset({"trace", "skillbook"})
    provides = frozenset({"reflection"})
    async_boundary = True
    max_workers = 3

    def __init__(self, reflector: ReflectorLike, *, max_workers: int | None = None) -> None:
        self.reflector = reflector
        if max_workers is not None:
            self.max_workers = max_workers

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the reflection on the context."""
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        # Imported here, as pydantic stands behind both: building a pipeline shall not load it.
        from ace.implementations.trace_reading import read_trace
        from ace.outputs import AgentOutput

        read = read_trace(needed(ctx.trace, "trace", self))
        with asking(ctx, "Reflector"):
            reflection = self.reflector.reflect(
                question=read["question"],
                agent_output=AgentOutput(
                    reasoning=read["reasoning"], final_answer=read["answer"], skill_ids=read["skill_ids"]
                ),
                skillbook=needed(ctx.skillbook, "skillbook", self),
                ground_truth=read["ground_truth"],
                feedback=read["feedback"],
                trace=ctx.trace,
            )
        return ctx.replace(reflection=reflection)
