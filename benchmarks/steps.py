"""Steps that cost as little as a step can, and steps that leave a trace."""

import asyncio
from collections.abc import Sequence

from ace.pipeline import StepProtocol

from .contexts import SixFields

Step = StepProtocol[SixFields]


class NoOp:
    """Returns its context, so that what is measured is the engine."""

    requires = frozenset({"sample"})
    provides = frozenset[str]()

    def __call__(self, ctx: SixFields) -> SixFields:
        return ctx


class AsyncNoOp:
    """The same as a coroutine."""

    requires = frozenset({"sample"})
    provides = frozenset[str]()

    async def __call__(self, ctx: SixFields) -> SixFields:
        return ctx


class OneField:
    """Changes one field, as most steps do."""

    requires = frozenset({"sample"})
    provides = frozenset({"answer"})

    def __call__(self, ctx: SixFields) -> SixFields:
        return ctx.replace(answer=1)


class BackgroundNoOp(NoOp):
    """Returns its context, behind the boundary."""

    async_boundary = True
    max_workers = 3


class LaneNoOp(NoOp):
    """Returns its context, behind the boundary and in input order."""

    async_boundary = True
    lane = "benchmark"


class _Traced:
    """The declarations of a step that leaves a trace."""

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __init__(self, name: str, *, like: Step) -> None:
        self.name = name
        self.async_boundary = bool(getattr(like, "async_boundary", False))
        self.max_workers = int(getattr(like, "max_workers", 1))
        self.lane: str | None = getattr(like, "lane", None)


class Trace(_Traced):
    """Writes its name down on the context, so that a check can tell what ran and in which order."""

    def __call__(self, ctx: SixFields) -> SixFields:
        return ctx.replace(trace=(*ctx.trace, self.name))


class AsyncTrace(_Traced):
    """The same as a coroutine, which gives the loop a turn."""

    async def __call__(self, ctx: SixFields) -> SixFields:
        await asyncio.sleep(0)
        return ctx.replace(trace=(*ctx.trace, self.name))


def traced(steps: Sequence[Step]) -> list[Step]:
    """Return steps of the same kinds, which write down their places."""
    return [
        AsyncTrace(str(place), like=step) if isinstance(step, AsyncNoOp) else Trace(str(place), like=step)
        for place, step in enumerate(steps)
    ]
