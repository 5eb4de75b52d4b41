"""The two kinds of stages behind the boundary: a step with its limit, and a lane section."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeVar, final

from .background import Job
from .context import StepContext
from .lane import Lane
from .planned_step import PlannedStep
from .segment import Position
from .station import LoopWork, station_for

C = TypeVar("C", bound=StepContext)


@final
class ParallelStage(Generic[C]):
    """One step, which as many samples pass at once as its limit allows."""

    def __init__(self, step: PlannedStep[C]) -> None:
        self._step = step
        self._station = station_for(step)

    def submit(self, job: Job[C]) -> None:
        """Have the job performed when there is a place in the step."""
        if self._step.is_async:
            self._station.submit(_loop_work(job, self._run_async), job.order, job.index)
        else:
            self._station.submit(partial(job.perform, self._run), job.order, job.index)

    def _run(self, ctx: C, position: Position) -> C:
        position.step_name = self._step.name
        return self._step.run(ctx)

    async def _run_async(self, ctx: C, position: Position) -> C:
        position.step_name = self._step.name
        return await self._step.run_async(ctx)


@final
class LaneStage(Generic[C]):
    """Neighbouring steps of one lane, which one sample at a time passes in input order.

    The lane takes the place of the steps' own limits: two pipelines whose lanes have different keys never wait
    for each other, though their steps be of one class.

    Args:
        lane: The lane, shared with every pipeline that names it with the same key.
        steps: The steps of the section.
        number: Which lane section of its pipeline it is, counted from 0.
    """

    def __init__(self, lane: Lane, steps: Sequence[PlannedStep[C]], number: int) -> None:
        self._lane = lane  # kept, so that others with the same name and key find it
        self._steps = tuple(steps)
        self._is_async = all(step.is_async for step in steps)
        self._number = number

    def submit(self, job: Job[C]) -> None:
        """Have the job performed when it is its turn."""
        work = _loop_work(job, self._run_async) if self._is_async else partial(job.perform, self._run)
        job.order.turns[self._number].arrive(job.index, work)

    def _run(self, ctx: C, position: Position) -> C:
        for step in self._steps:
            position.step_name = step.name
            ctx = step.run_blocking(ctx)
        return ctx

    async def _run_async(self, ctx: C, position: Position) -> C:
        for step in self._steps:
            position.step_name = step.name
            ctx = await step.run_async(ctx)
        return ctx


def _loop_work(job: Job[C], run: Callable[[C, Position], Awaitable[C]]) -> LoopWork:
    return LoopWork(partial(job.perform_async, run), job.context, job.refuse)
