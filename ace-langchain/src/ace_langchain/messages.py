"""LangChain messages as plain data. Works on live messages and on stored ones, without the framework."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypedDict, TypeGuard

__all__ = [
    "PLAIN_CONTENT",
    "PlainMessage",
    "ToolCall",
    "is_message",
    "mapping",
    "messages_in",
    "parsed",
    "plain_json",
    "plain_message",
    "text_of",
    "tool_message_in",
]

PLAIN_CONTENT = "ace_plain_content"
"""The name under which a message with added skills keeps its original content."""

_TYPES = ("human", "ai", "system", "tool", "function", "developer", "remove", "chat")
_ROLES = {"user": "human", "assistant": "ai", "model": "ai"}
"""The names of the roles in the APIs of other providers."""
_THOUGHTS = {"thinking": "thinking", "reasoning": "reasoning"}
"""Kinds of content blocks that hold a thought, each with the field that has its text."""


class ToolCall(TypedDict):
    """A call of a tool that a model asked for."""

    id: str
    name: str
    args: object


class PlainMessage(TypedDict):
    """A message as JSON-compatible data."""

    type: str
    """`human`, `ai`, `system`, `tool` and so on."""
    content: str
    thought: str
    """The reasoning of the model, if the provider returns it."""
    name: str
    tool_calls: list[ToolCall]
    tool_call_id: str
    """The id of the call that a tool message answers."""
    is_error: bool
    stop_reason: str
    """Why the model stopped, if the provider returns it."""
    usage: dict[str, int]
    """The number of tokens, if the provider returns it."""


def is_message(value: object) -> TypeGuard[object]:
    """Return whether a value is a message: live, dumped as a dict, or serialised by LangChain.

    Args:
        value: Anything.

    Example:
        >>> is_message({"type": "ai", "data": {"content": "4"}}), is_message({"role": "user", "content": "2+2?"})
        (True, False)
    """
    fields = _fields(value)
    if fields is None or fields.get("type") not in _TYPES:
        return False
    if not isinstance(value, Mapping):
        return type(value).__module__.partition(".")[0].startswith("langchain")
    wrapped = "data" in value or "lc" in value or "__lc_escaped__" in value
    return wrapped or ("content" in fields and ("additional_kwargs" in fields or "response_metadata" in fields))


def plain_message(message: object) -> PlainMessage:
    """Convert a message to plain data.

    Args:
        message: A live message, or a parsed stored one.

    Raises:
        TypeError: The object is not a message.

    Example:
        >>> plain_message({"type": "ai", "data": {"content": [{"type": "text", "text": "4"}]}})["content"]
        '4'
    """
    fields = _fields(message)
    if fields is None:
        raise TypeError(f"a {type(message).__name__} is not a LangChain message")
    metadata = mapping(fields.get("response_metadata"))
    stop_reasons = (metadata.get("finish_reason"), metadata.get("stop_reason"), fields.get("stop_reason"))
    return PlainMessage(
        type=_speaker(fields),
        content=_content_text(mapping(fields.get("additional_kwargs")).get(PLAIN_CONTENT, fields.get("content"))),
        thought=_thought(fields),
        name=str(fields.get("name") or ""),
        tool_calls=_tool_calls(fields),
        tool_call_id=str(fields.get("tool_call_id") or ""),
        is_error=fields.get("status") == "error" or fields.get("is_error") is True,
        stop_reason=str(next(filter(None, stop_reasons), "")),
        usage=_usage(fields),
    )


def messages_in(value: object) -> list[PlainMessage]:
    """Return the messages in the input or the output of a model, a chain or a graph; empty if it holds none.

    Args:
        value: A message, a list of messages, of pairs such as `("user", "2+2?")` or of lists of them; a dict that has
            them in one of the usual fields; or what a provider's API returns.

    Example:
        >>> [(message["type"], message["content"]) for message in messages_in({"messages": [["user", "2+2?"]]})]
        [('human', '2+2?')]
    """
    if isinstance(value, str):
        held = parsed(value)
        return [] if isinstance(held, str) else messages_in(held)
    if is_message(value) or _has_role(value):
        return [plain_message(value)]
    if isinstance(value, Mapping):
        return _messages_in_fields(value)
    if isinstance(value, list | tuple):
        if _is_pair(value):
            return [plain_message({"role": value[0], "content": value[1]})]
        return [message for item in value for message in messages_in(item)]
    update = getattr(value, "update", None)
    return messages_in(update) if isinstance(update, Mapping) else []


def _messages_in_fields(fields: Mapping[object, object]) -> list[PlainMessage]:
    generations = fields.get("generations")
    if isinstance(generations, list) and generations:
        first = generations[0]
        chosen = [mapping(generation) for generation in (first[:1] if isinstance(first, list) else [first])]
        return [
            plain_message(generation.get("message") or {"type": "ai", "content": generation.get("text") or ""})
            for generation in chosen
        ]
    messages = fields.get("messages")
    if isinstance(messages, str) and messages:
        return [plain_message({"type": "human", "content": messages})]
    for name in ("messages", "choices", "message", "output", "input", "update"):
        held = fields.get(name)
        found = messages_in(held) if not isinstance(held, str) else []
        if found:
            return found
    return []


def _is_pair(value: Sequence[object]) -> bool:
    speakers = ("human", "user", "ai", "assistant", "system")
    return len(value) == 2 and value[0] in speakers and isinstance(value[1], str | list)


def _has_role(value: object) -> bool:
    """Return whether this is a message as the providers' APIs take it."""
    if not isinstance(value, Mapping):
        return False
    speakers = ("user", "assistant", "system", "developer", "tool", "function", "model")
    return value.get("role") in speakers and ("content" in value or "tool_calls" in value)


def parsed(value: object) -> object:
    """Parse a text that is a JSON object or list; return everything else unchanged.

    Args:
        value: Any value; tracers store inputs and outputs as texts.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            held: object = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return held
    return value


def _speaker(fields: Mapping[str, object]) -> str:
    kind = str(fields.get("type") or "")
    if kind not in _TYPES:
        kind = str(fields.get("role") or kind)
    return _ROLES.get(kind, kind)


def text_of(value: object) -> str:
    """Return a value as text: a message's content, a text itself, everything else as JSON.

    Args:
        value: The output of a runnable or of a tool.

    Example:
        >>> text_of({"total": 3}), text_of(None)
        ('{"total": 3}', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return str(value)  # parsers return subclasses of str
    if is_message(value):
        return plain_message(value)["content"]
    page = getattr(value, "page_content", None)
    if isinstance(page, str):
        return page
    plain = plain_json(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def plain_json(value: object) -> object:
    """Convert a value to JSON-compatible data; values without a JSON form become text.

    Args:
        value: The arguments of a tool and the like.

    Example:
        >>> plain_json({"at": {1}, "by": (2, 3)}), plain_json({(1, 2): 3})
        ({'at': [1], 'by': [2, 3]}, '{(1, 2): 3}')
    """
    try:
        plain: object = json.loads(json.dumps(value, ensure_ascii=False, default=_jsonable))
    except (TypeError, ValueError, RecursionError):
        # Keys that are not texts, or a container that contains itself.
        return str(value)
    return plain


def tool_message_in(output: object) -> object | None:
    """Return the message that a tool's output is, or that it puts into the state of its graph; None if there is none.

    Args:
        output: What a tool returned.
    """
    if getattr(output, "type", None) == "tool":
        return output
    update = getattr(output, "update", None)
    messages = update.get("messages") if isinstance(update, Mapping) else None
    return next((message for message in messages or () if getattr(message, "type", None) == "tool"), None)


def _jsonable(value: object) -> object:
    if is_message(value):
        return plain_message(value)["content"]
    for method in ("model_dump", "_asdict"):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            return dump()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return str(value)


def _fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of a message, whatever its form."""
    if isinstance(value, Mapping):
        if isinstance(value.get("__lc_escaped__"), Mapping):  # was serialised before LangChain serialised it again
            value = mapping(value["__lc_escaped__"])
        if value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping):
            kwargs = mapping(value["kwargs"])
            name = str((_sequence(value.get("id")) or [""])[-1]).lower()
            return {"type": name.removesuffix("chunk").removesuffix("message"), **kwargs}
        if isinstance(value.get("data"), Mapping) and "type" in value:
            return {"type": value["type"], **mapping(value["data"])}
        return value
    if not hasattr(value, "content") or not hasattr(value, "type"):
        return None
    names = (
        *("content", "name", "tool_calls", "invalid_tool_calls", "tool_call_id", "status"),
        *("usage_metadata", "response_metadata", "additional_kwargs"),
    )
    kind = str(value.type)
    fields = {"type": kind, **{name: getattr(value, name, None) for name in names}}
    return {**fields, "type": {"AIMessageChunk": "ai", "ToolMessageChunk": "tool"}.get(kind, kind)}


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return str(content)
    blocks = _sequence(content)
    texts = [text for block in blocks if (text := _block_text(block))]
    return "\n".join(texts)


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    fields = mapping(block)
    kind = fields.get("type")
    if kind in ("text", "output_text", "input_text") or (kind is None and "text" in fields):
        return str(fields.get("text") or "")
    if kind in _THOUGHTS or kind in ("tool_use", "tool_call", "redacted_thinking", "function_call"):
        return ""  # has a place of its own, or cannot be read
    if kind == "tool_result":
        return _content_text(fields.get("content"))
    return f"[{kind}]"  # an image and the like: its bytes teach nothing


def _thought(fields: Mapping[str, object]) -> str:
    blocks = [mapping(block) for block in _sequence(fields.get("content"))]
    found = [str(block.get(_THOUGHTS[str(block["type"])]) or "") for block in blocks if block.get("type") in _THOUGHTS]
    beside = mapping(fields.get("additional_kwargs")).get("reasoning_content") or fields.get("thought")
    return "\n".join(text for text in [*found, str(beside or "")] if text)


def _tool_calls(fields: Mapping[str, object]) -> list[ToolCall]:
    calls = [*_sequence(fields.get("tool_calls")), *_sequence(fields.get("invalid_tool_calls"))]
    return [_tool_call(mapping(call)) for call in calls]


def _tool_call(call: Mapping[str, object]) -> ToolCall:
    function = mapping(call.get("function"))  # as the API of OpenAI writes it
    arguments = call.get("args", call.get("arguments", function.get("arguments")))
    name = call.get("name") or function.get("name") or ""
    return ToolCall(id=str(call.get("id") or ""), name=str(name), args=parsed(arguments))


def _usage(fields: Mapping[str, object]) -> dict[str, int]:
    usage = mapping(fields.get("usage_metadata") or fields.get("usage"))
    names = ("input_tokens", "output_tokens", "total_tokens")
    return {name: count for name in names if isinstance(count := usage.get(name), int)}


def mapping(value: object) -> Mapping[str, object]:
    """Return a JSON object unchanged, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()
