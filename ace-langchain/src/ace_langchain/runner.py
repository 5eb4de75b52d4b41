"""`LangChain`: a chain, an agent or a graph that learns from its own runs."""

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
    """Runs a chain, an agent or a graph on tasks, and learns skills from how it did.

    `run` takes what the runnable takes: texts, dicts, lists of messages; and samples.

    Example:
        >>> from ace import LiteLLMClient
        >>> from langchain_core.runnables import RunnableLambda
        >>> runner = LangChain.from_model(RunnableLambda(str.upper), ace_llm=LiteLLMClient("gpt-4o-mini"))
        >>> [type(step).__name__ for step in runner.pipeline.steps[:3]]
        ['LangChainExecuteStep', 'LangChainToTrace', 'ReflectStep']
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
            runnable: What runs.
            reflector: The reflector.
            skill_manager: The skill manager.
            skillbook: The book that the steps write; the runner over them needs the same one.
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
        """Make a runner of two roles; the runnable is the third.

        Args:
            runnable: A Runnable, an agent of `create_agent`, a compiled graph, or a legacy AgentExecutor.
            reflector: Who finds out what a run teaches.
            skill_manager: Who turns that into operations.
            **options: Those of `LangChainExecuteStep`, such as inject, input_key, call, config and timeout_seconds;
                and those of every runner, such as skillbook_path and dedup_config; see `ace.runners.LearningSettings`.

        Raises:
            TypeError: This is no runnable, or there is no such option.
            ValueError: An option makes no sense, or two exclude each other.
        """
        return super().from_roles(runnable, reflector=reflector, skill_manager=skill_manager, **options)

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
        """Make a runner whose two roles use one model.

        Args:
            runnable: What runs.
            ace_model: The model that learns.
            ace_max_tokens: Its longest answer, in tokens.
            ace_llm: A client that is taken instead of `ace_model`, such as a `LangChainLLMClient`.
            **options: Those of `from_roles`.
        """
        return super().from_model(
            runnable, ace_model=ace_model, ace_max_tokens=ace_max_tokens, ace_llm=ace_llm, **options
        )
