"""What an agent must look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.outputs import AgentOutput
    from ace.protocols.skillbook import SkillbookReader

__all__ = ["AgentLike"]


@runtime_checkable
class AgentLike(Protocol):
    """Answers questions with the help of a skillbook. Nobody has to inherit from this class."""

    def generate(
        self,
        question: str,
        context: str,
        skillbook: SkillbookReader,
        reflection: str | None = None,
        **kwargs: Any,
    ) -> AgentOutput:
        """Answer one question.

        Args:
            question: The question or task.
            context: Whatever the answer may draw on; may be empty.
            skillbook: The skills to use.
            reflection: A reflection on an earlier attempt at the same question.
            **kwargs: What a step passes on beyond this, such as `sample`.
        """
        ...
