"""The results of a run: all in a list (`run`, `run_async`), or one by one (`stream`, `astream`).

`needs_no_workers` and `start_workers` decide where the foreground runs: on the caller's thread, on other threads, or on
the engine's loop.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, nullcontext
from contextvars import Context, ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar, final

from .caller import CallerThread
from .context import SampleResult, StepContext
from .run import Run, Runs
from .segment import may_block_loop
from .thread_driver import Deliver as ThreadDeliver
from .thread_driver import ThreadDriver
from .threads import Changes, interrupts_can_wait, is_collecting, note_collections, uninterrupted
from .validation import RunArguments

if TYPE_CHECKING:
    from .task_driver import Deliver as TaskDeliver

C = TypeVar("C", bound=StepContext)
T = TypeVar("T")

_streams: ContextVar[tuple[object, ...]] = ContextVar("ace_pipeline_streams", default=())
"""The streams whose step, callback or input the current code is."""


@final
class Closing:
    """How one stream is closed, and whether the code that closes it may wait for its workers."""

    def __init__(self) -> None:
        note_collections()
        self.is_asked = False
        self._actions: list[Callable[[], None]] = []

    def mark(self, variables: Context) -> None:
        """Mark all code that runs with these variables as part of the stream."""
        variables.run(lambda: _streams.set((*_streams.get(), self)))

    @property
    def may_wait(self) -> bool:
        """Whether this thread may wait for the stream's workers.

        It may not if a worker waits for the code that runs here, nor if the garbage collector closes the stream: that
        can happen anywhere, also while this thread holds a lock that a worker needs.
        """
        return self not in _streams.get() and not is_collecting()

    def on_ask(self, *actions: Callable[[], None]) -> None:
        """Call these functions when the stream is asked to end."""
        self._actions += actions

    def end(self) -> None:
        """Note that the stream has ended, so that `ask` has no effect."""
        self._actions.clear()

    def ask(self) -> None:
        """Ask the stream to end, without waiting for it."""
        self.is_asked = True
        for action in tuple(self._actions):
            action()


@final
class ResultStream(Generator[SampleResult[C], None, None]):
    """The results of a run one by one: a generator that can be closed while another thread waits for a result."""

    def __init__(self, results: Generator[SampleResult[C], None, None], closing: Closing) -> None:
        self._results = results
        self._closing = closing

    def __next__(self) -> SampleResult[C]:
        return next(self._results)

    def send(self, value: None, /) -> SampleResult[C]:
        """Return the next result, like `next`."""
        return self._results.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> SampleResult[C]:
        """Raise an error where the last result was yielded, which ends the stream."""
        if isinstance(kind, type):
            error = value if isinstance(value, BaseException) else kind() if value is None else kind(value)
        else:
            error = kind
        return self._results.throw(error.with_traceback(traceback) if traceback is not None else error)

    def close(self) -> None:
        """Draw no more samples, and wait for those in a step, unless such a step is calling this."""
        self._closing.ask()
        try:
            self._results.close()
        except ValueError:  # another thread waits for the next result: the stream ends there
            return


@final
class _ResultList(Generic[C]):
    """Collects results in any order, and returns them in input order."""

    def __init__(self) -> None:
        self._results: list[SampleResult[C] | None] = []

    def put(self, place: int, result: SampleResult[C]) -> None:
        results = self._results
        while len(results) <= place:
            results.append(None)  # several threads at once may append too many, which does no harm
        results[place] = result

    def in_order(self) -> list[SampleResult[C]]:
        return [result for result in self._results if result is not None]


def collect(run: Run[C], contexts: Iterable[C], workers: int) -> list[SampleResult[C]]:
    """Run to the end of the input and return all results, in input order."""
    if needs_no_workers(run, workers):
        if run.order is None:  # then the run shares no state with others that Ctrl-C could damage
            return list(run.process_one_by_one(iter(contexts)))
        with interrupts_can_wait():
            return list(run.process_one_by_one(iter(contexts)))
    results = _ResultList[C]()
    with interrupts_can_wait():
        _drive(run, contexts, workers, results)
    if run.failure is not None:
        raise run.failure
    return results.in_order()


def _drive(run: Run[C], contexts: Iterable[C], workers: int, results: _ResultList[C]) -> None:
    """Start the workers, and wait for them. On Ctrl-C, samples that are in a step finish it first."""
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


def stream(
    runs: Runs[C],
    contexts: Iterable[C],
    options: RunArguments[C],
) -> Generator[SampleResult[C], None, None]:
    """Yield each result when its foreground has ended. The run begins when the first one is requested."""
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
    results = run.process_one_by_one(iter(contexts))
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
    options: RunArguments[C],
) -> AsyncGenerator[SampleResult[C]]:
    """Like `stream`, without blocking the caller's loop."""
    async with (
        runs.one_async(options) as run,
        aclosing(_iterate_async(run, contexts, options.workers)) as results,
    ):
        async for result in results:
            yield result


_left_behind: set[object] = set()
"""Tasks that continue although they are not awaited; a loop holds only weak references to its tasks."""


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

    driver = TaskDriver(run, contexts, workers, deliver)  # here, so that an input that is not iterable raises

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
            room.release()  # no more results are taken: let the workers deliver theirs and end
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


@final
class Channel(Generic[T]):
    """A queue of at most `capacity` items; `put` waits while it is full.

    Example:
        >>> channel = Channel[int](capacity=2)
        >>> channel.put(1)
        >>> channel.end()
        >>> list(channel)
        [1]
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._lock = threading.RLock()  # the garbage collector may close a stream while this is held
        self._changes = Changes(self._lock)
        self._ended = False
        self._abandoned = False

    def put(self, item: T) -> None:
        """Add an item; wait while the channel is full. After `abandon`, the item is dropped."""
        while not self.put_at_once(item):
            self._changes.wait_until(self._has_room)

    def put_at_once(self, item: T) -> bool:
        """Add an item if there is room for it. Returns whether there was."""
        with self._lock:
            if not self._has_room():
                return False
            if not self._abandoned:
                self._items.append(item)
                self._changes.tell()
            return True

    def _has_room(self) -> bool:
        return len(self._items) < self._capacity or self._abandoned

    def end(self) -> None:
        """Note that no more items will be added."""
        with self._lock:
            self._ended = True
            self._changes.tell()

    def abandon(self) -> None:
        """Note that no more items will be taken."""
        with self._lock:
            self._abandoned = True
            self._items.clear()
            self._changes.tell()

    def wait_until_ended(self) -> None:
        """Wait for `end`."""
        with may_block_loop():
            self._changes.wait_until(lambda: self._ended)

    def __iter__(self) -> Channel[T]:
        return self

    def __next__(self) -> T:
        with may_block_loop():
            self._changes.wait_until(lambda: bool(self._items) or self._ended or self._abandoned)
        with self._lock:
            if not self._items:  # it has ended, or was abandoned just now
                raise StopIteration
            item = self._items.popleft()
            self._changes.tell()
            return item


def needs_no_workers(run: Run[C], workers: int) -> bool:
    """Whether the caller's own thread can run the whole foreground.

    If it has to call hooks or callbacks, it does so even if it has to wait for asynchronous steps.
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

    Workers that call hooks or callbacks are threads, so that these are called on one thread for each sample and block
    only their own worker.

    Args:
        contexts: Its input.
        workers: How many samples to have in the foreground at once.
        deliver: Called with each result and its place in the input, if the workers are threads.
        deliver_from_loop: Called and awaited instead, if they are on the loop.
        on_end: Called when the last worker has ended.

    Raises:
        RuntimeError: If no thread can be started.
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
