"""A model on loopback for coding agents that speak the APIs of OpenAI (both) or Gemini; all requests are streamed.

A script is a function from the state of the conversation to what the model does next, so that it does not matter
how often an agent asks, or whether it was started anew in between.

    def script(turn):
        return ToolCall("bash", {"command": "make"}) if turn.results == 0 else "Done."

    with ScriptedAgentsModel(script) as model:
        subprocess.run(["opencode", "run", "Build it"], ...)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.support.loopback import LoopbackHandler, LoopbackServer

__all__ = ["INPUT_TOKENS", "OUTPUT_TOKENS", "Action", "ScriptedAgentsModel", "ToolCall", "Turn"]

INPUT_TOKENS: Final = 100
"""What every answer reports for its prompt."""
OUTPUT_TOKENS: Final = 10
"""What every answer reports for itself."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that the agent runs."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Turn:
    """How far a conversation has come."""

    question: str
    """The last message of the user, with all that the agent adds to it."""
    results: int
    """How many results of tools follow it."""
    prompt: str = ""
    """Everything that was sent, as JSON."""


Action = ToolCall | str
Script = Callable[[Turn], Action]


class ScriptedAgentsModel(LoopbackServer):
    """The server; use it in a `with` block. It listens on a free port of 127.0.0.1.

    Requests without tools, such as those for a title, are answered with `ok`.
    """

    def __init__(self, script: Script) -> None:
        super().__init__(_Handler)
        self.script = script
        self.answers = 0
        """How many answers with tools at hand there were."""

    def answer(self, turn: Turn, has_tools: bool) -> tuple[int, Action]:
        """Return the number of the answer, and the answer."""
        with self._lock:
            self.answers += has_tools
            number = self.answers
        try:
            return number, self.script(turn) if has_tools else "ok"
        except Exception as error:
            self._errors.append(error)
            raise


class _Handler(LoopbackHandler):
    scripted: ScriptedAgentsModel

    def do_GET(self) -> None:
        self.send(404, b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.body() or b"{}")
        path = self.path.partition("?")[0]
        for ending, items_of, events_of in _DIALECTS:
            if path.endswith(ending):
                number, action = self.scripted.answer(_turn(items_of(body), body), bool(body.get("tools")))
                events = "".join(f"{event}\n\n" for event in events_of(number, action))
                return self.send(200, events.encode(), {"content-type": "text/event-stream"})
        return self.send(404, b"{}")


def _turn(items: Sequence[str | None], body: Mapping[str, Any]) -> Turn:
    """Return the state of a conversation of texts of the user, and None for results of tools."""
    asked = max((index for index, item in enumerate(items) if item is not None), default=-1)
    return Turn(str(items[asked]) if items else "", len(items) - asked - 1, json.dumps(body))


def _responses_items(body: Mapping[str, Any]) -> list[str | None]:
    items = [item for item in body["input"] if isinstance(item, dict)]
    kept = [item for item in items if item.get("role") == "user" or item.get("type") == "function_call_output"]
    return [json.dumps(item["content"]) if item.get("role") == "user" else None for item in kept]


def _chat_items(body: Mapping[str, Any]) -> list[str | None]:
    kept = [message for message in body["messages"] if message["role"] in ("user", "tool")]
    return [json.dumps(message["content"]) if message["role"] == "user" else None for message in kept]


def _gemini_items(body: Mapping[str, Any]) -> list[str | None]:
    parts = [part for content in body["contents"] if content.get("role") == "user" for part in content["parts"]]
    return [None if "functionResponse" in part else str(part.get("text")) for part in parts]


def _responses_events(number: int, action: Action) -> Iterator[str]:
    if isinstance(action, ToolCall):
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": action.name}
        item: dict[str, Any] = {**call, "arguments": json.dumps(action.arguments)}
    else:
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        item["content"] = [{"type": "output_text", "text": action, "annotations": []}]
    response = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item]}
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}
    yield _event({"type": "response.created", "response": {**response, "status": "in_progress", "output": []}})
    yield _event({"type": "response.output_item.added", "output_index": 0, "item": item})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _event({"type": "response.completed", "response": {**response, "usage": usage}})


def _chat_events(number: int, action: Action) -> Iterator[str]:
    delta: dict[str, Any] = {"role": "assistant", "content": action}
    if isinstance(action, ToolCall):
        function = {"name": action.name, "arguments": json.dumps(action.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta = {"role": "assistant", "tool_calls": [call]}
    reason = "tool_calls" if isinstance(action, ToolCall) else "stop"
    usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
    chunk = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    for choice in ({"index": 0, "delta": delta}, {"index": 0, "delta": {}, "finish_reason": reason}):
        yield _event({**chunk, "choices": [choice]})
    usage["total_tokens"] = INPUT_TOKENS + OUTPUT_TOKENS
    yield _event({**chunk, "choices": [], "usage": usage})
    yield "data: [DONE]"


def _gemini_events(number: int, action: Action) -> Iterator[str]:
    part: dict[str, Any] = {"text": action}
    if isinstance(action, ToolCall):
        part = {"functionCall": {"name": action.name, "args": dict(action.arguments)}}
    usage = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS}
    usage["totalTokenCount"] = INPUT_TOKENS + OUTPUT_TOKENS
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
    yield f"data: {json.dumps({**answer, 'responseId': f'resp_{number}'})}"


def _event(fields: Mapping[str, Any]) -> str:
    """Return an event of the APIs of OpenAI; only one of them reads the first line."""
    return f"event: {fields['type']}\ndata: {json.dumps(fields)}" if "type" in fields else f"data: {json.dumps(fields)}"


_DIALECTS: Final = (
    ("/responses", _responses_items, _responses_events),
    ("/chat/completions", _chat_items, _chat_events),
    (":streamGenerateContent", _gemini_items, _gemini_events),
)
