"""`ACE`: an agent answers samples and learns from its results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from ace._internal.arguments import check_sample, checked_arguments, with_method
from ace.calls.calling import own_twin
from ace.runners.base import ACERunner
from ace.runners.learning_keywords import LearningOptions, StepOptions
from ace.runners.learning_settings import LearningSettings, client_and_options
from ace.runners.run_keywords import RunOptions
from ace.runners.run_options import AHEAD_OF_LEARNING, RunSettings

if TYPE_CHECKING:
    from ace.context import ACESample, ACEStepContext
    from ace.environments import TaskEnvironment
    from ace.pipeline import SampleResult, StepProtocol
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval, SkillManagerLike
    from ace.skillbook import Skillbook

__all__ = ["ACE"]


class ACE(ACERunner):
    """An agent answers samples, an environment judges the answers, and the skillbook learns from both.

    Create one with `from_roles`, `from_client` or `from_model`.
    """

    integration: ClassVar[str] = "ace"

    @classmethod
    @checked_arguments(StepOptions)
    def build_steps(
        cls,
        *,
        agent: AgentLike,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        environment: TaskEnvironment | None = None,
        retrieval: Retrieval | None = None,
        **options: Unpack[StepOptions],
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change.

        Args:
            skillbook: The book that the steps change; create the runner with the same one.
            environment: Scores the answers; optional.
            retrieval: Chooses the skills that the agent sees; by default it sees them all.
            **options: The other arguments of `from_roles`.
        """
        settings = LearningSettings(skillbook=skillbook, **options)
        return cls._steps(agent, reflector, skill_manager, environment, retrieval, settings, skillbook)

    @classmethod
    @checked_arguments(LearningOptions)
    def from_roles(
        cls,
        *,
        agent: AgentLike,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        environment: TaskEnvironment | None = None,
        retrieval: Retrieval | None = None,
        **options: Unpack[LearningOptions],
    ) -> Self:
        """Create a runner from three roles.

        Args:
            agent: Answers the questions.
            reflector: Determines what can be learned from a trace.
            skill_manager: Converts that to operations on the skillbook.
            environment: Scores the answers; optional.
            retrieval: Chooses the skills that the agent sees; by default it sees them all.
            **options: skillbook or skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir,
                checkpoint_interval, extra_steps, allow, max_adds, max_operations, sections, insights,
                min_confidence, gate, artifacts, learn_without_truth, reflections_per_call, prove, proof_agent, judge,
                unproven, final_test; see `LearningSettings`.

        Raises:
            TypeError: A role lacks the method that it needs.
            ValueError: Two options exclude each other, or one is invalid.
        """
        settings = LearningSettings(**options)
        skillbook = settings.book()
        steps = cls._steps(agent, reflector, skill_manager, environment, retrieval, settings, skillbook)
        return cls._composed(steps, skillbook, settings)

    @classmethod
    @checked_arguments(LearningOptions)
    def from_client(
        cls,
        client: AnyLLMClient,
        *,
        environment: TaskEnvironment | None = None,
        retrieval: Retrieval | None = None,
        **options: Unpack[LearningOptions],
    ) -> Self:
        """Create a runner whose three roles use one client. The other arguments are those of `from_roles`."""
        from ace.roles import agent_for, reflector_for, skill_manager_for

        return cls.from_roles(
            agent=agent_for(client),
            reflector=reflector_for(client),
            skill_manager=skill_manager_for(client),
            environment=environment,
            retrieval=retrieval,
            **options,
        )

    @classmethod
    @checked_arguments()
    def from_model(
        cls, model: str = "gpt-4o-mini", *, max_tokens: int = 2048, temperature: float = 0.0, **kwargs: Any
    ) -> Self:
        """Create a runner whose three roles use one model.

        Args:
            model: A LiteLLM model string.
            max_tokens: The maximum length of an answer, in tokens.
            temperature: The sampling temperature.
            **kwargs: The arguments of `from_client`; all others go to the client, such as api_base.
        """
        own = {"environment", "retrieval", *LearningOptions.__annotations__}
        client, options = client_and_options(cls, model, own, max_tokens=max_tokens, temperature=temperature, **kwargs)
        return cls.from_client(client, **options)

    @checked_arguments(RunOptions)
    def run(
        self,
        samples: Iterable[ACESample],
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Answer all samples, and learn from them, in every epoch.

        Args:
            samples: The samples; a sequence if there are several epochs.
            epochs: The number of passes over the samples.
            **options: Those of every run, see `RunOptions`: wait, workers, max_in_flight, on_sample_done,
                on_sample_end, cancel_token, run_id, resume, once, shuffle, reflection_window, max_cost,
                fail_fast, max_consecutive_failures.

        Returns:
            The results of all epochs, in input order. A failed sample has `error`; see also `failures`.

        Raises:
            TypeError: `samples` is not an iterable of samples.
            ValueError: An argument is invalid, a sample is None, or no run of this name exists to be resumed.
        """
        return self._run(samples, epochs=epochs, **options)

    @checked_arguments(RunOptions)
    async def arun(
        self,
        samples: Iterable[ACESample],
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Like `run`, for asynchronous code; see `ACERunner.arun`.

        Args:
            samples: The samples; a sequence if there are several epochs.
            epochs: The number of passes over the samples.
            **options: Those of `run`.
        """
        if own_twin(self, "run") is None:  # a subclass has a `run` of its own
            return await self._run_in_thread(samples, epochs, **options)
        return await self._arun(samples, epochs=epochs, **options)

    def _default_in_flight(self, options: RunSettings) -> int | None:
        return self._foreground_workers(options) + AHEAD_OF_LEARNING

    def _build_context(self, item: Any, **kwargs: Any) -> ACEStepContext:
        check_sample(f"input {kwargs['index']}", item)
        return super()._build_context(item, **kwargs)

    @classmethod
    def _steps(
        cls,
        agent: AgentLike,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        environment: TaskEnvironment | None,
        retrieval: Retrieval | None,
        settings: LearningSettings,
        skillbook: Skillbook,
    ) -> list[StepProtocol[ACEStepContext]]:
        from ace.steps import AgentStep, EvaluateStep

        with_method("agent", agent, "generate")
        if environment is not None:
            with_method("environment", environment, "evaluate")
        if retrieval is not None:
            with_method("retrieval", retrieval, "__call__")
        tail = settings.tail(
            reflector, skill_manager, skillbook, agent=agent, environment=environment, retrieval=retrieval
        )
        # An environment that does not inherit from our class may have no such attribute.
        answers = 1 + getattr(environment, "further_answers", 0)
        return [AgentStep(agent, retrieval=retrieval, answers=answers), EvaluateStep(environment), *tail]
