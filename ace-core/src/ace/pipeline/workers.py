"""Where the foreground of a run is worked on: on the caller's thread, on threads, or on the engine's loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from .context import StepContext
from .run import Run
from .thread_driver import Deliver as ThreadDeliver
from .thread_driver import ThreadDriver

if TYPE_CHECKING:
    from .task_driver import Deliver as TaskDeliver

C = TypeVar("C", bound=StepContext)


def needs_no_workers(run: Run[C], workers: int) -> bool:
    """Whether the caller's own thread can do it all.

    Where hooks or callbacks are to be called on it, it does so although it has to wait for asynchronous steps.
    """
    return workers == 1 and (run.is_observed or not run.plan.awaits_in_foreground) and not is_in_event_loop()


def start_workers(
    run: Run[C],
    contexts: Iterable[C],
    workers: int,
    deliver: ThreadDeliver[C],
    deliver_from_loop: TaskDeliver[C],
    on_end: Callable[[], None],
) -> None:
    """Start the workers, on threads or on the engine's loop, and return.

    Workers that call hooks or callbacks are threads, so that these are called on one thread for each sample, and can
    block nothing but their own worker.

    Args:
        run: The run.
        contexts: Its input.
        workers: How many samples to have in the foreground at once.
        deliver: Called with each result and its place in the input, if the workers are threads.
        deliver_from_loop: Called and awaited instead, if they are on the loop.
        on_end: Called when the last worker has ended.

    Raises:
        RuntimeError: If the system has no thread left.
    """
    if run.is_observed or not run.plan.awaits_in_foreground:
        ThreadDriver(run, iter(contexts), workers, deliver, on_end).start()
        return
    from .event_loop import engine_loop
    from .task_driver import TaskDriver

    driver = TaskDriver(run, contexts, workers, deliver_from_loop)

    async def drive() -> None:
        try:
            await driver.drive()
        except BaseException as error:
            run.abort(error)
        finally:
            on_end()

    engine_loop.submit(drive())


def is_in_event_loop() -> bool:
    """Whether an event loop runs in this thread, so that a step could not start one of its own here."""
    if "asyncio" not in sys.modules:
        return False
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
