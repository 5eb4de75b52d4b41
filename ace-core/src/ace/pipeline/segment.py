"""Adjacent steps that run one after the other on one thread."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Generic, TypeVar, final

from .cancellation import CancellationToken
from .context import StepContext
from .errors import PipelineCancelled
from .hooks import PipelineHook, notify_after, notify_before, relay_from_loop
from .step import PlannedStep, returned_context

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
