"""Checks what a runner is given, before the first step."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ace.arguments import whole_number

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import Pipeline

__all__ = ["check_context", "check_items", "in_order_of_epoch"]

_NEVER_NONE = ("sample", "trace", "skillbook")


def check_items(items: object, epochs: int) -> None:
    """Check the inputs of a run as a whole.

    Args:
        items: The inputs.
        epochs: The number of passes over them.

    Raises:
        TypeError: They are a single input, not an iterable of inputs.
        ValueError: They can be iterated only once and there are several epochs, or one of them is None.
    """
    if isinstance(items, str | bytes | bytearray | Mapping) or not isinstance(items, Iterable):
        raise TypeError(f"a run takes a list of inputs, not one {type(items).__name__}; put it into a list: run([...])")
    whole_number("epochs", epochs)
    if not isinstance(items, Sequence):
        if epochs > 1:
            raise ValueError(
                f"{epochs} epochs need inputs that can be iterated more than once; a {type(items).__name__} "
                "cannot: give a list"
            )
        return
    missing = [index for index, item in enumerate(items, 1) if item is None]
    if missing:
        raise ValueError(f"inputs {', '.join(map(str, missing[:10]))} of {len(items)} are None")


def in_order_of_epoch(items: Iterable[Any], seed: int | None, epoch: int) -> Iterable[Any]:
    """Return the inputs in the order of an epoch.

    Args:
        items: The inputs.
        seed: Determines the orders; None keeps the order of the inputs.
        epoch: The epoch, from 1.

    Raises:
        ValueError: They cannot be put into another order.

    Example:
        >>> in_order_of_epoch(["a", "b", "c"], 1, 1), in_order_of_epoch(["a", "b", "c"], 1, 2)
        (['b', 'c', 'a'], ['c', 'b', 'a'])
    """
    if seed is None:
        return items
    if not isinstance(items, Sequence):
        raise ValueError(f"shuffle needs inputs that can be reordered; a {type(items).__name__} cannot: pass a list")
    ordered = list(items)
    # A text as seed gives the same numbers on every machine and for every release of Python that we support.
    random.Random(seed if epoch == 1 else f"{seed} {epoch}").shuffle(ordered)
    return ordered


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
