"""Which skills an agent was shown for a sample, and which it cited, as it is noted with the sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ace.json_fields import list_in, mapping_in

if TYPE_CHECKING:
    from ace.context import ACEStepContext

__all__ = ["used_skills"]


def used_skills(ctx: ACEStepContext) -> Mapping[str, list[str]]:
    """Return the ids of what was `shown` and `cited`; nothing where it is not known what the agent was shown.

    Where no retrieval chose, the agent saw the whole book, and `shown` is missing. Of an agent that runs elsewhere, the
    metadata of the trace says what it was shown.

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
        return _used_in_trace(ctx.trace)
    cited = {"cited": list(ctx.agent_output.skill_ids)}
    shown = ctx.metadata.get("shown_skill_ids")
    return cited if shown is None else {**cited, "shown": list(shown)}


def _used_in_trace(trace: object) -> Mapping[str, list[str]]:
    if not isinstance(trace, Mapping):
        return {}
    metadata = mapping_in(trace, "metadata")
    if "shown_skill_ids" not in metadata:
        return {}
    return {
        "cited": [str(each) for each in list_in(trace, "skill_ids")],
        "shown": [str(each) for each in list_in(metadata, "shown_skill_ids")],
    }
