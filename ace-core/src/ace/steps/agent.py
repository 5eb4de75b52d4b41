"""`AgentStep`, in which the agent answers the question of the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.arguments import checked_class, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Awaited, Calling, awaited_where, call_agent, finished
from ace.context import ACEStepContext, SelectedSkills
from ace.protocols.errors import EmptyAnswerError
from ace.protocols.roles import ShowsSkills
from ace.steps.context_access import is_learned, model_calls_for, needed
from ace.steps.recent_reflections import recent_reflections_for

if TYPE_CHECKING:
    from ace.context import ACESample, SkillbookView
    from ace.outputs import AgentOutput
    from ace.protocols.roles import AgentLike, Retrieval

__all__ = ["AgentStep"]


@checked_class
class AgentStep:
    """Asks the agent the question of the sample, with the skills.

    In a run with a `reflection_window`, the agent also receives the most recent reflections, as `recent_reflections`.

    Args:
        agent: The agent; its `generate` may be `async def`.
        retrieval: Chooses the skills that the agent sees; by default it sees the whole book, or what it chooses itself
            (`ace.protocols.ShowsSkills`). The ids of chosen skills are in `metadata["shown_skill_ids"]`.
        empty_counts: Whether an empty answer counts as an answer; by default it is an error.
        answers: How many times the agent is asked the question. The first answer is the `agent_output`; the others are
            `further_answers`, for an environment that compares them (`TaskEnvironment.further_answers`).

    Raises:
        ValueError: `answers` is below 1.
    """

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"agent_output"})

    def __init__(
        self, agent: AgentLike, *, retrieval: Retrieval | None = None, empty_counts: bool = False, answers: int = 1
    ) -> None:
        self.agent = agent
        self.retrieval = retrieval
        self.empty_counts = empty_counts
        self.answers = whole_number("answers", answers, of="answers")

    @property
    def awaited(self) -> Awaited:
        """When the engine awaits this step: depends on whether its agent is plain, asynchronous or both."""
        return awaited_where(self.agent, "generate")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the answer to the context."""
        return finished(self._answered(BLOCKING, ctx))

    async def __call_async__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Add the answer to the context, without blocking a thread."""
        return await self._answered(ON_LOOP, ctx)

    async def _answered(self, calling: Calling, ctx: ACEStepContext) -> ACEStepContext:
        if is_learned(ctx):
            return ctx
        sample = needed(ctx.sample, "sample", self)
        skillbook = needed(ctx.skillbook, "skillbook", self)
        if self.retrieval is not None:
            skillbook = SelectedSkills(skillbook, self.retrieval(sample.question, skillbook))
            ctx = ctx.replace(metadata={**ctx.metadata, "shown_skill_ids": skillbook.ids})
        if isinstance(self.agent, ShowsSkills):  # it may show fewer than it is given
            shown = self.agent.shown_skills(sample.question, skillbook)
            ctx = ctx.replace(metadata={**ctx.metadata, "shown_skill_ids": tuple(skill.id for skill in shown)})
        with model_calls_for(ctx, "Agent"):
            # One after the other: a resumed run finds recorded answers by their order.
            outputs = [await self._answer(calling, ctx, sample, skillbook) for _ in range(self.answers)]
        return ctx.replace(agent_output=outputs[0], further_answers=tuple(outputs[1:]))

    async def _answer(
        self, calling: Calling, ctx: ACEStepContext, sample: ACESample, skillbook: SkillbookView
    ) -> AgentOutput:
        try:
            return await call_agent(
                calling,
                self.agent,
                sample.question,
                sample.context,
                skillbook,
                sample=sample,
                **recent_reflections_for(ctx),
            )
        except EmptyAnswerError as error:
            if not self.empty_counts:
                raise
            return error.output
