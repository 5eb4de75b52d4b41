"""Sends one request to a model, directly to its server if possible, or else through LiteLLM. Without retries.

The import of LiteLLM takes ten times as long as everything before it. Two protocols are spoken without it: OpenAI's
chat completions and Anthropic's messages. `direct_request` returns what to send, as LiteLLM would send it, and None for
everything that only LiteLLM knows: other providers, other arguments than those listed here, tools, images, and
programs that have set something in `litellm` themselves. So a new argument or a new model never gets a wrong request,
only a slower one.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from ace._internal.loopback import is_loopback
from ace.protocols.llm import LLMResponse, Usage
from ace.providers import litellm_library
from ace.providers.litellm_library import causes_of, connection_problem, is_alias, late, listed_model, model_entry
from ace.providers.request_outcomes import Answered, Failed, said_by_server, seconds_to_wait, without_keys
from ace.providers.server_quirks import answer_text, refusal_text

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["DirectRequest", "answer_in", "asend", "direct_request", "send"]

Protocol = Literal["openai", "anthropic"]
_Body = dict[str, Any]

_SWITCH = "ACE_MODEL_CLIENT"
"""The environment variable that sends everything through LiteLLM if it is `litellm`."""
_ADDRESSES: Mapping[Protocol, Sequence[str]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
}
PROVIDERS: Mapping[Protocol, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1/messages",
}
_KEYS: Mapping[Protocol, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}

# What LiteLLM and the OpenAI library read beside the address and the key.
_LITELLM_VARIABLES = frozenset(
    {
        "ANTHROPIC_AUTH_TOKEN",
        "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER",
        "OPENAI_CUSTOM_HEADERS",
        "OPENAI_ORGANIZATION",
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT",
        "OPENAI_PROJECT_ID",
        "SSL_CERTIFICATE",
        "SSL_ECDH_CURVE",
        "SSL_SECURITY_LEVEL",
        "SSL_VERIFY",
        "USE_LITELLM_PROXY",
    }
)
_LITELLM_PREFIXES = ("LITELLM_", "ANTHROPIC_FEDERATION_", "ANTHROPIC_IDENTITY_", "OPENAI_IDENTITY_", "OPENAI_WORKLOAD_")
_HARMLESS_VARIABLES = frozenset({"LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOG", "LITELLM_MODE"})
# What a program may have set in the package `litellm`; all of it is empty at first.
_LITELLM_GLOBALS = (
    "_async_failure_callback",
    "_async_input_callback",
    "_async_success_callback",
    "aclient_session",
    "anthropic_key",
    "api_base",
    "api_key",
    "cache",
    "callbacks",
    "client_session",
    "custom_provider_map",
    "drop_params",
    "failure_callback",
    "headers",
    "input_callback",
    "model_alias_map",
    "modify_params",
    "openai_key",
    "organization",
    "pre_call_rules",
    "post_call_rules",
    "route_all_chat_openai_to_responses",
    "service_callback",
    "ssl_certificate",
    "success_callback",
    "use_litellm_proxy",
)

_COMMON = frozenset(
    {"api_base", "api_key", "drop_params", "extra_headers", "max_tokens", "messages", "model", "temperature", "timeout"}
)
_TAKEN: Mapping[Protocol, frozenset[str]] = {
    "openai": _COMMON | {"frequency_penalty", "presence_penalty", "response_format", "seed", "stop", "top_p"},
    "anthropic": _COMMON | {"stop", "top_k", "top_p"},
}
_TAKEN_BY_REASONING_MODELS = _COMMON | {"seed"}
_OTHER_KINDS = re.compile(r"^(responses/|ft:)|audio|realtime|search|image|instruct|transcribe|tts")
_REASONING_SERIES = ("gpt-5", "gpt-6")
_BAD_REQUEST = 400
"""The status of a request that cannot be sent, for which another attempt would not help."""
_WITHOUT_RESPONSE_FORMAT = frozenset({"gpt-4", "gpt-3.5-turbo-16k"})


@dataclass(frozen=True, slots=True)
class DirectRequest:
    """An HTTP request."""

    protocol: Protocol
    """The protocol of the server."""
    url: str
    """The URL."""
    headers: Mapping[str, str]
    """The headers, including the key."""
    body: bytes
    """A JSON object."""
    timeout: float
    """The time limit of the whole exchange, in seconds."""

    def __repr__(self) -> str:
        return f"DirectRequest({self.protocol!r}, {self.url!r})"  # without the key


class ResponseObject(dict[str, Any]):
    """A JSON object whose fields are attributes too, as in the responses of LiteLLM and OpenAI's library.

    Example:
        >>> ResponseObject(model="m").model
        'm'
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def send(request: Mapping[str, Any]) -> Answered | Failed:
    """Make one request, without retries. Its `timeout` bounds the whole answer.

    Args:
        request: The arguments of `litellm.completion`.
    """
    found = direct_request(request)
    if found is None:
        return litellm_library.send(request)
    if isinstance(found, Failed):
        return found
    try:
        reply = _post(found)
    except _request_errors() as error:
        return _failure(error, request)
    return litellm_library.send(request) if reply.is_redirect else _outcome(found, request, reply)


async def asend(request: Mapping[str, Any]) -> Answered | Failed:
    """Make one request on the running event loop; otherwise like `send`.

    Args:
        request: The arguments of `litellm.acompletion`.
    """
    found = direct_request(request)
    if found is None:
        return await litellm_library.asend(request)
    if isinstance(found, Failed):
        return found
    try:
        reply = await _apost(found)
    except _request_errors() as error:
        return _failure(error, request)
    return await litellm_library.asend(request) if reply.is_redirect else _outcome(found, request, reply)


class _Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_redirect(self) -> bool:
        """Whether the server sent another address, which only LiteLLM follows."""
        return 300 <= self.status < 400


def _post(sent: DirectRequest) -> _Reply:
    """Send a request and return the complete reply. The connection is kept for the next request."""
    client = _client(sent.url)  # the first one imports httpx, which is not part of the time of the request
    deadline = time.monotonic() + sent.timeout
    body = bytearray()
    # The timeout of httpx applies to a single read, so the time is checked after each piece. On a thread of its own,
    # the exchange could be abandoned at the deadline, but Ctrl-C would not end it.
    with client.stream("POST", sent.url, headers=sent.headers, content=sent.body, timeout=sent.timeout) as reply:
        for piece in reply.iter_bytes():
            body += piece
            if time.monotonic() > deadline:
                raise TimeoutError("the answer was not complete in time")
    return _Reply(reply.status_code, reply.headers, bytes(body))


async def _apost(sent: DirectRequest) -> _Reply:
    """Send a request as `_post` does, over a connection of its own: another event loop cannot use it."""
    import asyncio  # importing this module for plain code must not load it

    import httpx

    async with asyncio.timeout(sent.timeout), httpx.AsyncClient(verify=_tls_context(sent.url), timeout=None) as client:
        reply = await client.post(sent.url, headers=sent.headers, content=sent.body)
    return _Reply(reply.status_code, reply.headers, reply.content)


_clients: dict[tuple[object, ...], httpx.Client] = {}
"""The clients of this process, and those of the process that it was forked from, by what they depend on."""


def _client(url: str) -> httpx.Client:
    """Return the client that keeps the connections to a server. A forked process does not use those of its parent."""
    import http.cookiejar
    import urllib.request

    import httpx

    context = _tls_context(url)
    key = (os.getpid(), context, *urllib.request.getproxies().items())
    client = _clients.get(key)
    if client is None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        # A cookie of one request would be sent with the next one, which may have another key.
        no_cookies = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=()))
        # Another thread may make one at the same time. Only the one that is kept here ever has connections.
        client = _clients.setdefault(key, httpx.Client(verify=context, limits=limits, cookies=no_cookies))
    return client


@atexit.register
def _close_clients() -> None:
    for (process, *_), client in list(_clients.items()):
        if process == os.getpid():
            client.close()


def _tls_context(url: str) -> ssl.SSLContext:
    """Return the context in which certificates are checked, as LiteLLM does: SSL_CERT_FILE, else those of certifi."""
    return _tls_context_with(os.environ.get("SSL_CERT_FILE", "") if url.startswith("https:") else None)


@functools.lru_cache(maxsize=4)
def _tls_context_with(certificates: str | None) -> ssl.SSLContext:
    import ssl

    import certifi

    if certificates is None:  # nothing is encrypted, and reading the certificates takes longer than a request
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context(cafile=certificates if Path(certificates).is_file() else certifi.where())


def _request_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors that a request may raise; `ImportError` is that of a SOCKS proxy."""
    import httpx

    return (OSError, ValueError, ImportError, httpx.HTTPError, httpx.InvalidURL)


def _failure(error: Exception, request: Mapping[str, Any]) -> Failed:
    import httpx

    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return late(request)
    if isinstance(error, httpx.LocalProtocolError):  # it quotes the header, which may hold the key
        return Failed(
            "the request cannot be sent: a header contains a character that HTTP does not allow", _BAD_REQUEST
        )
    if not isinstance(error, OSError | httpx.HTTPError):
        return Failed(without_keys(str(error), request), _BAD_REQUEST)
    problem = connection_problem(error)
    # The errors of httpx do not say why no connection could be made; that of the system does.
    said = next((cause for cause in causes_of(error) if isinstance(cause, OSError) and cause.errno), error)
    reason = without_keys(problem or f"Connection error: {said}", request)
    return Failed(reason, None, problem=problem)


def _outcome(sent: DirectRequest, request: Mapping[str, Any], reply: _Reply) -> Answered | Failed:
    outcome = answer_in(sent, request["model"], reply.status, reply.headers, reply.body)
    if isinstance(outcome, Answered):
        return outcome
    return Failed(
        without_keys(outcome.reason, request),
        outcome.status_code,
        retry_after=outcome.retry_after,
        is_authentication=outcome.is_authentication,
        problem=without_keys(outcome.problem, request),
    )


def direct_request(request: Mapping[str, Any]) -> DirectRequest | Failed | None:
    """Translate the arguments of a LiteLLM call into an HTTP request.

    Args:
        request: The arguments of `litellm.completion`.

    Returns:
        The HTTP request, `Failed` if the API key is missing, or None if only LiteLLM can send the request.

    Example:
        >>> found = direct_request(
        ...     {"model": "openai/m", "messages": [{"role": "user", "content": "Hi"}], "timeout": 9.0,
        ...      "api_base": "http://127.0.0.1:8080/v1", "api_key": "not-needed"}
        ... )
        >>> found, found.body
        (DirectRequest('openai', 'http://127.0.0.1:8080/v1/chat/completions'), b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}')
        >>> direct_request({"model": "gemini/gemini-2.0-flash", "messages": []}) is None
        True
    """  # noqa: E501  # an output
    named = _protocol_and_name(request)
    if named is None or _is_for_litellm(request, named[0]):
        return None
    protocol, name = named
    body = _openai_body(request, name) if protocol == "openai" else _anthropic_body(request, name)
    address = _address(request, protocol)
    if body is None or address is None:
        return None
    key = request.get("api_key") or os.environ.get(_KEYS[protocol])
    if not isinstance(key, str) or key.startswith("sk-ant-oat"):  # a token of another kind
        return None if key else _missing_key(protocol)
    try:
        # A value that JSON does not have is for LiteLLM, which may know what to do with it.
        content = json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError):
        return None
    own = {"Authorization": f"Bearer {key}"} if protocol == "openai" else _anthropic_headers(key)
    headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "ace-core", **own}
    extra_headers = request.get("extra_headers") or {}
    replaced = {name.lower() for name in extra_headers}
    kept = {name: value for name, value in headers.items() if name.lower() not in replaced}
    return DirectRequest(protocol, address, {**kept, **extra_headers}, content, float(request["timeout"]))


def _anthropic_headers(key: str) -> Mapping[str, str]:
    return {"x-api-key": key, "anthropic-version": "2023-06-01"}


def _missing_key(protocol: Protocol) -> Failed:
    variable = _KEYS[protocol]
    return Failed("no API key is set", 401, is_authentication=True, missing_variables=(variable,))


def _protocol_and_name(request: Mapping[str, Any]) -> tuple[Protocol, str] | None:
    """Return the protocol of a model and its name there; None if only LiteLLM can determine it."""
    model = request["model"]
    prefix, slash, name = model.partition("/")
    if is_alias(name if slash else model):
        return None
    entry = model_entry(name if slash else model)
    provider = prefix if slash else entry.get("litellm_provider")
    if entry and entry.get("litellm_provider") == provider and entry.get("mode") != "chat":
        return None
    if provider == "openai" and name != "":
        return None if _OTHER_KINDS.search(name) or model_entry(model) else ("openai", name)
    if provider == "openai":
        return None if _OTHER_KINDS.search(model) else ("openai", model)
    if provider == "anthropic":
        # LiteLLM knows rules for Claude models that its table does not have yet.
        return None if not entry and "claude" in model else ("anthropic", name or model)
    return None


def _is_for_litellm(request: Mapping[str, Any], protocol: Protocol) -> bool:
    return (
        os.environ.get(_SWITCH, "").lower() == "litellm"
        or not set(request) <= _TAKEN[protocol]
        or not isinstance(request.get("timeout"), int | float)
        or not _are_texts(request.get("extra_headers") or {})
        or not all(map(_is_plain_message, request["messages"]))
        or any(map(_is_variable_for_litellm, os.environ))
        or _is_litellm_changed()
    )


def _is_litellm_changed() -> bool:
    """Return whether the program has configured `litellm`, or replaced one of its functions to observe the calls."""
    litellm = sys.modules.get("litellm")
    if litellm is None:
        return False
    folder = os.path.dirname(litellm.__file__ or "")  # noqa: PTH120  # this is called for every request
    return any(getattr(litellm, name, None) for name in _LITELLM_GLOBALS) or any(
        not _file_of(getattr(litellm, name, None)).startswith(folder) for name in ("completion", "acompletion")
    )


def _file_of(function: object) -> str:
    """Return the file that defines a function; empty for other objects. A wrapper has another file."""
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


def _is_variable_for_litellm(name: str) -> bool:
    if name in _HARMLESS_VARIABLES:
        return False
    return name in _LITELLM_VARIABLES or name.startswith(_LITELLM_PREFIXES)


def _are_texts(headers: object) -> bool:
    return isinstance(headers, Mapping) and all(isinstance(text, str) for pair in headers.items() for text in pair)


def _is_plain_message(message: Mapping[str, Any]) -> bool:
    """Return whether a message consists of text, which both protocols take as it is."""
    content = message.get("content")
    if set(message) != {"role", "content"} or message["role"] not in ("system", "user", "assistant"):
        return False
    if isinstance(content, list):
        return bool(content) and all(map(_is_text_part, content))
    return isinstance(content, str)


def _is_text_part(part: object) -> bool:
    return (
        isinstance(part, dict)
        and set(part) <= {"type", "text", "cache_control"}
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    )


def _address(request: Mapping[str, Any], protocol: Protocol) -> str | None:
    """Return the URL of a request; None if only LiteLLM can determine it."""
    api_base = request.get("api_base")
    variables = (os.environ.get(name) for name in _ADDRESSES[protocol])
    address = api_base or next(filter(None, variables), None) or PROVIDERS[protocol]
    if not isinstance(address, str) or address != address.strip():
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
        return None
    if not address.isascii():
        return None
    if api_base and "/" not in request["model"] and not is_loopback(parts.hostname):
        return None  # LiteLLM looks up whose address it is
    if protocol == "anthropic":
        return address if address.endswith("/v1/messages") else f"{address}/v1/messages"
    return f"{address.rstrip('/')}/chat/completions"


def _openai_body(request: Mapping[str, Any], name: str) -> _Body | None:
    entry = model_entry(name)
    is_reasoning = any(series in name for series in _REASONING_SERIES) and "gpt-5-chat" not in name
    is_o_series = re.match(r"o\d", name) is not None and bool(entry)
    if "response_format" in request and not (
        isinstance(request["response_format"], dict) and name not in _WITHOUT_RESPONSE_FORMAT
    ):
        return None
    body: _Body = {"model": name, "messages": list(request["messages"])}
    settings = {key: value for key, value in request.items() if key not in _NOT_SENT and value is not None}
    if not is_reasoning and not is_o_series:
        return {**body, **settings}
    if not set(request) <= _TAKEN_BY_REASONING_MODELS:
        return None
    if is_o_series and not entry.get("supports_system_messages"):
        roles = {"system": "user"}
        body["messages"] = [
            {**message, "role": roles.get(message["role"], message["role"])} for message in request["messages"]
        ]
    if is_reasoning and not entry:
        return None  # whether it takes a temperature is in the table only
    takes_temperature = not is_o_series and entry.get("default_reasoning_effort") == "none"
    takes_temperature = takes_temperature and bool(entry.get("supports_none_reasoning_effort"))
    if not takes_temperature and settings.get("temperature") != 1:
        settings.pop("temperature", None)
    if "max_tokens" in settings:
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    return {**body, **settings}


_NOT_SENT = frozenset({"api_base", "api_key", "drop_params", "extra_headers", "messages", "model", "timeout"})


def _anthropic_body(request: Mapping[str, Any], name: str) -> _Body | None:
    messages = [(message["role"], _text_parts(message["content"])) for message in request["messages"]]
    if any(not part["text"].strip() for _, parts in messages for part in parts):
        return None  # the server refuses empty texts, and LiteLLM has its ways around that
    system: list[_Body] = []
    while messages and messages[0][0] == "system":
        system += messages.pop(0)[1]
    roles = [role for role, _ in messages]
    if "system" in roles or not roles or roles[0] != "user" or roles[-1] != "user":
        return None
    if not isinstance(request.get("max_tokens"), int):
        return None
    merged: list[_Body] = []
    for role, parts in messages:
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += parts
        else:
            merged.append({"role": role, "content": parts})
    body: _Body = {"model": name, "messages": merged, "max_tokens": request["max_tokens"]}
    takes_sampling = model_entry(name).get("supports_sampling_params") is not False
    for setting in ("temperature", "top_p", "top_k"):
        value = request.get(setting)
        if value is not None and (takes_sampling or (setting == "temperature" and value == 1)):
            body[setting] = value
    stop = request.get("stop")
    if stop is not None:
        sequences = [stop] if isinstance(stop, str) else stop
        if not isinstance(sequences, list) or not all(
            isinstance(sequence, str) and sequence.strip() for sequence in sequences
        ):
            return None
        body["stop_sequences"] = sequences
    return {**body, "system": system} if system else body


def _text_parts(content: str | Sequence[_Body]) -> list[_Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else [dict(part) for part in content]


_OK = range(200, 300)
_AUTHENTICATION = 401
_TIMEOUT = 408
_UNREADABLE = 500
"""An answer that cannot be read counts as an error of the server, which may not happen again."""


def answer_in(
    sent: DirectRequest, model: str, status: int, headers: Mapping[str, str], body: bytes
) -> Answered | Failed:
    """Return the outcome of a request from the reply of the server.

    Args:
        sent: The request.
        model: The model string.
        status: The HTTP status.
        headers: The headers of the answer, with their names in lower case.
        body: The body of the answer.
    """
    text = body.decode("utf-8", "replace")
    if status not in _OK:
        reason = said_by_server(text) or f"status {status}"
        if status == _TIMEOUT:
            reason = f"timeout: {reason}"
        return Failed(
            reason,
            status,
            retry_after=seconds_to_wait(headers.get("retry-after")),
            is_authentication=status == _AUTHENTICATION,
        )
    try:
        found = json.loads(text, object_hook=ResponseObject)
    except (ValueError, RecursionError) as error:
        problem = "the answer is not JSON"
        return Failed(f"{problem}: {error}", _UNREADABLE, problem=problem)
    try:
        raw = found if sent.protocol == "openai" else _as_chat_completion(found)
        return _answered(raw, model)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        said = said_by_server(text) if isinstance(found, dict) and "error" in found else "it has other fields"
        problem = f"the answer is not of the {sent.protocol} protocol: {said}"
        return Failed(problem, _UNREADABLE, problem=problem)


_THOUGHTS = re.compile(r"<(?:think|thinking|budget:thinking)>.*?</(?:think|thinking|budget:thinking)>", re.DOTALL)
_FINISH_REASONS = {
    "stop_sequence": "stop",
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "model_context_window_exceeded": "length",
}
_KNOWN_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})


def _answered(raw: ResponseObject, model: str) -> Answered:
    choices = raw["choices"]
    if not isinstance(choices, list):
        raise TypeError("choices must be a list")
    if not choices:
        return Answered(LLMResponse("", raw, _usage(raw, model)))
    message = choices[0]["message"]
    reason = choices[0].get("finish_reason") or "stop"
    reason = _FINISH_REASONS.get(reason, reason)
    finish_reason = reason if reason in _KNOWN_FINISH_REASONS else "stop"
    text = answer_text(message, is_cut=finish_reason == "length")
    if text == message.get("content") and "reasoning_content" not in message and "reasoning" not in message:
        found = _THOUGHTS.match(text)
        text = text[found.end() :] if found else text
    return Answered(LLMResponse(text, raw, _usage(raw, model), finish_reason, refusal_text(message)))


def _usage(raw: ResponseObject, model: str) -> Usage:
    reported = raw.get("usage") or {}
    tokens = _Tokens.of(reported)
    cost = _cost(raw, model, tokens)
    return Usage(
        calls=1,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cost=cost or 0.0,
        unpriced_calls=int(cost is None),
        unreported_calls=int(tokens.input == 0 and tokens.output == 0),
        cached_input_tokens=tokens.read,
        cache_write_tokens=tokens.written,
    )


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The token counts reported by the server."""

    input: int
    output: int
    read: int
    """The part of the input that was in the provider's cache."""
    written: int
    """The part of the input that was written to it."""
    has_other_prices: bool
    """Whether some tokens have another price than text."""

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> _Tokens:
        details = reported.get("prompt_tokens_details") or {}
        written = reported.get("cache_creation_input_tokens") or details.get("cache_write_tokens")
        return cls(
            int(reported.get("prompt_tokens") or 0),
            int(reported.get("completion_tokens") or 0),
            int(details.get("cached_tokens") or 0),
            int(written or 0),
            any(details.get(name) for name in ("audio_tokens", "image_tokens", "cache_write_tokens")),
        )


_FLAT_TIERS = frozenset({None, "auto", "default", "standard"})
_FIRST_LARGE_PROMPT = 100_000
"""The smallest length of a prompt, in tokens, from which some models have another price."""


def _cost(raw: ResponseObject, model: str, tokens: _Tokens) -> float | None:
    """Return what an answer costs in US dollars, or None if the price is not known.

    LiteLLM computes costs that are not simply tokens times prices.
    """
    # A server may answer with another model than it was asked for, such as the dated one behind a name.
    entry = model_entry(str(raw.get("model"))) or listed_model(model)
    if entry.get("input_cost_per_token") is None or entry.get("output_cost_per_token") is None:
        return None
    kept_long = int((raw.get("usage", {}).get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0)
    priced = [
        (tokens.input - tokens.read - tokens.written, entry["input_cost_per_token"]),
        (tokens.output, entry["output_cost_per_token"]),
        (tokens.read, entry.get("cache_read_input_token_cost")),
        (tokens.written - kept_long, entry.get("cache_creation_input_token_cost")),
        (kept_long, entry.get("cache_creation_input_token_cost_above_1hr")),
    ]
    if (
        raw.get("service_tier") not in _FLAT_TIERS
        or tokens.input > _FIRST_LARGE_PROMPT
        or tokens.has_other_prices
        or any(number and price is None for number, price in priced)
    ):
        from ace.providers.litellm_library import cost_of_completion

        return cost_of_completion(raw, model)
    return float(sum(number * price for number, price in priced if number))


def _as_chat_completion(message: ResponseObject) -> ResponseObject:
    """Return a message of Anthropic's protocol as a chat completion of OpenAI's."""
    blocks = message["content"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [
        ResponseObject(
            id=block["id"],
            type="function",
            function=ResponseObject(name=block["name"], arguments=json.dumps(block["input"])),
        )
        for block in blocks
        if block["type"] == "tool_use"
    ]
    answer = ResponseObject(role="assistant", content=text or None)
    if calls:
        answer["tool_calls"] = calls
    # Thoughts are blocks of their own here; what looks like them is text.
    answer["reasoning_content"] = "".join(
        block.get("thinking") or "" for block in blocks if block["type"] == "thinking"
    )
    choice = ResponseObject(index=0, message=answer, finish_reason=message["stop_reason"])
    usage = message["usage"]
    read, written = (usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("read", "creation"))
    prompt_tokens = usage["input_tokens"] + read + written
    counted = ResponseObject(
        prompt_tokens=prompt_tokens,
        completion_tokens=usage["output_tokens"],
        total_tokens=prompt_tokens + usage["output_tokens"],
        prompt_tokens_details=ResponseObject(cached_tokens=read),
        cache_read_input_tokens=read,
        cache_creation_input_tokens=written,
        cache_creation=usage.get("cache_creation"),
    )
    return ResponseObject(
        id=message.get("id"), object="chat.completion", model=message.get("model"), choices=[choice], usage=counted
    )
