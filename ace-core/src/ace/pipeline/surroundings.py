"""How a step runs inside a nested pipeline or a branch, which depends on where that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .context import StepContext

if TYPE_CHECKING:
    from .planned_step import PlannedStep
    from .station import Station

C = TypeVar("C", bound=StepContext)


class Surroundings(Enum):
    """Where a composite step runs."""

    ALONE = "alone"
    """In a pipeline that is called by itself, `pipeline(ctx)`: it runs through."""

    FOREGROUND = "foreground"
    """Before the boundary of a run: the run's token is looked at before each inner step."""

    CHILD = "child"
    """In a branch before the boundary of a run: what has begun runs to its end, though the run is cancelled."""

    BACKGROUND = "background"
    """Behind the boundary: an inner step takes a place of its class while a sample is inside it."""

    LANE = "lane"
    """In a lane behind the boundary, which takes the place of the limits."""

    __hash__ = object.__hash__  # Enum's own is slow, and each call of a nested pipeline needs it

    @property
    def is_background(self) -> bool:
        """Whether this is behind a boundary."""
        return self in (Surroundings.BACKGROUND, Surroundings.LANE)

    @property
    def is_foreground(self) -> bool:
        """Whether this is before the boundary of a run, where hooks are called."""
        return self in (Surroundings.FOREGROUND, Surroundings.CHILD)

    @property
    def of_children(self) -> Surroundings:
        """The surroundings of the children of a branch that is in these."""
        return Surroundings.CHILD if self is Surroundings.FOREGROUND else self


def placed(step: PlannedStep[C], surroundings: Surroundings) -> PlannedStep[C]:
    """Return a step so that, if it is a composite, its inner steps know the surroundings."""
    composite = step.composite
    if composite is None:
        return step
    return dataclasses.replace(
        step,
        call=partial(composite.call_within, surroundings),
        call_async=partial(composite.call_async_within, surroundings) if step.is_async else None,
    )


def limited(step: PlannedStep[C], surroundings: Surroundings) -> PlannedStep[C]:
    """Return an inner step so that it takes a place of its class for each call, where the surroundings want that.

    A place is held inside the step only, where nothing of the engine waits for another one. So those who wait for
    places can never wait for each other. For the same reason a composite takes none: its inner steps do.
    """
    if surroundings is not Surroundings.BACKGROUND or step.composite is not None:
        return step
    from .station import station_for

    station = station_for(step)
    if step.call_async is not None:
        return dataclasses.replace(step, call_async=_limited_call_async(step.call_async, station))
    return dataclasses.replace(step, call=_limited_call(step.call, station))


def _limited_call(call: Callable[[C], C], station: Station) -> Callable[[C], C]:
    def limited_call(ctx: C) -> C:
        has_place = station.enter()
        try:
            return call(ctx)
        finally:
            if has_place:
                station.leave()

    return limited_call


def _limited_call_async(call: Callable[[C], Awaitable[C]], station: Station) -> Callable[[C], Awaitable[C]]:
    async def limited_call(ctx: C) -> C:
        await station.enter_async()
        try:
            return await call(ctx)
        finally:
            station.leave()

    return limited_call
