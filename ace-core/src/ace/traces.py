"""The steps of the standard trace: what an agent thought, called, got back and said, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

__all__ = ["StepKind", "TraceStep", "step_title", "steps_as_text", "trace_step"]

StepKind = Literal["thought", "call", "result", "message"]


class TraceStep(TypedDict):
    """One step of a standard trace."""

    kind: StepKind
    """A thought of the model, a call of a tool, its result, or words."""
    name: str
    """The tool, or who speaks; empty where that is not known."""
    content: str
    """The thought, the arguments as JSON, the output, or the words."""
    is_error: bool
    """Whether the tool or the model failed, or was denied."""
    place: str
    """Where the step stands in the source, such as the line of a file, or `2.1`."""


def trace_step(kind: StepKind, name: str, content: str, place: str, *, is_error: bool = False) -> TraceStep:
    """Return one step.

    Args:
        kind: What it is.
        name: The tool, or who speaks.
        content: Its text.
        place: Where it stands in the source.
        is_error: Whether it failed.
    """
    return TraceStep(kind=kind, name=name, content=content, is_error=is_error, place=place)


def step_title(step: TraceStep) -> str:
    """Return the heading of a step.

    Args:
        step: The step.

    Example:
        >>> step_title(trace_step("result", "search", "no such host", "2", is_error=True))
        '[2] result search (failed)'
    """
    failed = " (failed)" if step["is_error"] else ""
    name = f" {step['name']}" if step["name"] else ""
    return f"[{step['place']}] {step['kind']}{name}{failed}"


def steps_as_text(steps: Iterable[TraceStep]) -> str:
    """Return steps as text, in order: the `reasoning` of a standard trace.

    Args:
        steps: The steps.

    Example:
        >>> print(steps_as_text([trace_step("call", "add", '{"a": 2}', "1"), trace_step("result", "add", "4", "2")]))
        [1] call add
        {"a": 2}
        [2] result add
        4
    """
    return "\n".join(f"{step_title(step)}\n{step['content']}" for step in steps)
