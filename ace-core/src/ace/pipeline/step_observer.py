"""Observing every step of a pipeline, in the background too."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Protocol, TypeVar, runtime_checkable

from .context import StepContext
from .errors import log_problem
from .step import PlannedStep, returned_context

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


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
