"""Gives everything that a user typed one shape, that of a plain prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from ace.integrations import Record, mapping_in, text_in
from ace_claude_code.messages import MEANWHILE, NOT_THE_USERS, TYPED, words_in

__all__ = ["with_typed_messages"]

_CLIENTS_OUTPUT = re.compile(r"<local-command-std(out|err)>")
_COMMAND = re.compile(r"<command-name>\s*(?P<name>/[^<]+)</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(?P<arguments>.*?)</command-args>", re.DOTALL)


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
        >>> from ace_claude_code.messages import message_of
        >>> message_of(with_typed_messages([command, expansion])[0]).prompt
        '/fix\\n\\nFix the bug.'
    """
    found = list(items)
    for at, record in enumerate(items):
        if record.get("type") == "attachment":
            found[at] = _as_message(record)
        elif (command := _command_in(record)) and (expansion := _expansion_of(items, at)):
            found[at] = _as_prompt(record, f"{command}\n\n{expansion}", {TYPED: command})
    return found


def _as_message(record: Record) -> Record:
    """Return what the user typed while the model worked as a message; any other attachment as it is."""
    attachment = mapping_in(record, "attachment")
    is_typed = attachment.get("type") == "queued_command" and text_in(attachment, "commandMode") in ("", "prompt")
    if not is_typed or attachment.get("isMeta"):
        return record
    return _as_prompt(record, attachment.get("prompt"), {MEANWHILE: True, "origin": attachment.get("origin")})


def _as_prompt(record: Record, content: object, more: Record) -> Record:
    return {**record, "type": "user", "message": {"role": "user", "content": content}, **more}


def _command_in(record: Record) -> str:
    """Return a slash command as it was typed; empty for a skill that the model loads, whose name has no slash."""
    if record.get("type") != "user" or record.get("isMeta"):
        return ""
    text = words_in(record)
    name = _COMMAND.search(text)
    if name is None:
        return ""
    arguments = _ARGUMENTS.search(text)
    return " ".join([name["name"].strip(), *([arguments["arguments"].strip()] if arguments else [])]).strip()


def _expansion_of(items: Sequence[Record], at: int) -> str:
    """Return what the model was told in place of a command; empty for a command that the client ran by itself."""
    own = NOT_THE_USERS.sub("", words_in(items[at])).strip()  # some releases put it into the same record
    parts = [own] if own else []
    leading = {text_in(items[at], "uuid"), ""}
    for record in islice(items, at + 1, None):
        if _CLIENTS_OUTPUT.search(words_in(record) or text_in(record, "content")):
            return ""
        if record.get("type") == "assistant" or (record.get("type") == "user" and not record.get("isMeta")):
            break
        text = NOT_THE_USERS.sub("", words_in(record)).strip()
        is_own = text_in(record, "parentUuid") in leading and not text_in(record, "sourceToolUseID")
        if record.get("type") == "user" and is_own and text and not text.startswith("Caveat:"):
            parts.append(text)
            leading.add(text_in(record, "uuid"))
    return "\n".join(parts)
