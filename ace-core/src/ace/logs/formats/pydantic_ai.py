"""Message histories of pydantic-ai, as `all_messages_json` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of
from ace.logs.head import LogHead
from ace.logs.item_lists import has_item_list, item_lists
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.usual_fields import run_fields

__all__ = ["READERS", "PydanticAIReader"]

_FINAL: Final = "final_result"
"""With this tool, a model returns a typed answer."""
_USAGE: Final = (("input", "request"), ("output", "response"))
"""The names of the tokens of a response, now and before version 1."""


class PydanticAIReader:
    """Reads histories of pydantic-ai: a list of requests and responses is one run."""

    name = "pydantic-ai"
    title = "pydantic-ai message histories"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for requests and responses with parts."""
        return 0.95 if has_item_list(head, _is_message) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each history."""
        for found in item_lists(source.records(), _is_message):
            yield _run(found.items, run_fields(found.outer, skip=[found.key]))


def _is_message(value: Mapping[str, Any]) -> bool:
    return value.get("kind") in ("request", "response") and isinstance(value.get("parts"), list)


def _run(messages: Sequence[Any], fields: dict[str, Any]) -> Run:
    builder = RunBuilder()
    typed_answer = ""
    for number, message in enumerate(map(fields_of, messages), 1):
        for index, part in enumerate(message.get("parts") or (), 1):
            _add_part(builder, part, f"{number}.{index}")
            if part.get("part_kind") == "tool-call" and text_of(part.get("tool_name")).startswith(_FINAL):
                typed_answer = text_of(part.get("args"))
        if message.get("kind") == "response":
            usage = fields_of(message.get("usage"))
            sent, written = (usage.get(f"{new}_tokens", usage.get(f"{old}_tokens")) for new, old in _USAGE)
            builder.at(message.get("timestamp"))
            builder.note(model=message.get("model_name"))
            builder.spend(sent, written)
    fields["answer"] = fields["answer"] or typed_answer
    return builder.run(**fields)


def _add_part(builder: RunBuilder, part: Mapping[str, Any], place: str) -> None:
    kind = text_of(part.get("part_kind")).removeprefix("builtin-")
    content, identity = part.get("content"), text_of(part.get("tool_call_id"))
    tool = text_of(part.get("tool_name"))
    match kind:
        case "system-prompt" | "instructions":
            builder.message("harness", text_of(content), place)
        case "user-prompt":
            add_message(builder, {"role": "user", "content": content}, place)
        case "text":
            builder.message("agent", text_of(content), place)
        case "thinking":
            builder.thought(text_of(content), place)
        case "tool-call":
            add_message(builder, {"type": "tool_call", "name": tool, "args": part.get("args"), "id": identity}, place)
        case "tool-return":
            is_error = part.get("outcome") in ("failed", "retried")
            builder.result(content, identity, place, name=tool, is_error=is_error)
        case "retry-prompt" if tool:
            builder.result(content, identity, place, name=tool, is_error=True)
        case _:
            builder.message("harness", text_of(content), place)


READERS: Final = (PydanticAIReader(),)
