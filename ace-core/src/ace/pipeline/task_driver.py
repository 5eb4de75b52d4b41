"""Running the foreground on an event loop: the way of pipelines with asynchronous foreground steps."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar, final

from .context import StepContext
from .event_loop import await_uninterrupted, call_in_thread
from .lane_segment import LaneSegment
from .result import SampleResult
from .run import Run
from .segment import Position
from .source import Source
from .variables import adopt

C = TypeVar("C", bound=StepContext)

Deliver = Callable[[int, SampleResult[C]], Awaitable[None] | None]

_SAMPLES_PER_TURN = 64


@final
class TaskDriver(Generic[C]):
    """Runs the foreground in `workers` tasks of the current loop, which pull from one input.

    Args:
        run: The run.
        contexts: The input.
        workers: How many samples to have in the foreground at once; a task is added whenever one has got a sample.
        deliver: Called with each result and its place in the input; what it returns is awaited.
    """

    def __init__(
        self,
        run: Run[C],
        contexts: Iterable[C] | AsyncIterable[C],
        workers: int,
        deliver: Deliver[C],
    ) -> None:
        self._run = run
        self._workers = workers
        self._deliver = deliver
        self._source = Source(contexts, run)
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = 0
        self._is_cancelled = False

    async def drive(self) -> None:
        """Run until the input is used up or the run is stopped.

        An error that belongs to no sample is left in `run.failure`, because a loop would end if a task raised
        `SystemExit`.
        """
        self._start_another()
        cancelled: asyncio.CancelledError | None = None
        while self._tasks:
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError as error:
                cancelled = error
                self._is_cancelled = True
                self._run.stop()
                for task in self._tasks:
                    task.cancel()
        if cancelled is not None:
            raise cancelled

    def _start_another(self) -> None:
        if self._started < self._workers and not self._run.stopped:
            self._started += 1
            self._start_worker()

    def _start_worker(self) -> None:
        variables = self._run.variables.copy()
        task = asyncio.get_running_loop().create_task(self._work(variables), context=variables)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, variables: contextvars.Context) -> None:
        source, base = self._source, self._run.variables
        task = asyncio.current_task()
        assert task is not None  # this runs in one
        has_follower = False
        try:
            while (drawn := source.draw_at_once() if source.is_at_hand else await source.draw()) is not None:
                if not has_follower:
                    has_follower = True
                    self._start_another()
                place, index, ctx = drawn
                result = await self._process(place, index, ctx, task)
                if task.cancelling():
                    await self._forget_cancellation(task)
                delivery = self._deliver(place, result)
                if delivery is not None:
                    await delivery
                if place % _SAMPLES_PER_TURN == 0:
                    await asyncio.sleep(0)  # steps that never wait must not keep the loop from everybody else
                if len(variables) != len(base) or (base and _differs(variables, base)):
                    # A step has set a variable. The next sample must not see it, so it gets a new task.
                    self._start_worker()
                    return
        except BaseException as error:
            if self._is_cancelled:
                raise
            self._run.abort(error)

    async def _process(self, place: int, index: int, ctx: C, task: asyncio.Task[None]) -> SampleResult[C]:
        run = self._run
        position = Position()
        result = run.begin(place, ctx, position)
        try:
            try:
                if ctx.__class__ not in run.checked_classes:
                    run.check(ctx, position)
                for part in run.plan.loop_foreground:
                    if isinstance(part, LaneSegment):
                        future: Future[C] = Future()
                        context = part.start(future, ctx, position, run, index, run.hooks)
                        ctx = await await_uninterrupted(future)
                        adopt(context)
                    elif part.is_async:
                        ctx = await part.run_async(ctx, position, run.token, run.hooks)
                    else:
                        ctx = await call_in_thread(partial(part.run, ctx, position, run.token, run.hooks))
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                if self._is_cancelled:  # not by the step itself
                    raise
                run.fail(index, result, error, position)
            else:
                if task.cancelling():
                    await self._forget_cancellation(task)
                job = run.succeed(index, result, ctx)
                if job is not None and not job.background.enter_at_once(job):
                    await call_in_thread(partial(job.background.enter, job))
        except BaseException:  # the run ends here; samples of other runs must not wait for this one's turn
            run.give_up(index)
            raise
        return result

    async def _forget_cancellation(self, task: asyncio.Task[None]) -> None:
        """Undo the cancellation by a step of its own task, if the step continued: it must not reach the next sample."""
        try:
            await asyncio.sleep(0)  # here it arrives, unless it has arrived in the step
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
        while task.cancelling():
            task.uncancel()


def _differs(variables: contextvars.Context, base: contextvars.Context) -> bool:
    return any(variables.get(each, base) is not base[each] for each in base)
