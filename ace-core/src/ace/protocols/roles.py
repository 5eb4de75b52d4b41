"""The protocols of the roles (agent, reflector, skill manager) and of the skillbook that they read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ace.context import SkillbookView
    from ace.outputs import AgentOutput, Judgement, ReflectorOutput, SkillManagerOutput
    from ace.skill import Skill

    Retrieval = Callable[[str, "SkillbookReader"], Sequence[Skill]]
    """Chooses the skills that an agent sees with a question."""

__all__ = [
    "AgentLike",
    "FindsJudgementsLike",
    "ReflectorLike",
    "ShowsSkills",
    "SkillManagerLike",
    "SkillbookReader",
    "UpdatesTogetherLike",
]


@runtime_checkable
class SkillbookReader(Protocol):
    """Read access to skills. Inheriting from this class is not necessary."""

    def as_prompt(self, *, budget_tokens: int | None = None, query: str | None = None) -> str:
        """Return the active skills as text for a model.

        Args:
            budget_tokens: The maximum size of the text, in tokens; None takes all skills.
            query: The question or task; the most relevant skills come first.
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
            context: Additional information for the answer; may be empty.
            skillbook: The skills to use.
            reflection: A reflection on an earlier attempt at the same question.
            **kwargs: Further arguments that a step passes, such as `sample`; in a run with a `reflection_window` also
                `recent_reflections`, texts with the newest one last.
        """
        ...


@runtime_checkable
class ShowsSkills(Protocol):
    """An agent that shows its model only a few of the skills, and reports which ones. No inheritance is needed."""

    def shown_skills(self, question: str, skillbook: SkillbookReader) -> Sequence[Skill]:
        """Return the skills that the model sees with a question, in the order of the prompt.

        Args:
            question: The question or task.
            skillbook: The skills to choose from.
        """
        ...


@runtime_checkable
class ReflectorLike(Protocol):
    """Determines what can be learned from one execution. No inheritance is needed.

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
            question: The question or task; empty if the trace does not contain it.
            agent_output: The answer of the agent, with its reasoning.
            skillbook: The skills that the agent had.
            ground_truth: The right answer, if known.
            feedback: The feedback of an environment, if any.
            **kwargs: Further arguments that a step passes; `trace` is the whole trace, of any type. In a run with a
                `reflection_window`, `recent_reflections` are texts with the newest one last.
        """
        ...


@runtime_checkable
class FindsJudgementsLike(Protocol):
    """A reflector that recognises a person's judgements before it reflects, in calls of their own.

    Others name them in `ReflectorOutput.judgements`. The method is called by keyword only and may be `async def`.
    """

    def find_judgements(self, *, trace: Mapping[str, Any]) -> list[Judgement] | Awaitable[list[Judgement]]:
        """Return what a person said about answers that were wrong, in the order of the messages.

        Args:
            trace: The trace, as `read_trace` returns it. `ace.cases.replies_in` returns the messages in question.
        """
        ...


@runtime_checkable
class SkillManagerLike(Protocol):
    """Turns a reflection into changes of the skillbook. No inheritance is needed.

    The method is called by keyword only and may be `async def`; see also `ace.protocols.RoleError`. It may be called on
    several threads at once, about different samples; with `max_in_flight=1`, or `workers=1` for recorded traces, it is
    not. A skill manager that makes no calls declares `asks_model = False` and is then only called at the turns of the
    samples, one at a time.

    With `reflections_per_call` above 1 (see `UpdateStep`), it also needs the method of `UpdatesTogetherLike`.
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
            reflection: The output of the reflector.
            skillbook: The current skills.
            question_context: The subject of the execution.
            progress: The progress of the run, such as `sample 3 of 10`.
            **kwargs: Further arguments that a step passes.
        """
        ...


@runtime_checkable
class UpdatesTogetherLike(Protocol):
    """A skill manager that can be asked about several reflections at once. No inheritance is needed."""

    def update_skills_together(
        self,
        *,
        reflections: Sequence[ReflectorOutput],
        skillbook: SkillbookView,
        question_contexts: Sequence[str],
        progress: str = "",
    ) -> Mapping[int, SkillManagerOutput] | Awaitable[Mapping[int, SkillManagerOutput]]:
        """Decide for each of several reflections which skills to add, update, tag or remove.

        The changes will be applied in the order of the reflections.

        Args:
            reflections: What the reflector found in several executions.
            skillbook: The skills as they are.
            question_contexts: What each execution was about.
            progress: How far the run has come, such as `sample 3 of 10`.

        Returns:
            The changes by the number of their reflection, from 1. If a number is missing, `update_skills` is called for
            that reflection.
        """
        ...
