"""`GateStep`: a gate decides whether the operations of a sample are applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class, instance_of, with_method
from ace.calls.sample_context import is_learned, model_calls_for, needed, run_of
from ace.context import ACEStepContext, SkillbookView
from ace.loop.metadata import REFUSED, VERDICT
from ace.protocols.gate import GateVerdict
from ace.protocols.observers import BatchJudged, emit, is_observed
from ace.updates import UpdateBatch

if TYPE_CHECKING:
    from ace.loop.metadata import AppliesOperations
    from ace.protocols.gate import GateLike
    from ace.skillbook import Skillbook

__all__ = ["GateStep"]


@checked_class
class GateStep:
    """Asks a gate whether to apply the operations of each sample.

    If the gate refuses a batch, none of its operations is applied, except TAG operations: they are judgements of
    skills, which are valid in any case. The history records each refused operation with the reason. A batch with only
    TAG operations is not judged.

    The step runs in the lane of the skillbook, so nothing else in this process changes the book between the verdict and
    the commit.

    Args:
        gate: Accepts or refuses the operations.
        skillbook: The book that learns.
        apply: The step that applies the operations. Those that it would reject are not passed to the gate.

    Raises:
        TypeError: The gate has no method `judge`.

    Example:
        >>> from ace import Skillbook
        >>> from ace.evaluation import CounterGate
        >>> GateStep(CounterGate(), Skillbook()).lane
        'skillbook'
    """

    requires = frozenset({"skill_manager_output"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(self, gate: GateLike, skillbook: Skillbook, *, apply: AppliesOperations | None = None) -> None:
        with_method("gate", gate, "judge", advice="give a gate, such as ace.evaluation.CounterGate()")
        self.gate = gate
        self.skillbook = self.lane_key = skillbook
        self.apply = apply

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the verdict, and the operations that the gate refuses, to the metadata of the context.

        Raises:
            TypeError: The gate returned something other than a `GateVerdict`.
        """
        if is_learned(ctx):
            return ctx
        batch = needed(ctx.skill_manager_output, "skill_manager_output", self)
        omitted: Mapping[int, str] = {}
        if self.apply is not None:
            ctx = self.apply.with_omitted(ctx)
            omitted = self.apply.omitted(ctx)
        judged = [operation for index, operation in enumerate(batch.operations) if index not in omitted]
        if all(operation.type == "TAG" for operation in judged):
            return ctx
        with model_calls_for(ctx, type(self.gate).__name__):  # a gate may ask a model
            verdict = self._verdict(UpdateBatch(batch.reasoning, judged))
        if is_observed():
            self._tell(ctx, verdict)
        ctx = ctx.replace(metadata={**ctx.metadata, VERDICT: verdict})
        if verdict.accepted:
            return ctx
        refused = {
            index: f"gate: {verdict.reason}"
            for index, operation in enumerate(batch.operations)
            if operation.type != "TAG"
        }
        return ctx.replace(metadata={**ctx.metadata, REFUSED: refused})

    def _verdict(self, batch: UpdateBatch) -> GateVerdict:
        verdict = self.gate.judge(skillbook=SkillbookView(self.skillbook), batch=batch)
        instance_of(f"the result of {type(self.gate).__name__}.judge", verdict, GateVerdict)
        return verdict

    def _tell(self, ctx: ACEStepContext, verdict: GateVerdict) -> None:
        emit(
            BatchJudged(
                run_of(ctx),
                str(ctx.metadata.get("trace_id", "")),
                type(self.gate).__name__,
                verdict.accepted,
                verdict.reason,
                dict(verdict.before),
                dict(verdict.after),
            )
        )
