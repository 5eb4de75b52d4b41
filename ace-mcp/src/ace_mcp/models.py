"""The inputs and outputs of the tools, from which the schemas are generated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, JsonValue, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ace_mcp.config import MCPServerConfig

__all__ = [
    "DEFAULT_SESSION",
    "AskInput",
    "AskOutput",
    "GetSkillbookInput",
    "GetSkillbookOutput",
    "LearnFeedbackInput",
    "LearnOutput",
    "LearnSampleInput",
    "LearnSampleOutput",
    "LearnTraceInput",
    "LearnTraceOutput",
    "LearnedSkill",
    "SampleFailure",
    "SessionArguments",
    "SessionConfig",
    "SkillOutput",
    "SkillSource",
    "SkillbookFileInput",
    "SkillbookFileOutput",
    "SkillbookStats",
    "UseSkillsInput",
    "input_schema",
]

_LIMIT_KEY = "x-ace-limit"
_MODEL = "The model, when the session begins."


@dataclass(frozen=True, slots=True)
class AtMost:
    """Limits the length of a text or a list to a setting of the server, in validation and in the schema."""

    setting: str
    keyword: str
    unit: str
    of_json: bool = False
    """Whether to measure the value as JSON; a schema cannot express such a limit."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        limit = {} if self.of_json else {_LIMIT_KEY: [self.keyword, self.setting]}
        return {**handler(schema), **limit}

    def _checked(self, value: Any, info: ValidationInfo) -> Any:  # a text, a list, or a JSON value
        limit = getattr(info.context, self.setting)
        if len(json.dumps(value) if self.of_json else value) > limit:
            raise PydanticCustomError(
                "too_long", "must have at most {limit} {unit}", {"limit": limit, "unit": self.unit}
            )
        return value


PromptText = Annotated[str, AtMost("max_prompt_chars", "maxLength", "characters")]
"""A text that is sent to the model."""
DEFAULT_SESSION: Final = "default"
"""The session of clients that name none."""
SessionId = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
        description="Names the session: letters, digits and . _ : @ -, at most 128 of them. New sessions are opened. "
        "Leave it out if you need only one.",
    ),
]


class ToolInput(BaseModel):
    """The arguments of a tool. Unknown ones are rejected, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class SessionArguments(ToolInput):
    """The session that a resource belongs to."""

    session_id: SessionId


class UseSkillsInput(ToolInput):
    """The arguments of the prompt `use_skills`."""

    question: PromptText = Field(min_length=1, description="The question or task.")
    session_id: SessionId = Field(default=DEFAULT_SESSION, description="The session whose skills are used.")


class SessionConfig(ToolInput):
    """The model of a session. It may be given when the session begins, and cannot be changed later."""

    model: str | None = Field(default=None, min_length=1, max_length=200, description="Such as openai/NAME.")
    temperature: float | None = Field(default=None, ge=0, le=2, description="The sampling temperature.")
    max_tokens: int | None = Field(default=None, ge=1, description="The maximum length of an answer, in tokens.")


class AskInput(ToolInput):
    """The arguments of `ace.ask`."""

    session_id: SessionId = DEFAULT_SESSION
    question: PromptText = Field(min_length=1, description="The question or task.")
    context: PromptText = Field(default="", description="Further material for the answer.")
    session_config: SessionConfig | None = Field(default=None, description=_MODEL)
    metadata: dict[str, JsonValue] | None = Field(
        default=None,
        description="Kept with the answer; part of the trace if feedback on it is learned.",
    )


class AskOutput(BaseModel):
    """The result of `ace.ask`."""

    session_id: str = Field(description="The session.")
    answer_id: str = Field(description="Names the answer, for ace.learn.feedback.")
    answer: str = Field(description="The answer.")
    skill_ids: list[str] = Field(description="The skills that the answer is based on.")
    skill_count: int = Field(description="The number of skills in the skillbook.")


class SampleInput(ToolInput):
    """A question to learn from."""

    question: PromptText = Field(min_length=1, description="The question or task.")
    context: PromptText = Field(default="", description="Further material for the answer.")
    ground_truth: PromptText | None = Field(default=None, description="The right answer, if it is known.")
    metadata: dict[str, JsonValue] | None = Field(default=None, description="Anything to keep with the sample.")


class LearnSampleInput(ToolInput):
    """The arguments of `ace.learn.sample`."""

    session_id: SessionId = DEFAULT_SESSION
    samples: Annotated[list[SampleInput], AtMost("max_samples_per_call", "maxItems", "samples")] = Field(
        min_length=1, description="The questions. The agent answers each, and learns from the answer."
    )
    epochs: int = Field(default=1, ge=1, le=20, description="How often to go through the samples.")
    session_config: SessionConfig | None = Field(default=None, description=_MODEL)


class LearnFeedbackInput(ToolInput):
    """The arguments of `ace.learn.feedback`."""

    session_id: SessionId = DEFAULT_SESSION
    question: PromptText = Field(min_length=1, description="The question that was answered.")
    answer: PromptText = Field(min_length=1, description="The answer.")
    feedback: PromptText = Field(min_length=1, description="What was right or wrong about the answer.")
    answer_id: str | None = Field(
        default=None, min_length=1, max_length=100, description="The answer_id that ace.ask returned with the answer."
    )
    context: PromptText = Field(default="", description="The material that the answer was based on.")
    ground_truth: PromptText | None = Field(default=None, description="The right answer, if it is known.")
    session_config: SessionConfig | None = Field(default=None, description=_MODEL)


class LearnTraceInput(ToolInput):
    """The arguments of `ace.learn.trace`."""

    session_id: SessionId = DEFAULT_SESSION
    trace: Annotated[JsonValue, AtMost("max_prompt_chars", "maxLength", "characters of JSON", of_json=True)] = Field(
        description="What an agent did, in any form: messages, a record with question and answer, the log of "
        "a session, spans, or text. It may hold several runs."
    )
    session_config: SessionConfig | None = Field(default=None, description=_MODEL)


class LearnedSkill(BaseModel):
    """A skill that is new or changed."""

    id: str = Field(description="Its id.")
    content: str = Field(description="What it says now.")


class SampleFailure(BaseModel):
    """A sample from which nothing was learned."""

    index: int = Field(description="Its position in the samples or runs, from 0.")
    what: str = Field(description="What happened.")


class LearnOutput(BaseModel):
    """The result of learning."""

    session_id: str = Field(description="The session.")
    skill_count_before: int = Field(description="The number of skills in the skillbook before.")
    skill_count_after: int = Field(description="The number of skills in the skillbook now.")
    new_skill_count: int = Field(description="The number of skills that this call has added.")
    pending_count: int = Field(
        description="The number of lessons that it has added without using them, until a person accepts them."
    )
    skills: list[LearnedSkill] = Field(description="The skills that this call has added or changed.")


class LearnSampleOutput(LearnOutput):
    """The result of `ace.learn.sample`."""

    processed: int = Field(description="How many samples were learned from, over all epochs.")
    failed: int = Field(description="How many samples failed, over all epochs.")
    failures: list[SampleFailure] = Field(description="The samples that failed.")


class LearnTraceOutput(LearnOutput):
    """The result of `ace.learn.feedback` and `ace.learn.trace`."""

    learned: bool = Field(description="Whether the skillbook has changed.")
    failures: list[SampleFailure] = Field(
        default=[], description="The runs that failed, if the trace holds several and others were learned from."
    )


class GetSkillbookInput(ToolInput):
    """The arguments of `ace.skillbook.get`."""

    session_id: SessionId = DEFAULT_SESSION
    limit: int = Field(default=20, ge=1, le=200, description="The maximum number of skills.")
    query: PromptText | None = Field(default=None, min_length=1, description="Return matching skills, best first.")
    section: str | None = Field(default=None, min_length=1, max_length=200, description="Return only its skills.")
    include_invalid: bool = Field(
        default=False, description="Return pending, rejected and removed skills too. Not with query."
    )


class SkillSource(BaseModel):
    """Where a skill was learned."""

    trace_id: str = Field(description="The trace.")
    question: str = Field(description="The question of the trace.")


class SkillOutput(BaseModel):
    """A skill."""

    id: str = Field(description="Its id.")
    content: str = Field(description="What it says.")
    section: str = Field(description="The section of the skillbook.")
    status: str = Field(description="active, pending, or invalid if it was rejected, removed or merged.")
    reason: str = Field(description="Why it is pending or was rejected; empty for others.")
    evidence: list[str] = Field(
        description="What shows that it is right: truth, recovery, failure or person; empty if nothing does."
    )
    helpful: int = Field(description="How often it helped.")
    harmful: int = Field(description="How often it did harm.")
    neutral: int = Field(description="How often it made no difference.")
    sources: list[SkillSource] = Field(description="Where it was learned.")


class SkillbookStats(BaseModel):
    """Counts of a skillbook."""

    skills: int = Field(description="Active skills.")
    sections: int = Field(description="Sections with active skills.")
    helpful: int = Field(description="The sum over all active skills.")
    harmful: int = Field(description="The sum over all active skills.")
    neutral: int = Field(description="The sum over all active skills.")


class GetSkillbookOutput(BaseModel):
    """The result of `ace.skillbook.get`."""

    session_id: str = Field(description="The session.")
    stats: SkillbookStats = Field(description="Counts of the whole skillbook.")
    skills: list[SkillOutput] = Field(description="The skills.")


class SkillbookFileInput(ToolInput):
    """The arguments of `ace.skillbook.save` and `ace.skillbook.load`."""

    session_id: SessionId = DEFAULT_SESSION
    path: str = Field(
        min_length=1, max_length=1000, description="A file below the folder for skillbooks, such as team.json."
    )


class SkillbookFileOutput(BaseModel):
    """The result of `ace.skillbook.save` and `ace.skillbook.load`."""

    session_id: str = Field(description="The session.")
    path: str = Field(description="The file.")
    count: int = Field(description="How many skills were saved or loaded.")


def input_schema(model: type[BaseModel], config: MCPServerConfig) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool, with the limits that the settings determine.

    Args:
        model: The arguments.
        config: The settings of the server.

    Example:
        >>> schema = input_schema(AskInput, MCPServerConfig(max_prompt_chars=500))
        >>> schema["properties"]["question"]["maxLength"]
        500
    """
    schema: dict[str, Any] = _with_limits(model.model_json_schema(), config)
    return schema


def _with_limits(part: Any, config: MCPServerConfig) -> Any:  # a JSON value
    if isinstance(part, list):
        return [_with_limits(item, config) for item in part]
    if not isinstance(part, dict):
        return part
    done = {name: _with_limits(item, config) for name, item in part.items() if name != _LIMIT_KEY}
    if _LIMIT_KEY in part:
        keyword, setting = part[_LIMIT_KEY]
        done[keyword] = getattr(config, setting)
    return done
