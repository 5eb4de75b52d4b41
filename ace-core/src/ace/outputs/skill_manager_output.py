"""What a skill manager returns."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, PlainSerializer, PlainValidator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ace.outputs.described_fields import described
from ace.outputs.lenient_fields import LenientOutput, Raw
from ace.updates import OPERATION_TYPES, UpdateBatch

__all__ = ["SkillManagerOutput"]

_OPERATION_SCHEMA: JsonSchemaValue = {
    "type": "object",
    "properties": {
        "type": described("What to do.", enum=list(OPERATION_TYPES)),
        "section": described("For ADD: the heading under which the new skill stands."),
        "content": described("For ADD and UPDATE: the text of the skill, one short strategy."),
        "skill_id": described("For UPDATE, TAG and REMOVE: the id of an existing skill."),
        "metadata": {
            "type": "object",
            "description": 'For TAG: counters to add, such as {"helpful": 1}.',
            "additionalProperties": {"type": "integer"},
        },
        "justification": described("Why this change is made."),
        "evidence": described("What supports it."),
    },
    "required": ["type"],
}

_FLAT_SCHEMA: JsonSchemaValue = {
    "title": "SkillManagerOutput",
    "type": "object",
    "properties": {
        "reasoning": described("Why these changes are made."),
        "operations": {
            "type": "array",
            "items": _OPERATION_SCHEMA,
            "description": "The changes, in order; leave it empty if nothing has to change.",
        },
    },
    "required": ["reasoning", "operations"],
}


def _update_batch(value: object) -> UpdateBatch:
    if isinstance(value, UpdateBatch):
        return value
    if isinstance(value, dict | list):
        return UpdateBatch.from_dict(_without_cases(value))
    raise ValueError(f"an update must be an object with 'reasoning' and 'operations', got a {type(value).__name__}")


def _without_cases(answer: Any) -> Any:
    """Return a model's answer without cases: only a trace gives a skill its cases, never the word of a model."""
    match answer:
        case {"update": dict() as inner, **rest} if "operations" not in rest:
            return {**answer, "update": _without_cases(inner)}
        case {"operations": list() as operations}:
            return {**answer, "operations": _without_cases(operations)}
        case list():
            return [
                {name: value for name, value in item.items() if name != "cases"} if isinstance(item, dict) else item
                for item in answer
            ]
    return answer


class SkillManagerOutput(LenientOutput):
    """The changes that a skill manager wants.

    Example:
        >>> flat = {"reasoning": "", "operations": [{"type": "ADD", "section": "maths", "content": "Add."}]}
        >>> SkillManagerOutput.model_validate(flat).update.operations[0].section
        'maths'
    """

    update: Annotated[
        UpdateBatch,
        PlainValidator(_update_batch),
        PlainSerializer(lambda batch: batch.to_dict(), return_type=dict[str, Any]),
    ]
    """The batch of operations."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""

    @model_validator(mode="before")
    @classmethod
    def _accept_flat_shape(cls, data: object) -> object:
        if isinstance(data, dict) and not isinstance(data.get("update"), UpdateBatch | list):
            return {"update": data, "raw": data.get("raw", {})}
        return data

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Show models the flat shape, which they get right more often than the nested one."""
        return _FLAT_SCHEMA
