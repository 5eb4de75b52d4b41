"""The results of a run one by one: what `stream` and `astream` yield."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Iterator
from contextlib import aclosing, nullcontext
from typing import TypeVar

from .channel import Channel
from .closing import Closing, ResultStream
from .context import StepContext
from .interrupts import interrupts_can_wait, uninterrupted
from .result import SampleResult
from .run import Run
from .runs import RunOptions, Runs
from .thread_driver import process_one_by_one
from .workers import needs_no_workers, start_workers

C = TypeVar("C", bound=StepContext)


def stream(
    runs: Runs[C],
    contexts: Iterable[C],
    options: RunOptions[C],
) -> Generator[SampleResult[C], None, None]:
    """Yield each result as soon as its foreground is over. The run begins when the first one is asked for."""
    closing = Closing()

    def results() -> Generator[SampleResult[C], None, None]:
        with runs.one(options) as run:
            closing.mark(run.variables)
            if needs_no_workers(run, options.workers):
                yield from _iterate_here(run, contexts, closing)
            else:
                yield from _iterate_elsewhere(run, contexts, options.workers, closing)

    return ResultStream(results(), closing)


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
            start_workers(run, contexts, workers, lambda _, result: channel.put(result), deliver_from_loop, channel.end)
            has_begun = True
        yield from channel
    except (KeyboardInterrupt, SystemExit):
        run.interrupt()
        raise
    finally:
        closing.ask()
        closing.end()
        if has_begun and closing.may_wait:
            channel.wait_until_ended()
        else:
            run.is_left_behind = has_begun
    if run.failure is not None:
        raise run.failure


async def astream(
    runs: Runs[C],
    contexts: Iterable[C] | AsyncIterable[C],
    options: RunOptions[C],
) -> AsyncGenerator[SampleResult[C]]:
    """Like `stream`, without blocking the caller's loop."""
    async with (
        runs.one_async(options) as run,
        aclosing(_iterate_async(run, contexts, options.workers)) as results,
    ):
        async for result in results:
            yield result


_left_behind: set[object] = set()
"""Tasks that continue although they are not awaited; their loop refers to them only weakly."""


async def _iterate_async(
    run: Run[C], contexts: Iterable[C] | AsyncIterable[C], workers: int
) -> AsyncGenerator[SampleResult[C]]:
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
            room.release()  # results are not taken any more: let the workers put theirs and end
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
