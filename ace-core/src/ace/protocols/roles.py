"""What roles have to offer: an agent, a reflector, a skill manager, and the skillbook that they read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.context import SkillbookView
    from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
    from ace.skill import Skill

    Retrieval = Callable[[str, "SkillbookReader"], Sequence[Skill]]
    """Chooses the skills that an agent gets to see with a question."""

__all__ = ["AgentLike", "ReflectorLike", "ShowsSkills", "SkillManagerLike", "SkillbookReader"]


@runtime_checkable
class SkillbookReader(Protocol):
    """Read access to skills. Inheriting from this class is not necessary."""

    def as_prompt(self, *, budget_tokens: int | None = None, query: str | None = None) -> str:
        """Return the active skills as text for a model.

        Args:
            budget_tokens: The maximum size of the text, in tokens; None takes all skills.
            query: What the skills are needed for; the most relevant ones come first.
        """
        ...

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the skill with this id, or None."""
        ...

    def skills(self, include_invalid: bool = False) -> Sequence[Skill]:
        """Return the skills in the order of the book."""
        ...

    def stats(self) -> Mapping[str, Any]:
        """Return the numbers of sections, skills and tags."""
        ...


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


@runtime_checkable
class SkillManagerLike(Protocol):
    """Turns a reflection into changes of the skillbook. No inheritance is needed.

    The method is called by keyword only and may be `async def`; see also `ace.protocols.RoleError`.
    """

    def update_skills(
        self,
        *,
        reflection: ReflectorOutput,
        skillbook: SkillbookView,
        question_context: str = "",
        progress: str = "",
        **kwargs: Any,
    ) -> SkillManagerOutput | Awaitable[SkillManagerOutput]:
        """Decide which skills to add, update, tag or remove.

        Args:
            reflection: What the reflector found.
            skillbook: The skills as they are.
            question_context: What the execution was about.
            progress: How far the run has come, such as `sample 3 of 10`.
            **kwargs: What a step passes on beyond this.
        """
        ...
