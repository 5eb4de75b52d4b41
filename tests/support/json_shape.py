"""Checks JSON values against the shape that a command promises."""

from __future__ import annotations

from typing import Any

Shape = Any
"""A type, a union of types, a list with the shape of its items, or an object with the shape of each member."""


def misfits(value: Any, shape: Shape, place: str = "$") -> list[str]:
    """Say where a value differs from a shape: members that are missing or too many, and values of another type.

    >>> misfits({"id": 1, "more": 2}, {"id": str, "tags": [str]})
    ["$: ['more'] too many, ['tags'] missing", '$.id: 1']
    """
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{place}: {value!r}"]
        found = []
        if value.keys() != shape.keys():
            more, fewer = sorted(value.keys() - shape.keys()), sorted(shape.keys() - value.keys())
            found.append(f"{place}: {more} too many, {fewer} missing")
        shared = [name for name in shape if name in value]
        return [*found, *(misfit for name in shared for misfit in misfits(value[name], shape[name], f"{place}.{name}"))]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{place}: {value!r}"]
        return [misfit for place_, item in enumerate(value) for misfit in misfits(item, shape[0], f"{place}[{place_}]")]
    is_wrong_bool = isinstance(value, bool) and shape is not bool
    return [] if isinstance(value, shape) and not is_wrong_bool else [f"{place}: {value!r}"]
