"""Running the foreground in tasks of an event loop: the driver of pipelines with asynchronous foreground steps.

Who calls what, and on which thread: everything here runs on one event loop, the caller's in `run_async` and `astream`,
the engine's in `run` and `stream`. Plain code (a step, an input that may block, the entry into a full background) is
called on cached threads, with `call_in_thread`, and awaited.

Invariants:

- The loop is never blocked. A list or a tuple is iterated on the loop, any other input on a thread.
- One task at a time draws (`Source.draw`), so the positions in the input and the numbers in the run's order agree.
- A task serves samples one after the other until a step sets a context variable; then a new task takes over, because
  the next sample must not see the variable.
- A step that cancels its own task ends only its sample: the cancellation is undone before the next one. If the caller
  cancels `drive`, all tasks are cancelled, and `drive` returns when they have ended.
- Each sample that was drawn either enters the background or is skipped in the run's order, as in `Run.process`.
- A `SystemExit` never leaves a task, because that would end the loop; it is kept in `Run.failure`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar, final

from .context import SampleResult, StepContext
from .event_loop import await_uninterrupted, call_in_thread
from .in_flight import END, EndOfInput, seems_used_up
from .lane import LaneSegment
from .run import Run
from .segment import Position
from .threads import adopt

C = TypeVar("C", bound=StepContext)


@final
class Source(Generic[C]):
    """Draws contexts one at a time, each with its position in the input and its number in the run's order.

    A list or a tuple never blocks, so it is drawn from directly, unless the run limits how many samples are in flight.
    Any other iterable is advanced on a thread.

    Args:
        contexts: The input, plain or asynchronous.
        run: The run. When it is stopped, nothing more is drawn.
    """

    def __init__(self, contexts: Iterable[C] | AsyncIterable[C], run: Run[C]) -> None:
        never_blocks = isinstance(contexts, (list, tuple))
        self.is_at_hand = never_blocks and run.in_flight.limit is None
        self._limit = None if run.in_flight.limit is None else run.in_flight
        self._iterator: Iterator[C] | AsyncIterator[C]
        self._at_hand: Iterator[C] = iter(())
        if isinstance(contexts, AsyncIterable):
            self._iterator = iterator = aiter(contexts)
            self._ask: Callable[[], Awaitable[C | EndOfInput]] = lambda: anext(iterator, END)
        else:
            self._iterator = self._at_hand = iter(contexts)
            draw = partial(next, self._at_hand, END)
            self._ask = partial(_at_once, draw) if never_blocks else partial(call_in_thread, draw)
        self._run = run
        self._drawing = asyncio.Lock()
        self._drawn = 0

    def draw_at_once(self) -> tuple[int, int, C] | None:
        """Return the next (position, number, context) of an input that never blocks, or None at the end."""
        return None if self._run.stopped else self._numbered(next(self._at_hand, END))

    async def draw(self) -> tuple[int, int, C] | None:
        """Return the next (position, number, context), or None at the end; wait until one more may be in flight."""
        async with self._drawing:
            if self._limit is not None and not seems_used_up(self._iterator):
                await self._limit.enter_async()
            return None if self._run.stopped else self._numbered(await self._ask())

    def _numbered(self, ctx: C | EndOfInput) -> tuple[int, int, C] | None:
        if ctx is END:
            self._run.stop()
            return None
        place = self._drawn
        self._drawn += 1
        return place, self._run.number(), ctx


async def _at_once(draw: Callable[[], C | EndOfInput]) -> C | EndOfInput:
    return draw()


Deliver = Callable[[int, SampleResult[C]], Awaitable[None] | None]

_SAMPLES_PER_TURN = 64


@final
class TaskDriver(Generic[C]):
    """Runs the foreground in `workers` tasks of the current loop, which pull from one input.

    Args:
        run: The run.
        contexts: The input.
        workers: How many samples to have in the foreground at once; a task is added when the last one has a sample.
        deliver: Called with each result and its position in the input; what it returns is awaited.
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
        """Run until the input is exhausted or the run is stopped.

        An error that belongs to no sample is stored in `run.failure`, because a `SystemExit` in a task would end the
        loop.
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
                    await asyncio.sleep(0)  # steps that never wait must not starve the other tasks of the loop
                if len(variables) != len(base) or (base and _differs(variables, base)):
                    # A step has set a variable, which the next sample must not see, so that gets a new task.
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
        except BaseException:  # the run ends here, but samples of other runs must not wait for this one
            run.skip(index)
            raise
        return result

    async def _forget_cancellation(self, task: asyncio.Task[None]) -> None:
        """Undo a step's cancellation of its own task, so that it does not reach the next sample."""
        try:
            await asyncio.sleep(0)  # it is raised here, unless it has been raised in the step
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
        while task.cancelling():
            task.uncancel()


def _differs(variables: contextvars.Context, base: contextvars.Context) -> bool:
    return any(variables.get(variable, base) is not base[variable] for variable in base)
