"""Which skills an agent was shown for a sample, and which it cited, as it is noted with the sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace.context import ACEStepContext

__all__ = ["used_skills"]


def used_skills(ctx: ACEStepContext) -> Mapping[str, list[str]]:
    """Return the ids of what was `shown` and `cited`; nothing of a sample that no agent of ours answered.

    Where no retrieval chose, the agent saw the whole book, and `shown` is missing.

    Args:
        ctx: The context of the sample.

    Example:
        >>> from ace.context import ACEStepContext
        >>> from ace.outputs import AgentOutput
        >>> answer = AgentOutput(reasoning="", final_answer="", skill_ids=["maths-00001"])
        >>> used_skills(ACEStepContext(agent_output=answer, metadata={"shown_skill_ids": ("maths-00001",)}))
        {'cited': ['maths-00001'], 'shown': ['maths-00001']}
    """
    if ctx.agent_output is None:
        return {}
    cited = {"cited": list(ctx.agent_output.skill_ids)}
    shown = ctx.metadata.get("shown_skill_ids")
    return cited if shown is None else {**cited, "shown": list(shown)}
