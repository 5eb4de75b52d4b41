"""Convert chat messages of OpenAI, Anthropic and LangChain to steps of the standard trace."""

from __future__ import annotations

from ace.roles.trace_reading.plain import EMPTY, Plain, as_text
from ace.traces import StepKind, TraceStep, trace_step

__all__ = ["final_text", "first_user_text", "is_message", "steps_of"]


_KINDS: dict[str, StepKind] = {"thought": "thought", "call": "call", "result": "result", "message": "message"}
_ROLES = {"human": "user", "ai": "assistant"}
_SPEAKERS = ("user", "assistant", "system", "developer", "tool", "function", "human", "ai", "chat")
_STEP_KEYS = frozenset(TraceStep.__annotations__)
_TEXT_BLOCKS = ("text", "input_text", "output_text")


def is_message(item: Plain) -> bool:
    """Return whether plain data is a chat message."""
    if not isinstance(item, dict):
        return False
    return _speaker(item) is not None and ("content" in item or "tool_calls" in item or "text" in item)


def steps_of(items: list[Plain]) -> list[TraceStep]:
    """Return the steps of a list of messages, steps or other objects, in order.

    Args:
        items: Plain data; an item that is not a message becomes one step with its whole content.

    Example:
        >>> [step["content"] for step in steps_of([{"role": "user", "content": "Hi"}])]
        ['Hi']
    """
    steps: list[TraceStep] = []
    for number, item in enumerate(items, start=1):
        place = str(number)
        if isinstance(item, dict) and _is_standard_step(item):
            steps.append(_kept(item))
        elif isinstance(item, dict) and is_message(item):
            steps.extend(_message_steps(item, place))
        else:
            steps.append(trace_step("message", "", as_text(item), place))
    return steps


def first_user_text(items: list[Plain]) -> str:
    """Return the text of the first user message, or an empty text."""
    for item in items:
        if isinstance(item, dict) and _speaker(item) == "user" and (text := _spoken(item)):
            return text
    return ""


def final_text(items: list[Plain]) -> str:
    """Return the text of the last assistant message, or an empty text."""
    for item in reversed(items):
        if isinstance(item, dict) and _speaker(item) == "assistant" and (text := _spoken(item)):
            return text
    return ""


def _speaker(message: dict[str, Plain]) -> str | None:
    for key in ("role", "type"):
        name = message.get(key)
        if isinstance(name, str) and _is_speaker(name):
            return _ROLES.get(name.lower(), name.lower())
    return None


def _is_speaker(name: Plain) -> bool:
    return isinstance(name, str) and name.lower() in _SPEAKERS


def _spoken(message: dict[str, Plain]) -> str:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(text for block in blocks if (text := _block_text(block)))


def _block_text(block: Plain) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type") in _TEXT_BLOCKS:
        return as_text(block.get("text"))
    return ""


def _message_steps(message: dict[str, Plain], place: str) -> list[TraceStep]:
    speaker = _speaker(message) or ""
    rest = dict(message)
    rest.pop("role" if _is_speaker(rest.get("role")) else "type")
    steps = _thoughts(rest, place)
    if speaker in ("tool", "function"):
        steps.append(_tool_result(rest, speaker, place))
    else:
        content = rest.pop("content", None)
        blocks = content if isinstance(content, list) else [content]
        for number, block in enumerate(blocks, start=1):
            if block not in EMPTY:
                spot = f"{place}.{number}" if len(blocks) > 1 else place
                steps.extend(_block_steps(block, speaker, spot))
    calls = rest.pop("tool_calls", None)
    for number, call in enumerate(calls if isinstance(calls, list) else [calls], start=1):
        if call not in EMPTY:
            steps.extend(_call_steps(call, f"{place}.call{number}"))
    return steps + _other_fields(rest, speaker, place)


def _thoughts(rest: dict[str, Plain], place: str) -> list[TraceStep]:
    steps: list[TraceStep] = []
    for key in ("reasoning_content", "reasoning", "thinking"):
        thought = rest.get(key)
        if isinstance(thought, str) and thought:
            del rest[key]
            steps.append(trace_step("thought", "assistant", thought, place))
    return steps


def _tool_result(rest: dict[str, Plain], speaker: str, place: str) -> TraceStep:
    name = _named(_taken_text(rest, "name") or speaker, _taken_text(rest, "tool_call_id"))
    failed = rest.get("status") == "error" or rest.get("is_error") is True
    return trace_step("result", name, as_text(rest.pop("content", None)), place, is_error=failed)


def _block_steps(block: Plain, speaker: str, place: str) -> list[TraceStep]:
    """Return the steps of one part of a message; parts of an unknown type remain JSON."""
    if not isinstance(block, dict):
        return [trace_step("message", speaker, as_text(block), place)]
    rest = dict(block)
    kind = rest.pop("type", None)
    if kind in _TEXT_BLOCKS:
        step = trace_step("message", speaker, as_text(rest.pop("text", None)), place)
    elif kind == "thinking":
        step = trace_step("thought", speaker, as_text(rest.pop("thinking", None)), place)
    elif kind == "tool_use":
        name = _named(_taken_text(rest, "name"), _taken_text(rest, "id"))
        step = trace_step("call", name, as_text(rest.pop("input", None)), place)
    elif kind == "tool_result":
        name = _named("tool", _taken_text(rest, "tool_use_id"))
        failed = rest.get("is_error") is True
        if isinstance(rest.get("is_error"), bool):
            del rest["is_error"]
        step = trace_step("result", name, _result_text(rest.pop("content", None)), place, is_error=failed)
    else:
        return [trace_step("message", speaker, as_text(block), place)]
    return [step, *_other_fields(rest, speaker, place)]


def _call_steps(call: Plain, place: str) -> list[TraceStep]:
    """Return the steps of one tool call in the format of OpenAI (`function`) or LangChain (`args`)."""
    if not isinstance(call, dict):
        return [trace_step("call", "", as_text(call), place)]
    rest = dict(call)
    if rest.get("type") in ("function", "tool_call"):
        del rest["type"]
    function = rest.get("function")
    if isinstance(function, dict) and not set(function) & set(rest):
        del rest["function"]
        rest.update(function)
    name = _named(_taken_text(rest, "name"), _taken_text(rest, "id"))
    arguments = rest.pop("arguments" if "arguments" in rest else "args", None)
    return [trace_step("call", name, as_text(arguments), place), *_other_fields(rest, name, place)]


def _other_fields(rest: dict[str, Plain], name: str, place: str) -> list[TraceStep]:
    """Return a step with the remaining fields, if any of them is not empty."""
    left = {key: value for key, value in rest.items() if value not in EMPTY}
    return [trace_step("message", f"{name} (other fields)".strip(), as_text(left), place)] if left else []


def _result_text(content: Plain) -> str:
    """Return the text of a tool result, which may consist of blocks."""
    if isinstance(content, list) and all(isinstance(b, dict) and set(b) == {"type", "text"} for b in content):
        return "\n".join(_block_text(block) or as_text(block) for block in content)
    return as_text(content)


def _taken_text(rest: dict[str, Plain], key: str) -> str:
    value = rest.get(key)
    if not isinstance(value, str):
        return ""
    del rest[key]
    return value


def _named(name: str, call_id: str) -> str:
    """Add the id of a call to its name, to match it with its result."""
    return f"{name} #{call_id}" if call_id else name


def _is_standard_step(item: dict[str, Plain]) -> bool:
    texts = all(isinstance(item.get(key), str) for key in ("name", "content", "place"))
    return texts and set(item) == _STEP_KEYS and item["kind"] in _KINDS and isinstance(item["is_error"], bool)


def _kept(item: dict[str, Plain]) -> TraceStep:
    return trace_step(
        _KINDS[as_text(item["kind"])],
        as_text(item["name"]),
        as_text(item["content"]),
        as_text(item["place"]),
        is_error=item["is_error"] is True,
    )
