"""Watches over a run: its time, its cancellation, the hooks of the caller, and that its clean-up comes to an end."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any

from ace.pipeline import CancellationToken, PipelineCancelled, cancel_token_var, is_interrupted

__all__ = ["HOOKS", "OutOfTimeError", "WatchedHooks", "taking_turns", "to_the_end", "until_done"]

_LOOKING = 0.05
"""Seconds between two looks at whether the run is cancelled or interrupted, or at the turn."""


HOOKS = (
    "on_step_start",
    "on_step_end",
    "register_new_step_callback",
    "register_done_callback",
    "register_external_agent_status_raise_error_callback",
    "register_should_stop_callback",
)
"""The arguments of an agent that are functions of the caller."""


class WatchedHooks:
    """Tells an error in a hook of the caller from one of the task: browser-use records some as failures of a step."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        """What the first hook that failed has raised."""

    def watched(self, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Return a hook whose error is noted.

        Args:
            name: The argument that it was given as.
            hook: The hook, plain or asynchronous.
        """

        @functools.wraps(hook)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            try:
                returned = hook(*args, **kwargs)
                return await returned if inspect.isawaitable(returned) else returned
            except Exception as error:
                self._note(name, error)
                raise

        @functools.wraps(hook)
        def plain(*args: Any, **kwargs: Any) -> Any:
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                self._note(name, error)
                raise

        # browser-use asks the same question before it awaits one.
        return asynchronous if inspect.iscoroutinefunction(hook) or name in HOOKS[:2] else plain

    def _note(self, name: str, error: Exception) -> None:
        if self.error is None:
            error.add_note(f"It was raised by the {name} that you gave to the browser agent, not by its task.")
            self.error = error


class OutOfTimeError(TimeoutError):
    """A run took longer than it may."""


async def until_done(
    running: asyncio.Task[Any], seconds: float | None, token: CancellationToken | None, hooks: WatchedHooks
) -> None:
    """Wait until a task is done, and raise what it raised. It is left alone in any other case.

    Args:
        running: The task.
        seconds: How long it may take; None for as long as it wants.
        token: The token of the run.
        hooks: The hooks of the caller.

    Raises:
        Exception: What a hook raised, or the task.
        OutOfTimeError: It is not done in time.
        PipelineCancelled: The run was cancelled, or interrupted with Ctrl-C.
    """
    end = None if seconds is None else time.monotonic() + seconds
    while not running.done():
        _stop_if_ended(token, "while the browser was at work")
        if hooks.error is not None:
            raise hooks.error
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            raise OutOfTimeError(f"the run was not done after timeout={seconds:g}")
        await asyncio.wait({running}, timeout=_LOOKING if left is None else min(_LOOKING, left))
    if hooks.error is not None:
        raise hooks.error
    running.result()


def _stop_if_ended(token: CancellationToken | None, when: str) -> None:
    if token is not None and token.is_cancelled:
        raise PipelineCancelled(f"the run was cancelled {when}")
    if is_interrupted():
        raise PipelineCancelled(f"the run was interrupted {when}")


async def to_the_end(cleaning: Coroutine[Any, Any, None]) -> None:
    """Await a clean-up until it is done, even if this task is cancelled meanwhile; then the cancellation is raised.

    Args:
        cleaning: The clean-up.
    """
    task = asyncio.ensure_future(cleaning)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break  # it is raised below
    task.result()
    if cancelled is not None:
        raise cancelled


@asynccontextmanager
async def taking_turns(lock: Lock | None) -> AsyncIterator[None]:
    """Hold a lock, without keeping the event loop from its work; runs may be in different loops.

    Args:
        lock: The lock; None if there is nothing to wait for.

    Raises:
        PipelineCancelled: The run was cancelled before its turn came.
    """
    if lock is None:
        yield
        return
    while not lock.acquire(blocking=False):
        _stop_if_ended(cancel_token_var.get(), "before its turn with the browser came")
        await asyncio.sleep(_LOOKING)
    try:
        yield
    finally:
        lock.release()
