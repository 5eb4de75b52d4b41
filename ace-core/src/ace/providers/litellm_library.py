"""The only module that imports and calls the `litellm` package, and reads its table of models.

LiteLLM is imported on the first call, because its import takes seconds. Its types do not leave this module: functions
return `Answered` or `Failed`, neither of which contains a key. The providers, limits and prices of models are looked up
without importing it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import logging
import os
import re
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from ace._internal.gc_pause import gc_paused
from ace.calls.calling import within_seconds
from ace.protocols.llm import LLMResponse, Usage
from ace.providers.request_outcomes import Answered, Failed, said_by_server, seconds_to_wait, without_keys
from ace.providers.server_quirks import answer_text, refusal_text

__all__ = [
    "ModelPrice",
    "Vectors",
    "asend",
    "causes_of",
    "connection_problem",
    "cost_of_completion",
    "count_tokens",
    "embed",
    "input_token_limit",
    "is_alias",
    "is_on_own_server",
    "late",
    "listed_model",
    "load_litellm",
    "loaded_litellm",
    "model_entry",
    "placeholder_key",
    "price_of_model",
    "quieten_logger",
    "send",
]

T = TypeVar("T")

_lock = threading.Lock()
_litellm: ModuleType | None = None
_IMPORT_SETTINGS = {
    # Read the prices from the file in the package: an import must not fetch them over the network.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Otherwise the import reads a .env file of the current folder into this process.
    "LITELLM_MODE": "PRODUCTION",
    # litellm imports opik where it is installed, and that import starts sending error reports to its makers.
    "OPIK_SENTRY_ENABLE": "false",
}


def load_litellm() -> ModuleType:
    """Import litellm once, without the side effects of its import.

    A plain `import litellm` fetches a price list over the network, reads the `.env` file of the current folder and
    prints log messages. After this call, a framework that imports litellm gets the module imported here.

    Raises:
        ImportError: litellm is not installed.

    Example:
        >>> load_litellm().__name__
        'litellm'
    """
    global _litellm
    with _lock:
        if _litellm is None:
            with _import_settings(), gc_paused():  # none of the objects it creates can be collected
                litellm = importlib.import_module("litellm")
            _quieten(litellm)
            _litellm = litellm
        return _litellm


def loaded_litellm() -> ModuleType | None:
    """Return litellm if `load_litellm` has imported it, otherwise None; never import it."""
    return _litellm


def _quieten(litellm: Any) -> None:
    """Turn off litellm's own output; errors are raised to the caller anyway."""
    # Otherwise every failed call prints a request for feedback to standard output.
    litellm.suppress_debug_info = True
    # This also keeps requests, with their keys, out of the logs of programs that log at DEBUG.
    if "LITELLM_LOG" not in os.environ:
        quieten_logger("LiteLLM", logging.ERROR)
    quieten_logger("openai", logging.INFO)


def quieten_logger(name: str, level: int) -> None:
    """Set the level of a library's logger, unless the program has set one."""
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(level)


@contextmanager
def _import_settings() -> Iterator[None]:
    """Set the environment variables that litellm only reads on import, then restore them; keep those that are set."""
    added = [name for name in _IMPORT_SETTINGS if name not in os.environ]
    os.environ.update({name: _IMPORT_SETTINGS[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def is_on_own_server(model: str, api_base: object) -> bool:
    """Return whether a model is on your own server.

    Args:
        model: A LiteLLM model string.
        api_base: The base URL, if one is set.

    Example:
        >>> is_on_own_server("openai/mine", "http://localhost:8080/v1"), is_on_own_server("openai/gpt-4o", None)
        (True, False)
    """
    return bool(api_base) and model.startswith("openai/")


def placeholder_key(model: str, api_base: object) -> str | None:
    """Return a placeholder key for your own server if no key is set; None if no placeholder is needed.

    Most of these servers do not need a key, but the OpenAI library refuses to send a request without one.

    Args:
        model: A LiteLLM model string.
        api_base: The base URL, if one is set.
    """
    return "not-needed" if is_on_own_server(model, api_base) and not os.environ.get("OPENAI_API_KEY") else None


_FIRST_ERROR_STATUS = 400
_OK = 200
_UNREADABLE = "Invalid response object"
_MISSING_KEY_WORDS = ("api key", "api_key", "credential")
# We retry requests ourselves, counted and limited.
_OWN_RETRIES: dict[str, Any] = {"max_retries": 0, "num_retries": 0}
# Otherwise litellm searches the tools for MCP servers, which requires the `mcp` package.
_OWN_TOOLS: dict[str, Any] = {"_skip_mcp_handler": True}
_FIRST_CALL_SECONDS = 10.0
"""The time added to the timeout of a provider's first call, in which litellm imports the provider's library."""
_called: set[str] = set()
"""The prefixes of the models that have been called in this process."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The answer of a server to an embedding request."""

    rows: tuple[Sequence[float], ...]
    """One vector for each text, in the order of the texts."""
    usage: Usage
    """The usage of the request."""


def send(request: Mapping[str, Any]) -> Answered | Failed:
    """Make one request, without retries. Its `timeout` limits the time until the answer is complete.

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


def _answered(litellm: ModuleType, raw: Any, request: Mapping[str, Any]) -> Answered | Failed:
    if raw is None:  # litellm repeats a request whose roles do not alternate, and loses the second error
        return Failed("the roles of the messages must alternate", _FIRST_ERROR_STATUS)
    choice = _first_choice(raw)
    message = _fields_of(getattr(choice, "message", None))
    finish_reason = str(getattr(choice, "finish_reason", None) or "")
    return Answered(
        LLMResponse(
            text=answer_text(message, is_cut=finish_reason == "length"),
            raw=raw,
            usage=_usage_of(litellm, raw, request["model"]),
            finish_reason=finish_reason,
            refusal=refusal_text(message),
        )
    )


def _before_deadline(request: Mapping[str, Any], call: Callable[[], T]) -> T:
    """Run a synchronous litellm call with a deadline.

    The timeout that litellm passes to the HTTP library restarts with every byte, so a server that sends its answer
    byte by byte could block the caller for hours.

    Raises:
        TimeoutError: The call did not return in time.
    """
    try:
        return within_seconds(_seconds_for(request), call)
    finally:
        _called.add(_prefix(request))


def _seconds_for(request: Mapping[str, Any]) -> float | None:
    """Return the timeout of a request, in seconds; None if it has none."""
    timeout = request.get("timeout")
    if not isinstance(timeout, int | float):
        return None
    return timeout if _prefix(request) in _called else timeout + _FIRST_CALL_SECONDS


def _prefix(request: Mapping[str, Any]) -> str:
    return str(request["model"]).partition("/")[0]


def late(request: Mapping[str, Any]) -> Failed:
    """Return the failure of a request whose answer was not complete in time."""
    problem = f"the answer was not complete within {request['timeout']:g} s"
    return Failed(f"timeout: {problem}", 408, problem=problem)


def embed(request: Mapping[str, Any]) -> Vectors | Failed:
    """Embed texts with one request, without retries.

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
    """Return the vectors in the order of the texts; an empty tuple if one of them is not usable."""
    try:
        rows = sorted(raw.data or [], key=lambda row: int(row["index"]))
        return tuple([float(number) for number in row["embedding"]] for row in rows)
    except (KeyError, TypeError, ValueError):  # litellm does not validate the server's response
        return ()


def count_tokens(model: str, text: str) -> int:
    """Count the tokens of a text with litellm's tokenizer for a model."""
    return int(load_litellm().token_counter(model=model, text=text))


# The table of models is a JSON file of three megabytes in the package of LiteLLM. One entry is found in it as text,
# which takes a tenth of the time of reading it all. Where LiteLLM is imported, its own copy counts: a program may have
# added models.
_TABLE_FILE = "model_prices_and_context_window_backup.json"
_TABLE_START = b'{\n    "'
_TABLE_INDENT = b"\n    "


def listed_model(model: str) -> Mapping[str, Any]:
    """Return the entry of a model string, with or without its prefix; an empty one if the model is not listed.

    Args:
        model: A model string.

    Example:
        >>> listed_model("openai/gpt-4o-mini")["litellm_provider"], listed_model("openai/of-my-own-server")
        ('openai', {})
    """
    return model_entry(model) or model_entry(model.partition("/")[2])


def model_entry(name: str) -> Mapping[str, Any]:
    """Return the entry under exactly this name; an empty one if there is none.

    Args:
        name: A name of the table.

    Example:
        >>> model_entry("gpt-4o-mini")["max_input_tokens"]
        128000
    """
    models = getattr(sys.modules.get("litellm"), "model_cost", None)
    if isinstance(models, Mapping):
        known: Mapping[str, Any] = models.get(name) or {}
        return known
    entry = _entry_of_file(name)
    target = entry.get("alias_of")
    return _entry_of_file(target) if isinstance(target, str) else entry


def is_alias(name: str) -> bool:
    """Return whether the table lists a name as another name of a model, by which LiteLLM replaces it in requests.

    Args:
        name: A name of the table.

    Example:
        >>> is_alias("gpt-4o-mini")
        False
    """
    return "alias_of" in _entry_of_file(name)


@functools.lru_cache(maxsize=64)
def _entry_of_file(name: str) -> Mapping[str, Any]:
    path = _table_path()
    if not name or path is None:
        return {}
    table = path.read_bytes()
    if not table.startswith(_TABLE_START):  # written in another style
        return _whole_table().get(name) or {}
    key = _TABLE_INDENT + json.dumps(name, ensure_ascii=False).encode() + b": {"
    start = table.find(key)
    if start < 0:  # one entry may be written in another style than the rest
        return _whole_table().get(name) or {} if json.dumps(name).encode() + b":" in table else {}
    end = table.index(_TABLE_INDENT + b"}", start)
    entry: Mapping[str, Any] = json.loads(table[start + len(key) - 1 : end + len(_TABLE_INDENT) + 1])
    return entry


@functools.lru_cache(maxsize=1)
def _whole_table() -> Mapping[str, Mapping[str, Any]]:
    path = _table_path()
    table: Mapping[str, Mapping[str, Any]] = {} if path is None else json.loads(path.read_bytes())
    return table


@functools.lru_cache(maxsize=1)
def _table_path() -> Path | None:
    """Return the path of the file; None if LiteLLM is not installed, or has it elsewhere."""
    spec = importlib.util.find_spec("litellm")  # imports nothing, since it is a package at the top
    for folder in () if spec is None else spec.submodule_search_locations or ():
        if (path := Path(folder) / _TABLE_FILE).is_file():
            return path
    return None


def input_token_limit(model: str) -> int | None:
    """Return the size of a model's input in tokens, or None if litellm does not know the model."""
    limit = listed_model(model).get("max_input_tokens")
    return int(limit) if limit else None


class ModelPrice(NamedTuple):
    """What a model charges for a million tokens, in US dollars."""

    input_usd: float
    output_usd: float


def price_of_model(model: str) -> ModelPrice | None:
    """Return the list price of a model, or None if it is not known, without a network request.

    Discounts, such as those for cached tokens or of a subscription, are not considered.

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
    entry = listed_model(model)
    prices = [entry.get(f"{kind}_cost_per_token") for kind in ("input", "output")]
    if None in prices:
        return None
    return ModelPrice(*(round(float(price) * 1e6, 6) for price in prices if price is not None))


def _first_choice(raw: Any) -> Any:
    choices = getattr(raw, "choices", None) or [None]
    return choices[0]


def _fields_of(message: Any) -> Mapping[str, Any]:
    """Return the fields of a message, as they are in the answer of an OpenAI server."""
    calls = getattr(message, "tool_calls", None) or []
    further = getattr(message, "provider_specific_fields", None) or {}
    return {
        "content": getattr(message, "content", None),
        "tool_calls": [{"function": {"arguments": call.function.arguments}} for call in calls],
        "reasoning_content": getattr(message, "reasoning_content", None),
        "refusal": getattr(message, "refusal", None) or further.get("refusal"),
    }


def _usage_of(litellm: ModuleType, raw: Any, model: str) -> Usage:
    reported = getattr(raw, "usage", None)
    input_tokens = int(getattr(reported, "prompt_tokens", 0) or 0)
    output_tokens = int(getattr(reported, "completion_tokens", 0) or 0)
    cost = _cost_of(litellm, raw, model)
    details = getattr(reported, "prompt_tokens_details", None)
    written = getattr(reported, "cache_creation_input_tokens", None) or getattr(details, "cache_write_tokens", None)
    return Usage(
        calls=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost or 0.0,
        unpriced_calls=int(cost is None),
        unreported_calls=int(input_tokens == 0 and output_tokens == 0),
        cached_input_tokens=int(getattr(details, "cached_tokens", None) or 0),
        cache_write_tokens=int(written or 0),
    )


def _cost_of(litellm: ModuleType, raw: Any, model: str) -> float | None:
    try:
        return float(litellm.completion_cost(completion_response=raw, model=model))
    except Exception:
        # litellm raises errors of many types for a model whose price it does not know.
        return None


def cost_of_completion(completion: Mapping[str, Any], model: str) -> float | None:
    """Return the cost of an answer in US dollars, as computed by litellm, or None if it does not know the price.

    Args:
        completion: A chat completion in OpenAI's format.
        model: The model string.
    """
    litellm = load_litellm()
    return _cost_of(litellm, litellm.ModelResponse(**completion), model)


def _failure(litellm: ModuleType, error: Exception, request: Mapping[str, Any]) -> Failed:
    if type(error) is TimeoutError:
        return late(request)
    reason = without_keys(_said(error), request)
    status_code = getattr(error, "status_code", None)
    if isinstance(error, litellm.Timeout):
        return Failed(f"timeout: {reason}", 408)
    if reason.startswith(_UNREADABLE):  # the answer is paid for, and the next one will have the same form
        problem = "LiteLLM cannot read the answer, because its content is not a text"
        return Failed(problem, _OK, problem=problem)
    missing = _missing_variables(litellm, request)
    is_missing_key = bool(missing) and any(word in reason.lower() for word in _MISSING_KEY_WORDS)
    if isinstance(error, litellm.AuthenticationError) or is_missing_key:
        return Failed(reason, status_code, is_authentication=True, missing_variables=missing)
    is_broken_answer = isinstance(status_code, int) and status_code < _FIRST_ERROR_STATUS
    problem = connection_problem(error)
    if isinstance(error, litellm.APIConnectionError) or is_broken_answer or problem:
        return Failed(f"{problem} ({reason})" if problem else reason, None, problem=problem)
    if any(words in reason for words in _NO_CONNECTION):
        return Failed(reason, None)
    return Failed(reason, status_code, retry_after=_retry_after(error))


_NO_CONNECTION = ("Connection error", "Connection refused", "Name or service not known", "nodename nor servname")
"""Litellm reports a failed connection with status 500; only the text tells it from an error of the server."""


def connection_problem(error: BaseException) -> str:
    """Describe the problem of an established connection; empty if none was established, or nothing is known.

    Args:
        error: The error of a request.
    """
    for cause in causes_of(error):
        # aiohttp's error of this class has no message of its own; its cause has.
        if isinstance(cause, ssl.SSLCertVerificationError) and hasattr(cause, "verify_message"):
            return f"the certificate of the server is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLCertVerificationError):
            return f"the TLS handshake with the server failed: {cause.reason or cause}"
        if type(cause).__name__ in _CUT_ANSWERS:
            return "the server closed the connection before its answer was complete"
    return ""


_CUT_ANSWERS = frozenset(
    {
        "BrokenResourceError",
        "ClientPayloadError",
        "ConnectionResetError",
        "RemoteProtocolError",
        "ServerDisconnectedError",
    }
)
"""The names of this error in anyio, aiohttp, Python and httpx; names avoid importing these libraries."""


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all its causes, without repetitions."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        found = left.pop(0)
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        left += [found.__cause__, found.__context__, *getattr(found, "exceptions", ())]


_NAMES_OF_ERRORS = re.compile(r"\A((litellm\.)?\w+Error: |litellm\.\w+: |Timeout Error: |\w+(Exception|Error) - )+")
_ADVICE = re.compile(r"\.? Handle with `litellm\.\w+`\.\Z")


def _said(error: Exception) -> str:
    """Return the message of the server or of the failure, without the class names and advice that litellm adds."""
    text = str(error).partition("\nTraceback (most recent call last)")[0].strip()  # litellm appends whole tracebacks
    return said_by_server(_ADVICE.sub("", _NAMES_OF_ERRORS.sub("", text))) or text


def _missing_variables(litellm: ModuleType, request: Mapping[str, Any]) -> tuple[str, ...]:
    if request.get("api_key"):
        return ()
    try:
        report = litellm.validate_environment(request["model"])
    except Exception:
        # The provider is unknown, which the error of the call itself reports.
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
