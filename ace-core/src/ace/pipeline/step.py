"""The step protocol, and the declarations of a step, read and checked once, before samples run."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable

from .context import StepContext
from .errors import PipelineConfigError, PipelineError, PipelineTypeError, value_text

StepContextT = TypeVar("StepContextT", bound=StepContext)
C = TypeVar("C", bound=StepContext)


@runtime_checkable
class StepProtocol(Protocol[StepContextT]):
    """Any object that declares the fields it reads and writes, and turns a context into a context.

    Steps do not inherit from a base class. `__call__` may be plain or `async`. Four more class attributes are optional:
    `async_boundary` (False), `max_workers` (1), `lane` (None) and `lane_key` (None). A step that works both ways also
    has a method `async def __call_async__(self, ctx)`, and an attribute `awaited` that says when the engine awaits it:
    "always", or "on_loop", that is, where an event loop runs the foreground anyway.

    Example:
        >>> class Shout:
        ...     requires = {"sample"}
        ...     provides = {"sample"}
        ...     def __call__(self, ctx):
        ...         return ctx.replace(sample=ctx.sample.upper())
        >>> isinstance(Shout(), StepProtocol)
        True
    """

    @property
    def requires(self) -> Collection[str]:
        """Names of the context fields that the step reads."""

    @property
    def provides(self) -> Collection[str]:
        """Names of the context fields that the step writes."""

    def __call__(self, ctx: StepContextT) -> StepContextT | Awaitable[StepContextT]:
        """Do the work and return the new context."""


@runtime_checkable
class CompositeStep(Protocol[StepContextT]):
    """A step that consists of steps: a nested pipeline or a branch.

    The engine asks it what is inside, and awaits it if one of its inner steps is asynchronous.
    """

    @property
    def max_workers(self) -> int:
        """How many samples may be inside it at once in the background."""

    @property
    def has_async_steps(self) -> bool:
        """Whether an inner step, at any depth, is asynchronous."""

    @property
    def has_async_boundary(self) -> bool:
        """Whether an inner step, at any depth, declares an async boundary."""

    @property
    def has_lane(self) -> bool:
        """Whether an inner step, at any depth, names a lane."""

    @property
    def has_hooks(self) -> bool:
        """Whether it, or an inner pipeline at any depth, has hooks."""

    async def __call_async__(self, ctx: StepContextT) -> StepContextT:
        """The asynchronous twin of calling the step."""
        ...

    def call_within(self, mode: ExecutionMode, ctx: StepContextT) -> StepContextT:
        """Call the step in this mode, which says how its inner steps are limited.

        It does not check that the context has the required fields: only the outermost pipeline knows what its steps
        provide.
        """
        ...

    async def call_async_within(self, mode: ExecutionMode, ctx: StepContextT) -> StepContextT:
        """The asynchronous twin of `call_within`."""
        ...


class ExecutionMode(Enum):
    """Where a composite step runs."""

    ALONE = "alone"
    """In a pipeline that is called directly, `pipeline(ctx)`: nothing is limited or cancelled."""

    FOREGROUND = "foreground"
    """Before the boundary of a run: the run's token is checked before each inner step."""

    CHILD = "child"
    """In a branch before the boundary of a run: it runs to its end even if the run is cancelled."""

    BACKGROUND = "background"
    """Behind the boundary: an inner step takes a slot of its class while a sample is inside it."""

    LANE = "lane"
    """In a lane behind the boundary, which replaces the limits."""

    __hash__ = object.__hash__  # Enum's own is slow, and each call of a nested pipeline needs it

    @property
    def is_background(self) -> bool:
        """Whether this is behind a boundary."""
        return self in (ExecutionMode.BACKGROUND, ExecutionMode.LANE)

    @property
    def is_foreground(self) -> bool:
        """Whether this is before the boundary of a run, where hooks are called."""
        return self in (ExecutionMode.FOREGROUND, ExecutionMode.CHILD)

    @property
    def of_children(self) -> ExecutionMode:
        """The mode of the children of a branch that is in this one."""
        return ExecutionMode.CHILD if self is ExecutionMode.FOREGROUND else self


def placed(step: PlannedStep[C], mode: ExecutionMode) -> PlannedStep[C]:
    """Return the step as it is called in a mode; only composites differ."""
    composite = step.composite
    if composite is None:
        return step
    return dataclasses.replace(
        step,
        call=partial(composite.call_within, mode),
        call_async=partial(composite.call_async_within, mode) if step.is_async else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep(Generic[C]):
    """A step with everything that the engine has to know about it.

    The engine awaits `call_async` if the step has one, and otherwise calls `call`. Where an event loop runs the
    foreground anyway, it awaits `call_on_loop` instead of occupying a thread.
    """

    step: StepProtocol[C]
    composite: CompositeStep[C] | None
    name: str
    requires: frozenset[str]
    provides: frozenset[str]
    call: Callable[[C], C]
    call_async: Callable[[C], Awaitable[C]] | None
    call_on_loop: Callable[[C], Awaitable[C]] | None
    async_boundary: bool
    max_workers: int
    limit_owner: object
    lane: str | None
    lane_key: object | None
    has_inner_boundary: bool
    has_inner_lane: bool
    has_inner_hooks: bool

    @property
    def label(self) -> str:
        """Its name in drawings and errors; that of a pipeline or a branch shows its steps."""
        return self.name if self.composite is None else repr(self.step)

    @property
    def is_async(self) -> bool:
        """Whether the engine has to await this step."""
        return self.call_async is not None

    def run(self, ctx: C) -> C:
        """Run a plain step on this thread."""
        returned = self.call(ctx)
        return returned if returned.__class__ is ctx.__class__ else returned_context(returned, self.name)

    async def run_async(self, ctx: C) -> C:
        """Await an asynchronous step."""
        if self.call_async is None:
            raise TypeError(f"step {self.name} is plain; it cannot be awaited")
        returned = await self.call_async(ctx)
        return returned if returned.__class__ is ctx.__class__ else returned_context(returned, self.name)


def plan_step(step: StepProtocol[C]) -> PlannedStep[C]:
    """Read the declarations of one step.

    Raises:
        PipelineConfigError: If a declaration is missing or invalid; the text names the step and the fix.
    """
    name = type(step).__name__
    if isinstance(step, type):
        raise PipelineConfigError(f"{step.__name__} is a class, not a step; make an instance: {step.__name__}()")
    if not callable(step):
        raise PipelineConfigError(
            f"step {name} cannot be called; give it a method `def __call__(self, ctx)` that returns a context"
        )
    composite = step if isinstance(step, CompositeStep) else None
    call_async = _async_call(step)
    max_workers = _max_workers(step, name)
    return PlannedStep(
        step=step,
        composite=composite,
        name=name,
        requires=_field_names(step, name, "requires"),
        provides=_field_names(step, name, "provides"),
        call=cast("Callable[[C], C]", step.__call__),
        call_async=call_async,
        call_on_loop=_twin(step) if getattr(step, "awaited", "never") == "on_loop" else None,
        async_boundary=bool(getattr(step, "async_boundary", False)),
        max_workers=max_workers,
        limit_owner=_limit_owner(step),
        lane=_lane(step, name),
        lane_key=getattr(step, "lane_key", None),
        has_inner_boundary=composite is not None and composite.has_async_boundary,
        has_inner_lane=composite is not None and composite.has_lane,
        has_inner_hooks=composite is not None and composite.has_hooks,
    )


def returned_context(returned: C, step_name: str) -> C:
    """Return what a step returned, if it is a context.

    Raises:
        PipelineError: If it is something else.
    """
    value: object = returned
    if isinstance(value, StepContext):
        return returned
    if value is None:
        raise PipelineError(
            f"step {step_name} returned None instead of a context; end it with `return ctx.replace(...)`, or with "
            f"`return ctx` if it changes nothing"
        )
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise PipelineError(
            f"step {step_name} returned a {type(value).__name__} instead of a context; declare the step as "
            f"`async def __call__(self, ctx)` and await it there: `return await ...`"
        )
    raise PipelineError(
        f"step {step_name} returned {value_text(value)} instead of a context; end it with `return ctx.replace(...)`"
    )


def _field_names(step: StepProtocol[C], name: str, attribute: str) -> frozenset[str]:
    declared: Collection[str] | None = getattr(step, attribute, None)
    if declared is None:
        raise PipelineConfigError(
            f"step {name} does not declare `{attribute}`; add `{attribute} = {{...}}` with the names of the "
            f"context fields (an empty frozenset() if there are none)"
        )
    if isinstance(declared, str):
        raise PipelineConfigError(
            f"step {name} declares `{attribute}` as the string {declared!r}; write {{{declared!r}}}"
        )
    try:
        names = frozenset(declared)
    except TypeError:
        raise PipelineConfigError(
            f"step {name} declares `{attribute}` as {declared!r}; it must be a set, list or tuple of field names"
        ) from None
    for entry in names:
        given: object = entry
        if not isinstance(given, str):
            raise PipelineConfigError(
                f"step {name} declares `{attribute}` with {given!r} in it; it must be a set, list or tuple of "
                f"field names"
            )
    return names


def _async_call(step: StepProtocol[C]) -> Callable[[C], Awaitable[C]] | None:
    if isinstance(step, CompositeStep):
        return step.__call_async__ if step.has_async_steps else None
    if getattr(step, "awaited", "never") == "always":
        return _twin(step)
    # Instances hide an `async def __call__` from iscoroutinefunction, functions do not.
    if inspect.iscoroutinefunction(step) or inspect.iscoroutinefunction(step.__call__):
        return cast("Callable[[C], Awaitable[C]]", step.__call__)
    return None


def _twin(step: StepProtocol[C]) -> Callable[[C], Awaitable[C]]:
    """Return the asynchronous twin of calling a step that declares when it is awaited."""
    twin: Callable[[C], Awaitable[C]] | None = getattr(step, "__call_async__", None)
    if twin is None:
        raise PipelineConfigError(
            f"step {type(step).__name__} declares `awaited`, so it needs a method `async def __call_async__(self, ctx)`"
        )
    return twin


def _max_workers(step: StepProtocol[C], name: str) -> int:
    declared: object = getattr(step, "max_workers", 1)
    if not isinstance(declared, int) or isinstance(declared, bool) or declared < 1:
        raise PipelineConfigError(
            f"step {name} declares max_workers = {declared!r}; it must be a whole number of at least 1"
        )
    return declared


def _lane(step: StepProtocol[C], name: str) -> str | None:
    declared: object = getattr(step, "lane", None)
    if declared is not None and not isinstance(declared, str):
        raise PipelineTypeError(f"step {name} declares lane = {declared!r}; it must be a name, such as 'skillbook'")
    return declared


def _limit_owner(step: StepProtocol[C]) -> object:
    """Return what the limit of a step belongs to: its class, or the step itself if it has a limit of its own.

    Composites always have their own. A step that declares `shares_limit_with` shares the limit of that step.
    """
    other: StepProtocol[C] | None = getattr(step, "shares_limit_with", None)
    if other is not None:
        return _limit_owner(other)
    of_class: object = getattr(type(step), "max_workers", 1)
    has_own = "max_workers" in getattr(step, "__dict__", {}) or not isinstance(of_class, int)
    return step if has_own or isinstance(step, CompositeStep) else type(step)
