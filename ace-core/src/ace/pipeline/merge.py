"""Joining the contexts that the children of a branch return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from .context import StepContext
from .errors import MergeConflictError
from .problem_reports import value_text

C = TypeVar("C", bound=StepContext)

Resolve = Callable[[str, "list[tuple[int, object]]"], object]
"""Chooses the value of a field from (child index, value) of the children that wrote it."""


class MergeStrategy(Enum):
    """How a branch joins the contexts of its children."""

    RAISE_ON_CONFLICT = "raise_on_conflict"
    """Two different values for one field are an error that names the field and the children."""

    LAST_WRITE_WINS = "last_write_wins"
    """Of several values for one field, that of the last child that wrote it."""

    NAMESPACED = "namespaced"
    """The fields stay as they were; child i's context goes to `metadata["branch_i"]`."""


class _Missing(Enum):
    MISSING = "missing"


_MISSING: Final = _Missing.MISSING


def merge_raise_on_conflict(outputs: Sequence[C], base: C | None = None) -> C:
    """Join what the children wrote; two different values for one field are an error.

    Args:
        outputs: The children's contexts, in child order.
        base: The context that went into the branch. Without it a field counts as written where its value is
            not the default of the field.

    Raises:
        MergeConflictError: If two children wrote different values to one field or metadata key.
    """
    return _merge(outputs, base, _only_value)


def merge_last_write_wins(outputs: Sequence[C], base: C | None = None) -> C:
    """Join what the children wrote; of several values for one field the last child's wins.

    Args:
        outputs: The children's contexts, in child order.
        base: As for `merge_raise_on_conflict`.
    """
    return _merge(outputs, base, _last_value)


def merge_namespaced(outputs: Sequence[C], base: C | None = None) -> C:
    """Keep the input's fields, and put child i's context under `metadata["branch_i"]`.

    Args:
        outputs: The children's contexts, in child order.
        base: The context that went into the branch; without it, the first output is used in its place.
    """
    start = outputs[0] if base is None else base
    children = {f"branch_{index}": output for index, output in enumerate(outputs)}
    return start.replace(metadata=MappingProxyType({**start.metadata, **children}))


class BuiltInMerge(Protocol[C]):
    """A merge that can be told what went into the branch."""

    def __call__(self, outputs: Sequence[C], base: C | None = None) -> C:
        """Return the joined context."""
        ...


def merge_function(strategy: MergeStrategy) -> BuiltInMerge[C]:
    """Return the function behind a strategy."""
    match strategy:
        case MergeStrategy.RAISE_ON_CONFLICT:
            return merge_raise_on_conflict
        case MergeStrategy.LAST_WRITE_WINS:
            return merge_last_write_wins
        case MergeStrategy.NAMESPACED:
            return merge_namespaced


def _only_value(place: str, written: list[tuple[int, object]]) -> object:
    first_child, value = written[0]
    for child, other in written[1:]:
        if not _same(value, other):
            raise MergeConflictError(
                f"children {first_child} and {child} of the branch wrote different values to {place}: "
                f"{value_text(value)} and {value_text(other)}; let only one child write it, or choose "
                f"MergeStrategy.LAST_WRITE_WINS or a merge function of your own"
            )
    return value


def _last_value(place: str, written: list[tuple[int, object]]) -> object:
    return written[-1][1]


def _merge(outputs: Sequence[C], base: C | None, resolve: Resolve) -> C:
    if base is not None and all(output is base for output in outputs):
        return base
    start = outputs[0] if base is None else base
    _check_classes(outputs, start)
    changes: dict[str, Any] = {}  # the types are those of the fields, which only the context class knows
    for name, default in _field_defaults(type(start)).items():
        before = default if base is None else getattr(base, name)
        values = [getattr(output, name) for output in outputs]
        if name == "metadata":
            changes[name] = _merge_metadata(values, before, resolve)
            continue
        written = [(child, value) for child, value in enumerate(values) if value is not before]
        if base is None:
            written = [(child, value) for child, value in written if not _same(value, before)]
        if written:
            changes[name] = resolve(f"field {name!r} of {type(start).__name__}", written)
    return start.replace(**changes)


def _check_classes(outputs: Sequence[C], start: C) -> None:
    for child, output in enumerate(outputs):
        if type(output) is not type(start):
            raise MergeConflictError(
                f"child {child} of the branch returned a {type(output).__name__} instead of a {type(start).__name__}, "
                f"so fields would be lost; let every child return ctx.replace(...), or give the branch a merge "
                f"function of your own"
            )


def _merge_metadata(values: Sequence[object], before: object, resolve: Resolve) -> MappingProxyType[str, object]:
    old: Mapping[str, object] = before if isinstance(before, Mapping) else {}
    maps: list[Mapping[str, object]] = [value if isinstance(value, Mapping) else {} for value in values]
    if all(each is old for each in maps) and isinstance(old, MappingProxyType):
        return old
    merged = dict(old)
    for key in dict.fromkeys(key for each in (old, *maps) for key in each):
        was = old.get(key, _MISSING)
        written: list[tuple[int, object]] = []
        for child, each in enumerate(maps):
            value = each.get(key, _MISSING)
            if value is not was:
                written.append((child, value))
        if not written:
            continue
        winner = resolve(f"metadata[{key!r}]", written)
        if winner is _MISSING:
            del merged[key]
        else:
            merged[key] = winner
    return MappingProxyType(merged)


_defaults_by_class: dict[type[StepContext], dict[str, object]] = {}


def _field_defaults(cls: type[StepContext]) -> dict[str, object]:
    known = _defaults_by_class.get(cls)
    if known is None:
        known = _defaults_by_class[cls] = {
            each.name: _MISSING if each.default is dataclasses.MISSING else each.default
            for each in dataclasses.fields(cls)
        }
    return known


def _same(one: object, other: object) -> bool:
    """Whether two values are equal. Values that cannot be compared (arrays, say) count as different."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # whatever an object's own comparison raises, it has not said that the two are equal
        return False
