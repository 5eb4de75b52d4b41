"""The steps of the standard trace, and how messages become steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from ace_langchain.messages import PlainMessage, text_of

__all__ = ["TraceStep", "arguments_text", "render_steps", "steps_of_message", "steps_of_messages", "words_of"]

_SPEAKERS = {"human": "user", "ai": "assistant"}


class TraceStep(TypedDict):
    """One step of a run."""

    kind: Literal["thought", "call", "result", "message"]
    name: str
    """Who speaks, or the tool."""
    content: str
    is_error: bool
    place: str
    """Its number, and where in the chain or graph it happened."""


def steps_of_message(message: PlainMessage, place: str) -> list[TraceStep]:
    """Return what one message did: thought, said, called, or answered a call.

    Args:
        message: The message.
        place: Where it stands.

    Example:
        >>> from ace_langchain.messages import plain_message
        >>> message = plain_message({"type": "tool", "content": "no such city", "name": "weather", "status": "error"})
        >>> [(step["kind"], step["name"], step["is_error"]) for step in steps_of_message(message, "3")]
        [('result', 'weather', True)]
    """
    steps = [_step("thought", "assistant", message["thought"], place)] if message["thought"] else []
    if message["type"] in ("tool", "function"):
        name = message["name"] or "tool"
        return [*steps, _step("result", name, message["content"], place, is_error=message["is_error"])]
    if message["content"]:
        speaker = _SPEAKERS.get(message["type"], message["type"])
        steps.append(_step("message", speaker, message["content"], place))
    calls = [_step("call", call["name"], arguments_text(call["args"]), place) for call in message["tool_calls"]]
    return steps + calls


def steps_of_messages(messages: Iterable[PlainMessage]) -> list[TraceStep]:
    """Return what a conversation did. What a system message says is no part of it: it may hold the skillbook.

    Args:
        messages: The messages, in order.
    """
    return [
        step
        for number, message in enumerate(messages, 1)
        if message["type"] != "system"
        for step in steps_of_message(message, str(number))
    ]


def render_steps(steps: Iterable[TraceStep]) -> str:
    """Return steps as text, in order; failed ones are marked.

    Args:
        steps: The steps.

    Example:
        >>> step = TraceStep(kind="call", name="add", content="{}", is_error=False, place="2 in tools")
        >>> print(render_steps([step]))
        [2 in tools] call add
        {}
    """
    lines = []
    for step in steps:
        failed = " (failed)" if step["is_error"] else ""
        lines.append(f"[{step['place']}] {step['kind']} {step['name']}{failed}\n{step['content']}")
    return "\n".join(lines)


def arguments_text(arguments: object) -> str:
    """Return the arguments of a call as text.

    Args:
        arguments: A dict, or the text that a model wrote.
    """
    return text_of(arguments)


def words_of(answer: PlainMessage) -> str:
    """Return all that a model wrote itself: thoughts, text, and the arguments of its calls.

    Args:
        answer: What it answered.
    """
    arguments = (arguments_text(call["args"]) for call in answer["tool_calls"])
    return "\n".join([answer["thought"], answer["content"], *arguments])


def _step(
    kind: Literal["thought", "call", "result", "message"],
    name: str,
    content: str,
    place: str,
    *,
    is_error: bool = False,
) -> TraceStep:
    return TraceStep(kind=kind, name=name, content=content, is_error=is_error, place=place)
