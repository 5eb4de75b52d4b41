"""Supervises a run: its timeout, its cancellation, errors in the caller's hooks, and its clean-up."""

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
"""The polling interval for cancellation, interruption and the lock, in seconds."""


HOOKS = (
    "on_step_start",
    "on_step_end",
    "register_new_step_callback",
    "register_done_callback",
    "register_external_agent_status_raise_error_callback",
    "register_should_stop_callback",
)
"""The arguments of an agent that are hooks of the caller."""


class WatchedHooks:
    """Distinguishes errors in the caller's hooks from those of the task; browser-use records both as failed steps."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        """The error of the first hook that failed."""

    def watched(self, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Return a hook whose error is recorded.

        Args:
            name: The name of the hook's argument.
            hook: The hook, synchronous or asynchronous.
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

        # browser-use checks the same before it awaits a hook.
        return asynchronous if inspect.iscoroutinefunction(hook) or name in HOOKS[:2] else plain

    def _note(self, name: str, error: Exception) -> None:
        if self.error is None:
            error.add_note(f"It was raised by the {name} that you gave to the browser agent, not by its task.")
            self.error = error


class OutOfTimeError(TimeoutError):
    """A run exceeded its timeout."""


async def until_done(
    running: asyncio.Task[Any], seconds: float | None, token: CancellationToken | None, hooks: WatchedHooks
) -> None:
    """Wait until a task is done, and raise its error. The task is not cancelled.

    Args:
        running: The task to wait for.
        seconds: The timeout, in seconds; None waits indefinitely.
        token: The cancellation token of the run.
        hooks: The hooks of the caller.

    Raises:
        Exception: The error of a hook or of the task.
        OutOfTimeError: The task is not done in time.
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
    """Await a clean-up until it is done. If this task is cancelled in the meantime, the cancellation is raised then."""
    task = asyncio.ensure_future(cleaning)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break  # its error is raised below
    task.result()
    if cancelled is not None:
        raise cancelled


@asynccontextmanager
async def taking_turns(lock: Lock | None) -> AsyncIterator[None]:
    """Hold a lock without blocking the event loop. The lock is shared by runs in different loops.

    Args:
        lock: The lock; None does not wait.

    Raises:
        PipelineCancelled: The run was cancelled while it waited for the lock.
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
