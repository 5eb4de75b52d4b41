"""`TraceAnalyser`: learns from recorded traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from ace._internal.arguments import checked_arguments
from ace.calls.calling import own_twin
from ace.context import ACEStepContext
from ace.runners.base import ACERunner
from ace.runners.learning_keywords import LearningOptions, StepOptions
from ace.runners.learning_settings import LearningSettings, client_and_options
from ace.runners.run_keywords import RunOptions
from ace.runners.samples import RecordedTrace, TraceGroup, trace_identity

if TYPE_CHECKING:
    from ace.pipeline import SampleResult, StepProtocol
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import ReflectorLike, SkillManagerLike
    from ace.skillbook import Skillbook

__all__ = ["TraceAnalyser"]


class TraceAnalyser(ACERunner):
    """Learns from recorded traces, of any type. Create one with `from_roles`, `from_client` or `from_model`."""

    integration: ClassVar[str] = "trace_analyser"
    _inputs_grow: ClassVar[bool] = True
    _workers_reflect: ClassVar[bool] = True

    @classmethod
    @checked_arguments(StepOptions)
    def build_steps(
        cls,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        **options: Unpack[StepOptions],
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change.

        Args:
            skillbook: The book that the steps change; create the runner with the same one.
            **options: The other arguments of `from_roles`.
        """
        settings = LearningSettings(skillbook=skillbook, **options)
        return settings.tail(reflector, skill_manager, skillbook)

    @classmethod
    @checked_arguments(LearningOptions)
    def from_roles(
        cls,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        **options: Unpack[LearningOptions],
    ) -> Self:
        """Create a runner from two roles.

        Args:
            reflector: Determines what can be learned from a trace.
            skill_manager: Converts that to operations on the skillbook.
            **options: skillbook or skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir,
                checkpoint_interval, extra_steps, allow, max_adds, max_operations, sections, insights,
                min_confidence, gate, artifacts, learn_without_truth, reflections_per_call, prove, proof_agent, judge,
                unproven, final_test; see `LearningSettings`. Without
                `proof_agent`, skills are not proven.

        Raises:
            TypeError: A role lacks the method that it needs.
            ValueError: Two options exclude each other, or one is invalid.
        """
        settings = LearningSettings(**options)
        skillbook = settings.book()
        return cls._composed(settings.tail(reflector, skill_manager, skillbook), skillbook, settings)

    @classmethod
    @checked_arguments(LearningOptions)
    def from_client(cls, client: AnyLLMClient, **options: Unpack[LearningOptions]) -> Self:
        """Create a runner whose roles use one client: two that learn, and an agent that proves what is learned.

        Args:
            **options: Those of `from_roles`.
        """
        from ace.roles import agent_for, reflector_for, skill_manager_for

        options.setdefault("proof_agent", agent_for(client))
        return cls.from_roles(reflector=reflector_for(client), skill_manager=skill_manager_for(client), **options)

    @classmethod
    @checked_arguments()
    def from_model(
        cls, model: str = "gpt-4o-mini", *, max_tokens: int = 2048, temperature: float = 0.0, **kwargs: Any
    ) -> Self:
        """Create a runner whose roles use one model: two that learn, and an agent that proves what is learned.

        Args:
            model: A LiteLLM model string.
            max_tokens: The maximum length of an answer, in tokens.
            temperature: The sampling temperature.
            **kwargs: The options of `from_roles`; all others go to the client, such as api_base.
        """
        own = LearningOptions.__annotations__
        client, options = client_and_options(cls, model, own, max_tokens=max_tokens, temperature=temperature, **kwargs)
        return cls.from_client(client, **options)

    @checked_arguments(RunOptions)
    def run(
        self,
        traces: Iterable[Any],
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Learn from all traces, in every epoch.

        Args:
            traces: The traces, of any type, or each as a `RecordedTrace`; several together as a `TraceGroup`. A
                sequence if there are several epochs.
            epochs: The number of passes over the traces.
            **options: Those of every run, see `RunOptions`: wait, workers, max_in_flight, on_sample_done,
                on_sample_end, cancel_token, run_id, resume, once, shuffle, reflection_window, max_cost,
                fail_fast, max_consecutive_failures.

        Returns:
            The results of all epochs, in input order. A failed trace has `error`; see also `failures`.

        Raises:
            TypeError: `traces` is not an iterable of traces.
            ValueError: An argument is invalid, a trace is None, or no run of this name exists to be resumed.
        """
        return self._run(traces, epochs=epochs, **options)

    @checked_arguments(RunOptions)
    async def arun(
        self,
        traces: Iterable[Any],
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Like `run`, for asynchronous code; see `ACERunner.arun`.

        Args:
            traces: The traces; a sequence if there are several epochs.
            epochs: The number of passes over the traces.
            **options: Those of `run`.
        """
        if own_twin(self, "run") is None:  # a subclass has a `run` of its own
            return await self._run_in_thread(traces, epochs, **options)
        return await self._arun(traces, epochs=epochs, **options)

    def _build_context(self, item: Any, **kwargs: Any) -> ACEStepContext:
        ctx = super()._build_context(item, **kwargs)
        if isinstance(item, RecordedTrace):
            return ctx.replace(trace=item.record, metadata={**ctx.metadata, "place": item.place})
        if isinstance(item, TraceGroup):
            ids = {trace.place: trace_identity(trace, index) for index, trace in enumerate(item.traces, 1)}
            return ctx.replace(trace=item.batch, metadata={**ctx.metadata, "place": item.place, "trace_ids": ids})
        return ctx.replace(trace=item)
