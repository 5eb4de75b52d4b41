"""Exports of ChatGPT and Claude.ai, as an archive or as the file with the conversations in it."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of, time_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.outcomes import is_failed_output, success_of
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.speakers import spoken_by_user

__all__ = ["READERS", "ChatGPTReader", "ClaudeAIReader"]

_CONVERSATIONS: Final = re.compile(r"(?:.*/)?conversations(?:[-_]?\d+)?\.json")
_FEEDBACK: Final = "message_feedback.json"
_START: Final = 65536


class ChatGPTReader:
    """Reads exports of ChatGPT: each conversation is a run, along the branch that its user saw last."""

    name = "chatgpt"
    title = "ChatGPT exports"
    places: Sequence[str] = ()
    side_files: Sequence[str] = (
        *("message_feedback.json", "model_comparisons.json", "shared_conversations.json", "user.json"),
        *("user_settings.json", "sora.json", "group_chats.json", "chat.html", "export_manifest.json"),
    )
    note = "Edited questions and other versions of an answer are not read."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for conversations that are trees of messages."""
        if head.shape == "zip":
            return 0.95 if '"mapping"' in _start_of(head) else 0.0
        return 0.95 if head.objects and all(isinstance(v.get("mapping"), dict) for v in head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each conversation."""
        feedback = _feedback(source)
        for conversation in _conversations(source):
            if isinstance(conversation.get("mapping"), dict):
                yield _chatgpt_run(conversation, feedback)


class ClaudeAIReader:
    """Reads exports of Claude.ai: each conversation is a run."""

    name = "claude-ai"
    title = "Claude.ai exports"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ("users.json", "projects.json", "memories.json")
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for conversations with chat messages."""
        if head.shape == "zip":
            return 0.95 if '"chat_messages"' in _start_of(head) else 0.0
        return 0.95 if head.objects and all(isinstance(v.get("chat_messages"), list) for v in head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each conversation that has messages."""
        for conversation in _conversations(source):
            if conversation.get("chat_messages"):
                yield _claude_run(conversation)


def _start_of(head: LogHead) -> str:
    """Return the beginning of the conversations in an archive."""
    names = [name for name in head.names if _CONVERSATIONS.fullmatch(name)]
    if not names:
        return ""
    with zipfile.ZipFile(head.path) as archive, archive.open(names[0]) as file:
        return file.read(_START).decode("utf-8", "replace")


def _conversations(source: Source) -> Iterator[Mapping[str, Any]]:
    if source.shape != "zip":
        yield from (record.value for record in source.records() if isinstance(record.value, dict))
        return
    with zipfile.ZipFile(source.path) as archive:
        for name in sorted(name for name in archive.namelist() if _CONVERSATIONS.fullmatch(name)):
            try:
                found = json.loads(archive.read(name))
            except (ValueError, zipfile.BadZipFile) as error:
                source.problems.append(source.problem(f"{name} cannot be read: {error}"))
                continue
            yield from (value for value in found if isinstance(value, dict))


def _feedback(source: Source) -> dict[str, Mapping[str, Any]]:
    """Return the thumbs that people gave, by the id of the message."""
    found: Any = []
    beside = source.path.parent / _FEEDBACK
    try:
        if source.shape == "zip":
            with zipfile.ZipFile(source.path) as archive:
                names = [name for name in archive.namelist() if Path(name).name == _FEEDBACK]
                found = json.loads(archive.read(names[0])) if names else []
        elif source.shape == "list" and beside.is_file():
            found = json.loads(beside.read_bytes())
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        source.problems.append(source.problem(f"{_FEEDBACK} cannot be read: {error}"))
    return {text_of(item.get("message_id") or item.get("id")): item for item in found if isinstance(item, dict)}


def _path_to(leaf: str, parent: Callable[[str], str]) -> list[str]:
    """Return the ids from the root to a leaf; a circle ends it."""
    path: list[str] = []
    seen: set[str] = set()
    while leaf and leaf not in seen:
        seen.add(leaf)
        path.append(leaf)
        leaf = parent(leaf)
    return path[::-1]


def _chatgpt_run(conversation: Mapping[str, Any], feedback: Mapping[str, Mapping[str, Any]]) -> Run:
    mapping = conversation["mapping"]
    leaf = text_of(conversation.get("current_node"))
    if leaf not in mapping:
        leaf = next((name for name in reversed(mapping) if not fields_of(mapping[name]).get("children")), "")
    path = _path_to(leaf, lambda name: text_of(fields_of(mapping.get(name)).get("parent")))
    messages = [fields_of(fields_of(mapping.get(name)).get("message")) for name in path]
    builder = RunBuilder()
    for number, message in enumerate(messages, 1):
        _add_chatgpt(builder, message, str(number))
    thumbs = [feedback[name] for name in path if name in feedback]
    rating = success_of(text_of(thumbs[-1].get("rating"))) if thumbs else None
    models = [model for message in messages if (model := fields_of(message.get("metadata")).get("model_slug"))]
    end = fields_of(fields_of(messages[-1].get("metadata")).get("finish_details")) if messages else {}
    return builder.run(
        id=text_of(conversation.get("conversation_id") or conversation.get("id")),
        success=rating,
        outcome_from="" if rating is None else f"{_FEEDBACK}: rating",
        reason=_comment(thumbs[-1]) if thumbs else "",
        model=text_of(models[-1]) if models else "",
        started=time_of(conversation.get("create_time")),
        ended=time_of(conversation.get("update_time")),
        is_interrupted=end.get("type") == "interrupted",
    )


def _comment(thumb: Mapping[str, Any]) -> str:
    """Return the words of a feedback, which may be JSON in a text."""
    content = thumb.get("content") or thumb.get("text")
    if isinstance(content, str) and content.startswith("{"):
        try:
            content = json.loads(content)
        except ValueError:
            return content
    return text_of(fields_of(content).get("text") or ("" if isinstance(content, dict) else content))


def _add_chatgpt(builder: RunBuilder, message: Mapping[str, Any], place: str) -> None:
    author, content = fields_of(message.get("author")), fields_of(message.get("content"))
    metadata, kind = fields_of(message.get("metadata")), text_of(content.get("content_type"))
    role, recipient, text = author.get("role"), text_of(message.get("recipient") or "all"), _chatgpt_text(content)
    if kind in ("thoughts", "reasoning_recap"):
        builder.thought(text, place)
    elif role == "tool":
        failed = is_failed_output(text) or bool(fields_of(metadata.get("aggregate_result")).get("in_kernel_exception"))
        builder.result(text, place=place, name=text_of(author.get("name")), is_error=failed)
    elif role == "assistant" and recipient != "all":
        builder.call(recipient, text, place=place)
    elif role == "assistant":
        builder.message("agent", text, place)
    elif role == "user" and not metadata.get("is_user_system_message"):
        builder.message(*spoken_by_user(text), place)
    else:
        builder.message("harness", text, place)


def _chatgpt_text(content: Mapping[str, Any]) -> str:
    if content.get("content_type") == "thoughts":
        thoughts = [fields_of(thought) for thought in content.get("thoughts") or ()]
        return "\n".join(text_of(thought.get("content") or thought.get("summary")) for thought in thoughts)
    parts = content.get("parts")
    if isinstance(parts, list):
        texts = (part if isinstance(part, str) else _other_part(fields_of(part)) for part in parts)
        return "\n".join(text for text in texts if text)
    names = ("text", "result", "content", "user_instructions", "user_profile")
    return "\n".join(text_of(content[name]) for name in names if content.get(name))


def _other_part(part: Mapping[str, Any]) -> str:
    return text_of(part.get("text")) or f"[{text_of(part.get('content_type') or 'attachment')}]"


def _claude_run(conversation: Mapping[str, Any]) -> Run:
    messages = [message for message in conversation["chat_messages"] if isinstance(message, dict)]
    by_id = {text_of(message.get("uuid")): message for message in messages}
    leaf = text_of(conversation.get("current_leaf_message_uuid"))
    if leaf and leaf in by_id:
        path = _path_to(leaf, lambda name: text_of(by_id.get(name, {}).get("parent_message_uuid")))
        messages = [by_id[name] for name in path if name in by_id]
    builder = RunBuilder()
    for number, message in enumerate(messages, 1):
        add_message(builder, _with_files(message), str(number))
    return builder.run(
        id=text_of(conversation.get("uuid")),
        model=text_of(conversation.get("model")),
        started=time_of(conversation.get("created_at")),
        ended=time_of(conversation.get("updated_at")),
    )


def _with_files(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with the texts of the files that were attached to it."""
    files = [fields_of(file) for file in message.get("attachments") or ()]
    texts = [text_of(file["extracted_content"]) for file in files if file.get("extracted_content")]
    content = message.get("content") or message.get("text") or ""
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if not any(fields_of(block).get("text") or fields_of(block).get("type") != "text" for block in blocks):
        blocks = [{"type": "text", "text": message.get("text") or ""}]
    role = "user" if message.get("sender") == "human" else "assistant"
    return {"role": role, "content": [*blocks, *({"type": "text", "text": text} for text in texts)]}


READERS: Final = (ChatGPTReader(), ClaudeAIReader())
