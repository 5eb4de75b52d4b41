"""One step's declarations, read and checked once, so that nothing has to be looked up while samples run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from .context import StepContext
from .errors import PipelineConfigError, PipelineError, PipelineTypeError
from .problem_reports import value_text
from .step import CompositeStep, StepProtocol

C = TypeVar("C", bound=StepContext)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep(Generic[C]):
    """A step with everything that the engine has to know of it.

    The engine awaits `call_async` where the step has one, else it calls `call`. Where an event loop runs the foreground
    anyway, it awaits `call_on_loop` instead of occupying a thread.
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
        """How it is called in drawings and errors: a pipeline or a branch shows what is inside."""
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
            f"step {step_name} returned a {type(value).__name__} that nothing awaits; declare it "
            f"`async def __call__(self, ctx)` and return what it gives: `return await ...`"
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
            f"step {name} declares `{attribute}` as the text {declared!r}; write {{{declared!r}}}"
        )
    try:
        names = frozenset(declared)
    except TypeError:
        raise PipelineConfigError(
            f"step {name} declares `{attribute}` as {declared!r}; it must be a set, list or tuple of field names"
        ) from None
    for each in names:
        given: object = each
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
            f"step {type(step).__name__} declares `awaited` and has no `async def __call_async__(self, ctx)`"
        )
    return twin


def _max_workers(step: StepProtocol[C], name: str) -> int:
    declared: object = getattr(step, "max_workers", 1)
    if not isinstance(declared, int) or isinstance(declared, bool) or declared < 1:
        raise PipelineConfigError(
            f"step {name} declares max_workers = {declared!r}; it must be a whole number, 1 or more"
        )
    return declared


def _lane(step: StepProtocol[C], name: str) -> str | None:
    declared: object = getattr(step, "lane", None)
    if declared is not None and not isinstance(declared, str):
        raise PipelineTypeError(f"step {name} declares lane = {declared!r}; it must be a name, such as 'skillbook'")
    return declared


def _limit_owner(step: StepProtocol[C]) -> object:
    """The class, whose steps share one limit; or the step, where it or a composite has a limit of its own.

    A step that declares `shares_limit_with` shares the limit of that step.
    """
    other: StepProtocol[C] | None = getattr(step, "shares_limit_with", None)
    if other is not None:
        return _limit_owner(other)
    of_class: object = getattr(type(step), "max_workers", 1)
    has_own = "max_workers" in getattr(step, "__dict__", {}) or not isinstance(of_class, int)
    return step if has_own or isinstance(step, CompositeStep) else type(step)
