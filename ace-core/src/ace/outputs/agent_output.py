"""What an agent returns, and the verdict of a judge on it."""

from __future__ import annotations

from pydantic import AliasChoices, Field
from pydantic.json_schema import SkipJsonSchema

from ace.outputs.lenient_fields import LenientOutput, Raw, Text

__all__ = ["AgentOutput", "CaseVerdict"]


class AgentOutput(LenientOutput):
    """An agent's answer to one question.

    Example:
        >>> AgentOutput(reasoning="Two and two.", final_answer=4).final_answer
        '4'
    """

    reasoning: Text = Field(description="Your reasoning, step by step, citing the skills that you use.")
    """How the agent came to its answer."""
    final_answer: Text = Field(description="The answer alone, without the reasoning.")
    """The answer."""
    skill_ids: SkipJsonSchema[list[str]] = Field(
        default_factory=list, validation_alias=AliasChoices("skill_ids", "bullet_ids")
    )
    """The skills that the reasoning cites and that exist, in the order of their first use."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""


class CaseVerdict(LenientOutput):
    """The verdict of a judge on one answer.

    Example:
        >>> CaseVerdict(passes="yes").passes
        True
    """

    passes: bool = Field(description="true if the answer meets the whole requirement, else false.")
    """Whether the answer meets the requirement."""
