"""What a skill manager returns when it is asked about similar skills."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue

from ace.outputs.described_fields import described
from ace.outputs.lenient_fields import LenientOutput, Raw, Text, as_list

__all__ = ["ConsolidationOutput"]

_CONSOLIDATION_SCHEMA: JsonSchemaValue = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "type": described("What to do.", enum=["MERGE", "DELETE", "KEEP", "UPDATE"]),
            "source_ids": {
                "type": "array",
                "items": {"type": "string"},
                "description": "For MERGE: the ids of all skills that become one.",
            },
            "keep_id": described("For MERGE: the one of them whose id stays."),
            "merged_content": described("For MERGE: one text that says what all of them said."),
            "skill_ids": {
                "type": "array",
                "items": {"type": "string"},
                "description": "For KEEP: the ids of skills that differ and shall all stay.",
            },
            "skill_id": described("For DELETE and UPDATE: the id of the skill."),
            "new_content": described("For UPDATE: the whole new text."),
            "reasoning": described("Why."),
        },
        "required": ["type"],
    },
}


class ConsolidationOutput(LenientOutput):
    """What a skill manager says about similar skills.

    The operations are read one by one by `ace.deduplication`, so that one which cannot be read costs
    none of the others.
    """

    reasoning: Text = Field(default="", description="How the skills of each group relate to each other.")
    """The reasoning."""
    consolidation_operations: Annotated[list[Any], BeforeValidator(as_list), WithJsonSchema(_CONSOLIDATION_SCHEMA)] = (
        Field(description="What to do with each group.")
    )
    """The operations as the model gave them."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""
