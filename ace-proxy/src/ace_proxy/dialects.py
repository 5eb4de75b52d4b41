"""What the proxy must know about the four APIs: where the system text is, and which items make the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from ace_proxy.json_body import JsonBody, Value

__all__ = ["DIALECTS", "Dialect", "Fields", "Provider", "dialect_of", "model_of", "text_in_content"]

Fields = Mapping[str, Any]
"""A JSON object."""
Provider: TypeAlias = Literal["openai", "anthropic", "google"]
"""Whose API it is."""

_SYSTEM_ROLES: Final = ("system", "developer")
_MODEL_IN_PATH: Final = re.compile(r"/models/([^/:]+):")


class Dialect(Protocol):
    """An API for model calls."""

    name: str
    """Its name in a recorded run."""
    provider: Provider
    """Whose addresses its calls go to."""
    paths: tuple[str, ...]
    """How the paths of its calls end."""

    def conversation(self, body: JsonBody) -> tuple[str, Sequence[Fields]]:
        """Return the system text of a request, which may be empty, and the other messages."""
        ...

    def with_system(self, body: JsonBody, addition: str) -> bytes:
        """Return a request with an addition at the end of its system text."""
        ...

    def answer(self, response: Fields) -> Sequence[Fields]:
        """Return the messages in a response."""
        ...

    def streamed_answer(self, events: Iterator[Fields]) -> Sequence[Fields]:
        """Return the messages in a streamed response, also in one that broke off."""
        ...


class _OpenAIChat:
    """Chat completions of OpenAI. The system text is a message."""

    name = "openai-chat"
    provider: Provider = "openai"
    paths: tuple[str, ...] = ("/chat/completions",)

    def conversation(self, body: JsonBody) -> tuple[str, Sequence[Fields]]:
        system, others = _separate(_records(body.get("messages")))
        return "\n\n".join(system), others

    def with_system(self, body: JsonBody, addition: str) -> bytes:
        return _with_system_message(body, "messages", addition)

    def answer(self, response: Fields) -> Sequence[Fields]:
        choices = _records(response.get("choices"))
        message = choices[0].get("message") if choices else None
        return [message] if isinstance(message, dict) else []

    def streamed_answer(self, events: Iterator[Fields]) -> Sequence[Fields]:
        message: dict[str, Any] = {"role": "assistant"}
        calls: dict[int, dict[str, Any]] = {}
        for event in events:
            for choice in _records(event.get("choices")):
                delta = choice.get("delta")
                if choice.get("index", 0) == 0 and isinstance(delta, dict):
                    for name in ("content", "refusal", "reasoning_content", "reasoning"):
                        if isinstance(delta.get(name), str):
                            message[name] = message.get(name, "") + delta[name]
                    for call in _records(delta.get("tool_calls")):
                        _add_call(calls, call)
        if calls:
            message["tool_calls"] = [calls[index] for index in sorted(calls)]
        return [message] if len(message) > 1 else []


class _OpenAIResponses:
    """Responses of OpenAI. The system text is a field; further messages of the role `developer` may follow."""

    name = "openai-responses"
    provider: Provider = "openai"
    paths: tuple[str, ...] = ("/responses",)

    def conversation(self, body: JsonBody) -> tuple[str, Sequence[Fields]]:
        system, others = _separate(_input(body))
        found = (body.get("instructions"), *system)
        return "\n\n".join(text for text in found if isinstance(text, str) and text), others

    def with_system(self, body: JsonBody, addition: str) -> bytes:
        place = body.members.get("instructions")
        if place is not None and isinstance(place.value, str):
            return body.with_text_after(place, _separated(place.value, addition))
        return body.with_member("instructions", addition)

    def answer(self, response: Fields) -> Sequence[Fields]:
        return _records(response.get("output"))

    def streamed_answer(self, events: Iterator[Fields]) -> Sequence[Fields]:
        done: list[Fields] = []
        written = ""
        for event in events:
            kind = event.get("type")
            if kind in ("response.completed", "response.incomplete", "response.failed"):
                response = event.get("response")
                output = self.answer(response) if isinstance(response, dict) else ()
                return output or done
            if kind == "response.output_item.done" and isinstance(event.get("item"), dict):
                done.append(event["item"])
                written = ""
            elif kind == "response.output_text.delta":
                written += text_in_content(event.get("delta"))
        return [*done, {"role": "assistant", "content": written}] if written else done


class _AnthropicMessages:
    """Messages of Anthropic. The system text is a field: a text, or a list of blocks."""

    name = "anthropic"
    provider: Provider = "anthropic"
    paths: tuple[str, ...] = ("/messages",)

    def conversation(self, body: JsonBody) -> tuple[str, Sequence[Fields]]:
        return text_in_content(body.get("system")), _records(body.get("messages"))

    def with_system(self, body: JsonBody, addition: str) -> bytes:
        place = body.members.get("system")
        if place is not None and isinstance(place.value, str):
            return body.with_text_after(place, _separated(place.value, addition))
        if place is not None and isinstance(place.value, list):
            return body.with_item(place, {"type": "text", "text": addition})
        return body.with_member("system", addition)

    def answer(self, response: Fields) -> Sequence[Fields]:
        return [{"role": "assistant", "content": response["content"]}] if response.get("content") else []

    def streamed_answer(self, events: Iterator[Fields]) -> Sequence[Fields]:
        blocks: dict[int, dict[str, Any]] = {}
        for event in events:
            block = event.get("content_block")
            delta = event.get("delta")
            index = event.get("index", 0)
            if event.get("type") == "content_block_start" and isinstance(block, dict):
                blocks[index] = dict(block)
            elif event.get("type") == "content_block_delta" and isinstance(delta, dict) and index in blocks:
                _add_delta(blocks[index], delta)
        content = [_with_input(blocks[index]) for index in sorted(blocks)]
        return [{"role": "assistant", "content": content}] if content else []


class _GeminiContents:
    """Contents of the Gemini API. The system text is a field, a list of parts."""

    name = "gemini"
    provider: Provider = "google"
    paths: tuple[str, ...] = (":generateContent", ":streamGenerateContent")
    _system = ("systemInstruction", "system_instruction")

    def conversation(self, body: JsonBody) -> tuple[str, Sequence[Fields]]:
        system = next((value for name in self._system if isinstance(value := body.get(name), dict)), {})
        return text_in_content(system.get("parts")), [_as_message(item) for item in _records(body.get("contents"))]

    def with_system(self, body: JsonBody, addition: str) -> bytes:
        if body.get("cachedContent") or body.get("cached_content"):
            return body.raw  # the cache has the system text, and the API rejects another one beside it
        name = next((name for name in self._system if body.get(name) is not None), self._system[0])
        if body.get(name) is None:
            return body.with_member(name, {"parts": [{"text": addition}]})
        place = body.members[name]
        parts = body.members_of(place).get("parts") if isinstance(place.value, dict) else None
        if parts is None or not isinstance(parts.value, list):
            return body.raw  # the API rejects it
        return body.with_item(parts, {"text": addition})

    def answer(self, response: Fields) -> Sequence[Fields]:
        return self.streamed_answer(iter([response]))

    def streamed_answer(self, events: Iterator[Fields]) -> Sequence[Fields]:
        parts: list[dict[str, Any]] = []
        for event in events:
            for candidate in _records(event.get("candidates"))[:1]:
                content = candidate.get("content")
                for part in _records(content.get("parts")) if isinstance(content, dict) else ():
                    _add_part(parts, part)
        return [{"role": "assistant", "content": parts}] if parts else []


DIALECTS: Final[tuple[Dialect, ...]] = (_OpenAIChat(), _OpenAIResponses(), _AnthropicMessages(), _GeminiContents())
"""All APIs whose calls are recorded and get skills; every other request is only passed on."""


def dialect_of(path: str) -> Dialect | None:
    """Return the API to which a request is a model call; None if it is something else.

    Args:
        path: The path of the request.

    Example:
        >>> dialect_of("/v1/messages").name, dialect_of("/v1/messages/count_tokens")
        ('anthropic', None)
    """
    return next((dialect for dialect in DIALECTS if path.endswith(dialect.paths)), None)


def model_of(body: JsonBody, path: str) -> str:
    """Return the model of a request, which the Gemini API has in the path; empty if it names none.

    Args:
        body: The request.
        path: Its path.

    Example:
        >>> model_of(JsonBody.read(b"{}"), "/v1beta/models/gemini-3-pro:generateContent")
        'gemini-3-pro'
    """
    named = body.get("model")
    found = _MODEL_IN_PATH.search(path)
    return named if isinstance(named, str) else found[1] if found else ""


def _input(body: JsonBody) -> Sequence[Fields]:
    found = body.get("input")
    return [{"role": "user", "content": found}] if isinstance(found, str) else _records(found)


def _records(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _as_message(content: Fields) -> Fields:
    """Return a content of the Gemini API with the names that the other APIs use."""
    role = content.get("role", "user")
    return {"role": "assistant" if role == "model" else role, "content": content.get("parts")}


def _is_system(item: Fields) -> bool:
    return item.get("role") in _SYSTEM_ROLES


def _separate(items: Sequence[Fields]) -> tuple[list[str], Sequence[Fields]]:
    """Return the system texts among messages, and the other messages."""
    system = [text_in_content(item.get("content")) for item in items if _is_system(item)]
    return system, [item for item in items if not _is_system(item)] if system else items


def text_in_content(content: object) -> str:
    """Return the text in the content of a message.

    Args:
        content: A text, or a list of parts.
    """
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in _records(content) if isinstance(part.get("text"), str))


def _separated(text: str, addition: str) -> str:
    return f"\n\n{addition}" if text else addition


def _with_system_message(body: JsonBody, name: str, addition: str) -> bytes:
    """Add to the last of the leading system messages; without one, such a message becomes the first."""
    messages = body.members[name]
    last: Value | None = None
    for item in body.items_of(messages):
        if not isinstance(item.value, dict) or not _is_system(item.value):
            break
        last = item
    content = None if last is None else body.members_of(last).get("content")
    if content is not None and isinstance(content.value, str):
        return body.with_text_after(content, _separated(content.value, addition))
    if content is not None and isinstance(content.value, list):
        return body.with_item(content, {"type": "text", "text": addition})
    return body.with_item(messages, {"role": "system", "content": addition}, is_first=True)


def _add_call(calls: dict[int, dict[str, Any]], part: Fields) -> None:
    """Add a piece of a streamed tool call to what has come of it so far."""
    function = part.get("function")
    call = calls.setdefault(
        part.get("index", len(calls)), {"type": "function", "function": {"name": "", "arguments": ""}}
    )
    if part.get("id"):
        call["id"] = part["id"]
    for name in ("name", "arguments"):
        if isinstance(function, dict) and isinstance(function.get(name), str):
            call["function"][name] += function[name]


def _add_delta(block: dict[str, Any], delta: Fields) -> None:
    """Add a piece to a streamed block of Anthropic."""
    for name in ("text", "thinking"):
        if isinstance(delta.get(name), str):
            block[name] = block.get(name, "") + delta[name]
    if isinstance(delta.get("partial_json"), str):
        block["partial_json"] = block.get("partial_json", "") + delta["partial_json"]


def _add_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Add a part of a response, or a piece of one that is streamed: texts that follow each other are one."""
    before = parts[-1] if parts else {}
    is_piece = all(isinstance(one.get("text"), str) for one in (before, part))
    if is_piece and before.get("thought") == part.get("thought"):
        before["text"] += part["text"]
    else:
        parts.append(dict(part))


def _with_input(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block with its input decoded; of an interrupted call, the text so far is kept."""
    written = block.pop("partial_json", "")
    if written:
        try:
            block["input"] = json.loads(written)
        except ValueError:
            block["input"] = written
    return block
