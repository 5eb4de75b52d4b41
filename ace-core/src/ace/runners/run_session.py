"""One call of `run`: its contexts, its failures, and what is done at its end."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, final

from ace.runners.failures import DrawnSample, keys_of
from ace.runners.identity import trace_identity
from ace.runners.inputs import check_context
from ace.runners.learning_lag import LearningLag
from ace.skillbook.store import SampleKey
from ace.steps.end_of_run import EndOfRun

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import CancellationToken, Pipeline, SampleResult
    from ace.runners.failures import FailureLog
    from ace.skillbook import Skillbook

__all__ = ["RunSession"]

logger = logging.getLogger(__name__)


@final
class RunSession:
    """What a run keeps from its beginning to the end of its background.

    From here to `finish`, changes of a book in a store are committed sample by sample: the tags, operations and
    progress of one sample are one transaction.

    Args:
        pipeline: The pipeline of the run.
        skillbook: The book that it writes.
        failure_log: What takes failed samples.
        integration: The name for `InsightSource.integration`.
        build_context: Makes the context of an input.
        most_under_way: How many earlier samples may be under way when one begins.
        on_sample_done: The caller's callback.
        cancel_token: Cancels the run.
    """

    def __init__(
        self,
        pipeline: Pipeline[ACEStepContext],
        skillbook: Skillbook,
        failure_log: FailureLog,
        *,
        integration: str,
        build_context: Callable[..., ACEStepContext],
        most_under_way: int | None,
        on_sample_done: Callable[[SampleResult[ACEStepContext]], None] | None,
        cancel_token: CancellationToken | None,
    ) -> None:
        self._pipeline = pipeline
        self._skillbook = skillbook
        self._failure_log = failure_log
        self._integration = integration
        self._build_context = build_context
        self._most_under_way = most_under_way
        self._on_sample_done = on_sample_done
        self._token = cancel_token
        self._id = uuid.uuid4().hex
        self._drawn: list[DrawnSample] = []
        self._done: list[SampleResult[ACEStepContext]] = []
        self._in_order = False
        self._last_index = 0
        self._commits = ExitStack()
        self._commits.enter_context(skillbook.deferred_commits())

    def run_epoch(
        self, items: Iterable[Any], epoch: int, epochs: int, workers: int, extra: Mapping[str, Any]
    ) -> list[SampleResult[ACEStepContext]]:
        """Take all inputs through the foreground once.

        Args:
            items: The inputs.
            epoch: Which epoch this is, from 1.
            epochs: How many there are.
            workers: How many samples may be in the foreground at once.
            extra: Further arguments of `_build_context`.
        """
        self._record_failures()
        self._drawn, self._done, self._in_order = [], [], False
        lag = LearningLag(self._pipeline, self._most_under_way, self._token)

        def done(result: SampleResult[ACEStepContext]) -> None:
            self._done.append(result)
            lag.foreground_ended(failed=result.error is not None)
            if self._on_sample_done is not None:
                self._on_sample_done(result)

        contexts = self._contexts(items, epoch, epochs, lag, extra)
        results = self._pipeline.run(contexts, workers, done, self._token)
        self._done, self._in_order = results, True
        return results

    def finish(self, *, interrupted: bool = False) -> None:
        """Wait for the background, then merge, checkpoint, save and commit once more.

        Args:
            interrupted: Whether the run was broken off; nothing that calls a model is done then.
        """
        try:
            self._pipeline.wait_for_background()
            self._record_failures()
            if self._last_index:
                self._end_steps(interrupted)
        finally:
            self._commits.close()

    def _end_steps(self, interrupted: bool) -> None:
        errors: list[Exception] = []
        for step in self._pipeline.steps:
            if isinstance(step, EndOfRun):
                try:
                    step.end_run(self._last_index, interrupted=interrupted)
                except Exception as error:  # a file that cannot be written must not keep the others from it
                    logger.error("%s could not end the run: %s", type(step).__name__, error)
                    errors.append(error)
        if errors:
            raise errors[0]

    def _contexts(
        self, items: Iterable[Any], epoch: int, epochs: int, lag: LearningLag, extra: Mapping[str, Any]
    ) -> Iterator[ACEStepContext]:
        total = len(items) if isinstance(items, Sequence) else None
        before = (epoch - 1) * (total or 0)
        for index, item in enumerate(items, 1):
            lag.begin()
            self._skillbook.refresh()
            ctx = self._build_context(
                item,
                epoch=epoch,
                total_epochs=epochs,
                index=index,
                total=total,
                global_sample_index=before + index,
                **extra,
            )
            trace_id = str(ctx.metadata.get("trace_id") or trace_identity(item, index))
            added = {
                "trace_id": trace_id,
                "integration": ctx.metadata.get("integration", self._integration),
                "sample_key": SampleKey(self._id, epoch, f"{index}:{trace_id}"),
            }
            ctx = ctx.replace(metadata={**ctx.metadata, **added})
            check_context(ctx, self._pipeline, self._integration, index)
            self._last_index = before + index
            self._drawn.append(DrawnSample(ctx.sample, trace_id, epoch, index))
            yield ctx

    def _record_failures(self) -> None:
        self._failure_log.record(self._pairs(), keys_of(self._pipeline.steps))

    def _pairs(self) -> Iterator[tuple[DrawnSample, SampleResult[ACEStepContext]]]:
        if self._in_order:
            yield from zip(self._drawn, self._done, strict=True)
            return
        by_object = {id(drawn.sample): drawn for drawn in self._drawn}  # the run was broken off
        for result in self._done:
            yield by_object[id(result.sample)], result
