"""A lane section in the foreground."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, final

from .caller import CallerThread, caller_var
from .context import StepContext
from .hooks import PipelineHook, relayed
from .interrupts import uninterrupted
from .lane import Lane
from .lane_steps import LaneSteps
from .planned_step import PlannedStep
from .segment import Position
from .station import LoopWork
from .threads import Work
from .variables import adopt

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .run import Run

C = TypeVar("C", bound=StepContext)


@final
class LaneSegment(Generic[C]):
    """Neighbouring foreground steps of one lane, which one sample at a time passes in input order.

    Args:
        lane: The lane, shared with every pipeline that names it with the same key.
        steps: The steps of the section.
        number: Which lane section of its pipeline it is, counted from 0.
    """

    def __init__(self, lane: Lane, steps: Sequence[PlannedStep[C]], number: int) -> None:
        self._lane = lane  # kept, so that others with the same name and key find it
        self._steps = LaneSteps(steps)
        self._first_step = steps[0].name
        self._number = number

    def start(
        self, future: Future[C], ctx: C, position: Position, run: Run[C], index: int, hooks: Sequence[PipelineHook]
    ) -> contextvars.Context:
        """Have the section run when it is the sample's turn.

        Args:
            future: Gets what the section returns. Until that has begun, it can be cancelled.
            ctx: The sample's context.
            position: Where the sample is.
            run: The run.
            index: The sample's number in the run's order.
            hooks: What observes the steps, and where that is called.

        Returns:
            At once, the context whose variables the section may set.
        """
        context = contextvars.copy_context()
        position.step_name = self._first_step

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(self._steps.run, ctx, position, run.token, hooks))
            except BaseException as error:
                future.set_exception(error)

        async def work_async(then: Callable[[Work], None]) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                then(partial(future.set_result, await self._steps.run_async(ctx, position, run.token, hooks)))
            except BaseException as error:
                then(partial(future.set_exception, error))

        def refuse(error: BaseException) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

        assert run.order is not None  # a pipeline with a lane has one
        with uninterrupted:
            turns = run.order.turns[self._number]
            turns.arrive(index, LoopWork(work_async, context, refuse) if self._steps.is_async else work)
        return context

    def pass_through(self, ctx: C, position: Position, run: Run[C], index: int) -> C:
        """Run the section and wait for it. Ctrl-C cancels work that has not begun, and otherwise waits for its end.

        The section runs on another thread, which no Ctrl-C can interrupt. If hooks are to be called on this thread, it
        calls them while it waits.
        """
        from concurrent.futures import Future  # costs 12 ms to import, which pipelines without lanes save

        future: Future[C] = Future()
        here = CallerThread()
        future.add_done_callback(lambda _: here.end())
        hooks = run.hooks
        calls_here = run.calls_hooks and run.caller is None
        if calls_here:
            hooks = relayed(hooks, here)
            caller_var.set(here)
        try:
            context = self.start(future, ctx, position, run, index, hooks)
            here.wait()
        except BaseException:
            with uninterrupted:
                future.cancel()
            here.wait()
            raise
        finally:
            if calls_here:
                caller_var.set(None)
        ctx = future.result()
        if calls_here:
            context.run(caller_var.set, None)
        adopt(context)
        return ctx
