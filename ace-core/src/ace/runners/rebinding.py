"""Makes steps write to another skillbook."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ace.context import ACEStepContext
from ace.pipeline import Branch, Pipeline, StepProtocol
from ace.steps.save_skillbook import SaveSkillbookStep

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["rebound", "rebound_steps", "with_save_path"]

Step = StepProtocol[ACEStepContext]


def rebound_steps(steps: Sequence[Step], old: Skillbook, new: Skillbook) -> list[Step]:
    """Return the steps with every reference to the old book changed; the given ones stay as they are.

    Args:
        steps: The steps of a pipeline.
        old: The book that they write.
        new: The book that they shall write.

    """
    return [rebound(step, old, new) for step in steps]


def rebound(step: Step, old: Skillbook, new: Skillbook) -> Step:
    """Return one step with every reference to the old book changed, or itself if it has none.

    Args:
        step: The step.
        old: The book that it writes.
        new: The book that it shall write.
    """
    if isinstance(step, Pipeline):
        inner = rebound_steps(step.steps, old, new)
        return step if _same(inner, step.steps) else Pipeline(inner, hooks=step.hooks)
    if isinstance(step, Branch):
        children = rebound_steps(step.pipelines, old, new)
        return step if _same(children, step.pipelines) else Branch(*children, merge=step._merge_fn)
    names = [name for name, value in getattr(step, "__dict__", {}).items() if value is old]
    if not names:
        return step
    changed = copy.copy(step)
    for name in names:
        setattr(changed, name, new)
    return changed


def with_save_path(steps: Sequence[Step], path: Path | None) -> list[Step]:
    """Return the steps with one that saves to `path` in the place of one that saved elsewhere.

    Args:
        steps: The steps of a pipeline.
        path: The JSON file; None takes such a step out.
    """
    found: list[Step] = []
    for step in steps:
        if not isinstance(step, SaveSkillbookStep):
            found.append(step)
        elif path is not None:
            found.append(SaveSkillbookStep(path, step.skillbook, interval=step.interval))
    return found


def _same(first: Sequence[Step], second: Sequence[Step]) -> bool:
    return all(one is other for one, other in zip(first, second, strict=True))
