"""The contexts that the benchmarks run."""

from dataclasses import dataclass

from ace.pipeline import StepContext


@dataclass(frozen=True)
class SixFields(StepContext):
    """A context like that of an application: the two fields of the base class and four of its own."""

    answer: int = 0
    insight: int = 0
    update: int = 0
    trace: tuple[str, ...] = ()


@dataclass(frozen=True)
class TwelveFields(StepContext):
    """A context with many fields, for the cost of changing one."""

    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    f: int = 0
    g: int = 0
    h: int = 0
    i: int = 0
    j: int = 0


def make_contexts(count: int) -> list[SixFields]:
    """Make `count` contexts; the sample of each is its place."""
    return [SixFields(place) for place in range(count)]
