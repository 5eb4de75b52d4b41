"""`KnownStep`, which checks whether the skillbook already answers the question of a trace."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, finished
from ace.calls.sample_context import is_learned, model_calls_for, needed, stop_if_cancelled
from ace.context import ACEStepContext
from ace.proof.judged_cases import with_judged_cases
from ace.proof.lookup import LOOKUP_WORKERS, are_looked_up, with_known_cases
from ace.proof.prover import PROVE_ROLE, CaseProver
from ace.proof.trace_facts import read_trace_of, with_trace_read

if TYPE_CHECKING:
    from ace.steps.reflect import ReflectStep

__all__ = ["KnownStep"]


@checked_class
class KnownStep:
    """Asks the question of each correction with the skills that fit it, to avoid unnecessary reflections.

    If the answer passes, and a skill that was shown contains the deciding value, the trace teaches nothing new: the
    case is added to that skill, and `ReflectStep` and `UpdateStep` make no call. Without such a skill, nothing is
    asked. In a live run, the agent's answer is used. From this step on, a sample is in the background.

    The tail has this step twice: before `ReflectStep`, for the corrections that are known without it, and after it, for
    those that the reflection names. A case is looked up once.

    Args:
        prover: Asks the questions.
        shares_limit_with: The step that reflects. Together they work on as many samples at once as it does alone.
        allow: The classes of sensitive text that are neither redacted in cases nor in what the agent is asked.
        is_boundary: Whether the background begins here; it does not where the step follows `ReflectStep`.
    """

    requires = frozenset({"trace", "skillbook"})
    provides: frozenset[str] = frozenset()
    async_boundary = True
    max_workers = LOOKUP_WORKERS

    def __init__(
        self,
        prover: CaseProver,
        *,
        shares_limit_with: ReflectStep | None = None,
        allow: Collection[str] = (),
        is_boundary: bool = True,
    ) -> None:
        self.prover = prover
        self.agent = prover.agent
        self.async_boundary = is_boundary
        self.allow = frozenset(allow)
        self.shares_limit_with = shares_limit_with
        if shares_limit_with is not None and shares_limit_with.max_workers != self.max_workers:
            self.max_workers = shares_limit_with.max_workers

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its agent is plain, asynchronous or both."""
        return awaited_where(self.agent, "generate")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the cases of the trace to the context, and the skills that know them."""
        return finished(self._looked_up(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the cases of the trace to the context, and the skills that know them, without blocking a thread."""
        return await self._looked_up(ON_LOOP, ctx)

    async def _looked_up(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        needed(ctx.trace, "trace", self)
        if are_looked_up(ctx):
            return ctx
        needed(ctx.skillbook, "skillbook", self)
        with model_calls_for(ctx, PROVE_ROLE, allow=self.allow):
            if "cases" not in ctx.metadata:
                read = await calling.function(partial(read_trace_of, ctx))
                # The agent that answered in this run is also asked to prove what the run teaches.
                again = ctx.agent_output is not None
                reflector = getattr(self.shares_limit_with, "reflector", None)
                ctx, read = await with_judged_cases(
                    calling, ctx, read, reflector, agent=self.agent, allow=self.allow, can_be_asked_again=again
                )
                ctx = with_trace_read(ctx, read)
            ctx = await with_known_cases(calling, ctx, self.prover)
        return ctx.replace(metadata={**ctx.metadata, "lookup_workers": self.max_workers})
