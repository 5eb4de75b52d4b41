"""One call of `run`, `run_async`, `stream` or `astream`."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, final

from .background import Background, Job, Tally
from .cancellation import CancellationToken, cancel_token_var
from .context import StepContext
from .errors import PipelineCancelled
from .hooks import PipelineHook
from .interrupts import uninterrupted
from .lane import InputOrder
from .plan import Plan
from .result import SampleResult, record_failure
from .segment import Position

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


@final
class Run(Generic[C]):
    """What the workers of one run share: the input, the order, and what to do with each sample.

    It says what is done with a sample; the two drivers, on threads and on an event loop, say where and when.

    Args:
        plan: The pipeline's plan.
        background: Where samples go after the foreground; None where the pipeline has no boundary.
        order: The input order, where the pipeline has a background or lanes.
        hooks: Observers of the foreground steps.
        token: Cancels the run.
        on_sample_done: Called with each result when the sample's foreground part is over.
    """

    def __init__(
        self,
        plan: Plan[C],
        background: Background[C] | None,
        order: InputOrder | None,
        hooks: Sequence[PipelineHook],
        token: CancellationToken | None,
        on_sample_done: Callable[[SampleResult[C]], None] | None,
    ) -> None:
        self.plan = plan
        self.background = background
        self.order = order
        self.hooks = tuple(hooks)
        self.token = token
        self.stopped = False
        self.is_left_behind = False  # nobody waits for its workers
        self.tally = Tally()
        self.failure: BaseException | None = None
        self.variables = contextvars.copy_context()
        if token is not None:
            self.variables.run(cancel_token_var.set, token)
        self._on_sample_done = on_sample_done
        self._announcing = threading.Lock()

    def number(self) -> int:
        """Number the sample that was just drawn. Only one worker at a time draws."""
        return self.order.issue() if self.order is not None else 0

    def stop(self) -> None:
        """Draw no more samples."""
        self.stopped = True

    def abort(self, error: BaseException) -> None:
        """End the run with an error that belongs to no sample. The first one counts."""
        if self.failure is None:
            self.failure = error
        self.stopped = True

    def begin(self, ctx: C, position: Position) -> SampleResult[C]:
        """Return the empty result of a sample that is before its first step."""
        position.step_name = self.plan.first_step
        return SampleResult(getattr(ctx, "sample", ctx), None, None, None)

    def check(self, ctx: C, position: Position) -> None:
        """Check what has to hold before a sample's first step.

        Raises:
            PipelineCancelled: If the run is cancelled.
            PipelineError: If the context lacks a field.
        """
        if self.token is not None and self.token.is_cancelled:
            raise PipelineCancelled
        self.plan.inputs.check(ctx, position)

    def succeed(self, index: int, result: SampleResult[C], ctx: C) -> Job[C] | None:
        """Record that a foreground ended well. Returns the job with which the sample has to enter the background."""
        result.output = ctx
        if self._on_sample_done is not None:
            self._announce(result, self._on_sample_done)
        if self.background is None or self.order is None:
            return None
        return Job(self.background, result, ctx, contextvars.copy_context(), self.order, index, self.tally)

    def fail(self, index: int, result: SampleResult[C], error: BaseException, position: Position) -> None:
        """Record that a foreground failed, or was cancelled."""
        record_failure(result, error, position.step_name)
        self.give_up(index)
        if self._on_sample_done is not None:
            self._announce(result, self._on_sample_done)

    def give_up(self, index: int) -> None:
        """Let the samples behind this one pass, in the lanes and into the background."""
        with uninterrupted:
            if self.background is not None and self.order is not None:
                self.background.pass_by(self.order, index)
            elif self.order is not None:
                self.order.give_up(index)

    def _announce(self, result: SampleResult[C], on_sample_done: Callable[[SampleResult[C]], None]) -> None:
        with self._announcing:
            try:
                on_sample_done(result)
            except Exception:
                logger.exception("on_sample_done raised for sample %.80r; the run goes on", result.sample)
