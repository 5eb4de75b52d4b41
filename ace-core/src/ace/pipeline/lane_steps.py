"""The steps of a lane section, on whichever side of the boundary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar, final

from .cancellation import CancellationToken
from .context import StepContext
from .hooks import PipelineHook
from .planned_step import PlannedStep
from .segment import Position, fuse

C = TypeVar("C", bound=StepContext)


@final
class LaneSteps(Generic[C]):
    """Neighbouring steps of one lane, of either kind.

    Args:
        steps: The steps, in order.

    Attributes:
        is_async: Whether all are asynchronous, so that the section can be awaited.
    """

    def __init__(self, steps: Sequence[PlannedStep[C]]) -> None:
        self.is_async = all(step.is_async for step in steps)
        self._segments = fuse(steps)

    def run(
        self, ctx: C, position: Position, token: CancellationToken | None = None, hooks: Sequence[PipelineHook] = ()
    ) -> C:
        """Run the steps on this thread; the asynchronous ones among them are awaited on the engine's loop."""
        for segment in self._segments:
            if segment.is_async and not hooks:  # hooks are called here, between the steps
                from .event_loop import engine_loop  # loads asyncio, which most pipelines can do without

                ctx = engine_loop.run(segment.run_async(ctx, position, token, hooks))
            else:
                ctx = segment.run(ctx, position, token, hooks)
        return ctx

    async def run_async(
        self, ctx: C, position: Position, token: CancellationToken | None = None, hooks: Sequence[PipelineHook] = ()
    ) -> C:
        """Await the steps, which must all be asynchronous."""
        for segment in self._segments:
            ctx = await segment.run_async(ctx, position, token, hooks)
        return ctx
