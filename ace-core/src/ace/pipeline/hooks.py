"""Observing a run from outside its steps."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, final, runtime_checkable

from .caller import Caller
from .context import StepContext
from .problem_reports import log_problem

logger = logging.getLogger(__name__)


@runtime_checkable
class PipelineHook(Protocol):
    """Watches the foreground steps of a pipeline; it cannot change the context.

    A branch and a nested pipeline count as one step. Hooks are called in the order in which the pipeline got them. A
    hook that raises is logged and otherwise ignored.

    In `run_async` and `astream` hooks are called on the caller's event loop, in `run` and `stream` on the caller's
    thread or, with several workers, on that of the worker. A call is over before the next step of that sample begins.

    Example:
        >>> class PrintSteps:
        ...     def before_step(self, step_name, ctx):
        ...         print("->", step_name)
        ...     def after_step(self, step_name, ctx):
        ...         print("<-", step_name)
        >>> isinstance(PrintSteps(), PipelineHook)
        True
    """

    def before_step(self, step_name: str, ctx: StepContext) -> None:
        """Called before a step, with its class name and the context that it will get."""

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        """Called after a step that did not raise, with the context that it returned."""


@final
class Hooks:
    """The hooks of a pipeline, and where they are called.

    Args:
        hooks: The hooks.
        caller: Where they are called; None calls them where the step runs.
    """

    __slots__ = ("_caller", "_hooks")

    def __init__(self, hooks: Sequence[PipelineHook], caller: Caller | None = None) -> None:
        self._hooks = tuple(hooks)
        self._caller = caller

    def at(self, caller: Caller | None) -> Hooks:
        """Return the same hooks, called elsewhere."""
        return self if caller is self._caller else Hooks(self._hooks, caller)

    @property
    def direct(self) -> Sequence[PipelineHook] | None:
        """The hooks if they are called where the step runs, for loops that do so themselves; else None."""
        return self._hooks if self._caller is None else None

    def before(self, step_name: str, ctx: StepContext) -> None:
        """Tell every hook that a step is about to run."""
        caller = self._caller
        if caller is None:
            notify_before(self._hooks, step_name, ctx)
        else:
            caller.call(partial(notify_before, self._hooks, step_name, ctx))

    def after(self, step_name: str, ctx: StepContext) -> None:
        """Tell every hook that a step has returned."""
        caller = self._caller
        if caller is None:
            notify_after(self._hooks, step_name, ctx)
        else:
            caller.call(partial(notify_after, self._hooks, step_name, ctx))

    def before_async(self, step_name: str, ctx: StepContext) -> Awaitable[None] | None:
        """Like `before`, for a step on an event loop; if something is returned, it has to be awaited."""
        return self._from_loop(notify_before, step_name, ctx)

    def after_async(self, step_name: str, ctx: StepContext) -> Awaitable[None] | None:
        """Like `after`, for a step on an event loop; if something is returned, it has to be awaited."""
        return self._from_loop(notify_after, step_name, ctx)

    def _from_loop(self, notify: _Notify, step_name: str, ctx: StepContext) -> Awaitable[None] | None:
        caller = self._caller
        if caller is None or caller.is_here:
            notify(self._hooks, step_name, ctx)
            return None
        from .event_loop import call_in_thread

        # A thread waits for the call, because this loop must not.
        return call_in_thread(partial(caller.call, partial(notify, self._hooks, step_name, ctx)))


_Notify = Callable[[Sequence[PipelineHook], str, StepContext], None]


def notify_before(hooks: Sequence[PipelineHook], step_name: str, ctx: StepContext) -> None:
    """Tell every hook, here, that a step is about to run."""
    for hook in hooks:
        try:
            hook.before_step(step_name, ctx)
        except Exception as error:
            _log_failure(hook, "before_step", step_name, error)


def notify_after(hooks: Sequence[PipelineHook], step_name: str, ctx: StepContext) -> None:
    """Tell every hook, here, that a step has returned."""
    for hook in hooks:
        try:
            hook.after_step(step_name, ctx)
        except Exception as error:
            _log_failure(hook, "after_step", step_name, error)


def _log_failure(hook: PipelineHook, method: str, step_name: str, error: Exception) -> None:
    message = "hook %s raised in %s for step %s; the run continues"
    log_problem(logger, logging.ERROR, message, type(hook).__name__, method, step_name, error=error)
