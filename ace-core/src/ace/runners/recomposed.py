"""Changes the steps of a pipeline: for another skillbook, another file, or with further steps."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path

from ace.context import ACEStepContext
from ace.pipeline import Branch, Pipeline, StepProtocol
from ace.runners.run_session import StepEvents
from ace.skillbook import Skillbook
from ace.steps.checkpoint import SaveSkillbookStep

__all__ = ["check_books", "rebound", "rebound_steps", "recomposed", "with_save_path"]

Step = StepProtocol[ACEStepContext]

_LEARNED_FIELDS = frozenset({"reflection", "skill_manager_output"})


def check_books(pipeline: Pipeline[ACEStepContext], skillbook: Skillbook, runner: str) -> None:
    """Check that what a pipeline learns is written into the book of its runner.

    Args:
        skillbook: The book of the runner.
        runner: The name of the runner, for the error.

    Raises:
        ValueError: A step has another book, or none has this one although one of them learns.
    """
    steps = list(_all_steps(pipeline.steps))
    others = [(step, book) for step in steps if (book := _book_of(step)) is not None and book is not skillbook]
    if others:
        owners = ", ".join(f"{type(step).__name__} holds a {book!r}" for step, book in others)
        raise ValueError(
            f"{owners}, but {runner} has {skillbook!r}, another object: what is learned would not be in "
            f"{runner}.skillbook. Create the steps with skillbook=book, and create the runner with the same book"
        )
    learning = [type(step).__name__ for step in steps if _LEARNED_FIELDS & frozenset(step.provides)]
    if learning and not any(_holds(step, skillbook) for step in steps):
        raise ValueError(
            f"no step of {runner} writes its skillbook, so what it learns would be lost: its learning steps are "
            f"{', '.join(learning)}. Add the steps that write, or end the pipeline in "
            "learning_tail(reflector, skill_manager, skillbook)"
        )


def _all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, and those of nested pipelines and branches."""
    for step in steps:
        if isinstance(step, Pipeline):
            yield from _all_steps(step.steps)
        elif isinstance(step, Branch):
            yield from _all_steps(step.pipelines)
        else:
            yield step


def _book_of(step: Step) -> Skillbook | None:
    """Return the book that a step writes: the key of its lane, or what it calls `skillbook`."""
    for name in ("lane_key", "skillbook"):
        found = getattr(step, name, None)
        if isinstance(found, Skillbook):
            return found
    return None


def _holds(step: Step, skillbook: Skillbook) -> bool:
    """Whether a step refers to a book, under whatever name."""
    return _book_of(step) is skillbook or any(value is skillbook for value in getattr(step, "__dict__", {}).values())


def recomposed(pipeline: Pipeline[ACEStepContext], steps: Sequence[Step]) -> Pipeline[ACEStepContext]:
    """Return a pipeline of the given steps with the hooks and the background limit of another one.

    Args:
        pipeline: The other one.
    """
    return Pipeline[ACEStepContext](
        steps, hooks=pipeline.hooks, background_limit=pipeline.background_limit, step_observer=StepEvents()
    )


def rebound_steps(steps: Sequence[Step], old: Skillbook, new: Skillbook) -> list[Step]:
    """Return copies of the steps with every reference to the old book replaced; the given ones do not change.

    Args:
        steps: The steps of a pipeline.
        old: The book that they change.
        new: The book that the returned steps change.
    """
    return [rebound(step, old, new) for step in steps]


def rebound(step: Step, old: Skillbook, new: Skillbook) -> Step:
    """Return a copy of a step with every reference to the old book replaced, or the step itself if it has none.

    Args:
        old: The book that it changes.
        new: The book that the returned step changes.
    """
    if isinstance(step, Pipeline):
        inner = rebound_steps(step.steps, old, new)
        return (
            step
            if _same(inner, step.steps)
            else Pipeline(inner, hooks=step.hooks, background_limit=step.background_limit)
        )
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
    """Return the steps with a `SaveSkillbookStep` to another file.

    Args:
        steps: The steps of a pipeline.
        path: The JSON file; None removes the step.
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
