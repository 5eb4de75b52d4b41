"""Reads the tasks of Cline, Roo Code and the Kilo extension: what was sent to the model, or what was shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, objects_of, sum_of, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user
from ace.logs.sqlite import json_in

__all__ = ["READERS", "ClineMessagesReader", "ClineReader"]

_FILES: Final = ("api_conversation_history.json",)
_SIGNS: Final = ("<environment_details>", "<attempt_completion>", "[ERROR] You did not use a tool")
_TASK: Final = re.compile(r"<(?:task|user_message)>\n")
_DETAILS: Final = re.compile(r"<environment_details>.*?</environment_details>", re.DOTALL)
_PERSON: Final = re.compile(r"<(task|user_message|feedback|answer|user_input)(?: mode=\"\w+\")?>(.*?)</\1>", re.DOTALL)
_FEEDBACK: Final = re.compile(r"<(feedback|user_message)>\n(.*?)\n</\1>", re.DOTALL)
"""What a person says in the result of a tool, whose output may have tags of its own."""
_RESULT: Final = re.compile(r"\A\s*\[\w+(?: for '.*?')?\] Result:\s*", re.DOTALL)
_FAILED: Final = ("The tool execution failed with the following error", "The user denied this operation")
_CALL: Final = re.compile(r"<(?P<name>[a-z]\w*)>(?P<input>.*)</(?P=name)>\s*\Z", re.DOTALL)
_FIELD: Final = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)
_THINKING: Final = re.compile(r"<thinking>(.*?)</thinking>", re.DOTALL)
_SAYING: Final = {
    "attempt_completion": "result",
    "ask_followup_question": "question",
    "plan_mode_respond": "response",
}
"""Calls that only say something to the person, with the field of what is said."""


class ClineReader:
    """Reads the messages that were exchanged with the model."""

    name = "cline"
    title = "Cline and Roo Code tasks"
    places = (
        "~/.cline/data/sessions/*/*.messages.json",
        "~/.cline/data/tasks/*/api_conversation_history.json",
        "~/.config/Code/User/globalStorage/*/tasks/*/api_conversation_history.json",
        "~/Library/Application Support/Code/User/globalStorage/*/tasks/*/api_conversation_history.json",
        "$APPDATA/Code/User/globalStorage/*/tasks/*/api_conversation_history.json",
    )
    side_files = (
        *("ui_messages.json", "claude_messages.json", "task_metadata.json", "context_history.json"),
        *("history_item.json", "settings.json", "_index.json", "[0-9]*_?????.json"),
    )
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the fields of a session, the tags in messages, or the name of a list of messages."""
        if {"sessionId", "agent", "origin", "messages"} <= head.keys:
            return 0.9
        messages = [record for record in head.objects if record.get("role") in ("user", "assistant")]
        if head.shape not in ("list", "live") or len(messages) * 2 <= len(head.records):
            return 0.0
        first = objects_of(messages[0].get("content"))
        is_task = any(_TASK.match(text_of(block.get("text"))) for block in first)
        is_signed = any(sign in text_of(message.get("content")) for message in messages for sign in _SIGNS)
        return 0.9 if is_task or is_signed or head.path.name.endswith(_FILES) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the task."""
        builder = RunBuilder()
        builder.note(id=source.path.parent.name if source.path.name.endswith(_FILES) else "")
        is_tagged = False
        for place, message in self._messages(source, builder):
            if message.get("isSummary") or message.get("isTruncationMarker"):
                continue
            _add_figures(builder, message)
            is_tagged = is_tagged or _PERSON.search(text_of(message.get("content"))) is not None
            _add(builder, message, place, is_tagged=is_tagged)
        yield builder.run()

    def _messages(self, source: Source, builder: RunBuilder) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the messages with their places: the elements of a list, or in newer versions those of a session."""
        for record in source.records():
            value = fields_of(record.value)
            if "role" in value:
                yield str(record.line), value
            else:
                builder.note(id=value.get("sessionId"))
                for number, message in enumerate(objects_of(value.get("messages")), 1):
                    yield str(number), message


def _add_figures(builder: RunBuilder, message: Mapping[str, Any]) -> None:
    info, metrics = fields_of(message.get("modelInfo")), fields_of(message.get("metrics"))
    builder.at(message.get("ts"))
    builder.note(model=info.get("modelId") or info.get("id"))
    sent = (metrics.get(name) for name in ("inputTokens", "cacheReadTokens", "cacheWriteTokens"))
    builder.spend(sum_of(*sent), metrics.get("outputTokens"))


def _add(builder: RunBuilder, message: Mapping[str, Any], place: str, *, is_tagged: bool) -> None:
    """Add a message. Once a person has spoken inside tags, what is outside of them is written by the program."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": text_of(content)}]
    texts = [text_of(block.get("text")) for block in map(fields_of, blocks) if block.get("type") == "text"]
    others = [block for block in map(fields_of, blocks) if block.get("type") != "text"]
    if message.get("role") == "assistant":
        for block in others:
            if block.get("type") in ("thinking", "reasoning"):
                add_message(builder, {"content": [block]}, place, role="assistant")
        _add_assistant(builder, "\n".join(texts), place)
        for block in others:
            if block.get("type") == "tool_use":
                _add_call(builder, text_of(block.get("name")), block.get("input"), text_of(block.get("id")), place)
    elif message.get("role") == "user":
        for block in others:
            _add_block(builder, block, place)
        _add_user(builder, "\n".join(texts), place, is_tagged=is_tagged)
    else:
        add_message(builder, message, place)


def _add_assistant(builder: RunBuilder, text: str, place: str) -> None:
    """Add what the agent wrote, at whose end a call may be written as XML."""
    for thought in _THINKING.finditer(text):
        builder.thought(thought.group(1), place)
    text = _THINKING.sub("", text)
    call = _CALL.search(text)
    builder.message("agent", text[: call.start()] if call else text, place)
    if call:
        arguments = {name: value.strip() for name, value in _FIELD.findall(call["input"])}
        _add_call(builder, call["name"], arguments or call["input"].strip(), "", place)


def _add_call(builder: RunBuilder, name: str, arguments: object, identity: str, place: str) -> None:
    if name in _SAYING:
        builder.message("agent", text_of(fields_of(arguments).get(_SAYING[name])), place)
    else:
        builder.call(name, arguments, identity, place, is_text=not identity)


def _add_user(builder: RunBuilder, text: str, place: str, *, is_tagged: bool) -> None:
    """Add a result if a call in a text waits for it, and what a person says in it."""
    left = _DETAILS.sub("", text)
    person = _FEEDBACK if builder.has_open_text_call else _PERSON
    rest = person.sub("", left).strip()
    if builder.has_open_text_call and rest:
        output = _RESULT.sub("", rest)
        builder.result(output, place=place, is_error=output.startswith(_FAILED))
        rest = ""
    speaker, said = spoken_by_user(rest)
    builder.message("harness" if is_tagged else speaker, said, place)
    builder.message("person", "\n".join(said.strip() for _, said in person.findall(left)), place)


def _add_block(builder: RunBuilder, block: Mapping[str, Any], place: str) -> None:
    """Add the result of a native call, or an image."""
    if block.get("type") != "tool_result":
        add_message(builder, {"content": [block]}, place, role="user")
        return
    content, identity = block.get("content"), text_of(block.get("tool_use_id"))
    parts = objects_of(content) or [{"text": text_of(content)}]
    text = _DETAILS.sub("", "\n".join(text_of(part.get("text", part.get("result"))) for part in parts))
    status = fields_of(json_in(text))
    person = _FEEDBACK if builder.knows(identity) else _PERSON
    output = _RESULT.sub("", person.sub("", text)).strip()
    is_stated = block.get("is_error") is True or any(part.get("success") is False for part in parts)
    failed = is_stated or status.get("status") in ("error", "denied") or output.startswith(_FAILED)
    if builder.knows(identity):  # not of a call that only said something
        builder.result(output, identity, place, is_error=failed)
    persons = [said.strip() for _, said in person.findall(text)]
    builder.message("person", "\n".join([*persons, text_of(status.get("feedback"))]), place)


class ClineMessagesReader:
    """Reads what Cline and Roo Code showed to the person."""

    name = "cline-messages"
    title = "Cline and Roo Code messages"
    places: tuple[str, ...] = ()
    side_files: tuple[str, ...] = ()
    note = "Only read if the messages to the model are not beside it."

    def recognises(self, head: LogHead) -> float:
        """Return the certainty by the fields of the messages."""
        fitting = sum(
            record.get("type") in ("ask", "say") and record.get("type") in record and "ts" in record
            for record in head.objects
        )
        return 0.9 if fitting * 2 > len(head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the task."""
        shown = _Shown()
        for record in source.records():
            shown.add(fields_of(record.value), str(record.line))
        yield shown.builder.run()


class _Shown:
    """What was shown of one task. Results do not name their calls: they are those of the last call."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self._open = ""

    def add(self, message: Mapping[str, Any], place: str) -> None:
        if message.get("partial"):
            return
        self.builder.at(message.get("ts"))
        kind, text = text_of(message.get(text_of(message.get("type")))), text_of(message.get("text"))
        value = fields_of(json_in(text))
        if kind in ("task", "user_feedback") or (kind == "text" and not self.builder.steps):
            self.builder.message("person", text, place)
        elif kind in ("text", "completion_result", "followup", "plan_mode_respond"):
            self.builder.message("agent", text_of(value.get("question") or value.get("response") or text), place)
        elif kind == "reasoning":
            self.builder.thought(text, place)
        elif kind == "api_req_started":
            sent = (value.get(name) for name in ("tokensIn", "cacheWrites", "cacheReads"))
            self.builder.spend(sum_of(*sent), value.get("tokensOut"))
        elif kind in ("tool", "command", "use_mcp_server", "browser_action"):
            self._add_call(kind, text, value, place)
        elif kind in ("command_output", "mcp_server_response", "browser_action_result", "error"):
            self._add_result(text, place, is_error=kind == "error")

    def _add_call(self, kind: str, text: str, value: Mapping[str, Any], place: str) -> None:
        self._open = f"message {place}"
        name = text_of(value.get("tool") or value.get("toolName") or kind)
        arguments = {key: item for key, item in value.items() if key not in ("tool", "content")} or text
        self.builder.call(name, arguments, self._open, place)

    def _add_result(self, text: str, place: str, *, is_error: bool) -> None:
        if self._open:
            self.builder.result(text, self._open, place, is_error=is_error)
            self._open = ""
        else:
            self.builder.message("harness", text, place)


READERS: Final = (ClineReader(), ClineMessagesReader())
