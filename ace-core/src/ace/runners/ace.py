"""`ACE`: an agent answers samples and learns from how it did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from ace.arguments import with_method
from ace.runners.base import ACERunner
from ace.runners.clients import client_and_options
from ace.runners.learning_lag import most_under_way
from ace.runners.run_options import OnSampleDone
from ace.runners.settings import LearningOptions, LearningSettings

if TYPE_CHECKING:
    from ace.context import ACESample, ACEStepContext
    from ace.environments import TaskEnvironment
    from ace.pipeline import CancellationToken, SampleResult, StepProtocol
    from ace.protocols.agent import AgentLike
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.reflector import ReflectorLike
    from ace.protocols.skill_manager import SkillManagerLike
    from ace.skillbook import Skillbook
    from ace.steps.selected_skills import Retrieval

__all__ = ["ACE"]


class ACE(ACERunner):
    """An agent answers samples, an environment judges, and the skillbook learns from both.

    Make one with `from_roles`, `from_client` or `from_model`.
    """

    integration: ClassVar[str] = "ace"

    @classmethod
    def build_steps(
        cls,
        *,
        agent: AgentLike,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        environment: TaskEnvironment | None = None,
        retrieval: Retrieval | None = None,
        **options: Unpack[LearningOptions],
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change. The arguments are the same."""
        settings = LearningSettings(**options)
        return cls._steps(agent, reflector, skill_manager, environment, retrieval, settings, settings.book())

    @classmethod
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
        """Make a runner of three roles.

        Args:
            agent: Who answers.
            reflector: Who finds out what a trace teaches.
            skill_manager: Who turns that into operations.
            environment: Who judges the answers, if anybody.
            retrieval: Chooses the skills that the agent sees; by default it sees them all.
            **options: skillbook or skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir,
                checkpoint_interval, extra_steps, allow; see `LearningSettings`.

        Raises:
            TypeError: One of the roles is none.
            ValueError: Two options exclude each other, or one makes no sense.
        """
        settings = LearningSettings(**options)
        skillbook = settings.book()
        steps = cls._steps(agent, reflector, skill_manager, environment, retrieval, settings, skillbook)
        return cls._composed(steps, skillbook, settings)

    @classmethod
    def from_client(
        cls,
        client: LLMClientLike,
        *,
        environment: TaskEnvironment | None = None,
        retrieval: Retrieval | None = None,
        **options: Unpack[LearningOptions],
    ) -> Self:
        """Make a runner whose three roles use one client. The other arguments are those of `from_roles`."""
        from ace.implementations import agent_for, reflector_for, skill_manager_for

        return cls.from_roles(
            agent=agent_for(client),
            reflector=reflector_for(client),
            skill_manager=skill_manager_for(client),
            environment=environment,
            retrieval=retrieval,
            **options,
        )

    @classmethod
    def from_model(
        cls, model: str = "gpt-4o-mini", *, max_tokens: int = 2048, temperature: float = 0.0, **kwargs: Any
    ) -> Self:
        """Make a runner whose three roles use one model.

        Args:
            model: A LiteLLM model string.
            max_tokens: The longest answer, in tokens.
            temperature: The sampling temperature.
            **kwargs: The arguments of `from_client`; all others go to the client, such as api_base.
        """
        own = {"environment", "retrieval", *LearningOptions.__annotations__}
        client, options = client_and_options(model, own, max_tokens=max_tokens, temperature=temperature, **kwargs)
        return cls.from_client(client, **options)

    def run(
        self,
        samples: Iterable[ACESample],
        epochs: int = 1,
        *,
        wait: bool = True,
        lag: int | None = None,
        workers: int = 1,
        on_sample_done: OnSampleDone | None = None,
        cancel_token: CancellationToken | None = None,
        run_id: str | None = None,
        resume: bool = False,
        max_cost: float | None = None,
        fail_fast: bool = False,
    ) -> list[SampleResult[ACEStepContext]]:
        """Answer all samples, and learn from them, in every epoch.

        Args:
            samples: The samples; a sequence if there are several epochs.
            epochs: How often.
            wait: Whether to return only when everything is learned.
            lag: How many earlier samples may not be learned yet when an agent starts. 0 is strictly online; by
                default at most `workers + 3` samples are between agent and skillbook.
            workers: How many agents run at once.
            on_sample_done: Called with each result when the agent has answered and been judged.
            cancel_token: Stops the run: what is inside a step finishes, the rest has a `PipelineCancelled` in its
                result and is left to a resumed run. `max_cost` and `fail_fast` cancel it too.
            run_id: The name of the run, under which a skillbook in a store keeps its progress; by default a new one.
            resume: Whether to go on with a run that was killed or stopped: the one named by `run_id`, by default the
                last unfinished one of this kind of runner, and a new one if there is none. Samples that it has
                learned are passed over, with `metadata["already_learned"]` in their results; those that failed are
                tried again; and a model call whose answer was recorded is not made again.
            max_cost: US dollars. When the model calls of this call have cost so much, no further sample begins.
            fail_fast: Whether the first failed sample stops the run.

        Returns:
            The results of all epochs, in input order. A failed sample has `error`; see also `failures`.

        Raises:
            TypeError: The samples are no iterable of samples.
            ValueError: An argument makes no sense, a sample is None, or there is no run to resume under this name.
        """
        return self._run(
            samples,
            epochs=epochs,
            wait=wait,
            workers=workers,
            most_under_way=most_under_way(workers, lag),
            on_sample_done=on_sample_done,
            cancel_token=cancel_token,
            run_id=run_id,
            resume=resume,
            max_cost=max_cost,
            fail_fast=fail_fast,
        )

    def _build_context(self, item: Any, **kwargs: Any) -> ACEStepContext:
        missing = [name for name in ("question", "context", "ground_truth") if not hasattr(item, name)]
        if missing:
            raise TypeError(
                f"input {kwargs['index']} is a {type(item).__name__} without {', '.join(missing)}; "
                "give samples: ace.Sample(question, ground_truth=...)"
            )
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
        tail = settings.tail(reflector, skill_manager, skillbook)
        return [AgentStep(agent, retrieval=retrieval), EvaluateStep(environment), *tail]
