"""What one record of a conversation says: a prompt, thoughts, calls, results, a denial."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ace.integrations import Record, list_in, mapping_in, text_in
from ace.logs import RunBuilder, Speaker, spoken_by_user, time_of
from ace.traces import TraceStep, trace_step

__all__ = [
    "DENIED_MARK",
    "MEANWHILE",
    "NOT_THE_USERS",
    "TYPED",
    "Message",
    "add_steps",
    "dialogue_of",
    "is_spoken",
    "mark_interrupted_calls",
    "message_of",
    "words_in",
]

DENIED_MARK = "The call was denied. "
"""How the result of a call begins that was denied."""
_INTERRUPTED_CALL = "The user interrupted the call."
_REJECTED = "The user doesn't want to proceed with this tool use"
TYPED = "ace_typed"
MEANWHILE = "ace_typed_meanwhile"
"""What `with_typed_messages` adds to a record; Claude Code has no such fields."""

_NOTES = ("isMeta", "isCompactSummary", "isSynthetic", "isVisibleInTranscriptOnly")
"""The marks of messages that the client writes in the name of the user."""
_INTERRUPTED = "[Request interrupted by user"
_STOPPED = ("interrupted", "cancelled")
"""The kinds of calls that ended without a result of the tool although they were not denied."""
_SYNTHETIC = "<synthetic>"
_ATTACHED = ("image", "document")
_KNOWN_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "tool_result", *_ATTACHED})
# Releases before 2.1.3xx say it in words only.
_DENIAL = re.compile(
    r"This command requires approval|Claude requested permissions? to |Permission to use .* has been denied|"
    + _REJECTED
)
_REASON = re.compile(
    r"(?:the user said|provided the following reason for the rejection)\s*:\s*(?P<reason>.+)", re.DOTALL | re.IGNORECASE
)
NOT_THE_USERS = re.compile(
    r"<(system-reminder|local-command-stdout|local-command-stderr|local-command-caveat|command-name|command-message|"
    r"command-args|task-notification|bash-input|bash-stdout|bash-stderr)>.*?</\1>",
    re.DOTALL,
)


@dataclass(slots=True)
class Message:
    """A message of the user, the model or a tool, or a note of the client in the name of the user."""

    place: str
    """The number of its line, from 1."""
    record: Record
    content: object
    """A text, or the list of its parts."""
    answer_id: str
    """The id of the answer of which it is a part; empty for messages of the user."""
    is_of_model: bool
    words: str
    """What is said, without thoughts, calls and results; for a picture, that there is one."""
    prompt: str
    """What the user asks, with expanded slash commands; empty for everything that merely looks like it."""
    calls: Mapping[str, Record]
    """The calls of tools, by their ids."""
    results: Sequence[Record]
    """The results of calls."""
    denied: Sequence[str]
    """The ids of the calls that were denied, as far as the message tells it."""
    time: datetime | None
    interrupted: Sequence[str] = ()
    """The ids of the calls that ended with the session, or that the user interrupted.

    `mark_interrupted_calls` finds those for which Claude Code writes what it writes for a rejected call.
    """
    of_subagent: bool = False
    """Whether it is a message of a sub-agent, or a tool result for one."""

    @property
    def is_said(self) -> bool:
        """Whether it is of the user, the model or a tool, and no note that the client wrote in their name.

        Such notes are caveats, the outputs of the client's own commands, and the summary that a compaction leaves.
        """
        if self.is_of_model:
            return mapping_in(self.record, "message").get("model") != _SYNTHETIC or self.is_api_error
        if self.results or self.prompt or self.is_interruption:
            return True
        # What a background sub-agent reports comes in a user's message, too.
        return text_in(mapping_in(self.record, "origin"), "kind") == "task-notification"

    @property
    def is_interruption(self) -> bool:
        """Whether it says that the user stopped the model."""
        return not self.is_of_model and self.words.lstrip().startswith(_INTERRUPTED)

    @property
    def is_api_error(self) -> bool:
        """Whether it is an error of the API in place of an answer."""
        record = self.record
        is_marked = record.get("isApiErrorMessage") or record.get("is_api_error_message") or record.get("error")
        return self.is_of_model and bool(is_marked)

    @property
    def typed(self) -> str:
        """What the user typed: a slash command without its expansion, else the prompt."""
        return text_in(self.record, TYPED) or self.prompt

    @property
    def was_typed_meanwhile(self) -> bool:
        """Whether the user typed it while the model worked, so that it belongs to the turn under way."""
        return bool(self.record.get(MEANWHILE))

    @property
    def tools(self) -> dict[str, str]:
        """The names of the tools that it calls, by the ids of the calls."""
        return {call: text_in(part, "name") for call, part in self.calls.items()}

    @property
    def result_ids(self) -> list[str]:
        """The ids of the calls whose results it holds."""
        return [text_in(part, "tool_use_id") for part in self.results]

    @property
    def rejected(self) -> list[str]:
        """The ids of the calls that the user rejected; other denied ones were denied by a rule."""
        return [
            text_in(part, "tool_use_id")
            for part in self.results
            if text_in(part, "tool_use_id") in self.denied and _result_text(part.get("content")).startswith(_REJECTED)
        ]

    @property
    def rejections(self) -> dict[str, str]:
        """Why the user rejected calls, by their ids, where the user gave a reason."""
        found = {}
        for part in self.results if self.denied else ():
            call = text_in(part, "tool_use_id")
            reason = _REASON.search(_result_text(part.get("content"))) if call in self.denied else None
            if reason:
                found[call] = reason["reason"].strip()
        return found

    @property
    def unknown_blocks(self) -> list[str]:
        """The types of the blocks that are not known here, so that nothing of them is in a trace."""
        parts = self.content if isinstance(self.content, list) else ()
        types = [text_in(part, "type") if isinstance(part, dict) else type(part).__name__ for part in parts]
        return [kind for kind in types if kind not in _KNOWN_BLOCKS]


def mark_interrupted_calls(messages: Iterable[Message]) -> None:
    """Move the calls that an interruption ended from `denied` to `interrupted`.

    Claude Code writes the same result for a call that the user rejected and for one that was running when the user
    interrupted it. A note about the interruption follows; after a rejection with a reason, the model continues.

    Args:
        messages: The messages in order.
    """
    is_before_interruption = False
    for message in reversed(list(messages)):
        if message.is_interruption:
            is_before_interruption = True
        elif not message.results:
            is_before_interruption = False
        elif is_before_interruption and message.denied:
            reasons = message.rejections
            texts = {text_in(part, "tool_use_id"): _result_text(part.get("content")) for part in message.results}
            ended = [call for call in message.denied if call not in reasons and texts[call].startswith(_REJECTED)]
            message.interrupted = [*message.interrupted, *ended]
            message.denied = [call for call in message.denied if call not in ended]


def is_spoken(record: Record) -> bool:
    """Return whether a record is a message of the conversation: of the user, of the model, or of a tool."""
    return record.get("type") in ("user", "assistant") and isinstance(record.get("message"), (dict, Mapping))


def message_of(record: Record, place: str = "", *, of_subagent: bool = False) -> Message:
    """Read a message.

    Args:
        record: A record that is a message.
        place: The line where it is.
        of_subagent: Whether a sub-agent says it.

    Example:
        >>> message_of({"type": "user", "message": {"content": "Fix it."}}).prompt
        'Fix it.'
        >>> message_of({"type": "user", "isMeta": True, "message": {"content": "Caveat"}}).prompt
        ''
    """
    is_of_model = record.get("type") == "assistant"
    inner = mapping_in(record, "message")
    content = inner.get("content")
    calls: dict[str, Record] = {}
    results: list[Record] = []
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "tool_use" and is_of_model:
            calls[text_in(part, "id")] = part
        elif kind == "tool_result" and not is_of_model:
            results.append(part)
    words = content if isinstance(content, str) else words_in(record)
    return Message(
        place=place,
        record=record,
        content=content,
        answer_id=text_in(inner, "id") if is_of_model else "",
        is_of_model=is_of_model,
        words=words,
        prompt="" if is_of_model or results else _prompt(record, words),
        calls=calls,
        results=results,
        denied=_denied(record, results) if results else (),
        interrupted=_calls_where(_was_stopped, record, results),
        time=time_of(record.get("timestamp")),
        of_subagent=of_subagent,
    )


def words_in(record: Record) -> str:
    """Return the words of a message, without thoughts, calls and results; for a picture, that there is one."""
    content = mapping_in(record, "message").get("content")
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = []
    for part in parts:
        kind = part.get("type")
        if kind == "text":
            texts.append(text_in(part, "text"))
        # A picture beside a result was not given by the user.
        elif kind in _ATTACHED and not any(other.get("type") == "tool_result" for other in parts):
            texts.append(f"[{kind}]")
    return "\n".join(texts)


def _prompt(record: Record, words: str) -> str:
    if any(record.get(name) for name in _NOTES):
        return ""
    if text_in(mapping_in(record, "origin"), "kind") not in ("", "human"):
        return ""
    speaker, text = spoken_by_user(NOT_THE_USERS.sub("", words) if "<" in words else words)
    return text if speaker == "person" else ""


def _denied(record: Record, results: Sequence[Record]) -> list[str]:
    if found := _calls_where(_is_denial, record, results):
        return found
    failed = [part for part in results if part.get("is_error") and not _is_forged(record, part)]
    return [text_in(part, "tool_use_id") for part in failed if _DENIAL.match(_result_text(part.get("content")))]


def _calls_where(holds: Callable[[Record], bool], record: Record, results: Sequence[Record]) -> list[str]:
    """Return the ids of the calls of which something holds; it is noted for each of them, or for the whole message."""
    meta = [item for item in list_in(record, "tool_result_meta", "toolResultMeta") if isinstance(item, dict)]
    found = [text_in(item, "id") for item in meta if holds(item)]
    return found or [text_in(part, "tool_use_id") for part in results if holds(record)]


def _is_forged(record: Record, result: Record) -> bool:
    """Whether a tool returned the words of a rejection: the client notes those as the error of the tool."""
    noted = text_in(record, "toolUseResult", "tool_use_result")
    return noted.startswith("Error") and _result_text(result.get("content")).startswith(_REJECTED)


def _is_denial(item: Record) -> bool:
    decision = text_in(mapping_in(item, "permission_decision", "permissionDecision"), "decision")
    return decision in ("reject", "deny") or _kind_without_result(item) not in ("", *_STOPPED)


def _was_stopped(item: Record) -> bool:
    return _kind_without_result(item) in _STOPPED


def _kind_without_result(item: Record) -> str:
    """Return why the result of a call is not that of the tool; empty if it is."""
    return text_in(item, "non_execution_kind", "toolDenialKind")


def add_steps(builder: RunBuilder, message: Message, subagent: str = "") -> None:
    """Add the steps of a message.

    Args:
        builder: Collects the steps.
        subagent: The name of the sub-agent that speaks; empty for the main conversation.
    """
    prefix = f"{subagent}: " if subagent else ""
    words, place = message.words, message.place
    for part in message.content if isinstance(message.content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "thinking":
            builder.thought(text_in(part, "thinking"), place, name=subagent)
        elif kind == "tool_use":
            # A message thinks and speaks before it calls.
            words = _add_words(builder, message, words, subagent)
            builder.call(f"{prefix}{text_in(part, 'name')}", part.get("input"), text_in(part, "id"), place)
        elif kind == "tool_result":
            call = text_in(part, "tool_use_id")
            text = _result_text(part.get("content"))
            if call in message.interrupted and text.startswith(_REJECTED):
                text = _INTERRUPTED_CALL
            mark = DENIED_MARK if call in message.denied else ""
            failed = bool(mark) or (call not in message.interrupted and _is_failed(message.record, part, text))
            builder.result(mark + text, call, place, is_error=failed, is_rejected=call in message.rejected)
    _add_words(builder, message, words, subagent)
    for reason in message.rejections.values():
        builder.message("person", reason, place)


def _add_words(builder: RunBuilder, message: Message, words: str, subagent: str) -> str:
    """Add what is said in a message, and return what is left to be said."""
    if words:
        speaker = _speaker(message, subagent)
        builder.message(speaker, words, message.place, name=subagent, is_error=message.is_api_error)
    return ""


def _speaker(message: Message, subagent: str) -> Speaker:
    if subagent:
        return "tool"  # which it is for the agent that started it
    if message.is_of_model:
        return "harness" if message.is_api_error else "agent"
    # The prompt of a sub-agent is that of another agent.
    return "person" if message.prompt and not message.record.get("isSidechain") else "harness"


def _is_failed(record: Record, part: Record, text: str) -> bool:
    if part.get("is_error") or text.startswith("<tool_use_error>"):
        return True
    result = record.get("toolUseResult")
    if isinstance(result, str):
        return result.startswith("Error")
    return isinstance(result, dict) and result.get("interrupted") is True


def dialogue_of(messages: Sequence[Message]) -> list[TraceStep]:
    """Return what user and model said to each other, as the words of `user` and `assistant`.

    An interruption is a step of the user that is an error. Where the user stopped the model or rejected a call with a
    reason, the call is what the model said, and so is the call that it made instead.

    Args:
        messages: The messages of the main conversation.
    """
    steps: list[TraceStep] = []
    calls: dict[str, str] = {}
    after_rejection = False  # then the next call is the answer, and what is said after it is not
    for message in messages:
        place, reasons = message.place, message.rejections
        if message.is_interruption:
            if steps and steps[-1]["name"] == "user" and calls:
                steps.append(trace_step("message", "assistant", list(calls.values())[-1], place))
            steps.append(trace_step("message", "user", "The user interrupted.", place, is_error=True))
        elif reasons:
            for call, reason in reasons.items():
                steps.append(trace_step("message", "assistant", calls.get(call, "a call"), place))
                steps.append(trace_step("message", "user", "The user rejected the call.", place, is_error=True))
                steps.append(trace_step("message", "user", reason, place))
            after_rejection = True
        elif prompt := message.typed:
            if message.was_typed_meanwhile and steps and steps[-1]["name"] == "user" and calls:
                steps.append(trace_step("message", "assistant", list(calls.values())[-1], place))
            steps.append(trace_step("message", "user", prompt, place))
            calls, after_rejection = {}, False
        elif message.is_of_model:
            made = _calls_as_words(message)
            calls |= made
            said = "" if after_rejection and steps[-1]["name"] == "assistant" else message.words.strip()
            if after_rejection and made and steps[-1]["name"] == "user":
                said = next(iter(made.values()))
            if said:
                steps.append(trace_step("message", "assistant", said, place, is_error=message.is_api_error))
    return steps


def _calls_as_words(message: Message) -> dict[str, str]:
    """Return the calls of a message as one would say them, by their ids: a command as it is, else the arguments."""
    return {
        call: text_in(mapping_in(part, "input"), "command")
        or f"{text_in(part, 'name')} {json.dumps(part.get('input'), ensure_ascii=False, sort_keys=True)}"
        for call, part in message.calls.items()
    }


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    texts = []
    for part in content:
        if not isinstance(part, dict):
            texts.append(str(part))
        elif part.get("type") == "text":
            texts.append(text_in(part, "text"))
        else:
            texts.append(f"[{text_in(part, 'type') or 'part without a type'}]")
    return "\n".join(texts)
