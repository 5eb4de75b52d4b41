"""Checks what a runner is given, before the first step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ace.arguments import whole_number

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import Pipeline

__all__ = ["check_context", "check_items"]

_NEVER_NONE = ("sample", "trace", "skillbook")


def check_items(items: object, epochs: int) -> None:
    """Check the inputs of a run as a whole.

    Args:
        items: The inputs.
        epochs: How often they are gone through.

    Raises:
        TypeError: They are one input, and no iterable of inputs.
        ValueError: They cannot be gone through so often, or one of them is None.
    """
    if isinstance(items, str | bytes | bytearray | Mapping) or not isinstance(items, Iterable):
        raise TypeError(f"a run takes a list of inputs, not one {type(items).__name__}; put it into a list: run([...])")
    whole_number("epochs", epochs)
    if not isinstance(items, Sequence):
        if epochs > 1:
            raise ValueError(
                f"{epochs} epochs need inputs that can be gone through again; a {type(items).__name__} "
                "cannot: give a list"
            )
        return
    missing = [index for index, item in enumerate(items, 1) if item is None]
    if missing:
        raise ValueError(f"inputs {', '.join(map(str, missing[:10]))} of {len(items)} are None")


def check_context(ctx: ACEStepContext, pipeline: Pipeline[ACEStepContext], runner: str, index: int) -> None:
    """Check that the context of one input has what the steps want from the start.

    Args:
        ctx: The context.
        pipeline: The pipeline that it will pass.
        runner: The name of the runner, for the error.
        index: The place of the input, from 1.

    Raises:
        ValueError: A field is missing, or is None where that cannot be.
    """
    for name in sorted(pipeline.requires):
        if not hasattr(ctx, name):
            raise ValueError(
                f"input {index}: the steps of {runner} need the context field {name!r}, and "
                f"{type(ctx).__name__} has none; set it in _build_context, or put the step that provides it first"
            )
        if name in _NEVER_NONE and getattr(ctx, name) is None:
            raise ValueError(
                f"input {index}: the steps of {runner} need the context field {name!r}, which is None; "
                "set it in _build_context"
            )
