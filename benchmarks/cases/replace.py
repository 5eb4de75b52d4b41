"""Changing one field of a context."""

import dataclasses
from functools import partial
from typing import Self

from ..contexts import TwelveFields
from ..costs import BARE, measure
from ..interleaved import timed
from ..rows import CostRow
from ..scale import Scale
from ..wrong_result import require

CHANGES_PER_SAMPLE = 10
DICT_UNION = "object.__new__ and a dict union, length checked"
REPLACE = "replace() of one of 12 fields"
DATACLASSES = "dataclasses.replace(), for comparison"


@dataclasses.dataclass(frozen=True)
class _Union(TwelveFields):
    """A context with the cheapest safe way to change a field."""

    def replace(self, **changes: object) -> Self:
        old = self.__dict__
        values = old | changes
        if len(values) != len(old):
            raise TypeError(f"unknown fields: {sorted(changes.keys() - old.keys())}")
        new = object.__new__(self.__class__)
        object.__setattr__(new, "__dict__", values)
        if "metadata" in changes:
            self.__post_init__()
        return new


def replace(scale: Scale) -> list[CostRow]:
    """`replace` of one of twelve fields (goal 4); the bare loop only makes the new dict."""
    count = scale.samples * CHANGES_PER_SAMPLE
    expected = TwelveFields("sample", a=count - 1)
    contenders = {
        BARE: timed(partial(_make_dicts, count), partial(_require_dict, vars(expected))),
        DICT_UNION: timed(partial(_change_union, count), partial(_require_fields, vars(expected))),
        REPLACE: timed(partial(_change, count), partial(_require_fields, vars(expected))),
        DATACLASSES: timed(partial(_change_dataclass, count), partial(_require_fields, vars(expected))),
    }
    costs = measure("replace", "change", count, scale.rounds, contenders)
    return [costs.row(REPLACE, DICT_UNION, goal=1.1), costs.row(DATACLASSES, DICT_UNION)]


# A loop for each, not one for all: the interpreter adapts a call to the class that it meets there.


def _make_dicts(count: int) -> dict[str, object]:
    values: dict[str, object] = vars(TwelveFields("sample"))
    for number in range(count):
        values = {**values, "a": number}
    return values


def _change_union(count: int) -> TwelveFields:
    ctx = _Union("sample")
    for number in range(count):
        ctx = ctx.replace(a=number)
    return ctx


def _change(count: int) -> TwelveFields:
    ctx = TwelveFields("sample")
    for number in range(count):
        ctx = ctx.replace(a=number)
    return ctx


def _change_dataclass(count: int) -> TwelveFields:
    ctx = TwelveFields("sample")
    for number in range(count):
        ctx = dataclasses.replace(ctx, a=number)
    return ctx


def _require_dict(expected: dict[str, object], values: dict[str, object]) -> None:
    require(values == expected, f"the new dict is {values}")


def _require_fields(expected: dict[str, object], ctx: TwelveFields) -> None:
    require(vars(ctx) == expected, f"the changed context is {ctx!r}")
