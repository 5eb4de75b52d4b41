"""Reads one event of a session: question, thoughts, text, tool calls, results, or failure."""

from __future__ import annotations

import re

from ace.integrations import Record, list_in, mapping_in, number_in, text_in
from ace.logs import RunBuilder

__all__ = ["add_steps", "calls_tools", "is_echo", "message_of", "own_words", "problem_of", "question_in"]

# OpenClaw writes these messages in the role of the user.
_SYNTHETIC = ("A new session was started via /new or /reset", "Read HEARTBEAT.md if it exists")
_OF_A_SCHEDULE = "[cron:"
_INTERNAL = re.compile(r"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>.*?<<<END_OPENCLAW_INTERNAL_CONTEXT>>>", re.DOTALL)
_TIME = re.compile(r"\A\[[A-Z][a-z]{2} \d{4}-\d{2}-\d{2} \d{2}:\d{2}[^\]]*\] ")
# The history in a model's prompt has no details, only this text.
_EXITED = re.compile(r"\(Command exited with code [1-9]\d*\)\s*\Z")
_FAILED = frozenset({"failed", "error", "timeout", "killed", "denied", "blocked"})


def message_of(event: Record, role: str) -> Record:
    """Return the message of an event if it has a role, otherwise an empty object.

    Args:
        event: The event to read.
        role: `user`, `assistant` or `toolResult`.
    """
    message = mapping_in(event, "message") if event.get("type") == "message" else {}
    return message if message.get("role") == role else {}


def is_echo(event: Record) -> bool:
    """Return whether an event only repeats a message that was sent to a chat."""
    message = message_of(event, "assistant")
    return message.get("provider") == "openclaw" and message.get("model") == "delivery-mirror"


def question_in(event: Record) -> str:
    """Return the user's question in an event; empty for messages that OpenClaw writes in the role of the user.

    Example:
        >>> question_in({"type": "message", "message": {"role": "user", "content": "Fix it."}})
        'Fix it.'
        >>> start = "A new session was started via /new or /reset. Execute your Session Startup sequence now"
        >>> question_in({"type": "message", "message": {"role": "user", "content": start}})
        ''
    """
    message = message_of(event, "user")
    text = _TIME.sub("", _INTERNAL.sub("", _words(message)).strip()).strip()
    if text.startswith(_SYNTHETIC):
        return ""
    return text or ("[something without words]" if _parts(message, "image", "audio", "file") else "")


def own_words(event: Record) -> str:
    """Return the model's text in an event, without thoughts and tool calls; empty for echoes."""
    return "" if is_echo(event) else _words(message_of(event, "assistant")).strip()


def calls_tools(event: Record) -> bool:
    """Return whether the model calls tools in an event."""
    return bool(_parts(message_of(event, "assistant"), "toolCall"))


def problem_of(event: Record) -> str:
    """Describe the failure of the model in an event; empty if it did not fail.

    Example:
        >>> problem_of({"type": "message", "message": {"role": "assistant", "content": [], "stopReason": "error",
        ...             "errorCode": "529", "errorMessage": "overloaded"}})
        'The model failed (529): overloaded'
    """
    message = message_of(event, "assistant")
    if message.get("stopReason") == "aborted":
        return "The run was aborted."
    error = text_in(message, "errorMessage")
    if message.get("stopReason") != "error" and not error:
        return ""
    code = text_in(message, "errorCode")
    return f"The model failed{f' ({code})' if code else ''}: {error or 'no reason given'}"


def add_steps(builder: RunBuilder, event: Record, place: str) -> None:
    """Add the steps of an event.

    Args:
        builder: Collects the steps.
        place: The place of the event in the session.
    """
    kind = event.get("type")
    if is_echo(event):
        return
    if kind in ("compaction", "branch_summary"):
        builder.message("harness", text_in(event, "summary"), place, name="summary")
    elif kind == "custom_message":
        words = _INTERNAL.sub("", _words(event))
        builder.message("harness", words, place, name=text_in(event, "customType") or "extension")
    elif question := question_in(event):
        builder.message("harness" if question.startswith(_OF_A_SCHEDULE) else "person", question, place)
    elif result := message_of(event, "toolResult"):
        name, call = text_in(result, "toolName") or "tool", text_in(result, "toolCallId")
        builder.result(_result_text(result), call, place, name=name, is_error=_is_failure(result))
    elif command := message_of(event, "bashExecution"):  # a command of the user
        builder.call("bash", text_in(command, "command"), place, place)
        builder.result(text_in(command, "output"), place, place, is_error=_is_failed_command(command))
    else:
        _add_answer(builder, event, place)


def _add_answer(builder: RunBuilder, event: Record, place: str) -> None:
    message = message_of(event, "assistant")
    for part in _parts(message, "thinking"):
        builder.thought(text_in(part, "thinking"), place)
    builder.message("agent", own_words(event), place)
    builder.message("harness", problem_of(event), place, name="assistant", is_error=True)
    for call in _parts(message, "toolCall"):
        builder.call(text_in(call, "name") or "tool", call.get("arguments"), text_in(call, "id"), place)


def _is_failed_command(command: Record) -> bool:
    return bool(command.get("cancelled")) or number_in(command, "exitCode") not in (None, 0)


def _is_failure(result: Record) -> bool:
    """Return whether a tool failed. Since release 2026.8, a failed command only has an exit code."""
    details = mapping_in(result, "details")
    code = number_in(details, "exitCode")
    return (
        result.get("isError") is True
        or (code is not None and code != 0)
        or text_in(details, "status") in _FAILED
        or bool(details.get("timedOut"))
        or _EXITED.search(_words(result)) is not None
    )


def _result_text(result: Record) -> str:
    text = _words(result)
    details = mapping_in(result, "details")
    code = number_in(details, "exitCode")
    if code and not _EXITED.search(text):
        return f"{text}\n(exit code {code:.0f})".strip()
    return text or text_in(details, "aggregated")


def _words(message: Record) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type") in ("text", "output_text", "input_text"):
            texts.append(text_in(part, "text"))
    return "\n".join(texts)


def _parts(message: Record, *kinds: str) -> list[Record]:
    return [part for part in list_in(message, "content") if isinstance(part, dict) and part.get("type") in kinds]
