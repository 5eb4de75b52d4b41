"""Messages of AutoGen: those of the teams of version 0.4, and chat histories of version 0.2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of
from ace.logs.head import LogHead
from ace.logs.item_lists import has_item_list, item_lists
from ace.logs.messages import add_message
from ace.logs.outcomes import is_failed_output
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user
from ace.logs.usual_fields import run_fields

__all__ = ["READERS", "AutoGen2Reader", "AutoGenReader"]

_END: Final = "TERMINATE"
"""With this word, an agent ends a dialogue."""
_ASKED: Final = "UserInputRequestedEvent"
"""The source of this event is an agent for whom a person types."""
_SAID: Final = ("TextMessage", "MultiModalMessage", "StructuredMessage", "HandoffMessage", "StopMessage")
_TYPES: Final = frozenset(
    (
        *_SAID,
        *("ToolCallRequestEvent", "ToolCallExecutionEvent", "ToolCallSummaryMessage", "ThoughtEvent"),
        *("CodeGenerationEvent", "CodeExecutionEvent", "MemoryQueryEvent", "UserInputRequestedEvent"),
        *("ModelClientStreamingChunkEvent", "SelectorEvent", "SelectSpeakerEvent"),
    )
)


class AutoGenReader:
    """Reads the messages of an AutoGen team, also those in a `TaskResult`."""

    name = "autogen"
    title = "AutoGen messages (0.4)"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for messages with a source and a type of AutoGen."""
        return 0.95 if has_item_list(head, _is_message) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each list of messages."""
        for found in item_lists(source.records(), _is_message):
            fields = run_fields(found.outer, skip=[found.key, "stop_reason"])
            stop = text_of(found.outer.get("stop_reason"))
            fields["reason"] = fields["reason"] or (f"It stopped: {stop}" if stop else "")
            yield _run(found.items, fields)


def _is_message(value: Mapping[str, Any]) -> bool:
    kind = text_of(value.get("type"))
    return "source" in value and (kind in _TYPES or kind.startswith("StructuredMessage"))


def _run(messages: Sequence[Any], fields: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    answer = ""
    persons = {"user", *(message.get("source") for message in messages if message.get("type") == _ASKED)}
    for number, message in enumerate(messages, 1):
        kind = text_of(message.get("type"))
        _add(builder, kind, message, str(number), is_person=message.get("source") in persons)
        if kind == "ToolCallSummaryMessage":
            answer = text_of(message.get("content"))
        elif message.get("source") not in persons and kind in _SAID and kind != "StopMessage":
            answer = ""  # what an agent says later has precedence over the summary of results
    return builder.run(**{**fields, "answer": fields.get("answer") or answer})


def _add(builder: RunBuilder, kind: str, message: Mapping[str, Any], place: str, *, is_person: bool) -> None:
    content, source = message.get("content"), text_of(message.get("source"))
    match kind:
        case "ToolCallRequestEvent":
            for call in content if isinstance(content, list) else ():
                add_message(builder, {**call, "type": "tool_call"}, place)
        case "ToolCallExecutionEvent":
            for result in content if isinstance(content, list) else ():
                add_message(builder, {**result, "type": "tool_result"}, place)
        case "ThoughtEvent":
            builder.thought(text_of(content), place)
        case "CodeGenerationEvent":
            builder.call("code", message.get("code_blocks") or content, place=place)
        case "CodeExecutionEvent":
            result = fields_of(message.get("result"))
            builder.result(result.get("output"), place=place, is_error=result.get("exit_code") not in (0, None))
        case "MemoryQueryEvent":
            builder.message("harness", text_of(content), place)
        case _ if kind in _SAID or kind.startswith("StructuredMessage"):
            _add_said(builder, "" if is_person else source, content, place)


def _add_said(builder: RunBuilder, agent: str, content: object, place: str) -> None:
    """Add what an agent said, or a person, who has no name here."""
    texts = [text_of(part) for part in content if isinstance(part, str)] if isinstance(content, list) else None
    text = text_of(content) if texts is None else "\n".join(texts)
    text = text.strip().removesuffix(_END).strip()
    if not agent:
        speaker, text = spoken_by_user(text)
        builder.message(speaker, text, place)
    else:
        builder.message("agent", text, place, name=agent)


class AutoGen2Reader:
    """Reads chat histories of AutoGen 0.2, in which the roles are those of one of the two agents."""

    name = "autogen-0.2"
    title = "AutoGen chat histories (0.2)"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "Not checked against a real file."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for `chat_history` beside fields of a `ChatResult`."""
        objects = head.objects
        fitting = sum("chat_history" in value and bool(value.keys() & _OF_RESULT) for value in objects)
        return 0.9 if objects and fitting == len(objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each chat."""
        for record in source.records():
            if isinstance(record.value, dict):
                yield _chat(record.value)


_OF_RESULT: Final = frozenset({"summary", "human_input", "chat_id"})


def _chat(chat: Mapping[str, Any]) -> Run:
    """Return the run of a chat. Who begins it gives the task, and then answers what code returned or a person typed."""
    builder = RunBuilder()
    messages = [message for message in chat.get("chat_history") or () if isinstance(message, dict)]
    first = text_of(messages[0].get("name") or messages[0].get("role")) if messages else ""
    typed = [text_of(text) for text in chat.get("human_input") or ()]
    for number, message in enumerate(messages, 1):
        text = text_of(message.get("content")).strip().removesuffix(_END).strip()
        if message.get("tool_responses") or message.get("role") in ("tool", "function"):
            for result in message.get("tool_responses") or [message]:
                add_message(builder, {**result, "role": "tool"}, str(number))
        elif text_of(message.get("name") or message.get("role")) != first:
            add_message(builder, {**message, "role": "assistant", "content": text}, str(number))
            if "```" in text:
                builder.call("code", text[text.index("```") :], place=str(number))
        elif text.startswith("exitcode:"):
            failed = not text.startswith("exitcode: 0") or is_failed_output(text)
            builder.result(text, place=str(number), is_error=failed)
        else:
            builder.message("person" if number == 1 or text in typed else "harness", text, str(number))
    return builder.run(id=text_of(chat.get("chat_id")), reason=text_of(fields_of(chat.get("feedback")).get("comment")))


READERS: Final = (AutoGenReader(), AutoGen2Reader())
