"""The runs of one pipeline, and what they share."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final
from weakref import WeakSet

from .background import Background
from .caller import Caller, CallerLoop
from .cancellation import CancellationToken
from .context import StepContext
from .hooks import PipelineHook
from .in_flight import OnSample
from .lane import InputOrder
from .plan import Plan
from .problem_reports import log_problem
from .run import Run

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True)
class RunOptions(Generic[C]):
    """What one call of `run`, `run_async`, `stream` or `astream` was given besides its input; see `Pipeline.run`."""

    workers: int
    on_sample_done: OnSample[C] | None
    on_sample_end: OnSample[C] | None
    max_in_flight: int | None
    cancel_token: CancellationToken | None

    @property
    def has_callbacks(self) -> bool:
        """Whether something has to be called for each sample."""
        return self.on_sample_done is not None or self.on_sample_end is not None


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
        """Start with no run. A forked child calls it too: its parent continues the existing ones."""
        self._lock = threading.RLock()  # the garbage collector may close a stream while it is held
        self._going_on: WeakSet[Run[C]] = WeakSet()
        self._order = InputOrder(self._plan.lanes)
        self.background.forget()

    @contextmanager
    def one(self, options: RunOptions[C]) -> Iterator[Run[C]]:
        """Begin a run, and end it with the block. One that is interrupted waits for its samples in the background."""
        run = self._begin(options, None)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            self._drain(run)
            raise
        finally:
            self._end(run)

    @asynccontextmanager
    async def one_async(self, options: RunOptions[C]) -> AsyncIterator[Run[C]]:
        """Like `one`, without blocking the loop."""
        from .event_loop import call_in_thread

        is_observed = bool(self._hooks) or self._plan.has_inner_hooks or options.has_callbacks
        run = self._begin(options, CallerLoop(self.background.untold) if is_observed else None)
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            await call_in_thread(lambda: self._drain(run))
            raise
        finally:
            self._end(run)

    def _begin(self, options: RunOptions[C], caller: Caller | None) -> Run[C]:
        if self._plan.awaits_in_background:
            from .event_loop import engine_loop

            engine_loop.ensure_running()
        background = self.background if self._plan.stages else None
        needs_order = background is not None or bool(self._plan.lanes)
        with self._lock:
            if self._going_on:
                # Samples of an active run must not wait for each other's turn across the two.
                self._order = InputOrder(self._plan.lanes)
            order = self._order if needs_order else None
            run = Run(
                self._plan,
                background,
                order,
                self._hooks,
                options.cancel_token,
                options.on_sample_done,
                options.on_sample_end,
                options.max_in_flight,
                caller,
            )
            self._going_on.add(run)
        return run

    def _end(self, run: Run[C]) -> None:
        run.end()
        with self._lock:
            self._going_on.discard(run)
            if run.is_left_behind:  # its workers continue to number their samples
                self._order = InputOrder(self._plan.lanes)

    def _drain(self, run: Run[C]) -> None:
        """Finish the background of a run that was interrupted, whose order may lack a sample."""
        with self._lock:
            self._order = InputOrder(self._plan.lanes)
        pending = run.in_flight.inside_background
        if pending:
            message = "the run was interrupted: waiting for %d samples in the background"
            log_problem(logger, logging.WARNING, message, pending)
            self.background.wait_for(run.in_flight)


_all: WeakSet[Runs[Any]] = WeakSet()  # whatever their contexts


def _forget_all() -> None:
    for runs in list(_all):
        runs._forget()


os.register_at_fork(after_in_child=_forget_all)
