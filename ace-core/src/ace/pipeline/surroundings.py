"""How a step runs inside a nested pipeline or a branch, which depends on where that stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .context import StepContext
from .step import CompositeStep

if TYPE_CHECKING:
    from .planned_step import PlannedStep
    from .station import Station

C = TypeVar("C", bound=StepContext)


class Surroundings(Enum):
    """Where a composite step runs."""

    ALONE = "alone"
    """Called by itself, or a child of a branch in the foreground: it runs through."""

    FOREGROUND = "foreground"
    """Before the boundary of a run: the run's token is looked at before each inner step."""

    BACKGROUND = "background"
    """Behind the boundary: an inner step takes a place of its class while a sample is inside it."""

    LANE = "lane"
    """In a lane behind the boundary, which takes the place of the limits."""

    __hash__ = object.__hash__  # Enum's own is slow, and each call of a nested pipeline needs it

    @property
    def is_background(self) -> bool:
        """Whether this is behind a boundary."""
        return self in (Surroundings.BACKGROUND, Surroundings.LANE)


def placed(step: PlannedStep[C], surroundings: Surroundings) -> PlannedStep[C]:
    """Return a step so that, if it is a composite, its inner steps know the surroundings."""
    composite = step.step
    if surroundings is Surroundings.ALONE or not isinstance(composite, CompositeStep):
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
    if surroundings is not Surroundings.BACKGROUND or isinstance(step.step, CompositeStep):
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
