"""Running the foreground on several threads: the driver of pipelines whose foreground steps are all plain.

Who calls what, and on which thread: the caller's thread calls `ThreadDriver.start` and waits for `on_end`. Each worker
is a cached thread, which draws a sample, runs its foreground with `Run.process`, delivers its result, and draws the
next.

Invariants:

- One thread at a time draws from the input, under `_drawing`; thanks to the same lock, the positions in the input and
  the numbers in the run's order agree.
- An error that belongs to no sample ends the run: it is kept in `Run.failure`, and no worker draws again.
- The last worker calls `on_end`, exactly once, also if the input raised.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

from .context import SampleResult, StepContext
from .errors import log_problem
from .in_flight import END, EndOfInput
from .run import Run
from .threads import threads

C = TypeVar("C", bound=StepContext)

Deliver = Callable[[int, SampleResult[C]], None]

logger = logging.getLogger(__name__)


@final
class ThreadDriver(Generic[C]):
    """Runs the foreground on up to `workers` threads, which pull from one iterator.

    Args:
        source: The contexts. Only one thread at a time advances it, and each context is processed at once.
        workers: The maximum number of threads; one is added when the last one has a sample.
        deliver: Called on a worker's thread with each result and its position in the input; may block.
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
        self._variables = run.variables.copy()  # in which the input is iterated, by one thread at a time
        self._counting = threading.Lock()
        self._drawn = 0
        self._started = 0
        self._working = 0

    def start(self) -> None:
        """Start the first worker and return.

        Raises:
            RuntimeError: If no thread can be started.
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
                self._deliver(place, self._run.process(place, index, ctx))
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
            message = "no thread could be started for worker %d; the run continues with fewer"
            log_problem(logger, logging.WARNING, message, self._started)
