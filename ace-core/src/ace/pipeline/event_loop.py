"""The event loop on which the engine awaits asynchronous steps when the caller has none.

One loop serves the whole process, in a thread of its own, so that steps in the foreground, in the background and in
different runs can share clients that belong to a loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, final

from .threads import Event, adopt, threads

T = TypeVar("T")

_MOST_THREADS = 1024


@final
class EngineLoop:
    """An event loop that runs in a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start with no loop. A forked child calls it too, because it does not inherit the parent's thread."""
        self._lock = threading.Lock()
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}  # by thread; nearly always one
        self._blocked: set[int] = set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; another one while plain code that a step calls blocks that loop.

        Raises:
            RuntimeError: If the loop has to be started and no thread can be started for it.
        """
        with self._lock:
            for ident, loop in self._loops.items():
                if ident not in self._blocked:
                    return loop
            loop = asyncio.new_event_loop()
            # Frameworks run synchronous code on the loop's pool. Its default size, a few more than the number of cores,
            # would limit the number of workers. The pool starts threads only when it needs them.
            loop.set_default_executor(ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="ace-pipeline-pool"))
            thread = threading.Thread(target=loop.run_forever, name="ace-pipeline-loop", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                loop.close()
                raise
            self._loops[thread.ident or 0] = loop
            return loop

    def ensure_running(self) -> None:
        """Start the loop if it does not run yet; at the interpreter's exit it may be too late."""
        _ = self.loop

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Use another loop while the body blocks this thread, if this is the thread of a loop."""
        ident = threading.get_ident()
        with self._lock:
            is_outermost = ident in self._loops and ident not in self._blocked
            if is_outermost:
                self._blocked.add(ident)
        try:
            yield
        finally:
            if is_outermost:
                with self._lock:
                    self._blocked.discard(ident)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, with the caller's context variables, and return at once.

        On the loop's own thread it starts on another loop, because the caller will block this one.
        """
        with self.blocked():
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine from plain code and return its value, or raise what it raised.

        The coroutine sees the caller's context variables, and the caller sees those that it sets. Ctrl-C cancels the
        coroutine and is raised when it has ended, since it may have to clean up. A second Ctrl-C is raised at once.
        """
        with self.blocked():
            work = _Work(coroutine)
            loop = self.loop
            try:
                loop.call_soon_threadsafe(work.start, loop)
                work.ended.wait()
            except BaseException:
                # The loop makes calls in order, so the coroutine has started by then, or never will.
                loop.call_soon_threadsafe(work.cancel)
                work.ended.wait()
                raise
        outcome, variables = work.outcomes[0]
        adopt(variables)
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome


@final
class _Work(Generic[T]):
    """A coroutine that one thread waits for, and that only the thread of its loop touches."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.ended = Event()
        self.outcomes: list[tuple[T | _Raised, contextvars.Context]] = []
        """Its outcome; empty if it was cancelled before it began."""
        self._coroutine = coroutine
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_cancelled:
            return
        self._task = loop.create_task(self._await())
        self._task.add_done_callback(lambda _: self.ended.set())

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()
        else:
            self._coroutine.close()
            self.ended.set()

    async def _await(self) -> None:
        self.outcomes.append(await _outcome(self._coroutine))


class _Raised:
    """An error on its way to the thread that waits."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _outcome(coroutine: Coroutine[Any, Any, T]) -> tuple[T | _Raised, contextvars.Context]:
    """Catch errors before they reach the loop, which a `SystemExit` would end, and its future, which replaces some.

    Returns:
        What the coroutine returned or raised, and the context variables that it set.
    """
    outcome: T | _Raised
    try:
        outcome = await coroutine
    except BaseException as error:
        outcome = _Raised(error)
    return outcome, contextvars.copy_context()


async def call_in_thread(function: Callable[[], T]) -> T:
    """Call a plain function on a cached thread, without blocking the loop.

    The function sees the caller's context variables, and the caller sees those that it sets. A cancellation is raised
    only after the function has returned: it cannot be interrupted, and may still use what the caller would release.
    """
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
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

    threads.start(work, report)
    await wait_through_cancellation(returned)
    adopt(context)
    if errors:
        raise errors[0]
    return values[0]


async def wait_through_cancellation(
    future: asyncio.Future[None], on_cancel: Callable[[], object] | None = None
) -> None:
    """Wait until `future` is done even if this task is cancelled, and raise the cancellation then.

    Args:
        future: What to wait for; it is never cancelled.
        on_cancel: Called at the cancellation, to make the future end sooner.
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


async def await_uninterrupted(future: Future[T]) -> T:
    """Await work on another thread. A cancellation revokes work that has not begun, and else waits for its end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set_result, None))
    await wait_through_cancellation(ended, on_cancel=future.cancel)
    return future.result()


engine_loop = EngineLoop()
"""The loop of the process."""

os.register_at_fork(after_in_child=engine_loop.forget)
