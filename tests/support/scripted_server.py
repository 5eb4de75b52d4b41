"""A model server on loopback whose answers are computed from the request.

It speaks the OpenAI protocol (chat completions, streamed or not, embeddings, models). A script is a
function from a request to an answer, so an answer can depend on what stands in the prompt. Every
request is recorded with the tokens that the server reported for it.

    def script(request):
        return {"reasoning": "I know.", "final_answer": "Paris" if "Paris" in request.text else "?"}

    with ScriptedServer(script) as server:
        client = LiteLLMClient("openai/scripted", api_base=server.api_base)
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from types import TracebackType
from typing import Any

from tests.support.loopback import LoopbackHandler, LoopbackServer

__all__ = [
    "Answer",
    "BrokenBody",
    "CutBody",
    "Dripping",
    "HttpError",
    "NoResponse",
    "Reset",
    "ScriptedRequest",
    "ScriptedServer",
    "in_turn",
]


@dataclass(frozen=True)
class Answer:
    """A good response.

    `content` is a text, or an object that is sent as JSON (as the arguments of a tool call where the
    request forces a tool, or where `tool` names one). `delay` is in seconds.
    """

    content: str | Mapping[str, Any]
    delay: float = 0.0
    finish_reason: str = "stop"
    with_usage: bool = True
    usage: Mapping[str, Any] = field(default_factory=dict)
    """What the server reports beyond its count of words, such as `prompt_tokens_details`, or in its place."""
    message: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the message, or other values of its fields."""
    tool: str | None = None


@dataclass(frozen=True)
class HttpError:
    """A response with an error status. `body` replaces the usual one, which has the message."""

    status: int
    message: str = "scripted error"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Reset:
    """The connection is torn down instead of a response."""


@dataclass(frozen=True)
class NoResponse:
    """Nothing comes for so many seconds, then the connection is closed."""

    seconds: float


@dataclass(frozen=True)
class BrokenBody:
    """Status 200 with a body that is no chat completion."""

    body: str = '{"id": "x", "choices": [{"mess'


@dataclass(frozen=True)
class CutBody:
    """Status 200, and the connection is closed in the middle of the body."""


@dataclass(frozen=True)
class Dripping:
    """A good response that comes byte by byte."""

    content: str
    seconds_between: float


Reply = Answer | HttpError | Reset | NoResponse | BrokenBody | CutBody | Dripping
Script = Callable[["ScriptedRequest"], Reply | str | Mapping[str, Any]]


@dataclass
class ScriptedRequest:
    """One request as the server received it."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    reply: Reply | None = None
    """What the script answered."""
    input_tokens: int = 0
    """The tokens that the server reported; 0 if it gave no answer."""
    output_tokens: int = 0

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body.get("messages") or []
        return messages

    @property
    def text(self) -> str:
        """All message texts in order; this is what a model would read."""
        return "\n".join(_texts(self.messages))

    @property
    def record(self) -> str:
        """The text without the skills that a reflector compares the run with."""
        return re.sub(r"\n# Skills\n.*?(?=\n# Rest of the record\n)", "", self.text, flags=re.DOTALL)

    @property
    def cited(self) -> list[str]:
        """The ids of the skills that a reflector is told the agent cited."""
        cited = re.search(r"^The agent cited: (.+)$", self.text, flags=re.MULTILINE)
        return cited[1].split(", ") if cited else []

    @property
    def role(self) -> str:
        """Which of our roles asks: `agent`, `reflector`, `skill_manager`, `judgements`, or an empty string.

        A skill manager that asks about several reflections at once is called `skill_manager_together`.

        Told by a field of the answer, which the prompt describes, or by the name of the answer in a schema.
        """
        text, tools = self.text, json.dumps([self.body.get("tools"), self.body.get("response_format")])
        for role, (title, member) in _ANSWERS_OF_ROLES.items():
            if f"\n- {member} (" in text or f'"title": "{title}"' in text + tools or f'"name": "{title}"' in tools:
                return role
        return ""


_ANSWERS_OF_ROLES = {
    "skill_manager": ("SkillManagerOutput", "operations"),
    "skill_manager_together": ("UpdatesOutput", "updates"),
    "reflector": ("ReflectorOutput", "key_insight"),
    "judgements": ("JudgementsOutput", "judgements"),
    "agent": ("AgentOutput", "final_answer"),
}


def in_turn(*replies: Reply | str | Mapping[str, Any]) -> Script:
    """Return a script that gives these replies one after the other and then repeats the last one."""
    lock = threading.Lock()
    waiting = list(replies)

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        with lock:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return script


class ScriptedServer(LoopbackServer):
    """The server; use it in a `with` block. It listens on a free port of 127.0.0.1.

    `embedding_rows` is what it sends in the place of vectors that fit the texts. With `tls` it speaks HTTPS.
    """

    def __init__(
        self,
        script: Script,
        *,
        embedding_size: int = 64,
        embedding_rows: Sequence[object] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(_Handler)
        self.script = script
        self.embedding_size = embedding_size
        self.embedding_rows = embedding_rows
        self._requests: list[ScriptedRequest] = []
        self.is_closing = threading.Event()
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            # The handshake belongs to the thread of the request.
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_closing.set()
        super().__exit__(kind, error, traceback)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    @property
    def api_base(self) -> str:
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[ScriptedRequest]:
        """The requests so far, in the order of their arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def answered(self) -> list[ScriptedRequest]:
        """The requests that got a good answer."""
        return [request for request in self.requests if isinstance(request.reply, Answer)]

    @property
    def input_tokens(self) -> int:
        return sum(request.input_tokens for request in self.requests)

    @property
    def output_tokens(self) -> int:
        return sum(request.output_tokens for request in self.requests)

    def by_role(self, role: str) -> list[ScriptedRequest]:
        return [request for request in self.requests if request.role == role]

    def clear(self) -> None:
        with self._lock:
            self._requests.clear()

    def wait_until_idle(self) -> None:
        """Wait until all connections are closed, so that the last request of a killed client has been recorded.

        Call it only after all clients have ended: one that keeps its connection is waited for.
        """
        with closing(HTTPConnection("127.0.0.1", self._http.server_port)) as connection:
            # Connections are accepted in order: when this one is answered, all earlier ones are counted.
            connection.request("GET", "/v1/models")
            connection.getresponse().read()
        with self._http.connections_changed:
            self._http.connections_changed.wait_for(lambda: self._http.open_connections == 0)

    def record(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> ScriptedRequest:
        with self._lock:
            request = ScriptedRequest(len(self._requests) + 1, path, headers, body)
            self._requests.append(request)
            return request

    def reply_to(self, request: ScriptedRequest) -> Reply:
        try:
            reply = self.script(request)
        except BaseException as error:
            with self._lock:
                self._errors.append(error)
            return HttpError(418, f"the script failed: {error!r}")
        return reply if isinstance(reply, Reply) else Answer(reply)


class _Handler(LoopbackHandler):
    scripted: ScriptedServer

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._send_json(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def do_POST(self) -> None:
        raw = self.body()
        body = json.loads(raw)
        if self.path.endswith("/embeddings"):
            self._send_embeddings(body)
            return
        request = self.scripted.record(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        reply = self.scripted.reply_to(request)
        request.reply = reply
        match reply:
            case Answer():
                time.sleep(reply.delay)
                self._send_answer(request, reply)
            case HttpError():
                error = {"message": reply.message, "type": "scripted", "code": str(reply.status)}
                self._send_json(reply.status, reply.body or {"error": error}, reply.headers)
            case BrokenBody():
                self.send(200, reply.body.encode())
            case CutBody():
                self.send_head(200, 1000)
                self.wfile.write(b'{"id": "x", "choi')
                self.close_connection = True
            case Dripping():
                self._drip(request, reply)
            case Reset():
                # A zero linger time makes the close a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
            case NoResponse():
                time.sleep(reply.seconds)
                self.close_connection = True

    def _send_answer(self, request: ScriptedRequest, reply: Answer) -> None:
        content = reply.content
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        usage: dict[str, Any] = {"prompt_tokens": _tokens(request.text), "completion_tokens": _tokens(text)}
        usage["total_tokens"] = sum(usage.values())
        usage |= reply.usage
        tool = reply.tool or _forced_tool(request.body)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if tool is not None and not isinstance(content, str):
            function = {"name": tool, "arguments": text}
            call = {"index": 0, "id": f"call_{request.number}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        message |= reply.message
        if reply.with_usage:
            request.input_tokens = usage["prompt_tokens"]
            request.output_tokens = usage["completion_tokens"]
        head = {"id": f"scripted-{request.number}", "created": 0, "model": request.model}
        if request.body.get("stream"):
            self._send_stream(head, message, reply.finish_reason, usage)
            return
        choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
        body = {**head, "object": "chat.completion", "choices": [choice]}
        self._send_json(200, {**body, "usage": usage} if reply.with_usage else body)

    def _send_stream(
        self,
        head: Mapping[str, Any],
        message: Mapping[str, Any],
        finish_reason: str,
        usage: Mapping[str, Any],
    ) -> None:
        def event(delta: Mapping[str, Any], finished: str | None, **more: Any) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": finished}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [choice], **more}
            return f"data: {json.dumps(chunk)}\n\n"

        events = [event(message, None), event({}, finish_reason, usage=usage), "data: [DONE]\n\n"]
        self.send(200, "".join(events).encode(), {"content-type": "text/event-stream"})

    def _send_embeddings(self, body: Mapping[str, Any]) -> None:
        given = body.get("input")
        texts = [given] if isinstance(given, str) else list(given or [])
        data: list[object] = [
            {
                "object": "embedding",
                "index": place,
                "embedding": _embedding(text, self.scripted.embedding_size),
            }
            for place, text in enumerate(texts)
        ]
        if self.scripted.embedding_rows is not None:
            data = list(self.scripted.embedding_rows)
        tokens = sum(_tokens(str(text)) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        self._send_json(200, {"object": "list", "data": data, "model": body.get("model"), "usage": usage})

    def _send_json(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self.send(status, json.dumps(body).encode(), headers)

    def _drip(self, request: ScriptedRequest, reply: Dripping) -> None:
        message = {"role": "assistant", "content": reply.content}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        head = {"id": "dripping", "created": 0, "model": request.model, "object": "chat.completion"}
        body = json.dumps({**head, "choices": [choice]}).encode()
        self.send_head(200, len(body))
        try:
            for byte in body:
                self.wfile.write(bytes([byte]))
                if self.scripted.is_closing.wait(reply.seconds_between):
                    break
        except OSError:  # the client gave up
            pass
        self.close_connection = True


def _texts(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        for part in content if isinstance(content, list) else []:
            yield str(part.get("text", "")) if isinstance(part, dict) else str(part)


def _tokens(text: str) -> int:
    """Words stand for tokens: what counts is that both sides can be compared to the token."""
    return len(text.split())


def _forced_tool(body: Mapping[str, Any]) -> str | None:
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        return str(choice["function"]["name"])
    tools = body.get("tools") or []
    return str(tools[0]["function"]["name"]) if choice == "required" and tools else None


def _embedding(text: object, size: int) -> list[float]:
    """A bag of hashed words: equal texts have equal vectors, similar texts have near ones."""
    vector = [0.0] * size
    for word in str(text).lower().split():
        digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
        vector[int.from_bytes(digest[:4], "big") % size] += 1.0
    length = sum(value * value for value in vector) ** 0.5 or 1.0
    return [value / length for value in vector]
