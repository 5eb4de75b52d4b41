"""Converts messages to steps of the standard trace."""

from __future__ import annotations

from collections.abc import Iterable

from ace.traces import TraceStep, trace_step
from ace_langchain.messages import PlainMessage, text_of

__all__ = ["arguments_text", "steps_of_message", "steps_of_messages", "words_of"]

_SPEAKERS = {"human": "user", "ai": "assistant"}


def steps_of_message(message: PlainMessage, place: str) -> list[TraceStep]:
    """Return the steps of one message: its thought, text, tool calls or tool result.

    Args:
        message: The message to convert.
        place: The name of the place for the steps.

    Example:
        >>> from ace_langchain.messages import plain_message
        >>> message = plain_message({"type": "tool", "content": "no such city", "name": "weather", "status": "error"})
        >>> [(step["kind"], step["name"], step["is_error"]) for step in steps_of_message(message, "3")]
        [('result', 'weather', True)]
    """
    steps = [trace_step("thought", "assistant", message["thought"], place)] if message["thought"] else []
    if message["type"] in ("tool", "function"):
        name = message["name"] or "tool"
        return [*steps, trace_step("result", name, message["content"], place, is_error=message["is_error"])]
    if message["content"]:
        speaker = _SPEAKERS.get(message["type"], message["type"])
        steps.append(trace_step("message", speaker, message["content"], place))
    calls = [trace_step("call", call["name"], arguments_text(call["args"]), place) for call in message["tool_calls"]]
    return steps + calls


def steps_of_messages(messages: Iterable[PlainMessage]) -> list[TraceStep]:
    """Return the steps of a conversation. System messages are omitted, because they may contain the skillbook.

    Args:
        messages: The messages, in order.
    """
    return [
        step
        for number, message in enumerate(messages, 1)
        if message["type"] != "system"
        for step in steps_of_message(message, str(number))
    ]


def arguments_text(arguments: object) -> str:
    """Return the arguments of a call as text.

    Args:
        arguments: A dict, or the text that a model wrote.
    """
    return text_of(arguments)


def words_of(answer: PlainMessage) -> str:
    """Return all texts that a model wrote: thoughts, answer and arguments of tool calls.

    Args:
        answer: The answer of the model.
    """
    arguments = (arguments_text(call["args"]) for call in answer["tool_calls"])
    return "\n".join([answer["thought"], answer["content"], *arguments])
