"""Adjacent steps that run one after the other on one thread, and the observer of their calls."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import perf_counter
from typing import Generic, Protocol, TypeVar, final, runtime_checkable

from .cancellation import CancellationToken
from .context import StepContext
from .errors import PipelineCancelled, log_problem
from .hooks import PipelineHook, notify_after, notify_before, relay_from_loop
from .step import PlannedStep, returned_context

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=StepContext)


@final
class Position:
    """Where a sample is: the name of the step that it is in, or that comes next."""

    # On the class, because one is made for each sample and a constructor would double the cost of that.
    step_name: str | None = None


@final
class Segment(Generic[C]):
    """Adjacent steps, either all plain or all asynchronous.

    This is the innermost loop of the engine. The four methods differ only in what they omit, so that a run
    without hooks pays nothing for them.
    """

    def __init__(self, steps: Sequence[PlannedStep[C]]) -> None:
        self.steps = tuple(steps)
        self.is_async = any(step.is_async for step in steps)
        self._calls = tuple((step.name, _plain_call(step)) for step in steps)
        self._async_calls = tuple((step.name, step.call_async) for step in steps if step.call_async is not None)

    def run(
        self, ctx: C, position: Position, token: CancellationToken | None = None, hooks: Sequence[PipelineHook] = ()
    ) -> C:
        """Run the steps on this thread, which waits while the engine's loop runs asynchronous ones.

        `position` tells the caller which step raised.
        """
        if hooks:
            return self._run_observed(ctx, position, token, hooks)
        context_class = ctx.__class__
        for name, call in self._calls:
            position.step_name = name
            if token is not None and token.is_cancelled:
                raise PipelineCancelled
            ctx = call(ctx)
            if ctx.__class__ is not context_class:
                context_class = returned_context(ctx, name).__class__
        return ctx

    def _run_observed(
        self, ctx: C, position: Position, token: CancellationToken | None, hooks: Sequence[PipelineHook]
    ) -> C:
        context_class = ctx.__class__
        for name, call in self._calls:
            position.step_name = name
            if token is not None and token.is_cancelled:
                raise PipelineCancelled
            notify_before(hooks, name, ctx)
            ctx = call(ctx)
            if ctx.__class__ is not context_class:
                context_class = returned_context(ctx, name).__class__
            notify_after(hooks, name, ctx)
        return ctx

    async def run_async(
        self, ctx: C, position: Position, token: CancellationToken | None = None, hooks: Sequence[PipelineHook] = ()
    ) -> C:
        """Like `run`, for asynchronous steps."""
        if hooks:
            return await self._run_async_observed(ctx, position, token, hooks)
        context_class = ctx.__class__
        for name, call in self._async_calls:
            position.step_name = name
            if token is not None and token.is_cancelled:
                raise PipelineCancelled
            ctx = await call(ctx)
            if ctx.__class__ is not context_class:
                context_class = returned_context(ctx, name).__class__
        return ctx

    async def _run_async_observed(
        self, ctx: C, position: Position, token: CancellationToken | None, hooks: Sequence[PipelineHook]
    ) -> C:
        context_class, relay = ctx.__class__, relay_from_loop(hooks)
        for name, call in self._async_calls:
            position.step_name = name
            if token is not None and token.is_cancelled:
                raise PipelineCancelled
            if relay is None:
                notify_before(hooks, name, ctx)
            else:
                await relay.notify(notify_before, name, ctx)
            ctx = await call(ctx)
            if ctx.__class__ is not context_class:
                context_class = returned_context(ctx, name).__class__
            if relay is None:
                notify_after(hooks, name, ctx)
            else:
                await relay.notify(notify_after, name, ctx)
        return ctx


def _plain_call(step: PlannedStep[C]) -> Callable[[C], C]:
    """Return how plain code calls a step.

    A nested pipeline with hooks runs its steps on the thread of the plain code, where its hooks must be called.
    """
    if step.call_async is None or step.has_inner_hooks:
        return step.call
    return partial(_await_on_engine_loop, step.call_async)


def _await_on_engine_loop(call_async: Callable[[C], Awaitable[C]], ctx: C) -> C:
    from .event_loop import engine_loop  # loads asyncio, which most pipelines do not need

    return engine_loop.run(_awaited(call_async, ctx))


async def _awaited(call_async: Callable[[C], Awaitable[C]], ctx: C) -> C:
    return await call_async(ctx)


def fuse(steps: Sequence[PlannedStep[C]]) -> tuple[Segment[C], ...]:
    """Group adjacent steps of one kind, plain or asynchronous."""
    groups: list[list[PlannedStep[C]]] = []
    for step in steps:
        if groups and groups[-1][-1].is_async == step.is_async:
            groups[-1].append(step)
        else:
            groups.append([step])
    return tuple(Segment(group) for group in groups)


def may_block_loop() -> AbstractContextManager[None]:
    """Return a context in which this thread may wait for asynchronous steps, even if it is the loop's own."""
    if f"{__package__}.event_loop" not in sys.modules:  # then the loop does not run, and asyncio stays unloaded
        return nullcontext()
    from .event_loop import engine_loop

    return engine_loop.blocked()


@runtime_checkable
class StepObserver(Protocol):
    """Watches the steps of a pipeline on both sides of the boundary; it cannot change the context.

    A branch and a nested pipeline count as one step; a nested pipeline's own observer sees what is inside. The
    methods are called on the thread of the step, so on several threads at once. Errors that they raise are logged.

    Example:
        >>> class PrintTimes:
        ...     def step_started(self, step_name, ctx, background):
        ...         pass
        ...     def step_ended(self, step_name, ctx, background, seconds, error):
        ...         print(step_name, "ended" if error is None else f"failed: {error!r}")
        >>> isinstance(PrintTimes(), StepObserver)
        True
    """

    def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
        """Called when a step begins, after any wait for its limit or lane.

        Args:
            step_name: The step's class name.
            ctx: The context that the step receives.
            background: Whether the step is behind the boundary.
        """

    def step_ended(
        self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
    ) -> None:
        """Called when a step has returned or raised.

        Args:
            step_name: The step's class name.
            ctx: The context that the step returned; if it raised, the one that it received.
            background: Whether the step is behind the boundary.
            seconds: How long it took, without the wait for its limit or lane.
            error: What it raised, or None.
        """


def observed(step: PlannedStep[C], observer: StepObserver, background: bool) -> PlannedStep[C]:
    """Return the step with the observer around its calls."""
    call_async, call_on_loop = step.call_async, step.call_on_loop
    return dataclasses.replace(
        step,
        call=_observed_call(step, observer, background),
        call_async=None if call_async is None else _observed_call_async(step.name, call_async, observer, background),
        call_on_loop=(
            None if call_on_loop is None else _observed_call_async(step.name, call_on_loop, observer, background)
        ),
    )


def _observed_call(step: PlannedStep[C], observer: StepObserver, background: bool) -> Callable[[C], C]:
    name, call = step.name, step.call

    def observed_call(ctx: C) -> C:
        _tell_started(observer, name, ctx, background)
        started = perf_counter()
        try:
            returned = call(ctx)
            if returned.__class__ is not ctx.__class__:
                returned = returned_context(returned, name)
        except BaseException as error:
            _tell_ended(observer, name, ctx, background, perf_counter() - started, error)
            raise
        _tell_ended(observer, name, returned, background, perf_counter() - started, None)
        return returned

    return observed_call


def _observed_call_async(
    name: str, call: Callable[[C], Awaitable[C]], observer: StepObserver, background: bool
) -> Callable[[C], Awaitable[C]]:
    async def observed_call(ctx: C) -> C:
        _tell_started(observer, name, ctx, background)
        started = perf_counter()
        try:
            returned = await call(ctx)
            if returned.__class__ is not ctx.__class__:
                returned = returned_context(returned, name)
        except BaseException as error:
            _tell_ended(observer, name, ctx, background, perf_counter() - started, error)
            raise
        _tell_ended(observer, name, returned, background, perf_counter() - started, None)
        return returned

    return observed_call


def _tell_started(observer: StepObserver, step_name: str, ctx: StepContext, background: bool) -> None:
    try:
        observer.step_started(step_name, ctx, background)
    except Exception as error:
        _log_failure(observer, "step_started", step_name, error)


def _tell_ended(
    observer: StepObserver,
    step_name: str,
    ctx: StepContext,
    background: bool,
    seconds: float,
    error: BaseException | None,
) -> None:
    try:
        observer.step_ended(step_name, ctx, background, seconds, error)
    except Exception as failure:
        _log_failure(observer, "step_ended", step_name, failure)


def _log_failure(observer: StepObserver, method: str, step_name: str, error: Exception) -> None:
    message = "step observer %s raised in %s for step %s; the run continues"
    log_problem(logger, logging.ERROR, message, type(observer).__name__, method, step_name, error=error)
