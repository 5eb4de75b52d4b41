"""All results of a run in a list: what `run` and `run_async` return."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Generic, TypeVar, final

from .caller import CallerThread
from .context import StepContext
from .interrupts import interrupts_can_wait, uninterrupted
from .result import SampleResult
from .run import Run
from .thread_driver import ThreadDriver, process_one_by_one
from .workers import needs_no_workers, start_workers

C = TypeVar("C", bound=StepContext)


@final
class _ResultList(Generic[C]):
    """Results in input order, whatever order they come in."""

    def __init__(self) -> None:
        self._results: list[SampleResult[C] | None] = []

    def put(self, place: int, result: SampleResult[C]) -> None:
        results = self._results
        while len(results) <= place:
            results.append(None)  # threads that do so at once make more room than is needed, which does no harm
        results[place] = result

    def in_order(self) -> list[SampleResult[C]]:
        return [result for result in self._results if result is not None]


def collect(run: Run[C], contexts: Iterable[C], workers: int) -> list[SampleResult[C]]:
    """Run to the end of the input and return all results, in input order."""
    if needs_no_workers(run, workers):
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


def _drive(run: Run[C], contexts: Iterable[C], workers: int, results: _ResultList[C]) -> None:
    """Have the workers do the run, and wait for them. On Ctrl-C, what is in a step finishes first."""
    here = CallerThread()
    if workers == 1 and run.is_observed:
        run.use_caller(here)
    has_begun = False
    try:
        with uninterrupted:
            start_workers(run, contexts, workers, results.put, results.put, here.end)
            has_begun = True
        here.wait()
    except BaseException as error:
        run.abort(error)
        if not has_begun:
            raise
        here.wait()


async def collect_async(run: Run[C], contexts: Iterable[C] | AsyncIterable[C], workers: int) -> list[SampleResult[C]]:
    """Like `collect`, without blocking the caller's loop."""
    from .task_driver import TaskDriver

    results = _ResultList[C]()
    if run.plan.awaits_on_loop or isinstance(contexts, AsyncIterable):
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
