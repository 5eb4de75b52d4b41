"""Cutting a list of steps into lane sections and the steps between them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .context import StepContext
from .errors import PipelineConfigError
from .planned_step import PlannedStep

C = TypeVar("C", bound=StepContext)


@dataclass(frozen=True, slots=True, eq=False)
class Section(Generic[C]):
    """Neighbouring steps of one lane, or (`lane` is None) neighbouring steps without one."""

    steps: tuple[PlannedStep[C], ...]
    lane: str | None
    lane_key: object | None


def cut_into_sections(steps: Sequence[PlannedStep[C]]) -> list[Section[C]]:
    """Cut steps into sections.

    Raises:
        PipelineConfigError: If the steps of one lane section name different keys.
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
    """Warn where the last step resumes a lane that a step without a lane has just interrupted."""
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
