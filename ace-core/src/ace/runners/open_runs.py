"""The runs of one runner: which are open, and what they still do in the background.

Runs may overlap. `OpenRuns` counts them on the threads and tasks of their callers; `RunnerBackground` knows every
pipeline that a run has used, and finishes the runs that no caller waits for on threads of the engine.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

from ace.context import ACEStepContext
from ace.pipeline import Pipeline
from ace.pipeline.background import watch
from ace.pipeline.threads import threads
from ace.pipeline.waiting import Changes

__all__ = ["BackgroundWork", "OpenRuns", "RunnerBackground", "summed_stats"]

logger = logging.getLogger(__name__)
_inside: ContextVar[frozenset[int]] = ContextVar("ace_open_runs", default=frozenset())
"""The runners in whose runs this code is: their steps and callbacks inherit it."""


@final
class OpenRuns:
    """Counts the runs of a runner. Any number may be open; `exclusive` waits until none is.

    Invariants: while the exclusive block runs, no run is open. A run that is started inside another one of the same
    runner never waits for the exclusive block, which would wait for the outer run.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = 0
        self._users: Counter[object] = Counter()  # how many open runs use each pipeline
        self._is_taken = False

    def enter(self) -> None:
        """Count a run, as soon as no exclusive block runs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_taken or id(self) in _inside.get())
            self._open += 1

    def leave(self) -> None:
        """Count a run as over."""
        with self._changed:
            self._open -= 1
            self._changed.notify_all()

    def use(self, pipeline: object) -> None:
        """Note that an open run uses a pipeline."""
        with self._changed:
            self._users[pipeline] += 1

    def release(self, pipeline: object) -> None:
        """Note that a run does not use a pipeline any more."""
        with self._changed:
            self._users[pipeline] -= 1
            if not self._users[pipeline]:
                del self._users[pipeline]

    def is_alone(self, pipeline: object) -> bool:
        """Whether at most one open run uses a pipeline."""
        with self._changed:
            return self._users[pipeline] <= 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark the code of the block, and what it starts, as belonging to a run."""
        token = _inside.set(_inside.get() | {id(self)})
        try:
            yield
        finally:
            _inside.reset(token)

    @contextmanager
    def exclusive(self, what: str) -> Iterator[None]:
        """Wait until no run is open, and let none start while the block runs.

        Args:
            what: What the block does, for the error.

        Raises:
            RuntimeError: This is called inside a run, which would have to end first.
        """
        if id(self) in _inside.get():
            raise RuntimeError(f"{what} waits for the runs of this runner, so it cannot be called inside one of them")
        with self._changed:
            self._changed.wait_for(lambda: not self._is_taken and not self._open)
            self._is_taken = True
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()


@final
class BackgroundWork:
    """Calls functions in the background, each on a thread of the engine.

    They mostly wait for samples, which the interpreter's exit counts where they are; so this has no samples of its own.
    """

    pending = 0
    failed = 0

    def __init__(self) -> None:
        self._changes = Changes(threading.Lock())
        self._running = 0
        self._errors: list[BaseException] = []

    @property
    def is_busy(self) -> bool:
        """Whether something has not been done yet."""
        return self._running > 0

    def start(self, work: Callable[[], None]) -> None:
        """Have a function called, with the context variables of the caller, and return at once."""
        variables = contextvars.copy_context()
        with self._changes.lock:
            self._running += 1
        watch(self)

        def do() -> None:
            variables.run(self._do, work)

        try:
            threads.start(do)
        except RuntimeError:  # the system has no thread left: it is done here
            do()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything has been done.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: It is not done by then.
            BaseException: What a function raised; told once.
        """
        if not self._changes.wait_until(lambda: self._running == 0, timeout) and self._running:
            raise TimeoutError(
                f"a run has not ended after {timeout:g} s; it continues in the background; wait again for its end"
            )
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def drain(self) -> None:
        """Wait until everything has been done; what a function raised is logged and told by `wait`."""
        self._changes.wait_until(lambda: self._running == 0)

    def _do(self, work: Callable[[], None]) -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # of a program that ends too: the thread serves other work
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
    """The pipelines that a runner has used, and the ends of runs that are not waited for.

    Args:
        pipeline: The first pipeline.
    """

    def __init__(self, pipeline: Pipeline[ACEStepContext]) -> None:
        self._pipelines = [pipeline]
        self._finishing = BackgroundWork()

    def __iter__(self) -> Iterator[Pipeline[ACEStepContext]]:
        return iter(self._pipelines)

    def use(self, pipeline: Pipeline[ACEStepContext]) -> None:
        """Take in a pipeline that is used from now on."""
        if pipeline not in self._pipelines:
            self._pipelines.append(pipeline)

    def finish(self, work: Callable[[], None]) -> None:
        """Have the end of a run done, and return at once."""
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
            TimeoutError: It is not done by then; the text says how many samples are left.
            Exception: What kept a run from being finished.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for pipeline in self._pipelines:
            pipeline.wait_for_background(_left(end))
        self._finishing.wait(_left(end))


def summed_stats(stats: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of the numbers that several backgrounds have.

    Args:
        stats: What `Pipeline.background_stats` says of each.

    Example:
        >>> summed_stats([{"active": 1, "queued": 0, "completed": 2, "failed": 0}] * 2)
        {'active': 2, 'queued': 0, 'completed': 4, 'failed': 0}
    """
    each = list(stats)
    return {name: sum(numbers[name] for numbers in each) for name in ("active", "queued", "completed", "failed")}


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
