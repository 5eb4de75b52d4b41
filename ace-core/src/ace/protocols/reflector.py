"""What a reflector must look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.outputs import AgentOutput, ReflectorOutput
    from ace.protocols.skillbook import SkillbookReader

__all__ = ["ReflectorLike"]


@runtime_checkable
class ReflectorLike(Protocol):
    """Finds out what can be learned from one execution. Nobody has to inherit from this class."""

    def reflect(
        self,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookReader,
        ground_truth: str | None = None,
        feedback: str | None = None,
        **kwargs: Any,
    ) -> ReflectorOutput:
        """Reflect on one execution.

        Args:
            question: The question or task; empty if the trace does not tell.
            agent_output: The answer of the agent, with its reasoning.
            skillbook: The skills that the agent had.
            ground_truth: The right answer, where it is known.
            feedback: The judgement of an environment, where there is one.
            **kwargs: What a step passes on beyond this; `trace` is the whole trace, of any type.
        """
        ...
