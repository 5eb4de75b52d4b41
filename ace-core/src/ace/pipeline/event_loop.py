"""The event loop on which the engine awaits asynchronous steps where the caller has none.

One loop serves the whole process, in a thread of its own, so that clients which belong to a loop can be shared by
steps in the foreground, in the background and across runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar, final

from .threads import threads

T = TypeVar("T")


@final
class EngineLoop:
    """An event loop that runs in a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start with no loop. A forked child calls it too: the parent's thread is not there."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop.

        Raises:
            RuntimeError: If it has to be started and the system has no thread left to give.
        """
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="ace-pipeline-loop", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def ensure_running(self) -> None:
        """Start the loop if it does not run yet: later, at the interpreter's exit, it may be too late."""
        _ = self.loop

    def is_current(self) -> bool:
        """Whether the caller is on this loop's thread, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop, with the caller's context variables, and return at once.

        On the loop's own thread (an asynchronous step that calls something plain, which needs a loop again) it
        starts on another loop, made for this one coroutine: the caller is going to block this one.
        """
        if self.is_current():
            return _start_on_new_loop(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine from plain code and return its value, or raise what it raised."""
        future = self.submit(_keep_exit(coroutine))
        try:
            outcome = future.result()
        except BaseException:  # Ctrl-C while waiting must not leave the coroutine running
            future.cancel()
            raise
        if isinstance(outcome, _Exit):
            raise outcome.error
        return outcome


class _Exit:
    """A `SystemExit` or `KeyboardInterrupt` on its way to the thread that waits."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _keep_exit(coroutine: Coroutine[Any, Any, T]) -> T | _Exit:
    """Keep these two from the loop, which they would end."""
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)


def _start_on_new_loop(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    context = contextvars.copy_context()
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(context.run(asyncio.run, coroutine))
        except BaseException as error:
            future.set_exception(error)

    threads.start(work)
    return future


async def call_in_thread(function: Callable[[], T]) -> T:
    """Call something plain on a kept thread, in a copy of the caller's context, without blocking the loop.

    A cancellation is raised only after the function has returned: it cannot be interrupted, and what it uses
    must not be taken away from it.
    """
    return await call_in_context(function, contextvars.copy_context())


async def call_in_context(function: Callable[[], T], context: contextvars.Context) -> T:
    """Like `call_in_thread`, in the given context, which keeps the variables that the function sets.

    It may be the context of the current task: that is left while the task waits.
    """
    loop = asyncio.get_running_loop()
    returned: asyncio.Future[None] = loop.create_future()
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(context.run(function))
        except BaseException as error:
            errors.append(error)

    def report() -> None:
        loop.call_soon_threadsafe(returned.set_result, None)

    def start() -> None:
        try:
            threads.start(work, report)
        except RuntimeError as error:
            errors.append(error)
            returned.set_result(None)

    # Not at once: the current task has not left its context yet.
    loop.call_soon(start)
    await wait_through_cancellation(returned)
    if errors:
        raise errors[0]
    return values[0]


async def wait_through_cancellation(future: asyncio.Future[None], on_cancel: Callable[[], None] | None = None) -> None:
    """Wait until `future` is done even if this task is cancelled meanwhile, and raise the cancellation then.

    Args:
        future: What to wait for; it is never cancelled.
        on_cancel: Called when the cancellation comes, to have the future end sooner.
    """
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
    if cancelled is not None:
        raise cancelled


def is_being_cancelled() -> bool:
    """Whether the current task was asked to end, as opposed to a step that raised `CancelledError` by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


engine_loop = EngineLoop()
"""The process's loop."""

os.register_at_fork(after_in_child=engine_loop.forget)
