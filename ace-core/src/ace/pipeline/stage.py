"""The two kinds of stages behind the boundary: a step with its limit, and a lane section."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar, final

from .background import Job
from .context import StepContext
from .lane import Lane
from .lane_steps import LaneSteps
from .planned_step import PlannedStep
from .segment import Segment
from .station import AnyWork, LoopWork, station_for

C = TypeVar("C", bound=StepContext)


@final
class ParallelStage(Generic[C]):
    """One step, which as many samples pass at once as its limit allows."""

    def __init__(self, step: PlannedStep[C]) -> None:
        self._segment = Segment([step])
        self._station = station_for(step)

    def submit(self, job: Job[C]) -> None:
        """Have the job performed when there is a place in the step."""
        self._station.submit(_work(job, self._segment), job.order, job.index)


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
        self._steps = LaneSteps(steps)
        self._number = number

    def submit(self, job: Job[C]) -> None:
        """Have the job performed when it is its turn."""
        job.order.turns[self._number].arrive(job.index, _work(job, self._steps))


def _work(job: Job[C], steps: Segment[C] | LaneSteps[C]) -> AnyWork:
    """Return what takes a sample through steps: on the engine's loop if all are asynchronous, else on a thread."""
    if steps.is_async:
        return LoopWork(partial(job.perform_async, steps.run_async), job.context, job.refuse)
    return partial(job.perform, steps.run)
