"""The one place that imports and calls the `litellm` package.

It is imported on the first call, because that takes seconds. Its own types stay in here: what leaves is `Answered` or
`Failed`, both without keys.
"""

from __future__ import annotations

import importlib
import logging
import os
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from ace.calls.calling import within_seconds
from ace.collection_pause import paused_collection
from ace.protocols.llm import LLMResponse, Usage
from ace.providers.request_outcomes import Answered, Failed, seconds_to_wait, without_keys

__all__ = [
    "ModelPrice",
    "Vectors",
    "asend",
    "count_tokens",
    "embed",
    "input_token_limit",
    "is_on_own_server",
    "load_litellm",
    "loaded_litellm",
    "placeholder_key",
    "price_of_model",
    "quieten_logger",
    "send",
]

T = TypeVar("T")

_lock = threading.Lock()
_litellm: ModuleType | None = None
_IMPORT_SETTINGS = {
    # Prices come from the file in the package: an import must not fetch one from the network.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Otherwise the import reads a .env file of the current folder into this process.
    "LITELLM_MODE": "PRODUCTION",
}


def load_litellm() -> ModuleType:
    """Import litellm once, without the requests, files and log messages that come with its import.

    An import of its own fetches a list of prices from the network, and reads a `.env` file of the current folder.
    A framework that imports litellm itself finds it imported after a call of this.

    Returns:
        The package `litellm`.

    Raises:
        ImportError: litellm is not installed.

    Example:
        >>> load_litellm().__name__
        'litellm'
    """
    global _litellm
    with _lock:
        if _litellm is None:
            with _import_settings(), paused_collection():  # all that it makes stays
                litellm = importlib.import_module("litellm")
            _quieten(litellm)
            _litellm = litellm
        return _litellm


def loaded_litellm() -> ModuleType | None:
    """Return litellm if `load_litellm` has imported it; else None, at once."""
    return _litellm


def _quieten(litellm: Any) -> None:
    """Silence what litellm says by itself; errors reach the caller anyway."""
    # Otherwise every failed call prints an advertisement to standard output.
    litellm.suppress_debug_info = True
    # Also keeps whole requests, with their keys, out of the logs of programs that log at DEBUG.
    if "LITELLM_LOG" not in os.environ:
        quieten_logger("LiteLLM", logging.ERROR)
    quieten_logger("openai", logging.INFO)


def quieten_logger(name: str, level: int) -> None:
    """Let a library log from a level on, unless the program has chosen one.

    Args:
        name: The name of its logger.
        level: The lowest level that is logged.
    """
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(level)


@contextmanager
def _import_settings() -> Iterator[None]:
    """Set what only an import can be told, and take it back; what the user has set stays."""
    added = [name for name in _IMPORT_SETTINGS if name not in os.environ]
    os.environ.update({name: _IMPORT_SETTINGS[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def is_on_own_server(model: str, api_base: object) -> bool:
    """Return whether a model is on a server of your own.

    Args:
        model: A LiteLLM model string.
        api_base: The address that it is asked at, if one is set.

    Example:
        >>> is_on_own_server("openai/mine", "http://localhost:8080/v1"), is_on_own_server("openai/gpt-4o", None)
        (True, False)
    """
    return bool(api_base) and model.startswith("openai/")


def placeholder_key(model: str, api_base: object) -> str | None:
    """Return a key for your own server if none is set; None where none is needed.

    Own servers mostly want no key, but the OpenAI library refuses to call without any.

    Args:
        model: A LiteLLM model string.
        api_base: The address that it is asked at, if one is set.
    """
    return "not-needed" if is_on_own_server(model, api_base) and not os.environ.get("OPENAI_API_KEY") else None


_FIRST_ERROR_STATUS = 400
_MISSING_KEY_WORDS = ("api key", "api_key", "credential")
# Retries are ours: they are counted, and they end.
_OWN_RETRIES: dict[str, Any] = {"max_retries": 0, "num_retries": 0}
# Otherwise litellm looks for MCP servers among the tools, and needs the `mcp` package to do so.
_OWN_TOOLS: dict[str, Any] = {"_skip_mcp_handler": True}
_FIRST_CALL_SECONDS = 10.0
"""What the first call of a provider may take beyond its timeout: litellm then imports the provider's library."""
_called: set[str] = set()
"""The prefixes of the models that have been called in this process."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The server turned texts into vectors."""

    rows: tuple[Sequence[float], ...]
    """One vector for each text, in the order of the texts."""
    usage: Usage
    """What the call has cost."""


def send(request: Mapping[str, Any]) -> Answered | Failed:
    """Make one request, without retries. Its `timeout` bounds the whole answer.

    Args:
        request: The arguments of `litellm.completion`.
    """
    litellm = load_litellm()
    try:
        raw = _before_deadline(request, lambda: litellm.completion(**_arguments(request)))
    except Exception as error:
        return _failure(litellm, error, request)
    return _answered(litellm, raw, request)


async def asend(request: Mapping[str, Any]) -> Answered | Failed:
    """Make one request on the running event loop; otherwise like `send`.

    Args:
        request: The arguments of `litellm.acompletion`.
    """
    import asyncio

    litellm = loaded_litellm()
    if litellm is None:
        litellm = await asyncio.to_thread(load_litellm)
    try:
        async with asyncio.timeout(_seconds_for(request)):
            raw = await litellm.acompletion(**_arguments(request))
    except Exception as error:
        return _failure(litellm, error, request)
    finally:
        _called.add(_prefix(request))
    return _answered(litellm, raw, request)


def _arguments(request: Mapping[str, Any]) -> dict[str, Any]:
    return {**request, **_OWN_RETRIES, **(_OWN_TOOLS if "tools" in request else {})}


def _answered(litellm: ModuleType, raw: Any, request: Mapping[str, Any]) -> Answered:
    choice = _first_choice(raw)
    return Answered(
        LLMResponse(
            text=_text_of(choice),
            raw=raw,
            usage=_usage_of(litellm, raw, request["model"]),
            finish_reason=str(getattr(choice, "finish_reason", None) or ""),
        )
    )


def _before_deadline(request: Mapping[str, Any], call: Callable[[], T]) -> T:
    """Return what a plain call of litellm returns, if it does so before the deadline.

    Litellm hands its timeout to a library that starts it anew with every byte, so a server that drips would hold the
    caller for hours.

    Raises:
        TimeoutError: The time is over.
    """
    try:
        return within_seconds(_seconds_for(request), call)
    finally:
        _called.add(_prefix(request))


def _seconds_for(request: Mapping[str, Any]) -> float | None:
    """Return how long one request may take, in seconds; None if nothing bounds it."""
    timeout = request.get("timeout")
    if not isinstance(timeout, int | float):
        return None
    return timeout if _prefix(request) in _called else timeout + _FIRST_CALL_SECONDS


def _prefix(request: Mapping[str, Any]) -> str:
    return str(request["model"]).partition("/")[0]


def _late(request: Mapping[str, Any]) -> Failed:
    return Failed(f"timeout: the answer was not complete within {request['timeout']:g} s", 408)


def embed(request: Mapping[str, Any]) -> Vectors | Failed:
    """Ask for the vectors of texts in one request, without retries.

    Args:
        request: The arguments of `litellm.embedding`; the texts are its `input`.
    """
    litellm = load_litellm()
    try:
        raw = _before_deadline(request, lambda: litellm.embedding(**request, **_OWN_RETRIES))
    except Exception as error:
        return _failure(litellm, error, request)
    vectors = _vectors_of(raw)
    wanted = len(request["input"])
    if len(vectors) != wanted or len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        return Failed(f"the server gave {len(vectors)} usable vectors for {wanted} texts", 200)
    return Vectors(vectors, _usage_of(litellm, raw, request["model"]))


def _vectors_of(raw: Any) -> tuple[Sequence[float], ...]:
    """Return the vectors in the order of the texts; none if one of them cannot be used."""
    try:
        rows = sorted(raw.data or [], key=lambda row: int(row["index"]))
        return tuple([float(number) for number in row["embedding"]] for row in rows)
    except (KeyError, TypeError, ValueError):  # litellm hands on what the server sent
        return ()


def count_tokens(model: str, text: str) -> int:
    """Count the tokens of a text with the tokenizer that litellm has for a model.

    Args:
        model: A model string.
        text: The text.
    """
    return int(load_litellm().token_counter(model=model, text=text))


def input_token_limit(model: str) -> int | None:
    """Return how many tokens of input a model takes, or None if litellm does not know the model.

    Args:
        model: A model string.
    """
    limit = _listed(model).get("max_input_tokens")
    return int(limit) if limit else None


class ModelPrice(NamedTuple):
    """What a model charges for a million tokens, in US dollars."""

    input_usd: float
    output_usd: float


def price_of_model(model: str) -> ModelPrice | None:
    """Return the list price of a model, or None if it is not known. Nothing is fetched.

    What a provider charges less, for tokens in its cache or in a subscription, is not in it.

    Args:
        model: A model string.

    Example:
        >>> price_of_model("openai/gpt-4o-mini")
        ModelPrice(input_usd=0.15, output_usd=0.6)
        >>> price_of_model("local/qwen2.5-coder-1.5b")
        ModelPrice(input_usd=0.0, output_usd=0.0)
        >>> price_of_model("openai/of-my-own-server") is None
        True
    """
    if model.startswith("local/"):
        return ModelPrice(0.0, 0.0)
    entry = _listed(model)
    prices = [entry.get(f"{kind}_cost_per_token") for kind in ("input", "output")]
    if None in prices:
        return None
    return ModelPrice(*(round(float(price) * 1e6, 6) for price in prices if price is not None))


def _listed(model: str) -> Mapping[str, Any]:
    """Return what litellm's list of models says about a model; nothing if it is not there."""
    models = load_litellm().model_cost
    listed: Mapping[str, Any] = models.get(model) or models.get(model.partition("/")[2]) or {}
    return listed


def _first_choice(raw: Any) -> Any:
    choices = getattr(raw, "choices", None) or [None]
    return choices[0]


def _text_of(choice: Any) -> str:
    """Return the text, or the arguments of the tool calls where a model answers with those."""
    message = getattr(choice, "message", None)
    content = getattr(message, "content", None)
    if isinstance(content, str) and content:
        return content
    calls = getattr(message, "tool_calls", None) or []
    return "\n".join(str(call.function.arguments) for call in calls)


def _usage_of(litellm: ModuleType, raw: Any, model: str) -> Usage:
    reported = getattr(raw, "usage", None)
    input_tokens = int(getattr(reported, "prompt_tokens", 0) or 0)
    output_tokens = int(getattr(reported, "completion_tokens", 0) or 0)
    cost = _cost_of(litellm, raw, model)
    return Usage(
        calls=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost or 0.0,
        unpriced_calls=int(cost is None),
        unreported_calls=int(input_tokens == 0 and output_tokens == 0),
    )


def _cost_of(litellm: ModuleType, raw: Any, model: str) -> float | None:
    try:
        return float(litellm.completion_cost(completion_response=raw, model=model))
    except Exception:
        # litellm raises errors of many types for a model whose price it does not know.
        return None


def _failure(litellm: ModuleType, error: Exception, request: Mapping[str, Any]) -> Failed:
    if type(error) is TimeoutError:
        return _late(request)
    reason = without_keys(_without_traceback(str(error)), request)
    status_code = getattr(error, "status_code", None)
    if isinstance(error, litellm.Timeout):
        return Failed(f"timeout: {reason}", 408)
    missing = _missing_variables(litellm, request)
    is_missing_key = bool(missing) and any(word in reason.lower() for word in _MISSING_KEY_WORDS)
    if isinstance(error, litellm.AuthenticationError) or is_missing_key:
        return Failed(reason, status_code, is_authentication=True, missing_variables=missing)
    is_broken_answer = isinstance(status_code, int) and status_code < _FIRST_ERROR_STATUS
    problem = _connection_problem(error)
    if isinstance(error, litellm.APIConnectionError) or is_broken_answer or problem:
        return Failed(f"{problem} ({reason})" if problem else reason, None, problem=problem)
    return Failed(reason, status_code, retry_after=_retry_after(error))


def _connection_problem(error: BaseException) -> str:
    """Say what was wrong with a connection that was made, or empty if none was made or nothing is known."""
    for cause in _causes(error):
        # aiohttp's error of this class is made of the one that knows the reason.
        if isinstance(cause, ssl.SSLCertVerificationError) and hasattr(cause, "verify_message"):
            return f"the certificate of the server is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLCertVerificationError):
            return f"the server and this program found no common TLS: {cause.reason or cause}"
        if type(cause).__name__ in _CUT_ANSWERS:
            return "the server closed the connection before its answer was complete"
    return ""


_CUT_ANSWERS = frozenset(
    {"RemoteProtocolError", "ServerDisconnectedError", "ClientPayloadError", "ConnectionResetError"}
)
"""What httpx, aiohttp and Python name it; neither library is imported for their sake."""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what led to it, each once."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        found = left.pop(0)
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        left += [found.__cause__, found.__context__]


def _without_traceback(text: str) -> str:
    """Litellm appends whole tracebacks to some messages."""
    return text.partition("\nTraceback (most recent call last)")[0].strip()


def _missing_variables(litellm: ModuleType, request: Mapping[str, Any]) -> tuple[str, ...]:
    if request.get("api_key"):
        return ()
    try:
        report = litellm.validate_environment(request["model"])
    except Exception:
        # An unknown provider; the error of the call itself says so.
        return ()
    return tuple(report.get("missing_keys") or ())


def _retry_after(error: Exception) -> float | None:
    for source in (getattr(error, "litellm_response_headers", None), _response_headers(error)):
        if source is not None and source.get("retry-after") is not None:
            return seconds_to_wait(source.get("retry-after"))
    return None


def _response_headers(error: Exception) -> Mapping[str, str] | None:
    headers: Mapping[str, str] | None = getattr(getattr(error, "response", None), "headers", None)
    return headers
