"""Chat messages in the dialects of libraries, which are recognised by their messages and read by one engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, text_of, without_repetitions
from ace.logs.head import LogHead
from ace.logs.item_lists import has_item_list, item_lists
from ace.logs.messages import add_messages
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.usual_fields import run_fields

__all__ = ["READERS", "ChatReader"]


class ChatReader:
    """Reads chats whose messages have marks of a dialect: a list of messages is one run.

    Args:
        name: The name of the format.
        title: What people call it.
        is_message: Whether an object may be a message of the dialect.
        is_mark: Whether it surely is.
        note: What is not certain.
    """

    places: Sequence[str] = ()
    side_files: Sequence[str] = ()

    def __init__(
        self,
        name: str,
        title: str,
        is_message: Callable[[Mapping[str, Any]], bool],
        is_mark: Callable[[Mapping[str, Any]], bool],
        note: str = "",
    ) -> None:
        self.name = name
        self.title = title
        self.note = note
        self._is_message = is_message
        self._is_mark = is_mark

    def recognises(self, head: LogHead) -> float:
        """Return a certainty for messages of which one is surely of the dialect."""
        if not has_item_list(head, self._is_message):
            return 0.0
        lists = [head.objects, *(record for record in head.records if isinstance(record, list))]
        lists += [value for record in head.objects for value in record.values() if isinstance(value, list)]
        return 0.7 if any(self._is_mark(item) for found in lists for item in found if isinstance(item, dict)) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each chat."""
        yield from without_repetitions(
            _run(found.items, found.outer, found.key) for found in item_lists(source.records(), self._is_message)
        )


def _run(messages: Sequence[Any], outer: Mapping[str, Any], key: str) -> Run:
    builder = RunBuilder()
    add_messages(builder, messages)
    return builder.run(**run_fields(outer, skip=[key]))


_UI_PARTS: Final = frozenset({"text", "reasoning", "step-start", "dynamic-tool", "source-url", "file"})


def _is_ui_part(part: object) -> bool:
    kind = text_of(part.get("type")) if isinstance(part, dict) else ""
    return kind in _UI_PARTS or kind.startswith(("tool-", "data-"))


def _is_ui_message(message: Mapping[str, Any]) -> bool:
    parts = message.get("parts")
    is_v5 = isinstance(parts, list) and all(map(_is_ui_part, parts))
    return message.get("role") in ("user", "assistant", "system") and (is_v5 or "content" in message)


def _is_ui_mark(message: Mapping[str, Any]) -> bool:
    parts = message.get("parts")
    return "toolInvocations" in message or (isinstance(parts, list) and bool(parts) and all(map(_is_ui_part, parts)))


_ITEMS: Final = frozenset(
    (
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "web_search_call"),
        *("custom_tool_call_output", "file_search_call", "computer_call", "computer_call_output", "mcp_call"),
        *("code_interpreter_call", "local_shell_call", "local_shell_call_output", "item_reference"),
    )
)


def _is_item(item: Mapping[str, Any]) -> bool:
    return item.get("type", "message") in _ITEMS and ("role" in item or "type" in item)


def _is_item_mark(item: Mapping[str, Any]) -> bool:
    return "type" in item and item["type"] in _ITEMS - {"message"} and "payload" not in item


def _has_blocks(message: Mapping[str, Any]) -> bool:
    blocks = message.get("blocks")
    is_block = isinstance(blocks, list) and all(isinstance(block, dict) and "block_type" in block for block in blocks)
    return "role" in message and is_block


def _is_google(message: Mapping[str, Any]) -> bool:
    parts = message.get("parts")
    is_plain = isinstance(parts, list) and all(isinstance(part, dict) and "type" not in part for part in parts)
    return message.get("role") in ("user", "model", "function") and is_plain


READERS: Final = (
    ChatReader("vercel-ui", "Messages of Vercel's AI SDK", _is_ui_message, _is_ui_mark),
    ChatReader("openai-responses", "Items of OpenAI's Responses API", _is_item, _is_item_mark),
    ChatReader("llama-index", "LlamaIndex messages", _has_blocks, _has_blocks, note="Not checked against a real file."),
    ChatReader("gemini-contents", "Contents of Google's Gemini API", _is_google, _is_google),
)
