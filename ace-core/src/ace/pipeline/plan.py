"""The planner: everything about a pipeline that can be worked out before samples run.

Who calls what, and on which thread: the thread that builds a pipeline makes a new `Plan` for each step that is added
and discards the previous one. From the first run on, workers, lanes and the background read it on all threads.

Invariants:

- A plan does not change after its construction, except for the cache of `through_within`. Two threads that fill the
  same entry at once compute equal values, so it does not matter which one is kept.
- The declarations of a step are read once, when it is planned; later changes have no effect.
- Steps are grouped so that a sample changes threads as rarely as possible: adjacent steps of one kind, plain or
  asynchronous, form one segment.
- Behind the boundary, a step has a limit or is in a lane, never both: a lane admits one sample at a time.
- A slot of a limiter is held only inside a step, where nothing waits for another slot. Composites take no slot; their
  inner steps do (`ace.pipeline.limiter.limited`).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from .background import LaneStage, ParallelStage, Stage
from .context import StepContext
from .errors import PipelineConfigError
from .lane import Lane, LaneSegment, lane_for
from .limiter import limited
from .segment import Segment, StepObserver, fuse, observed
from .step import ExecutionMode, PlannedStep, StepProtocol, placed, plan_step
from .validation import (
    InputCheck,
    check_boundaries,
    check_order,
    required_from_outside,
    warn_of_what_nesting_switches_off,
)

C = TypeVar("C", bound=StepContext)


@dataclass(frozen=True, slots=True, eq=False)
class Section(Generic[C]):
    """Adjacent steps of one lane or, if `lane` is None, adjacent steps without a lane."""

    steps: tuple[PlannedStep[C], ...]
    lane: str | None
    lane_key: object | None


def cut_into_sections(steps: Sequence[PlannedStep[C]]) -> list[Section[C]]:
    """Split steps into sections.

    Raises:
        PipelineConfigError: If the steps of one lane section have different lane keys.
    """
    groups: list[list[PlannedStep[C]]] = []
    for step in steps:
        if groups and groups[-1][-1].lane == step.lane:
            groups[-1].append(step)
        else:
            groups.append([step])
    return [Section(tuple(group), group[0].lane, _common_key(group)) for group in groups]


def _common_key(group: Sequence[PlannedStep[C]]) -> object | None:
    keyed = [step for step in group if step.lane is not None and step.lane_key is not None]
    for step in keyed[1:]:
        if step.lane_key is not keyed[0].lane_key:
            raise PipelineConfigError(
                f"steps {keyed[0].name} and {step.name} are in one section of lane {step.lane!r} but have different "
                f"lane keys; give both the same object, or give them different lanes"
            )
    return keyed[0].lane_key if keyed else None


def warn_of_split_lane(steps: Sequence[PlannedStep[C]], *, stacklevel: int) -> None:
    """Warn if the last step is in a lane that the step before it, which has no lane, has interrupted."""
    if len(steps) < 3 or steps[-1].lane is None or steps[-2].lane is not None:
        return
    before = [step for step in steps[:-1] if step.lane is not None]
    if before and before[-1].lane == steps[-1].lane:
        warnings.warn(
            f"step {steps[-2].name} has no lane and splits lane {steps[-1].lane!r}: other samples may pass between "
            f"{before[-1].name} and {steps[-1].name}; move it, or give it `lane = {steps[-1].lane!r}`",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


@final
class Plan(Generic[C]):
    """How the samples of a pipeline run: computed once from its steps and shared by all its runs.

    Args:
        steps: The steps, in order.
        observer: Watches the steps; otherwise the plan is the same without one.

    Attributes:
        requires: The fields that a context must have from the start.
        provides: The fields that the steps write.
        foreground: What a sample passes before the boundary, in order.
        loop_foreground: The same, for a foreground that an event loop runs.
        stages: What a sample passes behind the boundary, in order.
        lanes: The lanes of the lane sections, in order, foreground first.
        through: All steps as one sequence, for a pipeline that is called directly.
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
        self.through = fuse(self._prepared(self.steps, ExecutionMode.ALONE))
        self._through_within: dict[ExecutionMode, tuple[Segment[C], ...]] = {}
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
            stacklevel: How many calls above this one the user's code is; warnings point at it.

        Warns:
            UserWarning: If the step is a pipeline whose boundary or lane has no effect here, or if it splits a lane.
        """
        steps = (*self.steps, plan_step(step))
        plan = Plan(steps, self._observer)
        warn_of_what_nesting_switches_off(steps[-1], stacklevel=stacklevel)
        warn_of_split_lane(steps, stacklevel=stacklevel)
        return plan

    def _foreground(self) -> tuple[Segment[C] | LaneSegment[C], ...]:
        parts: list[Segment[C] | LaneSegment[C]] = []
        for section in cut_into_sections(self.steps[: self.boundary]):
            steps = self._prepared(section.steps, ExecutionMode.FOREGROUND)
            if section.lane is None:
                parts.extend(fuse(steps))
            else:
                lane = self._enlist(section.lane, section.lane_key)
                parts.append(LaneSegment(lane, steps, len(self.lanes) - 1))
        return tuple(parts)

    def _loop_foreground(self) -> tuple[Segment[C] | LaneSegment[C], ...]:
        """Return the foreground, with the asynchronous twins of steps that have one."""
        if all(step.call_on_loop is None for step in self.steps[: self.boundary]):
            return self.foreground
        parts: list[Segment[C] | LaneSegment[C]] = []
        for part in self.foreground:
            if isinstance(part, LaneSegment):
                parts.append(part)  # the same lane serves both drivers
            else:
                parts.extend(fuse([_awaited_on_loop(step) for step in part.steps]))
        return tuple(parts)

    def _stages(self) -> tuple[Stage[C], ...]:
        stages: list[Stage[C]] = []
        sections = cut_into_sections(self.steps[self.boundary :])
        for place, section in enumerate(sections, 1):
            if section.lane is None:
                steps = self._prepared(section.steps, ExecutionMode.BACKGROUND)
                stages.extend(ParallelStage(step) for step in steps)
            else:
                lane = self._enlist(section.lane, section.lane_key)
                steps = self._prepared(section.steps, ExecutionMode.LANE)
                stages.append(LaneStage(lane, steps, len(self.lanes) - 1, is_last=place == len(sections)))
        return tuple(stages)

    def through_within(self, mode: ExecutionMode) -> tuple[Segment[C], ...]:
        """Return all steps as one sequence, for a pipeline that is a step of another one in this mode."""
        segments = self._through_within.get(mode)
        if segments is None:
            steps = self._prepared(self.steps, mode)
            segments = self._through_within[mode] = fuse([limited(step, mode) for step in steps])
        return segments

    def _prepared(self, steps: Sequence[PlannedStep[C]], mode: ExecutionMode) -> list[PlannedStep[C]]:
        """Return the steps as they are called in a mode, with the observer around each call."""
        prepared = [placed(step, mode) for step in steps]
        if self._observer is None:
            return prepared
        return [observed(step, self._observer, mode.is_background) for step in prepared]

    def _enlist(self, name: str, key: object | None) -> Lane:
        lane = lane_for(name, key)
        self.lanes.append(lane)
        return lane


def _awaited_on_loop(step: PlannedStep[C]) -> PlannedStep[C]:
    return step if step.call_on_loop is None else dataclasses.replace(step, call_async=step.call_on_loop)
