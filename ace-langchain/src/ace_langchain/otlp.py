"""Reads OpenTelemetry spans with GenAI attributes, in the JSON of OTLP, as parts of a run.

The messages of a span may be in the attributes of the semantic conventions (`gen_ai.input.messages`), in those of
LangSmith (`gen_ai.prompt`) or in the numbered ones of OpenLLMetry (`gen_ai.prompt.0.content`), or in its events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ace_langchain.messages import PlainMessage, mapping, messages_in, parsed, plain_message, text_of
from ace_langchain.recorded_runs import PartKind, RunPart

__all__ = ["is_genai_span", "is_otlp", "key_of_span", "parts_of_spans", "spans_in"]

_OPERATIONS: Mapping[str, PartKind] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion", "llm"), "model"),
    "execute_tool": "tool",
    "tool": "tool",
    "retriever": "retriever",
    "retrieval": "retriever",
}
"""What `gen_ai.operation.name`, `langsmith.span.kind` and the like say; everything else is a chain."""
_KIND_NAMES = ("gen_ai.operation.name", "langsmith.span.kind", "traceloop.span.kind", "openinference.span.kind")
_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt", "traceloop.entity.input", "input.value")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "traceloop.entity.output", "output.value")
_TOOL_INPUTS = ("gen_ai.tool.call.arguments", "gen_ai.tool.arguments")
_TOOL_OUTPUTS = ("gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.message")
_NUMBERED = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.(.+)")
_CALL = re.compile(r"tool_calls\.(\d+)\.(id|name|arguments)")
_EVENT_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_USAGE = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.usage.prompt_tokens": "input_tokens",
    "gen_ai.usage.completion_tokens": "output_tokens",
}


def is_otlp(record: object) -> bool:
    """Return whether a record is a batch of spans of OTLP of which at least one has GenAI attributes.

    Args:
        record: Anything.
    """
    return isinstance(record, Mapping) and any(map(is_genai_span, spans_in(record)))


def is_genai_span(record: object) -> bool:
    """Return whether a record is one span with GenAI attributes.

    Args:
        record: Anything.

    Example:
        >>> is_genai_span({"traceId": "1", "spanId": "2", "name": "chat", "attributes": [
        ...     {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]})
        True
    """
    if not _is_span(record) or not isinstance(record, Mapping):
        return False
    return any(name.startswith(("gen_ai.", "traceloop.", "langsmith.span")) for name in _attributes(record))


def spans_in(record: Mapping[object, object]) -> Iterator[Mapping[str, object]]:
    """Yield the spans of a batch of OTLP, or the span that a record is.

    Args:
        record: The record.
    """
    if _is_span(record):
        yield {str(name): value for name, value in record.items()}
    for resource in _mappings(record.get("resourceSpans", record.get("resource_spans"))):
        for scope in _mappings(resource.get("scopeSpans", resource.get("scope_spans"))):
            yield from filter(_is_span, _mappings(scope.get("spans")))


def key_of_span(span: Mapping[str, object]) -> str:
    """Return the trace of a span.

    Args:
        span: The span.
    """
    context = mapping(span.get("context"))
    return str(span.get("traceId") or span.get("trace_id") or context.get("trace_id"))


def parts_of_spans(spans: Sequence[Mapping[str, object]]) -> list[RunPart]:
    """Return the parts of a run that was exported as spans.

    Args:
        spans: The spans of one trace, in any order.
    """
    return [_part(span) for span in spans]


def _part(span: Mapping[str, object]) -> RunPart:
    attributes = _attributes(span)
    kind = _kind(attributes)
    tool = attributes.get("gen_ai.tool.name") or attributes.get("traceloop.entity.name")
    name = str((tool if kind == "tool" else None) or attributes.get("langsmith.trace.name") or span.get("name") or kind)
    given, returned = _input(attributes, span, kind), _output(attributes, span, kind)
    context = mapping(span.get("context"))
    return RunPart(
        id=str(span.get("spanId") or span.get("span_id") or context.get("span_id")),
        parent=str(span.get("parentSpanId") or span.get("parent_span_id") or span.get("parent_id") or ""),
        kind=kind,
        name=name,
        order=_order(span.get("startTimeUnixNano") or span.get("start_time_unix_nano") or span.get("start_time")),
        given=given,
        returned=returned,
        error=_error(span, attributes),
        answers=_answers(returned, attributes) if kind == "model" else (),
        usage=_usage(attributes),
        call_id=str(attributes.get("gen_ai.tool.call.id") or ""),
    )


def _kind(attributes: Mapping[str, object]) -> PartKind:
    named = (str(attributes[name]).lower() for name in _KIND_NAMES if name in attributes)
    found = next((_OPERATIONS[name] for name in named if name in _OPERATIONS), None)
    if found is not None:
        return found
    if "gen_ai.tool.name" in attributes:
        return "tool"
    has_answer = any(_NUMBERED.fullmatch(name) for name in attributes)
    return "model" if has_answer else "chain"


def _input(attributes: Mapping[str, object], span: Mapping[str, object], kind: PartKind) -> object:
    if kind == "tool":
        return _first(attributes, (*_TOOL_INPUTS, *_INPUTS))
    return _first(attributes, _INPUTS) or _numbered(attributes, "prompt") or _event_messages(span, "prompt")


def _output(attributes: Mapping[str, object], span: Mapping[str, object], kind: PartKind) -> object:
    if kind == "tool":
        return _first(attributes, (*_TOOL_OUTPUTS, *_OUTPUTS))
    found = _first(attributes, _OUTPUTS) or _numbered(attributes, "completion")
    return found or _event_messages(span, "completion") or None


def _first(attributes: Mapping[str, object], names: Sequence[str]) -> object:
    found = next((attributes[name] for name in names if attributes.get(name) not in (None, "")), None)
    return _with_parts(parsed(found))


def _answers(returned: object, attributes: Mapping[str, object]) -> tuple[PlainMessage, ...]:
    answers = messages_in(returned)
    if not answers and isinstance(returned, str):
        answers = [plain_message({"type": "ai", "content": returned})]
    reasons = parsed(attributes.get("gen_ai.response.finish_reasons"))
    stop = str(reasons[0]) if isinstance(reasons, list) and reasons else ""
    return tuple(
        PlainMessage(**{**answer, "stop_reason": answer["stop_reason"] or stop})
        for answer in answers
        if answer["type"] == "ai"
    )


def _with_parts(value: object) -> object:
    """Turn messages with `parts`, as the semantic conventions write them, into messages with content and calls."""
    if isinstance(value, list):
        return [message for each in value for message in _messages_of_parts(each)]
    return value


def _messages_of_parts(value: object) -> Iterator[object]:
    message = mapping(value)
    if not isinstance(message.get("parts"), list):
        yield value
        return
    parts = _mappings(message["parts"])
    answers = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in answers:
        result = part.get("response", part.get("result"))
        yield {"role": "tool", "content": text_of(result), "tool_call_id": part.get("id")}
    words = [str(part.get("content") or "") for part in parts if part.get("type") == "text"]
    thoughts = [str(part.get("content") or "") for part in parts if part.get("type") in ("reasoning", "thinking")]
    calls = [part for part in parts if part.get("type") == "tool_call"]
    if words or thoughts or calls or not answers:
        yield {
            "role": message.get("role"),
            "content": "\n".join(words),
            "thought": "\n".join(thoughts),
            "tool_calls": [{"id": c.get("id"), "name": c.get("name"), "args": c.get("arguments")} for c in calls],
            "stop_reason": message.get("finish_reason"),
        }


def _numbered(attributes: Mapping[str, object], which: str) -> list[object]:
    """Return the messages that are spread over attributes such as `gen_ai.prompt.0.content`."""
    messages: dict[int, dict[str, object]] = {}
    calls: dict[int, dict[int, dict[str, object]]] = {}
    for name, value in attributes.items():
        match = _NUMBERED.fullmatch(name)
        if match is None or match[1] != which:
            continue
        number, path = int(match[2]), match[3]
        call = _CALL.fullmatch(path)
        message = messages.setdefault(number, {"role": "user" if which == "prompt" else "assistant", "content": ""})
        if call is not None:
            calls.setdefault(number, {}).setdefault(int(call[1]), {})[call[2]] = value
        elif "." not in path:
            message[path] = value
    for number, held in calls.items():
        messages[number]["tool_calls"] = [held[place] for place in sorted(held)]
    return [messages[number] for number in sorted(messages)]


def _event_messages(span: Mapping[str, object], which: str) -> list[object]:
    """Return the messages that are in the events of a span."""
    found: list[object] = []
    for event in _mappings(span.get("events")):
        name, attributes = str(event.get("name") or ""), _attributes(event)
        role = _EVENT_ROLES.get(name.removeprefix("gen_ai.").removesuffix(".message"))
        if name == "gen_ai.choice" and which == "completion":
            message = parsed(attributes.get("message")) or attributes
            found.append({"role": "assistant", "content": "", **mapping(message)})
        elif role is not None and which == "prompt":
            found.append({"role": role, "content": "", **attributes})
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion") and name.endswith(which):
            found += _listed(_first(attributes, (f"gen_ai.{which}",)))
        elif name == "gen_ai.client.inference.operation.details":
            source = "gen_ai.input.messages" if which == "prompt" else "gen_ai.output.messages"
            found += _listed(_first(attributes, (source,)))
    return found


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _error(span: Mapping[str, object], attributes: Mapping[str, object]) -> str:
    status = mapping(span.get("status"))
    code = status.get("code", status.get("status_code"))
    if code not in (2, "2", "STATUS_CODE_ERROR", "ERROR"):
        return ""
    told = [status.get("message"), status.get("description")]
    for event in _mappings(span.get("events")):
        if event.get("name") == "exception":
            held = _attributes(event)
            kind = str(held.get("exception.type") or "").rpartition(".")[2]
            told.insert(0, ": ".join(filter(None, (kind, str(held.get("exception.message") or "")))))
    error = next((str(each) for each in told if each), str(attributes.get("error.type") or "it failed"))
    return error.partition("Traceback (most recent call last)")[0].strip() or error


def _usage(attributes: Mapping[str, object]) -> dict[str, int]:
    usage: dict[str, int] = {}
    for name, ours in _USAGE.items():
        count = attributes.get(name)
        if isinstance(count, int):
            usage[ours] = count
    if usage:
        usage["total_tokens"] = sum(usage.values())
    return usage


def _order(start: object) -> str:
    return f"{int(start):024}" if isinstance(start, int) or (isinstance(start, str) and start.isdigit()) else str(start)


def _is_span(record: object) -> bool:
    fields = mapping(record)
    context = mapping(fields.get("context"))
    ids = (fields.get("spanId") or fields.get("span_id") or context.get("span_id"), key_of_span(fields))
    return bool(ids[0]) and ids[1] != "None" and "name" in fields and isinstance(fields.get("attributes"), list | dict)


def _attributes(holder: Mapping[str, object]) -> dict[str, object]:
    """Return attributes as a dict; OTLP writes them as a list of keys and typed values."""
    held = holder.get("attributes")
    if isinstance(held, Mapping):
        return {str(name): value for name, value in held.items()}
    return {str(each.get("key")): _value(each.get("value")) for each in _mappings(held)}


def _value(value: object) -> object:
    fields = mapping(value)
    if "intValue" in fields:
        with suppress(ValueError):
            return int(str(fields["intValue"]))  # 64-bit numbers are texts in JSON
    if "arrayValue" in fields:
        return [_value(each) for each in _mappings(mapping(fields["arrayValue"]).get("values"))]
    if "kvlistValue" in fields:
        listed = _mappings(mapping(fields["kvlistValue"]).get("values"))
        return {str(each.get("key")): _value(each.get("value")) for each in listed}
    return next(iter(fields.values()), None) if fields else value


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []
