"""The runs of one runner: which are open, and their work in the background.

Runs may overlap. `OpenRuns` counts them, on the threads of their callers. `RunnerBackground` knows every pipeline that
a run has used, and finishes runs with `wait=False` on threads of the engine.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, final
from weakref import WeakSet

from ace.context import ACEStepContext
from ace.pipeline import Pipeline
from ace.pipeline.background import watch
from ace.pipeline.caller import CallerLoop
from ace.pipeline.threads import Changes, threads

__all__ = ["BackgroundWork", "OpenRuns", "RunnerBackground", "summed_stats"]

P = TypeVar("P", bound=object)
logger = logging.getLogger(__name__)
_inside: ContextVar[frozenset[OpenRuns]] = ContextVar("ace_open_runs", default=frozenset())
"""The runners inside whose runs this code is called; steps and callbacks inherit it."""


@final
class OpenRuns:
    """Counts the runs of a runner. Any number may be open; `exclusive` waits until none is.

    Invariants: no run is open while the exclusive block runs. A run that is started inside another run of the same
    runner never waits for the exclusive block, because that would wait for the outer run.
    """

    def __init__(self) -> None:
        self.forget()
        _forked.add(self)

    def forget(self) -> None:
        """Start with no run. A forked child calls it too, because the open runs are its parent's."""
        self._changes = Changes(threading.RLock())  # the garbage collector may end a run while this is held
        self._open = 0
        self._users: Counter[object] = Counter()  # how many open runs use each pipeline
        self._is_taken = False

    def enter(self) -> None:
        """Count a run; first wait until no exclusive block runs."""
        is_inside = self in _inside.get()
        while True:
            self._changes.wait_until(lambda: not self._is_taken or is_inside)
            with self._changes.lock:
                if not self._is_taken or is_inside:
                    self._open += 1
                    return

    def leave(self) -> None:
        """Note that a run has ended."""
        with self._changes.lock:
            self._open -= 1
            self._changes.tell()

    def use(self, choose: Callable[[Collection[object]], P]) -> P:
        """Choose the pipeline of a run, and note that an open run uses it.

        Args:
            choose: Returns the pipeline. Its argument are the pipelines that open runs use; it must not start a run.

        Returns:
            The pipeline, which must be released.
        """
        with self._changes.lock:
            pipeline = choose(self._users.keys())
            self._users[pipeline] += 1
            return pipeline

    def release(self, pipeline: object) -> None:
        """Note that a run no longer uses a pipeline."""
        with self._changes.lock:
            self._users[pipeline] -= 1
            if not self._users[pipeline]:
                del self._users[pipeline]

    def is_alone(self, pipeline: object) -> bool:
        """Whether at most one open run uses a pipeline."""
        with self._changes.lock:
            return self._users[pipeline] <= 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark the code of the block, and the code that it starts, as part of a run."""
        token = _inside.set(_inside.get() | {self})
        try:
            yield
        finally:
            _inside.reset(token)

    @contextmanager
    def exclusive(self, what: str) -> Iterator[None]:
        """Wait until no run is open, and let none start while the block runs.

        Args:
            what: The name of the operation, for the error.

        Raises:
            RuntimeError: This is called inside a run, which would have to end first.
        """
        if self in _inside.get():
            raise RuntimeError(f"{what} waits for the runs of this runner, so it cannot be called inside one of them")
        is_mine = False
        try:
            while not is_mine:
                self._changes.wait_until(lambda: not self._is_taken and not self._open)
                with self._changes.lock:
                    if not self._is_taken and not self._open:
                        self._is_taken = is_mine = True
            yield
        finally:
            if is_mine:
                with self._changes.lock:
                    self._is_taken = False
                    self._changes.tell()


@final
class BackgroundWork:
    """Calls functions in the background, each on a thread of the engine.

    The functions wait for samples, which the interpreter's exit counts in their pipelines, so `pending` is 0 here.
    """

    pending = 0
    failed = 0

    def __init__(self) -> None:
        self.forget()
        _forked.add(self)

    def forget(self) -> None:
        """Start with no work. A forked child calls it too, because its parent does the work that was started."""
        self._changes = Changes(threading.Lock())
        self._running = 0
        self._errors: list[BaseException] = []

    @property
    def is_busy(self) -> bool:
        """Whether work is left."""
        return self._running > 0

    def start(self, work: Callable[[], None]) -> None:
        """Start a call of a function, with the context variables of the caller, and return at once."""
        variables = contextvars.copy_context()
        with self._changes.lock:
            self._running += 1
        watch(self)

        def do() -> None:
            variables.run(self._do, work)

        try:
            threads.start(do)
        except RuntimeError:  # no thread can be started: do it on this one
            do()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything has been done.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: It is not done by then.
            BaseException: The first error of a function since the last call.
        """
        if not self._changes.wait_until(lambda: self._running == 0, timeout) and self._running:
            raise TimeoutError(
                f"a run has not ended after {timeout:g} s; it continues in the background; wait again for its end"
            )
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def drain(self) -> None:
        """Wait until everything has been done; errors of functions are logged, and raised by `wait`."""
        self._changes.wait_until(lambda: self._running == 0)

    def _do(self, work: Callable[[], None]) -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # SystemExit too, because the thread serves other work
            error = raised
            logger.error("A run could not be finished in the background", exc_info=raised)
        finally:
            with self._changes.lock:
                if error is not None:
                    self._errors.append(error)
                self._running -= 1
                self._changes.tell()


@final
class RunnerBackground:
    """The pipelines that a runner has used, and the runs that are finished in the background.

    Args:
        pipeline: The first pipeline.
    """

    def __init__(self, pipeline: Pipeline[ACEStepContext]) -> None:
        self._pipelines = [pipeline]
        self._finishing = BackgroundWork()
        self._untold: set[CallerLoop] = set()  # loops that have yet to make calls of callbacks

    def __iter__(self) -> Iterator[Pipeline[ACEStepContext]]:
        return iter(self._pipelines)

    def use(self, pipeline: Pipeline[ACEStepContext]) -> None:
        """Add a pipeline that is used from now on."""
        if pipeline not in self._pipelines:
            self._pipelines.append(pipeline)

    def teller(self) -> Callable[[Callable[[], None]], None]:
        """Return a function that makes calls on the loop of this thread; when the loop has ended, on its own thread."""
        loop = CallerLoop(self._untold)

        def tell(call: Callable[[], None]) -> None:
            if loop.is_here:
                call()
            else:
                loop.tell(call)

        return tell

    def finish(self, work: Callable[[], None]) -> None:
        """Start finishing a run, and return at once."""
        self._finishing.start(work)

    @property
    def stats(self) -> dict[str, int]:
        """Samples in the background: active, queued, completed and, of these, failed."""
        return summed_stats(pipeline.background_stats() for pipeline in self._pipelines)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all of it is done.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: It is not done by then; the message says how many samples are left.
            Exception: What prevented a run from being finished.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for pipeline in self._pipelines:
            pipeline.wait_for_background(_left(end))
        self._finishing.wait(_left(end))
        for loop in list(self._untold):
            loop.make_late_calls()


def summed_stats(stats: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of the counts of several backgrounds.

    Args:
        stats: What `Pipeline.background_stats` returned for every one of them.

    Example:
        >>> summed_stats([{"active": 1, "queued": 0, "completed": 2, "failed": 0}] * 2)
        {'active': 2, 'queued': 0, 'completed': 4, 'failed': 0}
    """
    all_stats = list(stats)
    return {name: sum(numbers[name] for numbers in all_stats) for name in ("active", "queued", "completed", "failed")}


_forked: WeakSet[OpenRuns | BackgroundWork] = WeakSet()
"""The objects that a forked child has to reset."""


def _forget_all() -> None:
    for kept in list(_forked):
        kept.forget()


os.register_at_fork(after_in_child=_forget_all)


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
