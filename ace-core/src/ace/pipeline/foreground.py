"""The four ways to take a run's results: as a list or one by one, from plain or from asynchronous code."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Generic, TypeVar, final

from .channel import Channel
from .closing import Closing
from .context import StepContext
from .interrupts import interrupts_can_wait, uninterrupted
from .result import SampleResult
from .run import Run
from .thread_driver import Deliver as ThreadDeliver
from .thread_driver import ThreadDriver, process_one_by_one
from .waiting import Happening

if TYPE_CHECKING:
    from .task_driver import Deliver as TaskDeliver

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


@final
class _ResultList(Generic[C]):
    """Results in input order, whatever order they come in."""

    def __init__(self) -> None:
        self._results: list[SampleResult[C] | None] = []
        self._lock = threading.Lock()

    def put(self, place: int, result: SampleResult[C]) -> None:
        results = self._results
        if place < len(results):
            results[place] = result
            return
        with self._lock:
            while len(results) < place:
                results.append(None)
            if place == len(results):
                results.append(result)
            else:  # another thread has made room meanwhile
                results[place] = result

    def in_order(self) -> list[SampleResult[C]]:
        return [result for result in self._results if result is not None]


def collect(run: Run[C], contexts: Iterable[C], workers: int) -> list[SampleResult[C]]:
    """Run to the end of the input and return all results, in input order."""
    if _is_on_callers_thread(run, workers):
        if run.order is None:  # nothing is touched that outlives the run
            return list(process_one_by_one(run, iter(contexts)))
        with interrupts_can_wait():
            return list(process_one_by_one(run, iter(contexts)))
    results = _ResultList[C]()
    with interrupts_can_wait():
        _drive(run, contexts, workers, results)
    if run.failure is not None:
        raise run.failure
    return results.in_order()


def _is_on_callers_thread(run: Run[C], workers: int) -> bool:
    return workers == 1 and not run.plan.awaits_in_foreground and not is_in_event_loop()


def _drive(run: Run[C], contexts: Iterable[C], workers: int, results: _ResultList[C]) -> None:
    """Have the workers do the run, and wait for them. On Ctrl-C, what is in a step finishes first."""
    ended = Happening()
    has_begun = False
    try:
        with uninterrupted:
            _start(run, contexts, workers, results.put, results.put, ended.happen)
            has_begun = True
        ended.wait()
    except BaseException as error:
        run.abort(error)
        if not has_begun:
            raise
        ended.wait()


def _start(
    run: Run[C],
    contexts: Iterable[C],
    workers: int,
    deliver: ThreadDeliver[C],
    deliver_from_loop: TaskDeliver[C],
    on_end: Callable[[], None],
) -> None:
    """Start the workers, on threads or on the engine's loop, and return."""
    if not run.plan.awaits_in_foreground:
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


async def collect_async(run: Run[C], contexts: Iterable[C] | AsyncIterable[C], workers: int) -> list[SampleResult[C]]:
    """Like `collect`, without blocking the caller's loop."""
    from .task_driver import TaskDriver

    results = _ResultList[C]()
    if run.plan.awaits_in_foreground or isinstance(contexts, AsyncIterable):
        await TaskDriver(run, contexts, workers, results.put).drive()
    else:
        await _await_threads(run, contexts, workers, results)
    if run.failure is not None:
        raise run.failure
    return results.in_order()


async def _await_threads(run: Run[C], contexts: Iterable[C], workers: int, results: _ResultList[C]) -> None:
    import asyncio

    from .event_loop import wait_through_cancellation

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        loop.call_soon_threadsafe(ended.set_result, None)

    ThreadDriver(run, iter(contexts), workers, results.put, end).start()
    await wait_through_cancellation(ended, on_cancel=run.stop)


def iterate(run: Run[C], contexts: Iterable[C], workers: int, closing: Closing) -> Iterator[SampleResult[C]]:
    """Yield each result as soon as its foreground is over. Closing the iterator stops the run."""
    closing.mark(run.variables)
    if _is_on_callers_thread(run, workers):
        return _iterate_here(run, contexts, closing)
    return _iterate_elsewhere(run, contexts, workers, closing)


def _iterate_here(run: Run[C], contexts: Iterable[C], closing: Closing) -> Iterator[SampleResult[C]]:
    results = process_one_by_one(run, iter(contexts))
    while True:
        with nullcontext() if run.order is None else interrupts_can_wait():
            result = next(results, None)
        if result is None or closing.is_asked:
            return
        yield result


def _iterate_elsewhere(run: Run[C], contexts: Iterable[C], workers: int, closing: Closing) -> Iterator[SampleResult[C]]:
    channel = Channel[SampleResult[C]](capacity=workers)
    closing.on_ask(run.stop, channel.abandon)

    async def deliver_from_loop(place: int, result: SampleResult[C]) -> None:
        from .event_loop import call_in_thread

        if not channel.put_at_once(result):
            await call_in_thread(lambda: channel.put(result))

    has_begun = False
    try:
        with interrupts_can_wait(), uninterrupted:
            _start(run, contexts, workers, lambda _, result: channel.put(result), deliver_from_loop, channel.end)
            has_begun = True
        yield from channel
    finally:
        closing.ask()
        closing.end()
        if has_begun and closing.may_wait:
            channel.wait_until_ended()
        else:
            run.is_left_behind = has_begun
    if run.failure is not None:
        raise run.failure


_left_behind: set[object] = set()
"""Tasks that go on though nobody waits for them; their loop holds them only weakly."""


async def iterate_async(
    run: Run[C], contexts: Iterable[C] | AsyncIterable[C], workers: int
) -> AsyncGenerator[SampleResult[C]]:
    """Like `iterate`, without blocking the caller's loop."""
    import asyncio

    closing = Closing()
    closing.mark(run.variables)

    from .event_loop import wait_through_cancellation
    from .task_driver import TaskDriver

    results: asyncio.Queue[SampleResult[C] | None] = asyncio.Queue()
    room = asyncio.Semaphore(workers)

    async def deliver(place: int, result: SampleResult[C]) -> None:
        await room.acquire()
        results.put_nowait(result)

    driver = TaskDriver(run, contexts, workers, deliver)  # here, so that an input that cannot be iterated raises

    async def drive() -> None:
        try:
            await driver.drive()
        finally:
            results.put_nowait(None)

    driving = asyncio.create_task(drive())
    try:
        while (result := await results.get()) is not None:
            room.release()
            yield result
    except asyncio.CancelledError:
        driving.cancel()
        raise
    finally:
        run.stop()
        for _ in range(2 * workers):
            room.release()  # nobody takes results any more: let the workers put theirs and end
        if closing.may_wait:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            driving.add_done_callback(lambda _: ended.set_result(None))
            await wait_through_cancellation(ended, on_cancel=driving.cancel)
        else:
            run.is_left_behind = True
            _left_behind.add(driving)
            driving.add_done_callback(_left_behind.discard)
    if run.failure is not None:
        raise run.failure


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
