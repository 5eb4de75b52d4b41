"""What one record of a conversation says: a prompt, thoughts, calls, results, a denial."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice

from ace.integrations import Record, list_in, mapping_in, text_in
from ace.traces import TraceStep, trace_step

__all__ = [
    "DENIED_MARK",
    "called_tools",
    "denied_calls",
    "dialogue_of",
    "is_api_error",
    "is_interruption",
    "is_said",
    "is_spoken",
    "prompt_in",
    "rejections",
    "spoken_text",
    "steps_in",
    "tool_results",
    "typed_in",
    "unknown_blocks",
    "was_typed_meanwhile",
    "with_typed_messages",
]

DENIED_MARK = "The call was denied. "
"""How the result of a call begins that was denied."""

_INTERRUPTED = "[Request interrupted by user"
_SYNTHETIC = "<synthetic>"
_ATTACHED = ("image", "document")
_KNOWN_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "tool_result", *_ATTACHED})
# Releases before 2.1.3xx say it in words only.
_DENIAL = re.compile(
    r"This command requires approval|Claude requested permissions? to |Permission to use .* has been denied|"
    r"The user doesn't want to proceed with this tool use"
)
_REASON = re.compile(
    r"(?:the user said|provided the following reason for the rejection)\s*:\s*(?P<reason>.+)", re.DOTALL | re.IGNORECASE
)
_NOT_THE_USERS = re.compile(
    r"<(system-reminder|local-command-stdout|local-command-stderr|local-command-caveat|command-name|command-message|"
    r"command-args|task-notification|bash-input|bash-stdout|bash-stderr)>.*?</\1>",
    re.DOTALL,
)
_CLIENTS_OUTPUT = re.compile(r"<local-command-std(out|err)>")
_COMMAND = re.compile(r"<command-name>\s*(?P<name>/[^<]+)</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(?P<arguments>.*?)</command-args>", re.DOTALL)
# What `with_typed_messages` adds to a record; Claude Code has no such fields.
_TYPED = "ace_typed"
_MEANWHILE = "ace_typed_meanwhile"


def with_typed_messages(items: Sequence[Record]) -> list[Record]:
    """Return the records, with everything that the user typed in one shape: that of a plain prompt.

    Claude Code stores a slash command as tags, and its expansion as a note of the client after it; here the
    command and its expansion become one message. A message that the user typed while the model worked is stored as an
    attachment. Built-in commands such as `/compact`, which no model sees, stay as they are.

    Args:
        items: The records of a stream or a transcript.

    Returns:
        As many records, in the same order.

    Example:
        >>> command = {"type": "user", "message": {"content": "<command-name>/fix</command-name>"}}
        >>> expansion = {"type": "user", "isMeta": True, "message": {"content": "Fix the bug."}}
        >>> prompt_in(with_typed_messages([command, expansion])[0])
        '/fix\\n\\nFix the bug.'
    """
    found = list(items)
    for at, record in enumerate(items):
        if record.get("type") == "attachment":
            found[at] = _as_message(record)
        elif (command := _command_in(record)) and (expansion := _expansion_of(items, at)):
            found[at] = _as_prompt(record, f"{command}\n\n{expansion}", {_TYPED: command})
    return found


def _as_message(record: Record) -> Record:
    """Return what the user typed while the model worked as a message; any other attachment as it is."""
    attachment = mapping_in(record, "attachment")
    is_typed = attachment.get("type") == "queued_command" and text_in(attachment, "commandMode") in ("", "prompt")
    if not is_typed or attachment.get("isMeta"):
        return record
    return _as_prompt(record, attachment.get("prompt"), {_MEANWHILE: True, "origin": attachment.get("origin")})


def _as_prompt(record: Record, content: object, more: Record) -> Record:
    return {**record, "type": "user", "message": {"role": "user", "content": content}, **more}


def _command_in(record: Record) -> str:
    """Return a slash command as it was typed; empty for a skill that the model loads, whose name has no slash."""
    if record.get("type") != "user" or record.get("isMeta"):
        return ""
    text = spoken_text(record)
    name = _COMMAND.search(text)
    if name is None:
        return ""
    arguments = _ARGUMENTS.search(text)
    return " ".join([name["name"].strip(), *([arguments["arguments"].strip()] if arguments else [])]).strip()


def _expansion_of(items: Sequence[Record], at: int) -> str:
    """Return what the model was told in place of a command; empty for a command that the client ran by itself."""
    own = _NOT_THE_USERS.sub("", spoken_text(items[at])).strip()  # some releases put it into the same record
    parts = [own] if own else []
    leading = {text_in(items[at], "uuid"), ""}
    for record in islice(items, at + 1, None):
        if _CLIENTS_OUTPUT.search(spoken_text(record) or text_in(record, "content")):
            return ""
        if record.get("type") == "assistant" or (record.get("type") == "user" and not record.get("isMeta")):
            break
        text = _NOT_THE_USERS.sub("", spoken_text(record)).strip()
        is_own = text_in(record, "parentUuid") in leading and not text_in(record, "sourceToolUseID")
        if record.get("type") == "user" and is_own and text and not text.startswith("Caveat:"):
            parts.append(text)
            leading.add(text_in(record, "uuid"))
    return "\n".join(parts)


def typed_in(record: Record) -> str:
    """Return what the user typed in a record: a slash command without its expansion, else the prompt.

    Args:
        record: A record that `with_typed_messages` returned.
    """
    return text_in(record, _TYPED) or prompt_in(record)


def was_typed_meanwhile(record: Record) -> bool:
    """Return whether the user typed a message while the model worked, so that it belongs to the turn under way.

    Args:
        record: A record that `with_typed_messages` returned.
    """
    return bool(record.get(_MEANWHILE))


def is_spoken(record: Record) -> bool:
    """Return whether a record is a message of the conversation: of the user, of the model, or of a tool."""
    return record.get("type") in ("user", "assistant") and isinstance(record.get("message"), dict)


def is_said(record: Record) -> bool:
    """Return whether a message is of the user, the model or a tool, and no note that the client wrote in their name.

    Such notes are caveats, the outputs of the client's own commands, and the summary that a compaction leaves.
    """
    if not is_spoken(record):
        return False
    if record.get("type") == "assistant":
        return mapping_in(record, "message").get("model") != _SYNTHETIC or is_api_error(record)
    if tool_results(record) or prompt_in(record) or is_interruption(record):
        return True
    # What a background sub-agent reports comes in a user's message, too.
    return text_in(mapping_in(record, "origin"), "kind") == "task-notification"


def prompt_in(record: Record) -> str:
    """Return what the user asks in a record; empty for everything that merely looks like a user's message.

    Example:
        >>> prompt_in({"type": "user", "message": {"content": "Fix it."}})
        'Fix it.'
        >>> prompt_in({"type": "user", "isMeta": True, "message": {"content": "Caveat"}})
        ''
    """
    if record.get("type") != "user" or any(record.get(name) for name in ("isMeta", "isCompactSummary", "isSynthetic")):
        return ""
    if text_in(mapping_in(record, "origin"), "kind") not in ("", "human") or _results(record):
        return ""
    text = _NOT_THE_USERS.sub("", spoken_text(record)).strip()
    return "" if text.startswith(_INTERRUPTED) else text


def is_interruption(record: Record) -> bool:
    """Return whether a record says that the user stopped the model."""
    return record.get("type") == "user" and spoken_text(record).strip().startswith(_INTERRUPTED)


def is_api_error(record: Record) -> bool:
    """Return whether a record is an error of the API in place of an answer."""
    if record.get("type") != "assistant":
        return False
    return any(record.get(name) for name in ("isApiErrorMessage", "is_api_error_message", "error"))


def spoken_text(record: Record) -> str:
    """Return the words of a message, without thoughts, calls and results; for a picture, that there is one."""
    message = mapping_in(record, "message")
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = [part for part in list_in(message, "content") if isinstance(part, dict)]
    # A picture beside a result was not given by the user.
    shown = _ATTACHED if not any(part.get("type") == "tool_result" for part in parts) else ()
    return "\n".join(
        f"[{part['type']}]" if part.get("type") in shown else text_in(part, "text")
        for part in parts
        if part.get("type") == "text" or part.get("type") in shown
    )


def unknown_blocks(record: Record) -> list[str]:
    """Return the types of the blocks of a message that are not known here, so that nothing of them is in a trace."""
    parts = list_in(mapping_in(record, "message"), "content")
    types = [text_in(part, "type") if isinstance(part, dict) else type(part).__name__ for part in parts]
    return [kind for kind in types if kind not in _KNOWN_BLOCKS]


def called_tools(record: Record) -> dict[str, str]:
    """Return the names of the tools that a message calls, by the ids of the calls."""
    if record.get("type") != "assistant":
        return {}
    parts = [part for part in list_in(mapping_in(record, "message"), "content") if isinstance(part, dict)]
    return {text_in(part, "id"): text_in(part, "name") for part in parts if part.get("type") == "tool_use"}


def tool_results(record: Record) -> list[str]:
    """Return the ids of the calls whose results a message holds."""
    return [text_in(part, "tool_use_id") for part in _results(record)]


def denied_calls(record: Record) -> list[str]:
    """Return the ids of the calls that were denied, as far as a message tells it.

    Args:
        record: A message that holds results.
    """
    meta = [item for item in list_in(record, "tool_result_meta", "toolResultMeta") if isinstance(item, dict)]
    found = [text_in(item, "id") for item in meta if _is_denial(item)]
    if found or _is_denial(record):
        return found or tool_results(record)
    results = [part for part in _results(record) if part.get("is_error")]
    return [text_in(part, "tool_use_id") for part in results if _DENIAL.match(_result_text(part.get("content")))]


def steps_in(record: Record, place: str, tools: dict[str, str], speaker: str = "") -> list[TraceStep]:
    """Return the steps of a message.

    Args:
        record: The message.
        place: The line where it is.
        tools: The names of all tools called, by the ids of the calls.
        speaker: The sub-agent that speaks; empty for the main conversation.
    """
    prefix = f"{speaker}: " if speaker else ""
    denied = set(denied_calls(record))
    steps: list[TraceStep] = []
    content = mapping_in(record, "message").get("content")
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if kind == "thinking" and text_in(part, "thinking"):
            steps.append(trace_step("thought", speaker, text_in(part, "thinking"), place))
        elif kind == "tool_use":
            arguments = json.dumps(part.get("input"), ensure_ascii=False, sort_keys=True)
            steps.append(trace_step("call", f"{prefix}{text_in(part, 'name')}", arguments, place))
        elif kind == "tool_result":
            call = text_in(part, "tool_use_id")
            failed = bool(part.get("is_error")) or call in denied
            mark = DENIED_MARK if call in denied else ""
            text = mark + _result_text(part.get("content"))
            steps.append(trace_step("result", f"{prefix}{tools.get(call, 'tool')}", text, place, is_error=failed))
    text = spoken_text(record)
    if text:
        name = speaker or ("assistant" if record.get("type") == "assistant" else "user")
        words = trace_step("message", name, text.strip(), place, is_error=is_api_error(record))
        # A message thinks and speaks before it calls; results come before what follows them.
        position = next((at for at, step in enumerate(steps) if step["kind"] == "call"), len(steps))
        steps.insert(position, words)
    return steps


def dialogue_of(records: Sequence[tuple[str, Record]]) -> list[TraceStep]:
    """Return what user and model said to each other, as the words of `user` and `assistant`.

    An interruption is a step of the user that is an error. Where the user stopped the model or rejected a call with a
    reason, the call is what the model said, and so is the call that it made instead.

    Args:
        records: The messages of the main conversation, each with its place.
    """
    steps: list[TraceStep] = []
    calls: dict[str, str] = {}
    after_rejection = False  # then the next call is the answer, and what is said after it is not
    for place, record in records:
        reasons = rejections(record)
        if is_interruption(record):
            if steps and steps[-1]["name"] == "user" and calls:
                steps.append(trace_step("message", "assistant", list(calls.values())[-1], place))
            steps.append(trace_step("message", "user", "The user interrupted.", place, is_error=True))
        elif reasons:
            for call, reason in reasons.items():
                steps.append(trace_step("message", "assistant", calls.get(call, "a call"), place))
                steps.append(trace_step("message", "user", "The user rejected the call.", place, is_error=True))
                steps.append(trace_step("message", "user", reason, place))
            after_rejection = True
        elif prompt := typed_in(record):
            if was_typed_meanwhile(record) and steps and steps[-1]["name"] == "user" and calls:
                steps.append(trace_step("message", "assistant", list(calls.values())[-1], place))
            steps.append(trace_step("message", "user", prompt, place))
            calls, after_rejection = {}, False
        elif record.get("type") == "assistant":
            made = _calls_as_words(record)
            calls |= made
            said = "" if after_rejection and steps[-1]["name"] == "assistant" else spoken_text(record).strip()
            if after_rejection and made and steps[-1]["name"] == "user":
                said = next(iter(made.values()))
            if said:
                steps.append(trace_step("message", "assistant", said, place, is_error=is_api_error(record)))
    return steps


def _calls_as_words(record: Record) -> dict[str, str]:
    """Return the calls of a message as one would say them, by their ids: a command as it is, else the arguments."""
    if record.get("type") != "assistant":
        return {}
    parts = [part for part in list_in(mapping_in(record, "message"), "content") if isinstance(part, dict)]
    return {
        text_in(part, "id"): text_in(mapping_in(part, "input"), "command")
        or f"{text_in(part, 'name')} {json.dumps(part.get('input'), ensure_ascii=False, sort_keys=True)}"
        for part in parts
        if part.get("type") == "tool_use"
    }


def rejections(record: Record) -> dict[str, str]:
    """Return why the user rejected calls, by their ids, where the user gave a reason."""
    denied = set(denied_calls(record))
    found = {}
    for part in _results(record):
        call = text_in(part, "tool_use_id")
        reason = _REASON.search(_result_text(part.get("content"))) if call in denied else None
        if reason:
            found[call] = reason["reason"].strip()
    return found


def _results(record: Record) -> list[Record]:
    parts = list_in(mapping_in(record, "message"), "content")
    return [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_result"]


def _is_denial(item: Record) -> bool:
    decision = text_in(mapping_in(item, "permission_decision", "permissionDecision"), "decision")
    return decision in ("reject", "deny") or bool(text_in(item, "non_execution_kind", "toolDenialKind"))


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
