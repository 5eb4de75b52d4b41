"""The proxy as an ASGI application: passes requests on, adds skills to model calls, and records them."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import parse_qs

import httpx
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from ace.integrations import SKILLBOOK_USAGE_INSTRUCTIONS, is_loopback
from ace.logs import spoken_by_user
from ace_proxy.conversations import Conversation, Conversations
from ace_proxy.dialects import Dialect, Provider, dialect_of, model_of, text_in_content
from ace_proxy.json_body import JsonBody
from ace_proxy.recording import Call, Recorder

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from ace_proxy.skills import SkillSource
    from ace_proxy.upstream import Upstream

__all__ = ["FEEDBACK_PATH", "KEY_HEADER", "Proxy"]

FEEDBACK_PATH: Final = "/ace/feedback"
"""The path to which outcomes and the words of persons are sent."""
KEY_HEADER: Final = "x-ace-key"
"""The header with the key of the proxy, where it needs one."""
_OWN: Final = b"x-ace-"
"""How the names of headers for the proxy begin, which are not passed on."""
_OF_CONNECTION: Final = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade"),
    )
)
"""Headers that concern one connection, and not the message."""
_OF_REQUEST: Final = _OF_CONNECTION | {b"host", b"content-length", b"expect"}
_KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_SHORTEST_KEY: Final = 8
_OUTCOMES: Final = ("success", "failure")
_IDS: Final = re.compile(r'"id"\s*:\s*"([^"\\]{1,200})"')
_BEGINNING: Final = 4096
"""How many characters of a response may hold its id."""
_ERRORS_FROM: Final = 400


@final
class Proxy:
    """The application.

    Args:
        upstream: Where requests go.
        client: The client that sends them.
        conversations: The conversations so far.
        skills: The skills that calls get; None adds none.
        recorder: Records the calls; None records none.
        key: The key that clients must send; None if only this machine can reach the proxy.
    """

    def __init__(
        self,
        upstream: Upstream,
        client: httpx.AsyncClient,
        *,
        conversations: Conversations,
        skills: SkillSource | None = None,
        recorder: Recorder | None = None,
        key: str | None = None,
    ) -> None:
        self._upstream = upstream
        self._client = client
        self._conversations = conversations
        self._skills = skills
        self._recorder = recorder
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
        elif scope["path"] == FEEDBACK_PATH:
            await (await self._take_feedback(Request(scope, receive)))(scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        """Return the response to a client that may not use the proxy; None if it may.

        A web page can send requests to this machine, but not without an origin, or under a name of this machine.
        """
        if self._key is not None:
            if not hmac.compare_digest(headers.get(KEY_HEADER, "").encode(), self._key.encode()):
                return _error(401, f"ace proxy: the header {KEY_HEADER} must have the key of the proxy")
            return None
        origin = headers.get("origin", "")
        if not is_loopback(_host_of(headers.get("host", ""))) or (origin and not is_loopback(_host_of(origin))):
            return _error(403, "ace proxy: only programs on this machine may use it, under the name 127.0.0.1")
        return None

    async def _take_feedback(self, request: Request) -> JSONResponse:
        if request.method != "POST" or self._recorder is None:
            return _error(405, f"ace proxy: {FEEDBACK_PATH} takes POST requests, and only if runs are recorded")
        try:
            said = json.loads(await request.body())
        except (ValueError, RecursionError):
            said = None
        problem = _problem_of_feedback(said)
        if problem:
            return _error(400, f"ace proxy: {problem}")
        session = said.get("session") or request.headers.get("x-ace-session", "")
        conversation = self._conversations.named(session) if session else self._conversations.latest
        if conversation is None:
            return _error(
                404,
                f"ace proxy: no call of the session {session!r} was seen" if session else "ace proxy: no call was seen",
            )
        self._conversations.touch(conversation, time.monotonic())
        self._recorder.judge(conversation, outcome=said.get("outcome", ""), feedback=said.get("feedback", ""))
        return JSONResponse({"run": conversation.id})

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        path = scope["raw_path"].decode("ascii").partition("?")[0]
        dialect = dialect_of(path) if scope["method"] == "POST" else None
        call: Call | None = None
        is_changed = False
        try:
            if dialect is None:
                body: bytes | AsyncIterator[bytes] = _pieces(receive)
                length = headers.get("content-length")
                if length is None and "transfer-encoding" not in headers:
                    body = b""
            else:
                received = b"".join([piece async for piece in _pieces(receive)])
                whole = _decompressed(received, headers)
                prepared, call = await self._prepared(dialect, whole, scope)
                is_changed = prepared is not whole
                body = prepared if is_changed else received
                length = str(len(body))
        except ClientDisconnect:
            return
        request = httpx.Request(
            scope["method"],
            self._upstream.address(path, scope["query_string"], _provider_of(dialect, path, headers)),
            headers=_headers_for(scope, length, is_changed=is_changed),
            content=body,
        )
        await self._exchange(request, receive if isinstance(body, bytes) else None, send, call)

    async def _prepared(self, dialect: Dialect, whole: bytes, scope: Scope) -> tuple[bytes, Call | None]:
        """Return the body to send, and the call to record. A body that cannot be read is the provider's affair."""
        headers = Headers(scope=scope)
        try:
            body = JsonBody.read(whole)
        except (ValueError, RecursionError):
            return whole, None
        system, items = dialect.conversation(body)
        if not items and not system:
            return whole, None
        conversation, new = self._conversations.begin(
            items,
            api=dialect.name,
            system=system,
            session=headers.get("x-ace-session", ""),
            response_id=_text_of(body.get("previous_response_id")),
        )
        outcome = headers.get("x-ace-outcome", "")
        call = Call(
            conversation,
            dialect.name,
            model_of(body, scope["path"]),
            system,
            new,
            secrets=_keys_in(headers, scope["query_string"]),
            outcome=outcome if outcome in _OUTCOMES else "",
        )
        if headers.get("x-ace-skills", "").lower() == "off" or SKILLBOOK_USAGE_INSTRUCTIONS in system:
            return whole, call
        skills = await self._skills_of(conversation, items, system)
        return (dialect.with_system(body, skills) if skills else whole), call

    async def _skills_of(self, conversation: Conversation, items: Sequence[Any], system: str) -> str:
        """Return the skills of a conversation, which stay the same so that the provider's cache keeps working."""
        if conversation.skills is None and self._skills is not None:
            query = _request_in(items) or system
            conversation.skills = await asyncio.to_thread(self._skills.text_for, query)
        return conversation.skills or ""

    async def _exchange(self, request: httpx.Request, receive: Receive | None, send: Send, call: Call | None) -> None:
        """Send a request and return its response; give up when the client does."""
        sending = asyncio.create_task(self._respond(request, send, call))
        tasks: set[asyncio.Task[Any]] = {sending}
        if receive is not None:
            tasks.add(asyncio.create_task(_disconnected(receive)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if call is not None:
                self._end(call)
        if not sending.cancelled():
            sending.result()

    async def _respond(self, request: httpx.Request, send: Send, call: Call | None) -> None:
        try:
            response = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            problem = f"{request.url.scheme}://{request.url.netloc.decode()} cannot be reached: {_words(error)}"
            if call is not None:
                call.problem = problem
            await _error(502, f"ace proxy: {problem}")({"type": "http"}, _nothing, send)
            return
        try:
            if call is not None:
                call.problem = "the response is not complete"
                call.status = response.status_code
                call.headers = response.headers
                self._conversations.note_response(call.conversation, has_failed=response.status_code >= _ERRORS_FROM)
            kept = [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in _OF_CONNECTION]
            await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
            async for chunk in response.aiter_raw():
                if call is not None:
                    self._note(call, chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if call is not None:
                call.problem = ""
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()

    def _note(self, call: Call, chunk: bytes) -> None:
        """Keep a piece of a response; the first one has the id by which the next call may continue it."""
        if not call.chunks and call.api == "openai-responses":
            ids = _IDS.findall(_decoded_beginning(chunk, call.headers))
            self._conversations.note_response(call.conversation, has_failed=call.status >= _ERRORS_FROM, ids=ids)
        call.chunks.append(chunk)

    def _end(self, call: Call) -> None:
        self._conversations.end(call.conversation, has_failed=call.has_failed, now=time.monotonic())
        if self._recorder is not None:
            self._recorder.add(call)


def _error(status: int, message: str) -> JSONResponse:
    """Return an error in a form that the SDKs of OpenAI and of Anthropic read."""
    return JSONResponse({"type": "error", "error": {"type": "ace_proxy_error", "message": message}}, status)


def _problem_of_feedback(said: object) -> str:
    """Return what is wrong with the body of a feedback request; empty if nothing is."""
    if not isinstance(said, dict):
        return 'the body must be a JSON object, such as {"outcome": "failure", "feedback": "The price is 7."}'
    for name in ("session", "outcome", "feedback"):
        if not isinstance(said.get(name, ""), str):
            return f"{name} must be a text"
    if said.get("outcome", "success") not in _OUTCOMES:
        return f"outcome must be success or failure, got {said['outcome']!r}"
    return "" if said.get("outcome") or said.get("feedback") else "outcome or feedback must be given"


def _decompressed(body: bytes, headers: Headers) -> bytes:
    """Return the body of a request without its compression; as it is if that is not known or the body is damaged."""
    coding = headers.get("content-encoding")
    if coding is None:
        return body
    try:
        return httpx.Response(200, headers={"content-encoding": coding}, content=body).content
    except httpx.DecodingError:
        return body


def _headers_for(scope: Scope, length: str | None, *, is_changed: bool) -> list[tuple[bytes, bytes]]:
    """Return the headers to send upstream, without the encoding of the body if skills were added to it."""
    named = {
        name.strip().lower() for key, value in scope["headers"] if key == b"connection" for name in value.split(b",")
    }
    kept = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _OF_REQUEST and name not in named and not name.startswith(_OWN)
        if not (is_changed and name == b"content-encoding")
    ]
    return kept if length is None else [*kept, (b"content-length", length.encode())]


def _provider_of(dialect: Dialect | None, path: str, headers: Headers) -> Provider:
    """Return whose API a request is for: of one that is not a model call, by its path or a header of the SDK."""
    if dialect is not None:
        return dialect.provider
    if path.startswith("/v1/messages") or "anthropic-version" in headers:
        return "anthropic"
    return "google" if path.startswith("/v1beta/") or "x-goog-api-key" in headers else "openai"


def _keys_in(headers: Headers, query: bytes) -> list[str]:
    found = [headers.get(name, "").rpartition(" ")[2] for name in _KEY_HEADERS]
    found += parse_qs(query.decode("ascii", "replace")).get("key", ())  # of the Gemini API
    return [key for key in found if len(key) >= _SHORTEST_KEY]


def _request_in(items: Sequence[Any]) -> str:
    """Return the last words of a person; of anyone, if a program sends everything in the role of the user."""
    said = (text_in_content(item.get("content")) for item in reversed(items) if item.get("role") == "user")
    last: str | None = None
    for text in said:  # from the end: reading all messages of a long conversation takes longer than decoding them
        last = text if last is None else last
        speaker, words = spoken_by_user(text)
        if speaker == "person" and words:
            return words
    return last or ""


def _decoded_beginning(chunk: bytes, headers: Mapping[str, str]) -> str:
    """Return the beginning of a response whose first piece may be compressed."""
    coding = {"content-encoding": headers.get("content-encoding", "identity")}
    pieces = httpx.Response(200, headers=coding, stream=httpx.ByteStream(chunk)).iter_bytes()
    try:
        return next(pieces, b"")[:_BEGINNING].decode("utf-8", "replace")
    except httpx.DecodingError:
        return ""


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def _words(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> Any:
    raise AssertionError("the body of this request was read already")


def _host_of(text: str) -> str:
    """Return the host in an origin, or in the header `Host`.

    Example:
        >>> _host_of("http://[::1]:8712"), _host_of("example.com:80"), _host_of("null")
        ('::1', 'example.com', 'null')
    """
    address = text.rpartition("//")[2]
    return address[1:].partition("]")[0] if address.startswith("[") else address.partition(":")[0]
