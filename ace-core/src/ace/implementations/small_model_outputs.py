"""The short answers that small models are asked for."""

from __future__ import annotations

from pydantic import Field

from ace.outputs.lenient_fields import LenientOutput, Raw, Text

__all__ = ["Lesson", "Placement"]


class _ShortAnswer(LenientOutput):
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""


class Lesson(_ShortAnswer):
    """What one execution teaches."""

    what_went_wrong: Text = Field(
        description="What the feedback objects to; empty if nothing.", json_schema_extra={"maxLength": 200}
    )
    """The mistake; empty if there was none."""
    rule: Text = Field(
        description="The rule, in one sentence that starts with When; empty if there is none.",
        json_schema_extra={"maxLength": 280},
    )
    """What to do the next time; empty if there is nothing to learn."""


class Placement(_ShortAnswer):
    """Where a rule belongs in the skillbook."""

    section: Text = Field(description="One or two words.", json_schema_extra={"maxLength": 30})
    """The section."""
    same_as: Text = Field(
        description="The id of a similar rule that says the same, or none.", json_schema_extra={"maxLength": 40}
    )
    """The id of a skill that says the same already."""
