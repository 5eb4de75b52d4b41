"""Reads spans with the attributes of the GenAI conventions, OpenInference, OpenLLMetry and LangSmith.

The names of attributes appear only in this module. A span may hold the messages of a model call in one attribute as
JSON, in numbered attributes, in its events, or in log records that belong to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeGuard

from ace._internal.json_fields import Record, list_in, mapping_in, number_in, text_in

__all__ = ["Call", "Message", "Span", "attributes_of", "completed_json", "is_of_agent", "span_of", "text_of"]

SpanKind = Literal["model", "tool", "retriever", "agent", "other"]

_PREFIXES: Final = ("gen_ai.", "llm.", "openinference.", "traceloop.", "langsmith.span")
_KIND_NAMES: Final = ("gen_ai.operation.name", "openinference.span.kind", "langsmith.span.kind", "traceloop.span.kind")
_KINDS: Final[Mapping[str, SpanKind]] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion", "llm"), "model"),
    **dict.fromkeys(("execute_tool", "tool"), "tool"),
    **dict.fromkeys(("retrieval", "retriever"), "retriever"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow", "agent", "workflow"), "agent"),
}
_INPUT_MESSAGES: Final = ("gen_ai.input.messages", "gen_ai.prompt")
_OUTPUT_MESSAGES: Final = ("gen_ai.output.messages", "gen_ai.completion")
_NUMBERED_INPUT: Final = ("llm.input_messages", "gen_ai.prompt", "gen_ai.input.messages")
_NUMBERED_OUTPUT: Final = ("llm.output_messages", "gen_ai.completion", "gen_ai.output.messages")
_INPUTS: Final = ("input.value", "traceloop.entity.input")
_OUTPUTS: Final = ("output.value", "traceloop.entity.output")
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.arguments",
    *_INPUTS,
    "tool.parameters",
    "gen_ai.prompt",
)
_RESULTS: Final = (
    "gen_ai.tool.call.result",
    "gen_ai.tool.result",
    "gen_ai.tool.message",
    *_OUTPUTS,
    "gen_ai.completion",
)
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "langsmith.trace.name")
_NAMES: Final = ("gen_ai.agent.name", "agent.name", "traceloop.entity.name", "langsmith.trace.name")
_CALL_IDS: Final = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
_TOKENS: Final = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
}
_EVENT_ROLES: Final = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_EVALUATIONS: Final = ("gen_ai.evaluation.result", "gen_ai.evaluation")
_EVENTS: Final = frozenset(
    (*_EVENT_ROLES, *_EVALUATIONS, _DETAILS, "gen_ai.choice", "gen_ai.content.prompt", "gen_ai.content.completion")
)

_ROLES: Final = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_SPEAKERS: Final = frozenset((*_ROLES, *_ROLES.values()))
_TEXTS: Final = ("text", "input_text", "output_text")
_THOUGHTS: Final = ("reasoning", "thinking")
_CALLS: Final = ("tool_call", "tool_use", "function_call")
_RESPONSES: Final = ("tool_call_response", "tool_result")
_HOLDERS: Final = ("messages", "choices", "generations", "message", "output", "input")
_QUESTIONS: Final = ("question", "query", "task", "prompt", "input", "inputs", "input_str", "user_input")
_ANSWERS: Final = ("answer", "output", "outputs", "result", "response")
_FAILED: Final = (2, "2", "STATUS_CODE_ERROR", "ERROR")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in the answer of a model."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message to or from a model."""

    role: str
    """user, assistant, system or tool."""
    text: str
    thought: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    """Of a tool message: the id of the call that it answers."""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """What a span says about the run of an agent."""

    id: str
    parent: str
    kind: SpanKind
    name: str
    start: int
    """The time in nanoseconds since 1970; 0 if it is not known."""
    end: int
    inputs: tuple[Message, ...] = ()
    """The messages in its input."""
    answers: tuple[Message, ...] = ()
    """The messages in its output."""
    question: str = ""
    """Its input as text."""
    answer: str = ""
    """Its output as text."""
    error: str = ""
    call_id: str = ""
    tokens: Mapping[str, int] = field(default_factory=dict)
    evaluations: tuple[str, ...] = ()
    cut_values: int = 0
    """How many attributes were cut by a limit of the exporting program."""


def is_of_agent(record: Record) -> bool:
    """Return whether a span or log record has GenAI, OpenInference, OpenLLMetry or LangSmith attributes.

    Args:
        record: The span or log record.

    Example:
        >>> is_of_agent({"attributes": {"openinference.span.kind": "TOOL"}}), is_of_agent({"attributes": []})
        (True, False)
    """
    if _event_name(record, attributes := attributes_of(record)) in _EVENTS:
        return True
    return any(name.startswith(_PREFIXES) for name in attributes)


def attributes_of(holder: Record) -> dict[str, object]:
    """Return the attributes of a span, an event, a log record or a resource.

    Args:
        holder: The object; OTLP writes attributes as a list of keys and typed values, other exporters as an object.
    """
    attributes = holder.get("attributes")
    if isinstance(attributes, Mapping):
        return {str(name): value for name, value in attributes.items()}
    return _of_pairs(attributes)


def span_of(record: Record, logs: Iterable[Record] = ()) -> Span:
    """Read one span.

    Args:
        record: The span.
        logs: The log records that belong to it.
    """
    return _SpanReader(record, logs).span()


def completed_json(text: str) -> tuple[object, bool]:
    """Parse JSON that may have been cut off at its end.

    Returns:
        The value, without what is missing, and whether the text was cut; None and False if it is not JSON.

    Example:
        >>> completed_json('[{"role": "user", "content": "What is the ti')
        ([{'role': 'user', 'content': 'What is the ti'}], True)
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None, False
    value = _loaded(text)
    if value is not None:
        return value, False
    for ended in _endings(text):
        value = _loaded(ended)
        if value is not None:
            return value, True
    return None, False


def text_of(value: object) -> str:
    """Return a value as text: a text as it is, everything else as JSON.

    Args:
        value: A JSON value; None is an empty text.
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _SpanReader:
    """Reads one span; counts the values that were cut."""

    def __init__(self, record: Record, logs: Iterable[Record]) -> None:
        self._record = record
        self._attributes = attributes_of(record)
        self._events: list[tuple[str, dict[str, object]]] = []
        for log in logs:
            attributes = attributes_of(log)
            self._events.append((_event_name(log, attributes), _with_body(log, attributes)))
        for event in list_in(record, "events"):
            if isinstance(event, Mapping):
                attributes = attributes_of(event)
                self._events.append((_event_name(event, attributes), attributes))
        self._cut = 0

    def span(self) -> Span:
        kind = self._kind()
        name = text_of(self._named(_TOOL_NAMES if kind == "tool" else _NAMES))
        inputs, answers = self._messages(_INPUT_MESSAGES, _NUMBERED_INPUT), self._answers()
        asked = self._first(_ARGUMENTS if kind == "tool" else _INPUTS)
        returned = self._first(_RESULTS if kind == "tool" else _OUTPUTS)
        if kind == "retriever" and returned is None:
            returned = _numbered(self._attributes, "retrieval.documents") or None
        if kind != "tool":
            inputs = inputs or messages_in(asked)
            answers = answers or [message for message in messages_in(returned) if message.role == "assistant"][-1:]
        return Span(
            id=self._id("spanId", "span_id"),
            parent=text_in(self._record, "parentSpanId", "parent_span_id", "parent_id"),
            kind=kind,
            name=name or text_in(self._record, "name") or kind,
            start=_time(self._record, "startTimeUnixNano", "start_time_unix_nano", "start_time"),
            end=_time(self._record, "endTimeUnixNano", "end_time_unix_nano", "end_time"),
            inputs=tuple(inputs),
            answers=tuple(answers),
            question=_field_text(asked, () if kind == "tool" else _QUESTIONS),
            answer=_tool_text(returned) if kind == "tool" else _field_text(returned, _ANSWERS),
            error=self._error(),
            call_id=text_of(self._named(_CALL_IDS)),
            tokens=self._tokens(),
            evaluations=tuple(self._evaluations()),
            cut_values=self._cut,
        )

    def _id(self, *names: str) -> str:
        return text_in(self._record, *names) or text_in(mapping_in(self._record, "context"), *names)

    def _kind(self) -> SpanKind:
        for name in _KIND_NAMES:
            kind = _KINDS.get(str(self._attributes.get(name)).lower())
            if kind is not None:
                return kind
        if "gen_ai.tool.name" in self._attributes:
            return "tool"
        has_answer = any(
            name.startswith(tuple(f"{prefix}." for prefix in _NUMBERED_OUTPUT)) for name in self._attributes
        )
        return "model" if has_answer else "other"

    def _named(self, names: Sequence[str]) -> object:
        return next((self._attributes[name] for name in names if self._attributes.get(name) not in (None, "")), None)

    def _first(self, names: Sequence[str]) -> object:
        return self._parsed(self._named(names))

    def _parsed(self, value: object) -> object:
        if not isinstance(value, str):
            return value
        document, was_cut = completed_json(value)
        self._cut += was_cut
        return value if document is None else document

    def _messages(self, names: Sequence[str], numbered: Sequence[str]) -> list[Message]:
        """Return the messages in the attributes, or else those in the events."""
        is_input = names is _INPUT_MESSAGES
        speaker = "user" if is_input else "assistant"
        for prefix in numbered:
            found = messages_in(_numbered(self._attributes, prefix), speaker)
            if found:
                return found
        value = self._first(names)
        if isinstance(value, str):
            return [Message(speaker, value)]
        return messages_in(value, speaker) or list(self._event_messages(is_input=is_input))

    def _answers(self) -> list[Message]:
        return [
            message for message in self._messages(_OUTPUT_MESSAGES, _NUMBERED_OUTPUT) if message.role == "assistant"
        ]

    def _event_messages(self, *, is_input: bool) -> Iterator[Message]:
        which = "prompt" if is_input else "completion"
        for name, fields in self._events:
            value: object = None
            if name in _EVENT_ROLES and is_input:
                value = {"role": _EVENT_ROLES[name], **fields}
            elif name == "gen_ai.choice" and not is_input:
                message = self._parsed(fields.get("message"))
                value = {"role": "assistant", **(message if isinstance(message, Mapping) else fields)}
            elif name == f"gen_ai.content.{which}":
                value = self._parsed(fields.get(f"gen_ai.{which}"))
            elif name == _DETAILS:
                value = self._parsed(fields.get("gen_ai.input.messages" if is_input else "gen_ai.output.messages"))
            yield from messages_in(value, "user" if is_input else "assistant")

    def _error(self) -> str:
        status = mapping_in(self._record, "status")
        if status.get("code", status.get("status_code")) not in _FAILED:
            return ""
        texts = [text_in(status, "message", "description"), text_of(self._attributes.get("error.type"))]
        for name, fields in self._events:
            if name == "exception":
                kind = text_of(fields.get("exception.type")).rpartition(".")[2]
                texts.insert(0, ": ".join(filter(None, (kind, text_of(fields.get("exception.message"))))))
        error = next(filter(None, texts), "it failed")
        return error.partition("Traceback (most recent call last)")[0].strip() or error

    def _tokens(self) -> dict[str, int]:
        counts = {name: number_in(self._attributes, *names) for name, names in _TOKENS.items()}
        return {name: int(count) for name, count in counts.items() if count is not None}

    def _evaluations(self) -> Iterator[str]:
        for name, fields in self._events:
            if name in _EVALUATIONS:
                score = fields.get("gen_ai.evaluation.score.label", fields.get("gen_ai.evaluation.score.value"))
                said = text_of(fields.get("gen_ai.evaluation.explanation"))
                result = f"{text_of(fields.get('gen_ai.evaluation.name'))}: {text_of(score)}"
                yield f"{result} ({said})" if said else result


def messages_in(value: object, speaker: str = "user") -> list[Message]:
    """Return the messages in an input or an output; empty if it has none.

    Args:
        value: A message, a list of messages or of pairs such as `["user", "2+2?"]`, or an object that has them in one
            of the usual fields. Messages may be in the format of the GenAI conventions, of OpenInference, of a
            provider's API, or of LangChain.
        speaker: The role of messages without one.
    """
    if isinstance(value, str):
        value = completed_json(value)[0]
    if isinstance(value, list):
        if _is_pair(value):
            return [Message(_ROLES.get(value[0], value[0]), value[1])]
        return [message for item in value for message in messages_in(item, speaker) if not isinstance(item, str)]
    if not isinstance(value, Mapping):
        return []
    fields = _unwrapped(value)
    if _is_message(fields):
        return list(_messages_of(fields, speaker))
    return next(filter(None, (messages_in(fields.get(name), speaker) for name in _HOLDERS)), [])


def _is_pair(value: list[object]) -> TypeGuard[list[str]]:
    return len(value) == 2 and all(isinstance(item, str) for item in value) and value[0] in _SPEAKERS


def _unwrapped(fields: Record) -> Record:
    """Return the fields of a message that is inside another object, as OpenInference, LangChain and APIs write it."""
    if isinstance(fields.get("kwargs"), Mapping) and "lc" in fields:
        names = list_in(fields, "id")
        kind = str(names[-1]).lower() if names else ""
        return {"type": kind.removesuffix("chunk").removesuffix("message"), **mapping_in(fields, "kwargs")}
    if isinstance(fields.get("data"), Mapping) and "type" in fields:
        return {"type": fields["type"], **mapping_in(fields, "data")}
    inner = mapping_in(fields, "message")
    return _unwrapped(inner) if inner and "role" not in fields else fields


def _is_message(fields: Record) -> bool:
    spoken = {"content", "contents", "parts", "tool_calls", "text"} & fields.keys()
    return bool(spoken) and (_speaker(fields) in _SPEAKERS or ("role" not in fields and "type" not in fields))


def _speaker(fields: Record) -> str:
    kind = text_in(fields, "type").removesuffix("Chunk").lower().removesuffix("message")
    return kind if kind in _SPEAKERS else text_in(fields, "role").lower()


def _messages_of(fields: Record, speaker: str) -> Iterator[Message]:
    """Yield a message, and the tool results in it as messages of their own."""
    role = _speaker(fields) or speaker
    role = _ROLES.get(role, role)
    texts: list[str] = []
    thoughts = [text_in(fields, "reasoning_content", "reasoning", "thinking")]
    calls = [_call(call) for call in _listed(fields.get("tool_calls")) if isinstance(call, Mapping)]
    answered = 0
    for block in _blocks(fields):
        kind = text_in(block, "type")
        if kind in _TEXTS or (not kind and "text" in block):
            texts.append(text_in(block, "text", "content"))
        elif kind in _THOUGHTS:
            thoughts.append(text_in(block, "content", "thinking", "text", "reasoning"))
        elif kind in _CALLS:
            calls.append(_call(block))
        elif kind in _RESPONSES:
            answered += 1
            result = next((block[name] for name in ("response", "result", "content") if name in block), None)
            failed = block.get("is_error") is True
            yield Message("tool", _tool_text(result), call_id=text_in(block, "id", "tool_use_id"), is_error=failed)
        elif kind:
            texts.append(f"[{kind}]")  # an image and the like: its bytes teach nothing
    message = Message(
        role=role,
        text="\n".join(filter(None, texts)),
        thought="\n".join(filter(None, thoughts)),
        calls=tuple(dict.fromkeys(calls)),
        call_id=text_in(fields, "tool_call_id", *(("id",) if role == "tool" else ())),
        is_error=fields.get("status") == "error" or fields.get("is_error") is True,
    )
    if message.text or message.thought or message.calls or not answered:
        yield message


def _blocks(fields: Record) -> list[Record]:
    content = next((fields[name] for name in ("parts", "contents", "content", "text") if name in fields), None)
    if isinstance(content, str):
        items = completed_json(content)[0]
        has_blocks = isinstance(items, list) and all(isinstance(item, Mapping) and "type" in item for item in items)
        content = items if items and has_blocks else content
    blocks: list[Record] = []
    for block in _listed(content):
        if isinstance(block, Mapping):
            blocks.append(mapping_in(block, "message_content") or block)
        else:
            blocks.append({"type": "text", "text": text_of(block)})
    return blocks


def _call(fields: Record) -> Call:
    fields = mapping_in(fields, "tool_call") or fields
    function = mapping_in(fields, "function")
    merged = {**fields, **function}
    arguments = next((merged[name] for name in ("arguments", "args", "input") if name in merged), None)
    document = completed_json(arguments)[0] if isinstance(arguments, str) else arguments
    # Formatted in one way, so that a call is recognised if another span repeats it.
    text = text_of(arguments if document is None else document)
    return Call(text_in(merged, "id", "call_id"), text_in(merged, "name"), text)


def _tool_text(value: object) -> str:
    """Return the result of a tool as text; it may be in a message."""
    messages = messages_in(value) if isinstance(value, Mapping) else []
    if messages and messages[-1].role == "tool":
        return messages[-1].text
    if isinstance(value, list) and value and all(isinstance(block, Mapping) and "text" in block for block in value):
        return "\n".join(text_in(block, "text") for block in value)
    if isinstance(value, Mapping) and set(value) == {"output"}:
        return text_of(value["output"])
    return text_of(value)


def _field_text(value: object, names: Sequence[str]) -> str:
    """Return the text of the first of these fields, or that of the whole value."""
    if isinstance(value, Mapping):
        found = next((value[name] for name in names if value.get(name) not in (None, "")), None)
        if found is not None:
            return _field_text(found, names)
    return text_of(value)


def _numbered(attributes: Mapping[str, object], prefix: str) -> list[object]:
    """Return the list that is spread over attributes such as `gen_ai.prompt.0.tool_calls.0.name`."""
    tree: dict[str, object] = {}
    begin = f"{prefix}."
    for name, value in attributes.items():
        if not name.startswith(begin):
            continue
        *path, last = name.removeprefix(begin).split(".")
        here = tree
        for key in path:
            below = here.setdefault(key, {})
            if not isinstance(below, dict):  # a text where others have an object
                below = here[key] = {}
            here = below
        here[last] = value
    return _listed(_with_lists({number: item for number, item in tree.items() if number.isdecimal()}))


def _with_lists(tree: object) -> object:
    """Return objects whose names are all numbers as lists."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdecimal() for name in tree):
        return [_with_lists(tree[name]) for name in sorted(tree, key=int)]
    return {name: _with_lists(child) for name, child in tree.items()}


def _event_name(event: Record, attributes: Mapping[str, object]) -> str:
    return text_in(event, "name", "eventName", "event_name") or text_of(attributes.get("event.name"))


def _with_body(log: Record, attributes: dict[str, object]) -> dict[str, object]:
    """Return the attributes and the body of a log record."""
    body = _value(log.get("body"))
    return {**attributes, **body} if isinstance(body, dict) else attributes


def _of_pairs(pairs: object) -> dict[str, object]:
    listed = pairs if isinstance(pairs, list) else []
    return {text_of(pair.get("key")): _value(pair.get("value")) for pair in listed if isinstance(pair, Mapping)}


def _value(value: object) -> object:
    """Return the value that OTLP writes as an object with its type."""
    if not isinstance(value, Mapping):
        return value
    names = {str(name).lower().replace("_", ""): content for name, content in value.items()}
    if "intvalue" in names:
        with suppress(ValueError):
            return int(str(names["intvalue"]))  # 64-bit numbers are texts in JSON
    if "arrayvalue" in names:
        return [_value(element) for element in list_in(mapping_in(names, "arrayvalue"), "values")]
    if "kvlistvalue" in names:
        return _of_pairs(mapping_in(names, "kvlistvalue").get("values"))
    return next(iter(names.values()), None)


def _time(record: Record, *names: str) -> int:
    value = next((record[name] for name in names if name in record), 0)
    with suppress(ValueError, OverflowError):  # a number of thousands of digits, an infinite one, or a wrong date
        if isinstance(value, str) and not value.isdecimal():
            return round(datetime.fromisoformat(value).timestamp() * 1e6) * 1000
        if isinstance(value, int | float | str):
            return int(value)
    return 0


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _loaded(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*\\?\Z|[\[\]{},]', re.DOTALL)
"""A string, possibly cut off, or a structural character outside strings."""


def _endings(text: str) -> Iterator[str]:
    """Yield a JSON text that was cut with its brackets closed: where it was cut, then after its last whole element."""
    closing: list[str] = []
    whole, string = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("{", "["):
            closing.append("}" if mark == "{" else "]")
        elif mark in ("}", "]") and closing:
            closing.pop()
        elif mark.startswith('"'):
            string = mark if token.end() == len(text) else ""
            continue
        whole = token.start() if mark == "," else token.end()
    if not closing:
        return  # it was not cut, and is not JSON
    rest = "".join(reversed(closing))
    if string and not (len(string) > 1 and _loaded(string) is not None):
        # The cut may be inside of an escape such as \n or \u00e9.
        for end in range(len(text), len(text) - 6, -1):
            yield f'{text[:end]}"{rest}'
    yield text + rest
    yield text[:whole] + rest
