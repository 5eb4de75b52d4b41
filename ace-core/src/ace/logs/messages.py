"""Turns chat messages of any dialect into steps: OpenAI, Anthropic, Google, Bedrock, LangChain, Vercel and others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, text_of
from ace.logs.outcomes import is_failed_output
from ace.logs.speakers import spoken_by_user

__all__ = ["add_message", "add_messages", "is_message", "is_message_list", "role_of"]

_ROLE_KEYS: Final = ("role", "from", "sender", "author", "speaker", "source", "type", "kind")
_TEXT_KEYS: Final = (
    "content",
    "text",
    "value",
    "message",
    "utterance",
    "body",
    "parts",
    "blocks",
    "output_text",
    "data",
)
_ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "user",
            "human",
            "customer",
            "client",
            "patient",
            "caller",
            "visitor",
            "end_user",
            "requester",
            "humanmessage",
        ),
        "user",
    ),
    **dict.fromkeys(
        ("assistant", "ai", "gpt", "bot", "chatbot", "agent", "model", "gemini", "llm", "aimessage", "aimessagechunk"),
        "assistant",
    ),
    **dict.fromkeys(("system", "developer", "system_prompt", "systemmessage"), "system"),
    **dict.fromkeys(
        (
            *("tool", "function", "tool_result", "toolresult", "observation", "environment", "ipython"),
            *("function_response", "computer", "toolmessage", "function_call_output", "custom_tool_call_output"),
        ),
        "tool",
    ),
    **dict.fromkeys(("function_call", "tool_call", "custom_tool_call", "local_shell_call", "web_search_call"), "call"),
    "reasoning": "thought",
    "thinking": "thought",
}
_CALL_TYPES: Final = frozenset(
    {
        "tool_use",
        "tooluse",
        "toolcall",
        "tool_call",
        "function_call",
        "functioncall",
        "server_tool_use",
        "server_tool_call",
    }
)
_RESULT_TYPES: Final = frozenset(
    {"tool_result", "toolresult", "tool_call_response", "function_response", "functionresponse", "tool_return"}
    | {"server_tool_call_response"}
)
_THOUGHT_TYPES: Final = frozenset({"thinking", "reasoning", "thought", "redacted_thinking"})
_SKIPPED_TYPES: Final = frozenset(
    {"step_start", "step_finish", "redacted_thinking", "redactedthinking", "snapshot", "compaction"}
)
_THOUGHT_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "thought", "reasoningText")
_LEAST_SHARE: Final = 0.8
_REACT: Final = re.compile(
    r"\A(?P<before>.*?)^Action:[ \t]*(?P<name>.+?)\s*^Action Input:[ \t]*(?P<input>.*)\Z", re.DOTALL | re.MULTILINE
)
_FINAL: Final = re.compile(r"\A(?P<before>.*?)^Final Answer:[ \t]*(?P<answer>.+)\Z", re.DOTALL | re.MULTILINE)
_TAGGED: Final = re.compile(r"\A(?P<before>.*?)<(?P<name>[A-Za-z][\w.-]*)>(?P<input>.*)</(?P=name)>\s*\Z", re.DOTALL)
_THINKING: Final = re.compile(r"<(think|thinking|thought)>(.*?)</\1>", re.DOTALL)
_MARKED_PERSON: Final = re.compile(r"<(?:task|user_message|feedback|user_query)>")


def role_of(message: Mapping[str, Any]) -> str:
    """Return the role of a message: user, assistant, system, tool, call or thought; empty if it has none that is known.

    Args:
        message: A JSON object.

    Example:
        >>> role_of({"from": "gpt", "value": "Hi"}), role_of({"type": "human", "data": {}}), role_of({"role": "x"})
        ('assistant', 'user', '')
    """
    for key in _ROLE_KEYS:
        value = message.get(key)
        if isinstance(value, dict):
            value = value.get("role") or value.get("name")
        if isinstance(value, str) and (role := _ROLES.get(value.lower().replace("-", "_"))):
            return role
    return ""


def is_message(value: object) -> bool:
    """Return whether a JSON value is a chat message: it has a role, and a text, calls or parts.

    Args:
        value: A JSON value.
    """
    if not isinstance(value, dict) or not role_of(value):
        return False
    return any(key in value for key in (*_TEXT_KEYS, "tool_calls", "toolCalls", "function_call", "call_id", "summary"))


def is_message_list(value: object) -> bool:
    """Return whether most items of a list are messages, with a user and an agent among them.

    Args:
        value: A JSON value.
    """
    if not isinstance(value, list) or not value:
        return False
    roles = [role_of(item) for item in value if is_message(item)]
    return len(roles) >= _LEAST_SHARE * len(value) and ("user" in roles or "assistant" in roles)


def add_messages(builder: RunBuilder, messages: Iterable[object], place: str = "") -> None:
    """Add the steps of a list of messages.

    Args:
        builder: Collects the steps.
        messages: Chat messages; what is none is added as a message of the harness.
        place: The position of the list in the log; the number of the message is added to it.
    """
    for number, message in enumerate(messages, 1):
        spot = f"{place}.{number}" if place else str(number)
        if isinstance(message, dict):
            add_message(builder, message, spot)
        else:
            builder.message("harness", text_of(message), spot)


def add_message(builder: RunBuilder, message: Mapping[str, Any], place: str = "", *, role: str = "") -> None:
    """Add the steps of one message.

    Args:
        builder: Collects the steps.
        message: A message of any dialect.
        place: Its position in the log.
        role: Its role, if the reader knows better than `role_of`.
    """
    data = message.get("data")
    if isinstance(data, dict) and "content" in data:  # messages_to_dict of LangChain
        add_message(builder, {**data, "type": message.get("type", data.get("type"))}, place, role=role)
        return
    role = role or role_of(message)
    if role == "call":
        _add_call(builder, message, place)
        return
    for key in _THOUGHT_KEYS:
        if isinstance(message.get(key), str):
            builder.thought(message[key], place)
    if role == "thought":
        builder.thought(_thought_text(message), place)
        return
    content = _content(message)
    if role == "tool" and not _has_results(content):
        _add_result(builder, message, content, place)
    else:
        _add_content(builder, role, content, message, place)
    for call in _calls(message):
        _add_call(builder, call, place)


def _content(message: Mapping[str, Any]) -> Any:
    for key in ("content", "parts", "blocks", "value", "text", "utterance", "body", "output_text", "output"):
        if message.get(key) not in (None, "", []):
            return message[key]
    inner = message.get("message")
    if isinstance(inner, dict):
        return _content(inner)
    return inner


def _has_results(content: object) -> bool:
    return isinstance(content, list) and any(_block_type(block) in _RESULT_TYPES for block in content)


def _block_type(block: object) -> str:
    if not isinstance(block, dict):
        return ""
    named = block.get("type") or block.get("kind") or block.get("part_kind") or block.get("block_type")
    if isinstance(named, str):
        return named.lower().replace("-", "_")
    for key in ("functionCall", "function_call", "toolUse", "functionResponse", "function_response", "toolResult"):
        if isinstance(block.get(key), dict):
            return key.lower()
    return ""


def _add_content(builder: RunBuilder, role: str, content: Any, message: Mapping[str, Any], place: str) -> None:
    if isinstance(content, dict) and not _block_type(content):
        content = (
            content.get("parts") or content.get("content") or content.get("text") or content.get("value") or content
        )
    blocks = content if isinstance(content, list) else [content]
    texts: list[str] = []
    for number, block in enumerate(blocks, 1):
        spot = f"{place}.{number}" if len(blocks) > 1 else place
        text = _plain_text(block)
        if text is not None:
            texts.append(text)
            continue
        _add_said(builder, role, "\n".join(texts), message, place)
        texts = []
        _add_block(builder, role, block, spot)
    _add_said(builder, role, "\n".join(texts), message, place)


def _plain_text(block: object) -> str | None:
    """Return the text of a part that is nothing but text."""
    if block is None:
        return ""
    if isinstance(block, str):
        return block
    if not isinstance(block, dict) or block.get("thought") or block.get("isThought"):
        return None
    kind = _block_type(block)
    if kind in ("text", "input_text", "output_text") or (not kind and set(block) <= {"text", "value"}):
        return text_of(block.get("text") or block.get("content") or block.get("value"))
    return None


def _add_block(builder: RunBuilder, role: str, block: Any, place: str) -> None:
    kind = _block_type(block)
    if not isinstance(block, dict):
        _add_said(builder, role, text_of(block), {}, place)
    elif kind in _SKIPPED_TYPES:
        return
    elif kind in _THOUGHT_TYPES or block.get("thought") or block.get("isThought"):
        builder.thought(_thought_text(block), place)
    elif kind in _CALL_TYPES:
        _add_call(builder, block, place)
    elif kind in _RESULT_TYPES:
        _add_result(builder, block, None, place)
    elif kind.startswith("tool_") or kind == "dynamic_tool" or "toolCallId" in block:
        _add_call_with_state(builder, block, kind, place)
    elif kind in ("image", "image_url", "input_image", "file", "document", "audio", "input_audio", "blob", "uri"):
        builder.message(*_speaker(role, f"[{kind}]"), place)
    else:
        _add_said(builder, role, text_of(block.get("text") or block.get("content") or block), {}, place)


def _add_said(builder: RunBuilder, role: str, text: str, message: Mapping[str, Any], place: str) -> None:
    if not text.strip():
        return
    name = text_of(message.get("name") or "")
    if role == "assistant":
        _add_agent_text(builder, text, place)
    elif role == "user" and builder.has_open_text_call and not _MARKED_PERSON.search(text):
        builder.result(text.strip().removeprefix("Observation:").strip(), place=place, is_error=is_failed_output(text))
    else:
        speaker, said = _speaker(role, text)
        builder.message(speaker, said, place, name=name)


def _speaker(role: str, text: str) -> tuple[Any, str]:
    if role == "user":
        return spoken_by_user(text)
    return {"assistant": "agent", "tool": "tool"}.get(role, "harness"), text


def _add_agent_text(builder: RunBuilder, text: str, place: str) -> None:
    """Add what the agent wrote, in which thoughts and calls may be marked by tags or by `Action:`."""
    for thought in _THINKING.finditer(text):
        builder.thought(thought.group(2), place)
    text = _THINKING.sub("", text).strip()
    # Patterns that search a whole text are slow; that there is nothing to find is seen at once.
    final = _FINAL.match(text) if "Final Answer:" in text else None
    if final is not None:
        builder.thought(final["before"], place)
        builder.message("agent", final["answer"], place)
        return
    call = _REACT.match(text) if "Action Input:" in text else None
    if call is None and text.endswith(">"):
        call = _TAGGED.match(text)
    if call is None:
        builder.message("agent", text, place)
        return
    builder.thought(call["before"].strip().removeprefix("Thought:"), place)
    builder.call(call["name"].strip(), call["input"].strip(), place=place, is_text=True)


def _calls(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = message.get("tool_calls") or message.get("toolCalls") or message.get("toolRequests")
    calls = [call for call in found if isinstance(call, dict)] if isinstance(found, list) else []
    single = message.get("function_call")
    return [*calls, single] if isinstance(single, dict) and not calls else calls


def _add_call(builder: RunBuilder, call: Mapping[str, Any], place: str) -> None:
    call = _unwrapped(
        call, ("functionCall", "function_call", "toolUse", "toolCall", "server_tool_call", "function", "action")
    )
    name = _first(call, ("name", "function", "function_name", "tool_name", "toolName", "tool")) or text_of(
        call.get("type")
    )
    arguments = _first_value(call, ("arguments", "args", "input", "params", "parameters", "command", "query"))
    identity = _first(call, ("call_id", "id", "tool_call_id", "toolCallId", "toolUseId", "callID"))
    builder.call(text_of(name), _parsed(arguments), text_of(identity), place)


def _add_result(builder: RunBuilder, result: Mapping[str, Any], content: Any, place: str) -> None:
    inner = _unwrapped(result, ("functionResponse", "function_response", "toolResult", "run"))
    if content is None:
        content = _first_value(
            inner, ("content", "output", "response", "result", "value", "text", "server_tool_call_response")
        )
    error = inner.get("error") or inner.get("errorText")
    if isinstance(content, dict) and set(content) == {"error"}:
        error = content["error"]
    failed = _failed(inner, error, content)
    identity = _first(inner, ("tool_call_id", "tool_use_id", "call_id", "toolCallId", "toolUseId", "toolUseID", "id"))
    name = _first(inner, ("name", "tool_name", "toolName", "function"))
    text = _result_text(content)
    if error and (not text or content == {"error": error}):
        text = text_of(error.get("message", error) if isinstance(error, dict) else error)
    builder.result(text, text_of(identity), place, name=text_of(name), is_error=failed)


def _failed(result: Mapping[str, Any], error: object, content: object) -> bool:
    for key in ("is_error", "isError", "error"):
        if isinstance(result.get(key), bool):
            return bool(result[key])
    if isinstance(result.get("success"), bool):
        return not result["success"]
    if error:
        return True
    status = result.get("status") or result.get("outcome")
    if isinstance(status, str):
        return status.lower() in ("error", "failed", "retried", "output_error", "output-error")
    return is_failed_output(content)


def _add_call_with_state(builder: RunBuilder, part: Mapping[str, Any], kind: str, place: str) -> None:
    """Add a call that holds its own result, as in the messages of Vercel's SDK."""
    part = _unwrapped(part, ("toolInvocation",))
    name = text_of(part.get("toolName") or kind.removeprefix("tool_"))
    identity = text_of(part.get("toolCallId"))
    builder.call(name, _first_value(part, ("input", "args", "rawInput")), identity, place)
    state = text_of(part.get("state"))
    if state in ("output-error", "output-available", "result") or "output" in part or "result" in part:
        output = _first_value(part, ("errorText", "output", "result"))
        builder.result(output, identity, place, is_error=state == "output-error" or bool(part.get("errorText")))


def _unwrapped(value: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return an object with the fields of the object in it that holds its name or its content."""
    for name in names:
        inner = value.get(name)
        if isinstance(inner, dict):
            outer = {key: item for key, item in value.items() if key != name}
            return {**outer, **inner, **({"id": outer["id"]} if "id" in outer and "id" not in inner else {})}
    return value


def _first(value: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((found for name in names if isinstance(found := value.get(name), str) and found), "")


def _first_value(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _parsed(arguments: Any) -> Any:
    """Return arguments that are written as JSON in a text in one form, so that equal calls have equal texts."""
    if isinstance(arguments, str) and arguments.lstrip().startswith(("{", "[")):
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _result_text(content: Any) -> str:
    if isinstance(content, list):
        texts = [_plain_text(block) for block in content]
        if all(text is not None for text in texts):
            return "\n".join(text for text in texts if text)
        return "\n".join(
            text if text is not None else _other_text(block) for text, block in zip(texts, content, strict=True)
        )
    if isinstance(content, dict) and content.keys() == {"type", "value"}:  # outputs of Vercel's SDK
        content = content["value"]
    return text_of(content)


def _other_text(block: Any) -> str:
    kind = _block_type(block)
    if kind in ("image", "image_url", "input_image"):
        return f"[{kind}]"
    if isinstance(block, dict) and "json" in block:
        return text_of(block["json"])
    return text_of(block)


def _thought_text(block: Mapping[str, Any]) -> str:
    summary = block.get("summary")
    if isinstance(summary, list):
        return "\n".join(text_of(item.get("text")) for item in summary if isinstance(item, dict))
    return text_of(_first_value(block, ("thinking", "reasoning", "text", "content", "thought", "data")))
