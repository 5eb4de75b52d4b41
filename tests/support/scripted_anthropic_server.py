"""A server on loopback that speaks the Anthropic protocol; its answers are computed from the request.

Claude Code and OpenClaw run against it. A script is a function from a request to the blocks of an answer, so an
answer can depend on what stands in the prompt and on how far the conversation has come. Every request is recorded.

    def script(request):
        if request.answers_so_far == 0:
            return [Text("I look."), ToolUse("Bash", {"command": "ls"})]
        return [Text("Done.")]

    with ScriptedAnthropicServer(script) as server:
        subprocess.run(["claude", "-p", "Look"], env={**os.environ, **server.environment})
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.loopback import LoopbackHandler, LoopbackServer

__all__ = ["Refusal", "Request", "ScriptedAnthropicServer", "Text", "Thinking", "ToolUse"]

KEY = "sk-ant-scripted-0123456789"


@dataclass(frozen=True)
class Text:
    """Words of the model."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """Thoughts of the model."""

    thinking: str


@dataclass(frozen=True)
class ToolUse:
    """A call of a tool that the client runs."""

    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A response with an error status, in the place of an answer."""

    status: int
    message: str = "scripted error"
    delay: float = 0.0


Block = Text | Thinking | ToolUse
Reply = Sequence[Block] | Refusal


@dataclass(frozen=True)
class Request:
    """One request for a message as the server received it."""

    number: int
    body: Mapping[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages") or [])

    @property
    def answers_so_far(self) -> int:
        """How many answers of the model the conversation holds; a retry or a resumed session changes nothing."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model may call."""
        return [str(tool.get("name", "")) for tool in self.body.get("tools") or []]

    @property
    def system(self) -> str:
        return "\n".join(_texts(self.body.get("system")))

    @property
    def prompt(self) -> str:
        """The texts of the user in the first message, with all that the client adds to it."""
        return "\n".join(_texts(self.messages[0]["content"])) if self.messages else ""

    @property
    def text(self) -> str:
        """Everything that a model would read: system prompt, messages, tool calls and tool results."""
        return "\n".join([self.system, *(text for message in self.messages for text in _texts(message["content"]))])

    @property
    def tool_results(self) -> list[str]:
        """What the tools returned so far, in order."""
        contents = [message["content"] for message in self.messages if isinstance(message["content"], list)]
        parts = [part for content in contents for part in content if part.get("type") == "tool_result"]
        return ["\n".join(_texts(part.get("content"))) for part in parts]


Script = Callable[[Request], Reply]


class ScriptedAnthropicServer(LoopbackServer):
    """The server; use it in a `with` block. It listens on a free port of 127.0.0.1.

    `usage` replaces numbers of what it reports for each answer, and `stop_reason` that of answers without
    tool calls.
    """

    def __init__(self, script: Script, *, usage: Mapping[str, int] | None = None) -> None:
        super().__init__(_Handler)
        self.script = script
        self.usage = usage or {}
        self.stop_reason = "end_turn"
        self._requests: list[Request] = []

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which an Anthropic client talks to this server and to nobody else."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}

    @property
    def requests(self) -> list[Request]:
        """The requests for messages so far, in the order of their arrival."""
        with self._lock:
            return list(self._requests)

    def clear(self) -> None:
        with self._lock:
            self._requests.clear()

    def answer(self, body: Mapping[str, Any]) -> tuple[Request, Reply]:
        with self._lock:
            request = Request(len(self._requests) + 1, body)
            self._requests.append(request)
        try:
            return request, self.script(request)
        except BaseException as error:
            with self._lock:
                self._errors.append(error)
            return request, Refusal(400, f"the script failed: {error!r}")


class _Handler(LoopbackHandler):
    scripted: ScriptedAnthropicServer

    def do_HEAD(self) -> None:
        self._send_json(200, {})

    def do_GET(self) -> None:
        self._send_json(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.body() or b"{}")
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            self._send_json(200, {"input_tokens": 1000})
        elif not path.endswith("/messages"):
            self._send_json(404, {})
        else:
            request, reply = self.scripted.answer(body)
            if isinstance(reply, Refusal):
                time.sleep(reply.delay)
                error = {"type": "api_error", "message": reply.message}
                self._send_json(reply.status, {"type": "error", "error": error})
            else:
                self._send_message(request, reply)

    def _send_message(self, request: Request, blocks: Sequence[Block]) -> None:
        uses_tools = any(isinstance(block, ToolUse) for block in blocks)
        content = [_content(block, f"{request.number}{place:02}") for place, block in enumerate(blocks)]
        usage = {"input_tokens": 1000, "output_tokens": 50}
        usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **self.scripted.usage}
        message = {
            "id": f"msg_scripted{request.number:06}",
            "type": "message",
            "role": "assistant",
            "model": request.body.get("model", ""),
            "content": content,
            "stop_reason": "tool_use" if uses_tools else self.scripted.stop_reason,
            "stop_sequence": None,
            "usage": usage,
        }
        if not request.body.get("stream"):
            self._send_json(200, message)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in _stream(message):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.close_connection = True

    def _send_json(self, status: int, body: Mapping[str, Any]) -> None:
        self.send(status, json.dumps(body).encode())


def _content(block: Block, number: str) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            return {"type": "thinking", "thinking": block.thinking, "signature": "c2NyaXB0ZWQ="}
        case ToolUse():
            name = {"type": "tool_use", "id": f"toolu_scripted{number:0>10}", "name": block.name}
            return {**name, "input": dict(block.input)}


def _stream(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        start, deltas = _parts(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _parts(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the block as it starts, and the pieces that complete it."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    if block["type"] == "thinking":
        thinking = {"type": "thinking_delta", "thinking": block["thinking"]}
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [thinking, signature]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict):
            yield str(part)
        elif part.get("type") == "tool_use":
            yield json.dumps(part.get("input"))
        elif part.get("type") == "tool_result":
            yield from _texts(part.get("content"))
        else:
            yield str(part.get("text") or part.get("thinking") or "")
