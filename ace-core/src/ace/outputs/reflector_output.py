"""What a reflector returns."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from ace.outputs.lenient_fields import LenientOutput, Raw, Text, as_list, as_share, lower_case

__all__ = ["ExtractedLearning", "ReflectorOutput", "SkillTag"]


class ExtractedLearning(LenientOutput):
    """One thing to learn from an execution."""

    learning: Text = Field(description="One reusable strategy, in one sentence.")
    """The strategy."""
    atomicity_score: Annotated[float, BeforeValidator(as_share)] = Field(
        default=0.0, ge=0.0, le=1.0, description="From 0 (vague, several things) to 1 (one precise thing)."
    )
    """How precise the learning is, from 0 to 1."""
    evidence: Text = Field(default="", description="What in the record supports it.")
    """What in the trace supports it."""
    justification: Text = Field(default="", description="Why it will help in other cases.")
    """Why it helps in other cases."""
    case_id: SkipJsonSchema[str] = ""
    """The case that it was learned from; empty if there is none. The model is not asked for it."""


class SkillTag(LenientOutput):
    """The judgement that a skill helped, did harm or made no difference."""

    id: Text = Field(description="The id of a skill, such as geography-00001.")
    """The id of the skill."""
    tag: Annotated[Text, BeforeValidator(lower_case)] = Field(description="helpful, harmful or neutral.")
    """`helpful`, `harmful` or `neutral`."""


class ReflectorOutput(LenientOutput):
    """What one execution teaches."""

    reasoning: Text = Field(description="What happened in the execution, step by step.")
    """The analysis."""
    error_identification: Text = Field(default="", description="What went wrong; empty if nothing did.")
    """The error; empty if there was none."""
    root_cause_analysis: Text = Field(
        default="",
        description="Why it went wrong, or why it went well.",
        validation_alias=AliasChoices("root_cause_analysis", "root_cause"),
    )
    """The cause."""
    correct_approach: Text = Field(description="What to do the next time.")
    """The better way."""
    key_insight: Text = Field(description="The one thing to remember.")
    """The one thing to remember."""
    extracted_learnings: Annotated[list[ExtractedLearning], BeforeValidator(as_list)] = Field(
        default_factory=list, description="Reusable strategies; leave it empty if there are none."
    )
    """The strategies to learn."""
    skill_tags: Annotated[list[SkillTag], BeforeValidator(as_list)] = Field(
        default_factory=list,
        description="A judgement of each skill that was used.",
        validation_alias=AliasChoices("skill_tags", "bullet_tags"),
    )
    """The judgements of the skills used."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came, and what of the trace had to be cut."""
