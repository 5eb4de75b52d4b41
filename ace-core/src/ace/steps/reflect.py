"""`ReflectStep`: has the reflector find out what a trace teaches."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ace.arguments import checked_class
from ace.context import ACEStepContext
from ace.protocols.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, finished
from ace.protocols.role_calls import call_reflector
from ace.steps.asking import asking
from ace.steps.needed import needed
from ace.steps.stopping import is_learned, stop_if_cancelled

if TYPE_CHECKING:
    from ace.protocols.reflector import ReflectorLike

__all__ = ["ReflectStep"]


@checked_class
class ReflectStep:
    """Has the reflector find out what a trace teaches. From here on, a sample is in the background.

    The reflector gets the whole trace, and what can be read of it under the usual names. A sample of a run that
    was cancelled is not begun.

    Args:
        reflector: The reflector; its `reflect` may be `async def`.
        max_workers: How many reflections this step makes at once; by default three, which all instances share.
        allow: The classes of sensitive text that are not replaced in what the reflector sends to its model; see
            `ace.redaction`. Inside a run, they are those of the guard of its `ApplyStep`.
    """

    requires = frozenset({"trace", "skillbook"})
    provides = frozenset({"reflection"})
    async_boundary = True
    max_workers = 3

    def __init__(
        self, reflector: ReflectorLike, *, max_workers: int | None = None, allow: Collection[str] = ()
    ) -> None:
        self.reflector = reflector
        self.allow = frozenset(allow)
        if max_workers is not None:
            self.max_workers = max_workers

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: as its reflector is plain, asynchronous or both."""
        return awaited_where(self.reflector, "reflect")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the reflection on the context."""
        return finished(self._reflected(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the reflection on the context, without a thread that waits for it."""
        return await self._reflected(ON_LOOP, ctx)

    async def _reflected(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        # Imported here, as pydantic stands behind both: building a pipeline shall not load it.
        from ace.implementations.trace_reading import read_trace
        from ace.outputs import AgentOutput

        trace = needed(ctx.trace, "trace", self)
        # Reading a large trace takes long enough to hold up an event loop.
        read = await calling.function(lambda: read_trace(trace))
        with asking(ctx, "Reflector", allow=self.allow):
            reflection = await call_reflector(
                calling,
                self.reflector,
                question=read["question"],
                agent_output=AgentOutput(
                    reasoning=read["reasoning"], final_answer=read["answer"], skill_ids=read["skill_ids"]
                ),
                skillbook=needed(ctx.skillbook, "skillbook", self),
                ground_truth=read["ground_truth"],
                feedback=read["feedback"],
                trace=trace,
            )
        return ctx.replace(reflection=reflection)
