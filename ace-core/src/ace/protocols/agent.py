"""What an agent must look like."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.context import SkillbookView
    from ace.outputs import AgentOutput

__all__ = ["AgentLike"]


@runtime_checkable
class AgentLike(Protocol):
    """Answers questions with the help of a skillbook. No inheritance is needed.

    The method is called by keyword only and may be `async def`; see also `ace.protocols.RoleError`.
    """

    def generate(
        self,
        *,
        question: str,
        context: str,
        skillbook: SkillbookView,
        reflection: str | None = None,
        **kwargs: Any,
    ) -> AgentOutput | Awaitable[AgentOutput]:
        """Answer one question.

        Args:
            question: The question or task.
            context: Whatever the answer may draw on; may be empty.
            skillbook: The skills to use.
            reflection: A reflection on an earlier attempt at the same question.
            **kwargs: What a step passes on beyond this, such as `sample`.
        """
        ...
