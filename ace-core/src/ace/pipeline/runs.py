"""The runs of one pipeline, and what they share."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar, final
from weakref import WeakSet

from .background import Background
from .cancellation import CancellationToken
from .context import StepContext
from .hooks import PipelineHook
from .lane import InputOrder
from .plan import Plan
from .result import SampleResult
from .run import Run

C = TypeVar("C", bound=StepContext)

OnSampleDone = Callable[[SampleResult[C]], None]

logger = logging.getLogger(__name__)


@final
class Runs(Generic[C]):
    """Begins and ends the runs of one pipeline, which share its background and, one after the other, its order.

    Args:
        plan: The pipeline's plan.
        hooks: Observers of the foreground steps.
        background_limit: How many samples may be behind the boundary at once.
    """

    def __init__(self, plan: Plan[C], hooks: Sequence[PipelineHook], background_limit: int) -> None:
        self._plan = plan
        self._hooks = hooks
        self.background = Background(plan.stages, background_limit)
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        """Start with no run. A forked child calls it too: its parent goes on with those that there are."""
        self._lock = threading.RLock()  # the garbage collector may close a stream while it is held
        self._going_on: WeakSet[Run[C]] = WeakSet()
        self._order = InputOrder(self._plan.lanes)
        self.background.forget()

    @contextmanager
    def one(self, on_sample_done: OnSampleDone[C] | None, cancel_token: CancellationToken | None) -> Iterator[Run[C]]:
        """Begin a run, and end it with the block. One that is interrupted waits for its samples in the background."""
        run = self._begin(on_sample_done, cancel_token)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            self._drain(run)
            raise
        finally:
            self._end(run)

    @asynccontextmanager
    async def one_async(
        self, on_sample_done: OnSampleDone[C] | None, cancel_token: CancellationToken | None
    ) -> AsyncIterator[Run[C]]:
        """Like `one`, without blocking the loop."""
        from .event_loop import call_in_thread

        run = self._begin(on_sample_done, cancel_token)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            await call_in_thread(lambda: self._drain(run))
            raise
        finally:
            self._end(run)

    def _begin(self, on_sample_done: OnSampleDone[C] | None, cancel_token: CancellationToken | None) -> Run[C]:
        if self._plan.awaits_in_background:
            from .event_loop import engine_loop

            engine_loop.ensure_running()
        background = self.background if self._plan.stages else None
        needs_order = background is not None or bool(self._plan.lanes)
        with self._lock:
            if self._going_on:
                # Samples of a run that is going on must not wait for each other's turn across the two.
                self._order = InputOrder(self._plan.lanes)
            order = self._order if needs_order else None
            run = Run(self._plan, background, order, self._hooks, cancel_token, on_sample_done)
            self._going_on.add(run)
        return run

    def _end(self, run: Run[C]) -> None:
        with self._lock:
            self._going_on.discard(run)
            if run.is_left_behind:  # its workers go on numbering their samples
                self._order = InputOrder(self._plan.lanes)

    def _drain(self, run: Run[C]) -> None:
        """Finish the background of a run that was interrupted, whose order may lack a sample."""
        with self._lock:
            self._order = InputOrder(self._plan.lanes)
        pending = run.tally.inside
        if pending:
            logger.warning("the run was interrupted: waiting for %d samples in the background", pending)
            self.background.wait_for(run.tally)


_all: WeakSet[Runs[Any]] = WeakSet()  # whatever their contexts


def _forget_all() -> None:
    for runs in list(_all):
        runs._forget()


os.register_at_fork(after_in_child=_forget_all)
