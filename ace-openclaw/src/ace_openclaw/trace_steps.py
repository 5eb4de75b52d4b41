"""The steps of the standard trace, and the text that is rendered from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

__all__ = ["TraceStep", "rendered", "step"]

Kind = Literal["thought", "call", "result", "message"]


class TraceStep(TypedDict):
    """One step of a standard trace."""

    kind: Kind
    """A thought of the model, a call of a tool, its result, or words."""
    name: str
    """The tool, or who speaks."""
    content: str
    """The thought, the arguments as JSON, the output, or the words."""
    is_error: bool
    """Whether the tool or the model failed."""
    place: str
    """The line of the file, or the number of the event."""


def step(kind: Kind, name: str, content: str, place: str, *, is_error: bool = False) -> TraceStep:
    """Return one step.

    Args:
        kind: What it is.
        name: The tool, or who speaks.
        content: Its text.
        place: Where it stands.
        is_error: Whether it failed.
    """
    return TraceStep(kind=kind, name=name, content=content, is_error=is_error, place=place)


def rendered(steps: Iterable[TraceStep]) -> str:
    """Return steps as text, in order, failures marked.

    Args:
        steps: The steps.

    Example:
        >>> print(rendered([step("result", "exec", "no such file", "4", is_error=True)]))
        [4] result exec (failed)
        no such file
    """
    return "\n".join(
        f"[{each['place']}] {each['kind']} {each['name']}{' (failed)' if each['is_error'] else ''}\n{each['content']}"
        for each in steps
    )
