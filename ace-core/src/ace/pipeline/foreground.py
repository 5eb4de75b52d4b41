"""The four ways to take a run's results: as a list or one by one, from plain or from asynchronous code."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from typing import Generic, TypeVar, final

from .channel import Channel
from .closing import Closing
from .context import StepContext
from .result import SampleResult
from .run import Run
from .thread_driver import ThreadDriver, process_one_by_one

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
    results = _ResultList[C]()
    if run.plan.awaits_in_foreground:
        _drive_on_engine_loop(run, contexts, workers, results)
    elif workers == 1 and not is_in_event_loop():
        return list(process_one_by_one(run, iter(contexts)))
    else:
        _drive_on_threads(run, contexts, workers, results)
    if run.failure is not None:
        raise run.failure
    return results.in_order()


def _drive_on_threads(run: Run[C], contexts: Iterable[C], workers: int, results: _ResultList[C]) -> None:
    ended = threading.Event()
    ThreadDriver(run, iter(contexts), workers, results.put, ended.set).start()
    try:
        ended.wait()
    except BaseException as error:  # Ctrl-C: what is in a step finishes first
        run.abort(error)
        ended.wait()


def _drive_on_engine_loop(run: Run[C], contexts: Iterable[C], workers: int, results: _ResultList[C]) -> None:
    from .event_loop import engine_loop
    from .task_driver import TaskDriver

    async def drive() -> None:
        await TaskDriver(run, contexts, workers, results.put).drive()

    future = engine_loop.submit(drive())
    try:
        future.result()
    except BaseException as error:  # as above
        run.abort(error)
        future.result()


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
    if workers == 1 and not run.plan.awaits_in_foreground and not is_in_event_loop():
        for result in process_one_by_one(run, iter(contexts)):
            if closing.is_asked:
                return
            yield result
        return
    channel = Channel[SampleResult[C]](capacity=workers)
    closing.on_ask(run.stop, channel.abandon)
    _feed(channel, run, contexts, workers)
    try:
        yield from channel
    finally:
        closing.ask()
        closing.end()
        if closing.may_wait:
            channel.wait_until_ended()
        else:
            run.is_left_behind = True
    if run.failure is not None:
        raise run.failure


def _feed(channel: Channel[SampleResult[C]], run: Run[C], contexts: Iterable[C], workers: int) -> None:
    if not run.plan.awaits_in_foreground:
        ThreadDriver(run, iter(contexts), workers, lambda _, result: channel.put(result), channel.end).start()
        return
    from .event_loop import call_in_thread, engine_loop
    from .task_driver import TaskDriver

    async def deliver(place: int, result: SampleResult[C]) -> None:
        if not channel.put_at_once(result):
            await call_in_thread(lambda: channel.put(result))

    driver = TaskDriver(run, contexts, workers, deliver)  # here, so that an input that cannot be iterated raises

    async def drive() -> None:
        try:
            await driver.drive()
        finally:
            channel.end()

    engine_loop.submit(drive())


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
