"""The short answer that a small model is asked for."""

from __future__ import annotations

from pydantic import Field

from ace.outputs.lenient_fields import LenientOutput, Raw, Text

__all__ = ["Lesson"]


class Lesson(LenientOutput):
    """What one correction teaches."""

    rule: Text = Field(
        description="The rule, in one or two short sentences that start with When.",
        json_schema_extra={"maxLength": 240},
    )
    """What to do the next time; empty if there is nothing to learn."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""
