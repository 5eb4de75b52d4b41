"""What an agent must look like."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.context import SkillbookView
    from ace.outputs import AgentOutput
    from ace.protocols.skillbook import SkillbookReader
    from ace.skill import Skill

__all__ = ["AgentLike", "ShowsSkills"]


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


@runtime_checkable
class ShowsSkills(Protocol):
    """An agent that shows its model a few of the skills, and can tell which. No inheritance is needed."""

    def shown_skills(self, question: str, skillbook: SkillbookReader) -> Sequence[Skill]:
        """Return the skills that the model gets to see with a question, in the order of the prompt.

        Args:
            question: The question or task.
            skillbook: The skills to choose from.
        """
        ...
