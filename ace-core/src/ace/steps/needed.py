"""Reads a context field that may be None, and says so in words if it is."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def needed(value: T | None, field: str, step: object) -> T:
    """Return the value of a field that a step cannot do without.

    Args:
        value: The value.
        field: The name of the field.
        step: The step that reads it.

    Raises:
        ValueError: The value is None.

    Example:
        >>> needed("a trace", "trace", object())
        'a trace'
    """
    if value is None:
        raise ValueError(
            f"{type(step).__name__} needs the context field {field!r}, which is None; "
            "an earlier step or the runner has to set it"
        )
    return value
