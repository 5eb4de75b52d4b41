"""Everything about a pipeline that can be worked out before samples run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Generic, TypeVar, final

from .background import Stage
from .context import StepContext
from .lane import Lane, lane_for
from .lane_segment import LaneSegment
from .planned_step import PlannedStep, plan_step
from .sections import cut_into_sections, warn_of_split_lane
from .segment import Segment, fuse
from .stage import LaneStage, ParallelStage
from .step import StepProtocol
from .step_observer import StepObserver, observed
from .surroundings import Surroundings, limited, placed
from .validation import (
    InputCheck,
    check_boundaries,
    check_order,
    required_from_outside,
    warn_of_what_nesting_switches_off,
)

C = TypeVar("C", bound=StepContext)


@final
class Plan(Generic[C]):
    """How the samples of a pipeline run: made once from its steps, shared by all its runs, never changed.

    Args:
        steps: The steps, in order.
        observer: Watches them; nothing of the plan is different without one.

    Attributes:
        steps: The steps, in order.
        requires: The fields that have to be on the context from the start.
        provides: The fields that some step writes.
        foreground: What a sample passes before the boundary, in order.
        loop_foreground: The same where an event loop runs it.
        stages: What it passes behind the boundary, in order.
        lanes: The lanes of its lane sections, in order, foreground first.
        through: All steps in one go, for a pipeline that is called by itself.
        has_inner_hooks: Whether a nested pipeline, at any depth, has hooks.

    Raises:
        PipelineConfigError, PipelineOrderError: If the steps do not fit together.
    """

    def __init__(self, steps: Sequence[PlannedStep[C]], observer: StepObserver | None = None) -> None:
        check_boundaries(steps)
        check_order(steps)
        wanted = required_from_outside(steps)
        self.steps = tuple(steps)
        self.requires = frozenset(wanted)
        self.provides = frozenset[str]().union(*(step.provides for step in steps))
        self.inputs = InputCheck[C](wanted)
        self.first_step = steps[0].name if steps else None
        self._observer = observer
        self.through = fuse(self._prepared(self.steps, Surroundings.ALONE))
        self._through_within: dict[Surroundings, tuple[Segment[C], ...]] = {}
        self.has_inner_hooks = any(step.has_inner_hooks for step in steps)
        self.has_async_steps = any(step.is_async for step in steps)
        self.boundary = next((index for index, step in enumerate(steps) if step.async_boundary), len(steps))
        self.lanes: list[Lane] = []
        self.foreground = self._foreground()
        self.loop_foreground = self._loop_foreground()
        self.stages = self._stages()
        self.awaits_in_background = any(step.is_async for step in steps[self.boundary :])
        self.awaits_in_foreground = any(isinstance(part, Segment) and part.is_async for part in self.foreground)
        self.awaits_on_loop = any(isinstance(part, Segment) and part.is_async for part in self.loop_foreground)

    def extended(self, step: StepProtocol[C], *, stacklevel: int) -> Plan[C]:
        """Return the plan with one more step at the end.

        Args:
            step: The step.
            stacklevel: How many calls above this one the user's own code is, which warnings point at.

        Warns:
            UserWarning: If the step is a pipeline whose boundary or lane has no effect here, or splits a lane.
        """
        steps = (*self.steps, plan_step(step))
        plan = Plan(steps, self._observer)
        warn_of_what_nesting_switches_off(steps[-1], stacklevel=stacklevel)
        warn_of_split_lane(steps, stacklevel=stacklevel)
        return plan

    def _foreground(self) -> tuple[Segment[C] | LaneSegment[C], ...]:
        parts: list[Segment[C] | LaneSegment[C]] = []
        for section in cut_into_sections(self.steps[: self.boundary]):
            steps = self._prepared(section.steps, Surroundings.FOREGROUND)
            if section.lane is None:
                parts.extend(fuse(steps))
            else:
                lane = self._enlist(section.lane, section.lane_key)
                parts.append(LaneSegment(lane, steps, len(self.lanes) - 1))
        return tuple(parts)

    def _loop_foreground(self) -> tuple[Segment[C] | LaneSegment[C], ...]:
        """Return the foreground with the twins of the steps that can be awaited."""
        if all(step.call_on_loop is None for step in self.steps[: self.boundary]):
            return self.foreground
        parts: list[Segment[C] | LaneSegment[C]] = []
        for part in self.foreground:
            if isinstance(part, LaneSegment):
                parts.append(part)  # the lane is one, however the run is driven
            else:
                parts.extend(fuse([_awaited_on_loop(step) for step in part.steps]))
        return tuple(parts)

    def _stages(self) -> tuple[Stage[C], ...]:
        stages: list[Stage[C]] = []
        for section in cut_into_sections(self.steps[self.boundary :]):
            if section.lane is None:
                steps = self._prepared(section.steps, Surroundings.BACKGROUND)
                stages.extend(ParallelStage(step) for step in steps)
            else:
                lane = self._enlist(section.lane, section.lane_key)
                steps = self._prepared(section.steps, Surroundings.LANE)
                stages.append(LaneStage(lane, steps, len(self.lanes) - 1))
        return tuple(stages)

    def through_within(self, surroundings: Surroundings) -> tuple[Segment[C], ...]:
        """Return all steps in one go, for a pipeline that is a step of another one in these surroundings."""
        segments = self._through_within.get(surroundings)
        if segments is None:
            steps = self._prepared(self.steps, surroundings)
            segments = self._through_within[surroundings] = fuse([limited(step, surroundings) for step in steps])
        return segments

    def _prepared(self, steps: Sequence[PlannedStep[C]], surroundings: Surroundings) -> list[PlannedStep[C]]:
        """Return steps with what has to be around their calls there."""
        prepared = [placed(step, surroundings) for step in steps]
        if self._observer is None:
            return prepared
        return [observed(step, self._observer, surroundings.is_background) for step in prepared]

    def _enlist(self, name: str, key: object | None) -> Lane:
        lane = lane_for(name, key)
        self.lanes.append(lane)
        return lane


def _awaited_on_loop(step: PlannedStep[C]) -> PlannedStep[C]:
    return step if step.call_on_loop is None else dataclasses.replace(step, call_async=step.call_on_loop)
