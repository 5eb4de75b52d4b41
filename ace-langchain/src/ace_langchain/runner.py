"""`LangChain`, the runner of chains, agents and graphs that learn from their own runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ace.runners import IntegrationRunner
from ace_langchain.execute import LangChainExecuteStep
from ace_langchain.to_trace import LangChainToTrace

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

    from ace import ACEStepContext, Skillbook, StepProtocol
    from ace.protocols import LLMClientLike, ReflectorLike, SkillManagerLike

__all__ = ["LangChain"]


class LangChain(IntegrationRunner):
    """Runs a chain, an agent or a graph on tasks and learns skills from the outcome.

    `run` takes samples and all inputs of the runnable: texts, dicts, lists of messages.

    Example:
        >>> from ace import LiteLLMClient
        >>> from langchain_core.runnables import RunnableLambda
        >>> runner = LangChain.from_model(RunnableLambda(str.upper), ace_llm=LiteLLMClient("gpt-4o-mini"))
        >>> [type(step).__name__ for step in runner.pipeline.steps[:2]]
        ['LangChainExecuteStep', 'LangChainToTrace']
    """

    integration: ClassVar[str] = "langchain"
    execute_step = LangChainExecuteStep
    to_trace = LangChainToTrace

    @classmethod
    def build_steps(
        cls,
        runnable: Runnable[Any, Any],
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        **options: Any,
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change.

        Args:
            runnable: The chain, agent or graph.
            reflector: Analyses the outcome of a run.
            skill_manager: Turns the analysis into changes to the skillbook.
            skillbook: The skillbook that the steps change; a runner of these steps must have the same one.
            **options: The other arguments of `from_roles`.
        """
        return super().build_steps(
            runnable, reflector=reflector, skill_manager=skill_manager, skillbook=skillbook, **options
        )

    @classmethod
    def from_roles(
        cls,
        runnable: Runnable[Any, Any],
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        **options: Any,
    ) -> Self:
        """Create a runner from two roles; the runnable takes the place of the third.

        Args:
            runnable: A Runnable, an agent of `create_agent`, a compiled graph, or a legacy AgentExecutor.
            reflector: Analyses the outcome of a run.
            skill_manager: Turns the analysis into changes to the skillbook.
            **options: The options of `LangChainExecuteStep`, such as `inject`, `input_key`, `call`, `config` and
                `timeout`; `check_key`, see `ace.runners.IntegrationRunner.from_roles`; and those of every runner, such
                as `skillbook_path` and `dedup_config`, see `ace.runners.LearningSettings`.

        Raises:
            TypeError: The object is not a Runnable, or an option does not exist.
            ValueError: An option is invalid, or two options exclude each other.
        """
        return super().from_roles(runnable, reflector=reflector, skill_manager=skill_manager, **options)

    @classmethod
    def _has_key(cls, client: object) -> bool:
        from ace_langchain.llm_client import LangChainLLMClient

        return isinstance(client, LangChainLLMClient) or super()._has_key(client)

    @classmethod
    def from_model(
        cls,
        runnable: Runnable[Any, Any],
        *,
        ace_model: str = "gpt-4o-mini",
        ace_max_tokens: int = 2048,
        ace_llm: LLMClientLike | None = None,
        **options: Any,
    ) -> Self:
        """Create a runner whose two roles use one model.

        Args:
            runnable: The chain, agent or graph.
            ace_model: The model of the reflector and the skill manager.
            ace_max_tokens: The maximum length of its answers, in tokens.
            ace_llm: A client to use instead of `ace_model`, such as a `LangChainLLMClient`.
            **options: The options of `from_roles`.
        """
        return super().from_model(
            runnable, ace_model=ace_model, ace_max_tokens=ace_max_tokens, ace_llm=ace_llm, **options
        )
