"""What roles return, as pydantic models that take a model's answer as it tends to come."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from ace.updates import OPERATION_TYPES, UpdateBatch

__all__ = [
    "AgentOutput",
    "CaseVerdict",
    "ConsolidationOutput",
    "ExtractedLearning",
    "Judgement",
    "JudgementsOutput",
    "ReflectorOutput",
    "SkillManagerOutput",
    "SkillTag",
    "UpdatesOutput",
]


def described(description: str, **schema: Any) -> JsonSchemaValue:
    """Return the schema of a text.

    Args:
        description: What it contains.
        **schema: Further keywords of the schema, such as `enum`.
    """
    return {"type": "string", "description": description, **schema}


def _as_text(value: object) -> object:
    """Models write null for "nothing" and true for "true"; both are unambiguous as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def lower_case(value: object) -> object:
    """Return a text without blanks around it, in lower case; anything else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def as_list(value: object) -> object:
    """Models write null for an empty list too."""
    return [] if value is None else value


def as_share(value: object) -> object:
    """Read 0.9, "0.9", "90%" and 90 as the same share."""
    if isinstance(value, str):
        number = value.strip()
        if number.endswith("%"):
            return float(number[:-1]) / 100 if _is_number(number[:-1]) else value
        value = float(number) if _is_number(number) else value
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 < value <= 100:
        return value / 100
    return 0.0 if value is None else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


Text = Annotated[str, BeforeValidator(_as_text)]
Raw = SkipJsonSchema[dict[str, Any]]


class LenientOutput(BaseModel):
    """Unknown fields are ignored, and numbers are accepted where text is expected."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, validate_by_name=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Show models the first paragraph of a docstring: the rest, such as its example, is for programmers."""
        schema = handler(core_schema)
        described = handler.resolve_ref_schema(schema)
        if "description" in described:
            described["description"] = described["description"].partition("\n\n")[0]
        return schema


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

    difference: Text = Field(
        default="",
        description="What the answer says differently, in a few words, or none.",
        json_schema_extra={"maxLength": 80},
    )
    """What the answer says differently; a small model judges better if it says this first."""
    passes: bool = Field(description="true if the answer is right, else false.")
    """Whether the answer is right."""


class ExtractedLearning(LenientOutput):
    """One thing to learn from an execution."""

    learning: Text = Field(description="When it applies, then what to do, with the exact names and values.")
    """The strategy."""
    atomicity_score: Annotated[float, BeforeValidator(as_share)] = Field(
        default=0.0, ge=0.0, le=1.0, description="From 0 (vague, several things) to 1 (one precise thing)."
    )
    """How precise the learning is, from 0 to 1."""
    evidence: Text = Field(default="", description="A verbatim quote from the record that supports it.")
    """The evidence in the trace."""
    justification: Text = Field(default="", description="Why it will help in other cases.")
    """Why it helps in other cases."""
    case_id: SkipJsonSchema[str] = ""
    """The case that it was learned from; empty if there is none. The model is not asked for it."""
    trace_ids: SkipJsonSchema[list[str]] = Field(default_factory=list)
    """In a reflection on several traces, the names of those that show it. The model is not asked for them."""


class SkillTag(LenientOutput):
    """The judgement that a skill helped, did harm or made no difference."""

    id: Text = Field(description="The id of a skill, such as geography-00001.")
    """The id of the skill."""
    tag: Annotated[Text, BeforeValidator(lower_case)] = Field(description="helpful, harmful or neutral.")
    """`helpful`, `harmful` or `neutral`."""


class Readiness(LenientOutput):
    """The answer of a model that is only asked whether it can be used."""

    word: Text = Field(description="The word that was asked for.", json_schema_extra={"maxLength": 20})
    """The word."""


class Judgement(LenientOutput):
    """A person's judgement that an answer of the agent was wrong.

    `ace.cases.checked_judgements` checks it.

    Example:
        >>> Judgement(message=3, quote="Nein", wrong="EUR").message
        '3'
    """

    message: Text = Field(description="The number in brackets of the person's message, or feedback.")
    """The number of the message, or `feedback`."""
    quote: Text = Field(description="Its words that judge the answer, letter by letter.")
    """The words of the judgement."""
    wrong: Text = Field(default="", description="The words of the agent that were wrong, letter by letter.")
    """The words of the answer that is judged."""
    right: Text = Field(default="", description="The right answer, copied from that message or a later one, or empty.")
    """The right answer; empty if no one said it."""
    withdraws: bool = Field(default=False, description="true if the person withdraws an earlier judgement.")
    """Whether it withdraws an earlier judgement of the answer."""


class JudgementsOutput(LenientOutput):
    """The judgements of a person in one conversation.

    Example:
        >>> JudgementsOutput(judgements=None).judgements
        []
    """

    judgements: Annotated[list[Judgement], BeforeValidator(as_list)] = Field(
        description="The person's judgements of wrong answers; mostly empty."
    )
    """The judgements, as the model named them."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""


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
    key_insight: Text = Field(description="The one thing to remember, or empty if there is nothing to learn.")
    """The one thing to remember; empty if there is nothing to learn."""
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
    judgements: Annotated[list[Judgement], BeforeValidator(as_list)] = Field(
        default_factory=list, description="The person's judgements of wrong answers; mostly empty."
    )
    """The judgements of a person, as the model named them; steps check them."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came, and what of the trace had to be cut."""


_OPERATION_SCHEMA: JsonSchemaValue = {
    "type": "object",
    "properties": {
        "type": described("What to do.", enum=list(OPERATION_TYPES)),
        "section": described("For ADD: the heading under which the new skill stands."),
        "content": described("For ADD and UPDATE: the whole text of the skill: when it applies, then what to do."),
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


_UPDATES_SCHEMA: JsonSchemaValue = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "reflection": {"type": "integer", "description": "The number of the reflection, from 1."},
            **_FLAT_SCHEMA["properties"],
        },
        "required": ["reflection", "reasoning", "operations"],
    },
}


class UpdatesOutput(LenientOutput):
    """The changes that a skill manager wants for each of several reflections.

    The updates are read one by one by the skill manager, so that one which cannot be read costs none of the others.

    Example:
        >>> UpdatesOutput(updates=[{"reflection": 1, "reasoning": "", "operations": []}]).updates[0]["reflection"]
        1
    """

    updates: Annotated[list[Any], BeforeValidator(as_list), WithJsonSchema(_UPDATES_SCHEMA)] = Field(
        description="One update for each reflection, in their order."
    )
    """The updates as the model gave them."""
    raw: Raw = Field(default_factory=dict)
    """The model's answer as it came."""


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
                "description": "For KEEP: the ids of skills that differ and must all stay.",
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
