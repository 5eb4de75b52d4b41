"""What a reflector must look like."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.context import SkillbookView
    from ace.outputs import AgentOutput, ReflectorOutput

__all__ = ["ReflectorLike"]


@runtime_checkable
class ReflectorLike(Protocol):
    """Finds out what can be learned from one execution. No inheritance is needed.

    The method is called by keyword only and may be `async def`; see also `ace.protocols.RoleError`.
    """

    def reflect(
        self,
        *,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookView,
        ground_truth: str | None = None,
        feedback: str | None = None,
        **kwargs: Any,
    ) -> ReflectorOutput | Awaitable[ReflectorOutput]:
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
