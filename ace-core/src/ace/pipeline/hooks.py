"""Observing a run from outside its steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, final, runtime_checkable

from .caller import Caller
from .context import StepContext
from .errors import log_problem

logger = logging.getLogger(__name__)


@runtime_checkable
class PipelineHook(Protocol):
    """Watches the foreground steps of a pipeline; it cannot change the context.

    A branch and a nested pipeline count as one step. Hooks are called in the order in which they were passed. An error
    that a hook raises is logged.

    In `run_async` and `astream`, hooks are called on the caller's event loop; in `run` and `stream`, on the caller's
    thread or, with several workers, on the worker's. A call ends before the next step of that sample begins.

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


Notify = Callable[[Sequence[PipelineHook], str, StepContext], None]


@final
class RelayedHooks:
    """Hooks that are called where the caller of the run is. It is a hook itself, so `Segment` treats it as one."""

    __slots__ = ("_hooks", "caller")

    def __init__(self, hooks: Sequence[PipelineHook], caller: Caller) -> None:
        self._hooks = hooks
        self.caller = caller

    def before_step(self, step_name: str, ctx: StepContext) -> None:
        """Call the hooks, and wait for them."""
        self.caller.call(partial(notify_before, self._hooks, step_name, ctx))

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        """Call the hooks, and wait for them."""
        self.caller.call(partial(notify_after, self._hooks, step_name, ctx))

    async def notify(self, notify: Notify, step_name: str, ctx: StepContext) -> None:
        """Call the hooks; a thread waits for them, because the event loop must not."""
        from .event_loop import call_in_thread

        await call_in_thread(partial(self.caller.call, partial(notify, self._hooks, step_name, ctx)))


def relayed(hooks: tuple[PipelineHook, ...], caller: Caller | None) -> tuple[PipelineHook, ...]:
    """Return the hooks as they are called by a run: where the caller is or, without a caller, where the step runs."""
    return hooks if caller is None or not hooks else (RelayedHooks(hooks, caller),)


def relay_from_loop(hooks: Sequence[PipelineHook]) -> RelayedHooks | None:
    """Return the relay of the hooks if they must be called elsewhere, so that this event loop would wait for them."""
    first = hooks[0]
    return first if isinstance(first, RelayedHooks) and not first.caller.is_here else None


def notify_before(hooks: Sequence[PipelineHook], step_name: str, ctx: StepContext) -> None:
    """Call `before_step` of every hook on this thread."""
    for hook in hooks:
        try:
            hook.before_step(step_name, ctx)
        except Exception as error:
            _log_failure(hook, "before_step", step_name, error)


def notify_after(hooks: Sequence[PipelineHook], step_name: str, ctx: StepContext) -> None:
    """Call `after_step` of every hook on this thread."""
    for hook in hooks:
        try:
            hook.after_step(step_name, ctx)
        except Exception as error:
            _log_failure(hook, "after_step", step_name, error)


def _log_failure(hook: PipelineHook, method: str, step_name: str, error: Exception) -> None:
    message = "hook %s raised in %s for step %s; the run continues"
    log_problem(logger, logging.ERROR, message, type(hook).__name__, method, step_name, error=error)
