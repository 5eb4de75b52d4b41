"""`AgentStep`: has the agent answer the sample's question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.context import ACEStepContext
from ace.steps.asking import asking
from ace.steps.needed import needed
from ace.steps.selected_skills import SelectedSkills
from ace.steps.stopping import is_learned

if TYPE_CHECKING:
    from ace.protocols.agent import AgentLike
    from ace.protocols.skillbook import SkillbookReader
    from ace.steps.selected_skills import Retrieval

__all__ = ["AgentStep"]


class AgentStep:
    """Has the agent answer the sample's question with the help of the skills.

    Args:
        agent: Who answers.
        retrieval: Chooses the skills that the agent gets to see; by default it sees the whole book. The ids of
            what it saw are then in `metadata["shown_skill_ids"]`.
    """

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"agent_output"})

    def __init__(self, agent: AgentLike, *, retrieval: Retrieval | None = None) -> None:
        self.agent = agent
        self.retrieval = retrieval

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the answer on the context."""
        if is_learned(ctx):
            return ctx
        sample = needed(ctx.sample, "sample", self)
        skillbook: SkillbookReader = needed(ctx.skillbook, "skillbook", self)
        if self.retrieval is not None:
            skillbook = SelectedSkills(skillbook, self.retrieval(sample.question, skillbook))
            ctx = ctx.replace(metadata={**ctx.metadata, "shown_skill_ids": skillbook.ids})
        with asking(ctx, "Agent"):
            output = self.agent.generate(
                question=sample.question, context=sample.context, skillbook=skillbook, sample=sample
            )
        return ctx.replace(agent_output=output)
