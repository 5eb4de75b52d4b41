"""The names of the attributes of spans: one entry for each convention of instrumentation libraries.

Spans mix conventions, so that a span is read with the names of all of them, those of the first entry first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

__all__ = ["MARKS", "attribute_names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The attributes of one convention, by what they mean. Messages may also be spread over numbered attributes."""

    title: str
    marks: tuple[str, ...]
    """How the attributes begin that only spans of models, tools and agents have."""
    kind: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()
    """The messages that a model gets."""
    said: tuple[str, ...] = ()
    """The messages that it answers."""
    text: tuple[str, ...] = ()
    """The text of the answer, if it is not a message."""
    calls: tuple[str, ...] = ()
    """The calls of tools that belong to that text."""
    history: tuple[str, ...] = ()
    """The whole conversation of an agent."""
    asked: tuple[str, ...] = ()
    """The input of any span."""
    returned: tuple[str, ...] = ()
    """The output of any span."""
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    call: tuple[str, ...] = ()
    """The id of a call."""
    model: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    """Both numbers of tokens in one object."""
    cost: tuple[str, ...] = ()
    assessments: tuple[str, ...] = ()
    session: tuple[str, ...] = ()


_DIALECTS: Final = (
    Dialect(
        title="GenAI conventions of OpenTelemetry",
        marks=("gen_ai.",),
        kind=("gen_ai.operation.name",),
        sent=("gen_ai.input.messages",),
        said=("gen_ai.output.messages",),
        arguments=("gen_ai.tool.call.arguments", "gen_ai.tool.arguments"),
        result=("gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.message"),
        tool=("gen_ai.tool.name",),
        name=("gen_ai.agent.name",),
        call=("gen_ai.tool.call.id",),
        model=("gen_ai.response.model", "gen_ai.request.model"),
        input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        session=("gen_ai.conversation.id",),
    ),
    Dialect(
        title="OpenInference",
        marks=("openinference.", "llm."),
        kind=("openinference.span.kind",),
        sent=("llm.input_messages",),
        said=("llm.output_messages",),
        asked=("input.value", "tool.parameters"),
        returned=("output.value", "retrieval.documents"),
        tool=("tool.name",),
        name=("agent.name",),
        call=("tool_call.id", "tool.id"),
        model=("llm.model_name",),
        input_tokens=("llm.token_count.prompt",),
        output_tokens=("llm.token_count.completion",),
        cost=("llm.cost.total",),
        assessments=("annotations", "evaluation"),
        session=("session.id",),
    ),
    Dialect(
        title="OpenLLMetry, and GenAI conventions before 1.28",
        marks=("traceloop.",),
        kind=("traceloop.span.kind", "llm.request.type"),
        sent=("gen_ai.prompt",),
        said=("gen_ai.completion",),
        asked=("traceloop.entity.input",),
        returned=("traceloop.entity.output",),
        tool=("traceloop.entity.name",),
        name=("traceloop.entity.name",),
        session=("traceloop.association.properties.session_id",),
    ),
    Dialect(
        title="LangSmith",
        marks=("langsmith.span",),
        kind=("langsmith.span.kind",),
        asked=("gen_ai.prompt",),
        returned=("gen_ai.completion",),
        tool=("langsmith.trace.name",),
        name=("langsmith.trace.name",),
        session=("langsmith.metadata.session_id", "langsmith.metadata.thread_id"),
    ),
    Dialect(
        title="Vercel AI SDK",
        marks=("ai.operationId", "ai.prompt", "ai.response.", "ai.toolCall."),
        kind=("ai.operationId",),
        sent=("ai.prompt.messages", "ai.prompt"),
        text=("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"),
        calls=("ai.response.toolCalls", "ai.result.toolCalls"),
        arguments=("ai.toolCall.args",),
        result=("ai.toolCall.result",),
        tool=("ai.toolCall.name",),
        name=("ai.telemetry.functionId",),
        call=("ai.toolCall.id",),
        model=("ai.response.model", "ai.model.id"),
        input_tokens=("ai.usage.inputTokens", "ai.usage.promptTokens"),
        output_tokens=("ai.usage.outputTokens", "ai.usage.completionTokens"),
        session=("ai.telemetry.metadata.sessionId",),
    ),
    Dialect(
        title="Logfire and pydantic-ai",
        marks=("pydantic_ai.", "all_messages_events", "tool_arguments", "tool_response"),
        history=("pydantic_ai.all_messages", "all_messages_events"),
        returned=("final_result",),
        arguments=("tool_arguments",),
        result=("tool_response",),
        name=("agent_name",),
    ),
    Dialect(
        title="Google ADK",
        marks=("gcp.vertex.agent.",),
        sent=("gcp.vertex.agent.llm_request",),
        said=("gcp.vertex.agent.llm_response",),
        arguments=("gcp.vertex.agent.tool_call_args",),
        result=("gcp.vertex.agent.tool_response",),
        session=("gcp.vertex.agent.session_id",),
    ),
    Dialect(
        title="MLflow",
        marks=("mlflow.span", "mlflow.chat"),
        kind=("mlflow.spanType",),
        asked=("mlflow.spanInputs",),
        returned=("mlflow.spanOutputs",),
        model=("mlflow.llm.model", "mlflow.chat.model"),
        usage=("mlflow.chat.tokenUsage",),
    ),
    Dialect(
        title="Langfuse",
        marks=("langfuse.observation.", "langfuse.trace."),
        kind=("langfuse.observation.type",),
        asked=("langfuse.observation.input", "langfuse.trace.input"),
        returned=("langfuse.observation.output", "langfuse.trace.output"),
        model=("langfuse.observation.model.name",),
        usage=("langfuse.observation.usage_details",),
        session=("langfuse.session.id",),
    ),
)
MARKS: Final = tuple(mark for dialect in _DIALECTS for mark in dialect.marks)
"""How the attributes begin that only spans of models, tools and agents have."""


@cache
def attribute_names(*meanings: str) -> tuple[str, ...]:
    """Return the attributes of all conventions that have a meaning.

    Args:
        meanings: Fields of a dialect, such as `said`; the names of the first come first.
    """
    return tuple(name for meaning in meanings for dialect in _DIALECTS for name in getattr(dialect, meaning))
