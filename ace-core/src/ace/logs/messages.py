"""Turns chat messages of any dialect into steps: OpenAI, Anthropic, Google, Bedrock, LangChain, Vercel and others."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ace.logs.agent_texts import add_agent_text
from ace.logs.building import RunBuilder, text_of
from ace.logs.outcomes import is_failed_output
from ace.logs.speakers import spoken_by_user

__all__ = [
    "HUMAN_AGENTS",
    "add_message",
    "add_messages",
    "event_role",
    "is_message",
    "is_message_list",
    "response_messages",
    "response_text",
    "role_of",
]

_ROLE_KEYS: Final = ("role", "from", "sender", "author", "speaker", "source", "type", "kind", "event")
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
HUMAN_AGENTS: Final = ("agent", "admin", "operator", "support", "staff", "representative", "advisor", "human_agent")
"""Who answers in a help desk: people, at least where a bot speaks too."""
_NAMES_OF_ROLES: Final[Mapping[str, Sequence[str]]] = {
    "user": (
        *("user", "human", "customer", "client", "patient", "caller", "visitor", "end_user", "requester", "enduser"),
        *("guest", "humanmessage"),
    ),
    "assistant": (
        *("assistant", "ai", "gpt", "bot", "chatbot", "model", "gemini", "llm", "aimessage", "aimessagechunk"),
        *("system_agent", "ai_agent", "ai_assistant", "claude", "chatgpt", "copilot", "tool_calls", *HUMAN_AGENTS),
    ),
    "system": ("system", "developer", "system_prompt", "systemmessage", "instructions"),
    "tool": (
        *("tool", "function", "tool_result", "toolresult", "observation", "environment", "ipython", "computer"),
        *("function_response", "toolmessage", "function_call_output", "custom_tool_call_output", "tool_response"),
        *("tool_output", "functionmessage", "function_result", "local_shell_call_output", "computer_call_output"),
        *("mcp_call_output", "tool_call_output", "tool_call_result", "tool_search_output"),
    ),
    "call": (
        *("function_call", "tool_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_use"),
        *("image_generation_call", "file_search_call", "computer_call", "code_interpreter_call", "mcp_call"),
        "tool_search_call",
    ),
    "thought": ("reasoning", "thinking"),
}
_ROLES: Final = {name: role for role, names in _NAMES_OF_ROLES.items() for name in names}
_CALL_TYPES: Final = frozenset(
    {"tool_use", "tooluse", "toolcall", "tool_call", "function_call", "functioncall"}
    | {"server_tool_use", "server_tool_call"}
)
_RESULT_TYPES: Final = frozenset(
    {"tool_result", "toolresult", "tool_call_response", "function_response", "functionresponse", "tool_return"}
    | {"server_tool_call_response"}
)
_MEDIA: Final = frozenset(
    {"image", "image_url", "input_image", "file", "input_file", "document", "audio", "input_audio", "video", "binary"}
    | {"blob", "uri"}
)
_THOUGHT_TYPES: Final = frozenset({"thinking", "reasoning", "thought", "redacted_thinking"})
_SKIPPED_TYPES: Final = frozenset(
    {"step_start", "step_finish", "redacted_thinking", "redactedthinking", "snapshot", "compaction"}
)
_KEYS_OF_PARTS: Final = (
    *("functionCall", "function_call", "toolUse", "functionResponse", "function_response", "toolResult"),
    *("toolCall", "toolRequest", "toolResponse", "reasoningContent", "executableCode", "executable_code"),
    *("codeExecutionResult", "code_execution_result"),
)
"""Keys that name the type of a part, where the messages of Google and Amazon have no type."""
_PART_TYPES: Final = frozenset({"text", "input_text", "output_text", *_CALL_TYPES, *_RESULT_TYPES, *_THOUGHT_TYPES})
_THOUGHT_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "thought", "reasoningText")
_CALL_KEYS: Final = ("tool_calls", "toolCalls", "toolRequests", "toolInvocations")
_FAILED: Final = ("error", "failed", "retried", "output_error", "output-error", "cancelled", "denied", "declined")
_CALL_HOLDERS: Final = (
    "functionCall",
    "function_call",
    "toolUse",
    "toolCall",
    "server_tool_call",
    "function",
    "action",
)
_RESULT_KEYS: Final = (
    *("content", "output", "response", "result", "result_value", "value", "text", "server_tool_call_response"),
)
_LONGEST_ROLE: Final = 40
_LEAST_SHARE: Final = 0.8
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
            value = value.get("role") or value.get("type") or value.get("name")
        if isinstance(value, str) and (role := _ROLES.get(value) or _ROLES.get(_plain_name(value))):
            return role
    return ""


_KEYS_OF_RESPONSES: Final = (
    *("body", "messages", "choices", "candidates", "generations", "output", "response", "message", "content"),
)
_OF_CHOICES: Final = frozenset({"finish_reason", "index", "logprobs", "tool_calls"})
_EVENT_ROLES: Final = (
    ("tool", r"(?:tool|function|action|command)_.*(?:result|output|response|end|finish|complete|return|error).*"),
    ("tool", r".*observation"),
    ("call", r"(?:(?:tool|function|command)_.*(?:call|use|start|invo|request|begin|exec).*|action|tool)"),
    ("thought", r"(?:.*_)?(?:thought|thinking|reasoning|reflection)"),
    ("assistant", r"(?:assistant|agent|ai|llm|model|bot)_(?:message|response|output|reply|text|answer|said|end)"),
    ("assistant", r"(?:final_)?(?:answer|response|reply)"),
    ("user", r"(?:user|human|customer)(?:_(?:message|input|prompt|query|request|said|turn|feedback))?"),
)
"""Roles by the type of an event in lower case with underscores."""


def event_role(event: Mapping[str, Any]) -> str:
    """Return the role of an event of an unknown program, from the words in its type; empty if they say nothing.

    Args:
        event: A JSON object.

    Example:
        >>> event_role({"event": "toolCallStarted"}), event_role({"type": "llm.response"}), event_role({"type": "ping"})
        ('call', 'assistant', '')
    """
    for key in ("type", "event", "kind", "event_type", "eventType", "name", "action"):
        value = event.get(key)
        if isinstance(value, str) and value:
            words = re.sub(r"[^a-z]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", value).lower()).strip("_")
            return next((role for role, pattern in _EVENT_ROLES if re.fullmatch(pattern, words)), "")
    return ""


def _plain_name(role: str) -> str:
    return re.sub(r"[\s-]+", "_", role.strip().lower().rstrip(":")) if len(role) < _LONGEST_ROLE else ""


def is_message(value: object) -> bool:
    """Return whether a JSON value is a chat message: it has a role, and a text, calls or parts.

    Args:
        value: A JSON value.
    """
    role = role_of(value) if isinstance(value, dict) else ""
    if not isinstance(value, dict) or not role:
        return False
    if role == "tool" and "result" in value:
        return True
    return any(key in value for key in (*_TEXT_KEYS, *_CALL_KEYS, "function_call", "call_id", "summary", "output"))


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
    further = message.get("additional_kwargs")
    if isinstance(further, dict):  # LangChain and LlamaIndex keep there what only some models have
        message = {**further, **{key: value for key, value in message.items() if value or key not in further}}
    role = role or role_of(message)
    if role == "call":
        inner = _parsed(_content(message))
        is_whole = isinstance(inner, dict) and "name" in inner and "name" not in message
        _add_call(builder, inner if is_whole else message, place)
        return
    for key in _THOUGHT_KEYS:
        if isinstance(message.get(key), str):
            builder.thought(message[key], place)
    if role == "thought" or message.get("isThought") is True:
        builder.thought(_thought_text(message), place)
        return
    for part in _invocations(message):
        _add_call_with_state(builder, part, "", place)
    content = _content(message)
    if role == "tool" and not _has_results(content):
        _add_result(builder, message, content, place)
    else:
        _add_content(builder, role, content, message, place)
    for call in _calls(message):
        _add_call(builder, call, place)
    for result in message.get("tool_results") or message.get("toolResults") or ():
        if isinstance(result, dict):
            _add_result(builder, result, None, place)


def response_text(value: object) -> str | None:
    """Return the text that a model answered: in the response of a model server, a message, or a list of messages.

    Args:
        value: A JSON value. None is returned if it is nothing of that kind.

    Example:
        >>> response_text({"choices": [{"message": {"role": "assistant", "content": "14 days"}}]})
        '14 days'
        >>> response_text({"days": 14}) is None
        True
    """
    messages = response_messages(value)
    return _answer_in(messages) if messages else None


def response_messages(value: object) -> Sequence[Mapping[str, Any]]:
    """Return the messages in the response of a model server, a message, or a list of messages; none in other values.

    Args:
        value: A JSON value.
    """
    if isinstance(value, list):
        if is_message_list(value):
            return [message for message in value if isinstance(message, dict)]
        return response_messages(value[0]) if len(value) == 1 and isinstance(value[0], dict) else ()
    if not isinstance(value, dict):
        return ()
    if is_message(value) and role_of(value) in ("assistant", "user"):
        return [value]
    for key in _KEYS_OF_RESPONSES:
        inner = value.get(key)
        if isinstance(inner, dict | list) and (found := response_messages(inner)):
            return found
    is_choice = isinstance(value.get("text"), str) and not _OF_CHOICES.isdisjoint(value)
    return [{**value, "role": "assistant"}] if is_choice else ()


def _answer_in(messages: Sequence[Any]) -> str:
    """Return the last text of the agent in messages, or of anyone if the agent has none."""
    builder = RunBuilder()
    for message in messages:
        add_message(builder, message)
    said = [step for step in builder.steps if step.kind == "message"]
    agent = [step for step in said if step.speaker == "agent"]
    return (agent or said)[-1].content if said else ""


def _content(message: Mapping[str, Any]) -> Any:
    for key in ("content", "parts", "blocks", "value", "text", "utterance", "body", "output_text", "output"):
        if message.get(key) not in (None, "", []):
            return _blocks_in_text(message[key])
    inner = message.get("message")
    if isinstance(inner, dict):
        return _content(inner)
    return inner


def _blocks_in_text(content: Any) -> Any:
    """Return the parts of a message that a table or a log holds as a text of JSON or Python; other content as it is."""
    if not isinstance(content, str) or not content.lstrip().startswith("[{"):
        return content
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        try:
            parsed = ast.literal_eval(content)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return content
    is_parts = all(isinstance(part, dict) and _block_type(part) in _PART_TYPES for part in parsed)
    return parsed if is_parts else content


def _has_results(content: object) -> bool:
    return isinstance(content, list) and any(_block_type(block) in _RESULT_TYPES for block in content)


def _block_type(block: object) -> str:
    if not isinstance(block, dict):
        return ""
    named = block.get("type") or block.get("kind") or block.get("part_kind") or block.get("block_type")
    if isinstance(named, str):
        return named.lower().replace("-", "_")
    for key in _KEYS_OF_PARTS:
        if isinstance(block.get(key), dict):
            return "reasoning" if key == "reasoningContent" else key.lower()
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
    if kind in _MEDIA:
        return f"[{kind}]"
    if kind in ("text", "input_text", "output_text") or (not kind and set(block) <= {"text", "value"}):
        text = block.get("text") or block.get("content") or block.get("value")
        return text_of(text.get("value", text) if isinstance(text, dict) else text)
    return None


def _add_block(builder: RunBuilder, role: str, block: Any, place: str) -> None:
    kind = _block_type(block)
    if not isinstance(block, dict):
        _add_said(builder, role, text_of(block), {}, place)
    elif kind in _SKIPPED_TYPES:
        return
    elif kind.startswith("executable"):
        builder.call("code", _first_value(block, ("executableCode", "executable_code")).get("code"), place=place)
    elif kind.startswith(("codeexecution", "code_execution")):
        result = _first_value(block, ("codeExecutionResult", "code_execution_result"))
        is_error = result.get("outcome") not in (None, "OUTCOME_OK")
        builder.result(result.get("output"), place=place, is_error=is_error)
    elif kind in _THOUGHT_TYPES or block.get("thought") or block.get("isThought"):
        builder.thought(_thought_text(block), place)
    elif kind in _CALL_TYPES:
        _add_call(builder, block, place)
    elif kind in _RESULT_TYPES:
        _add_result(builder, block, None, place)
    elif kind.startswith("tool_") or kind == "dynamic_tool" or "toolCallId" in block:
        _add_call_with_state(builder, block, kind, place)
    else:
        _add_said(builder, role, text_of(block.get("text") or block.get("content") or block), {}, place)


def _add_said(builder: RunBuilder, role: str, text: str, message: Mapping[str, Any], place: str) -> None:
    if not text.strip():
        return
    name = text_of(message.get("name") or "")
    if role == "assistant":
        add_agent_text(builder, text, place)
    elif role == "user" and builder.has_open_text_call and not _MARKED_PERSON.search(text):
        builder.result(text.strip().removeprefix("Observation:").strip(), place=place, is_error=is_failed_output(text))
    else:
        speaker, said = _speaker(role, text)
        builder.message(speaker, said, place, name=name)


def _speaker(role: str, text: str) -> tuple[Any, str]:
    if role == "user":
        return spoken_by_user(text)
    return {"assistant": "agent", "tool": "tool"}.get(role, "harness"), text


def _invocations(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the calls with their results that older messages of Vercel's SDK have beside the text after them."""
    found = message.get("toolInvocations") if not message.get("parts") else None
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _calls(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = next((_parsed(message[key]) for key in _CALL_KEYS[:3] if message.get(key)), None)
    calls = [call for call in found if isinstance(call, dict)] if isinstance(found, list) else []
    single = message.get("function_call")
    return [*calls, single] if isinstance(single, dict) and not calls else calls


def _add_call(builder: RunBuilder, call: Mapping[str, Any], place: str) -> None:
    kind = text_of(call.get("type")).removesuffix("_call")
    call = _unwrapped(call, _CALL_HOLDERS)
    name = _first(call, ("name", "function", "function_name", "tool_name", "toolName", "tool")) or kind
    arguments = _first_value(
        call, ("arguments", "args", "input", "params", "parameters", "params_as_json", "command", "query")
    )
    identity = _first(call, ("call_id", "id", "tool_call_id", "toolCallId", "toolUseId", "callID", "request_id"))
    builder.call(text_of(name), _parsed(arguments), text_of(identity), place)


def _add_result(builder: RunBuilder, result: Mapping[str, Any], content: Any, place: str) -> None:
    inner = _unwrapped(result, ("functionResponse", "function_response", "toolResult", "run"))
    if content is None:
        content = _first_value(inner, _RESULT_KEYS)
    error = inner.get("error") or inner.get("errorText")
    if isinstance(content, dict) and set(content) == {"error"}:
        error = content["error"]
    elif isinstance(content, dict) and set(content) == {"output"}:  # of Google's function responses
        content = content["output"]
    failed = _failed(inner, error, _result_text(content) if isinstance(content, list) else content)
    identity = _first(
        inner, ("tool_call_id", "tool_use_id", "call_id", "toolCallId", "toolUseId", "toolUseID", "id", "request_id")
    )
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
        return status.lower() in _FAILED
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
    if isinstance(block, dict) and "json" in block:
        return text_of(block["json"])
    return text_of(block)


def _thought_text(block: Mapping[str, Any]) -> str:
    summary = block.get("summary")
    if isinstance(summary, list) and summary:
        return "\n".join(text_of(item.get("text")) for item in summary if isinstance(item, dict))
    found = _first_value(block, ("thinking", "reasoning", "text", "content", "thought", "reasoningContent", "data"))
    if isinstance(found, list):
        return "\n".join(text_of(item.get("text")) for item in found if isinstance(item, dict))
    inner = found.get("reasoningText", found) if isinstance(found, dict) else found
    return text_of(inner.get("text", inner) if isinstance(inner, dict) else inner)
