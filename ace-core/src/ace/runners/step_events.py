"""Tells the observers of `ace.protocols.observers` of every step of a runner's pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ace.protocols.model_calls import current_call_scope
from ace.protocols.observers import StepEnded, StepStarted, emit, is_observed

if TYPE_CHECKING:
    from ace.pipeline import StepContext

__all__ = ["StepEvents"]


@final
class StepEvents:
    """A step observer of the engine that makes events of what it sees, where anybody watches."""

    def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
        """Tell that a step begins. The arguments are those of `ace.pipeline.StepObserver`."""
        if is_observed():
            emit(StepStarted(current_call_scope().run_id, _trace_id(ctx), step_name))

    def step_ended(
        self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
    ) -> None:
        """Tell that a step has ended. The arguments are those of `ace.pipeline.StepObserver`."""
        if is_observed():
            emit(StepEnded(current_call_scope().run_id, _trace_id(ctx), step_name, seconds, error))


def _trace_id(ctx: StepContext) -> str:
    return str(ctx.metadata.get("trace_id", ""))
