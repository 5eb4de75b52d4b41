"""`ReflectStep`, which asks the reflector what can be learned from a trace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, call_reflector, finished
from ace.calls.model_calls import current_call_scope, redactor_for
from ace.calls.sample_context import is_learned, model_calls_for, needed, stop_if_cancelled
from ace.context import ACEStepContext
from ace.proof.judged_cases import with_judged_cases
from ace.proof.trace_facts import is_known, open_cases, read_trace_of, with_judgements, with_trace_facts
from ace.protocols.observers import TraceShortened, emit, is_observed
from ace.steps.recent_reflections import recent_reflections_for

if TYPE_CHECKING:
    from ace.outputs import ReflectorOutput
    from ace.protocols.roles import ReflectorLike

__all__ = ["ReflectStep"]


@checked_class
class ReflectStep:
    """Asks the reflector what can be learned from a trace. From this step on, a sample is in the background.

    The reflector receives the whole trace, and the fields that were recognised in it; one that takes `cases` also
    receives those found in the trace (`ace.cases`), and one that takes `standard_trace` the trace as it was read. The
    judgements of a person that it names are checked, and those that are accepted become cases. If `KnownStep` found
    that the skillbook already answers all cases, the reflector is not asked, and the reflection is empty. If the run
    was cancelled, the sample ends here. In a run with a `reflection_window`, the reflector also receives the most
    recent reflections, as `recent_reflections`.

    Args:
        reflector: The reflector; its `reflect` may be `async def`.
        max_workers: How many reflections this step makes at once; by default three, which all instances share.
        allow: The classes of sensitive text that are not redacted in what the reflector sends to its model; see
            `ace.redaction`. Inside a run, they are those of the guard of its `ApplyStep`.
        is_boundary: Whether the background begins here; it does not after a `KnownStep`.
        keep_read: Whether to keep the trace as it was read for `InsightStep` and `ArtifactDraftStep`, which read it
            again otherwise.
    """

    requires = frozenset({"trace", "skillbook"})
    provides = frozenset({"reflection"})
    async_boundary = True
    max_workers = 3

    def __init__(
        self,
        reflector: ReflectorLike,
        *,
        max_workers: int | None = None,
        allow: Collection[str] = (),
        is_boundary: bool = True,
        keep_read: bool = False,
    ) -> None:
        self.reflector = reflector
        self.async_boundary = is_boundary
        self.allow = frozenset([allow] if isinstance(allow, str) else allow)
        self.keep_read = keep_read
        if max_workers is not None:
            self.max_workers = max_workers

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its reflector is plain, asynchronous or both."""
        return awaited_where(self.reflector, "reflect")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the reflection to the context."""
        return finished(self._reflected(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the reflection to the context, without blocking a thread."""
        return await self._reflected(ON_LOOP, ctx)

    async def _reflected(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        # Imported here, because it needs pydantic, which building a pipeline must not load.
        from ace.outputs import AgentOutput

        trace = needed(ctx.trace, "trace", self)
        # Reading a large trace takes long enough to block an event loop.
        read = await calling.function(partial(read_trace_of, ctx))
        ctx, read = await with_judged_cases(calling, ctx, read, self.reflector, allow=self.allow)
        ctx = with_trace_facts(ctx, read, keep_read=self.keep_read)
        if is_known(ctx):
            return ctx.replace(reflection=_nothing_new())
        with model_calls_for(ctx, "Reflector", allow=self.allow):
            redactor = redactor_for(getattr(self.reflector, "llm", None))
            further = _taken(self.reflector, {"cases": open_cases(ctx)}, {"standard_trace": read})
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
                **further,
                **recent_reflections_for(ctx),
            )
            cut = reflection.raw.get("cut_characters")
            if isinstance(cut, int) and cut > 0 and is_observed():
                scope = current_call_scope()
                emit(TraceShortened(scope.run_id, scope.trace_id, cut))
            judgements = reflection.judgements
            judged = partial(with_judgements, ctx, read, judgements, redactor, keep_read=self.keep_read)
            ctx = await calling.function(judged) if judgements else ctx
        return ctx.replace(reflection=reflection)


def _taken(
    reflector: ReflectorLike, optional: Mapping[str, object], named_only: Mapping[str, object]
) -> Mapping[str, object]:
    """Return the arguments that a reflector takes.

    Args:
        optional: Arguments that older reflectors do not take; one with `**kwargs` takes them.
        named_only: Arguments that are passed only if `reflect` itself names them: the function around a decorated one
            may change the trace.
    """
    function = getattr(reflector.reflect, "__func__", reflector.reflect)
    try:
        parameters = _parameters(function)
    except (TypeError, ValueError):  # built in
        return {}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    arguments = {name: value for name, value in optional.items() if takes_any or name in parameters}
    if not hasattr(function, "__wrapped__"):
        arguments.update((name, value) for name, value in named_only.items() if name in parameters)
    return arguments


@functools.lru_cache(maxsize=16)
def _parameters(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; finding them takes as long as reading a short trace."""
    return inspect.signature(function).parameters


def _nothing_new() -> ReflectorOutput:
    from ace.outputs import ReflectorOutput

    return ReflectorOutput(reasoning="The skillbook answers this already.", correct_approach="", key_insight="")
