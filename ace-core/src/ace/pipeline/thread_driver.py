"""Running the foreground on threads: the driver of pipelines whose foreground steps are all plain.

Who calls what, and on which thread:

- With one worker, and no event loop running there, the caller's thread does everything (`process_one_by_one`): it
  draws, runs the steps, and takes the sample into the background, where it waits as long as that is full.
- Otherwise the caller's thread calls `ThreadDriver.start` and waits for `on_end`. Each worker is a kept thread, which
  draws a sample, runs its foreground, delivers its result, and draws the next.

Invariants:

- One thread at a time draws from the input, under `_drawing`; the same lock makes the places in the input and the
  numbers in the run's order agree.
- A sample runs in a copy of the run's context variables, so it sees nothing that another sample has set.
- Each sample that was drawn either enters the background or is skipped in the run's order, whatever is raised.
  Otherwise the samples after it would wait for its turn indefinitely.
- An error that belongs to no sample ends the run: it is kept in `Run.failure`, and no worker draws again.
- `on_end` is called once, by the last worker, also if the input raised.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

from .context import SampleResult, StepContext
from .errors import log_problem
from .in_flight import END, EndOfInput
from .lane import LaneSegment
from .run import Run
from .segment import Position
from .threads import threads

C = TypeVar("C", bound=StepContext)

Deliver = Callable[[int, SampleResult[C]], None]

logger = logging.getLogger(__name__)


def process(run: Run[C], place: int, index: int, ctx: C) -> SampleResult[C]:
    """Run the foreground of one sample on this thread, and hand the sample to the background."""
    return run.variables.copy().run(_process, run, place, index, ctx)


def _process(run: Run[C], place: int, index: int, ctx: C) -> SampleResult[C]:
    position = Position()
    result = run.begin(place, ctx, position)
    try:
        try:
            if ctx.__class__ not in run.checked_classes:
                run.check(ctx, position)
            for part in run.plan.foreground:
                if isinstance(part, LaneSegment):
                    ctx = part.pass_through(ctx, position, run, index)
                else:
                    ctx = part.run(ctx, position, run.token, run.hooks)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            run.fail(index, result, error, position)
        else:
            job = run.succeed(index, result, ctx)
            if job is not None:
                job.background.enter(job)
    except BaseException:  # the run ends here; samples of other runs must not wait for this one's turn
        run.skip(index)
        raise
    return result


def process_one_by_one(run: Run[C], source: Iterator[C]) -> Iterator[SampleResult[C]]:
    """Yield the results of a run on the caller's own thread."""
    for place, ctx in enumerate(run.in_flight.let_in(source)):
        yield process(run, place, run.number(), ctx)


@final
class ThreadDriver(Generic[C]):
    """Runs the foreground on up to `workers` threads, which pull from one iterator.

    Args:
        run: The run.
        source: The contexts. It is only ever asked by one thread at a time, and only for what is run at once.
        workers: How many threads to use at most; one is added whenever the last one has got a sample.
        deliver: Called on a worker's thread with each result and its place in the input; may block.
        on_end: Called once, when the last worker has ended.
    """

    def __init__(
        self,
        run: Run[C],
        source: Iterator[C],
        workers: int,
        deliver: Deliver[C],
        on_end: Callable[[], None],
    ) -> None:
        self._run = run
        self._source = run.in_flight.let_in(source)
        self._workers = workers
        self._deliver = deliver
        self._on_end = on_end
        self._drawing = threading.Lock()
        self._variables = run.variables.copy()  # the input's: one thread at a time draws
        self._counting = threading.Lock()
        self._drawn = 0
        self._started = 0
        self._working = 0

    def start(self) -> None:
        """Start the first worker and return.

        Raises:
            RuntimeError: If the system has no thread left for it.
        """
        self._started = self._working = 1
        threads.start(self._work)

    def _work(self) -> None:
        try:
            has_follower = False
            while (drawn := self._draw()) is not None:
                if not has_follower:
                    has_follower = True
                    self._start_another()
                place, index, ctx = drawn
                self._deliver(place, process(self._run, place, index, ctx))
        except BaseException as error:
            self._run.abort(error)
        with self._counting:
            self._working -= 1
            is_last = self._working == 0
        if is_last:
            self._on_end()

    def _draw(self) -> tuple[int, int, C] | None:
        with self._drawing:
            if self._run.stopped:
                return None
            ctx: C | EndOfInput = self._variables.run(next, self._source, END)
            if ctx is END:
                self._run.stop()
                return None
            place = self._drawn
            self._drawn += 1
            return place, self._run.number(), ctx

    def _start_another(self) -> None:
        with self._counting:
            if self._started == self._workers or self._run.stopped:
                return
            self._started += 1
            self._working += 1
        try:
            threads.start(self._work)
        except RuntimeError:
            with self._counting:
                self._working -= 1
            message = "no thread left for worker %d; the run continues with fewer"
            log_problem(logger, logging.WARNING, message, self._started)
