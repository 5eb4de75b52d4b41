"""Makes the context of each input, and says which sample of the run it is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from ace.protocols.foreign_data import encodable
from ace.runners.failures import DrawnSample
from ace.runners.identity import trace_identity
from ace.runners.underway import SampleUnderway
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.runners.run_record import RunRecord

__all__ = ["SampleContexts"]


@final
class SampleContexts:
    """Makes the contexts of one epoch.

    Args:
        run_id: The name of the run.
        runner: What kind of runner it is.
        record: What the store keeps about the run, if there is one.
        build_context: Makes the context of an input.
        epoch: From 1.
        epochs: How many there are.
        total: How many inputs there are; None where that is not known.
        extra: Further arguments of `build_context`.
    """

    def __init__(
        self,
        run_id: str,
        runner: str,
        record: RunRecord | None,
        build_context: Callable[..., ACEStepContext],
        *,
        epoch: int,
        epochs: int,
        total: int | None,
        extra: Mapping[str, Any],
    ) -> None:
        self._run_id = run_id
        self._runner = runner
        self._record = record
        self._build_context = build_context
        self._epoch = epoch
        self._epochs = epochs
        self._total = total
        self._extra = extra
        self._times_seen: Counter[str] = Counter()

    def build(self, item: object, index: int, part: object = None) -> ACEStepContext:
        """Return the context of an input as the runner makes it, with the name of the trace.

        Args:
            item: The input.
            index: Its place in the epoch, from 1.
            part: What is new of the input; None if all of it is.
        """
        ctx = self._build_context(
            item if part is None else part,
            epoch=self._epoch,
            total_epochs=self._epochs,
            index=index,
            total=self._total,
            global_sample_index=(self._epoch - 1) * (self._total or 0) + index,
            **self._extra,
        )
        added = {
            "trace_id": encodable(str(ctx.metadata.get("trace_id") or trace_identity(item, index))),
            "integration": ctx.metadata.get("integration", self._runner),
        }
        return ctx.replace(metadata={**ctx.metadata, **added})

    def sample(self, ctx: ACEStepContext, index: int, content: Mapping[str, object]) -> SampleUnderway:
        """Return which sample of the run a context is. Ask once for each input, in order.

        Args:
            ctx: The context.
            index: Its place in the epoch, from 1.
            content: What is noted of the content of the input.
        """
        trace_id: str = ctx.metadata["trace_id"]
        self._times_seen[trace_id] += 1
        times = self._times_seen[trace_id]
        key = SampleKey(self._run_id, self._epoch, trace_id if times == 1 else f"{trace_id} ({times})")
        record = self._record
        return SampleUnderway(
            drawn=DrawnSample(ctx.sample, trace_id, self._epoch, index),
            key=key,
            global_index=ctx.global_sample_index,
            attempt=0 if record is None else record.attempt(key),
            attempts={} if record is None else record.attempts(key),
            already_learned=record is not None and (record.is_committed(key) or record.is_over(key)),
            started=time.monotonic(),
            content=content,
        )

    def noted(self, ctx: ACEStepContext, sample: SampleUnderway) -> ACEStepContext:
        """Return the context with what steps have to know of the sample.

        Args:
            ctx: The context.
            sample: Which sample of the run it is.
        """
        added = {
            "sample_key": sample.key,
            "attempt": sample.attempt,
            "attempts": sample.attempts,
            "already_learned": sample.already_learned,
            "content": sample.content,
        }
        return ctx.replace(metadata={**ctx.metadata, **added})
