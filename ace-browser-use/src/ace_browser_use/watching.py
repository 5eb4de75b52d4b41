"""Watches over a run: its time, its cancellation, and that its clean-up comes to an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any

from ace.pipeline import CancellationToken, PipelineCancelled, cancel_token_var, is_interrupted

__all__ = ["OutOfTimeError", "taking_turns", "to_the_end", "until_done"]

_LOOKING = 0.05
"""Seconds between two looks at whether the run is cancelled or interrupted, or at the turn."""


class OutOfTimeError(TimeoutError):
    """A run took longer than it may."""


async def until_done(running: asyncio.Task[Any], seconds: float | None, token: CancellationToken | None) -> None:
    """Wait until a task is done, and raise what it raised. It is left alone in any other case.

    Args:
        running: The task.
        seconds: How long it may take; None for as long as it wants.
        token: The token of the run.

    Raises:
        OutOfTimeError: It is not done in time.
        PipelineCancelled: The run was cancelled, or interrupted with Ctrl-C.
    """
    end = None if seconds is None else time.monotonic() + seconds
    while not running.done():
        _stop_if_ended(token, "while the browser was at work")
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            raise OutOfTimeError(f"the run was not done after timeout={seconds:g}")
        await asyncio.wait({running}, timeout=_LOOKING if left is None else min(_LOOKING, left))
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
        lock: The lock; None where nobody has to wait.

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
