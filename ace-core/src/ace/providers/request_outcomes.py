"""The outcome of a request to a model, when to retry it, and the total usage of a client.

No object in this module contains a key.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ace._internal.arguments import real_number, whole_number
from ace.calls.secrets import environment_secrets, redact, secrets_in
from ace.protocols.llm import LLMResponse, Usage

__all__ = ["Answered", "Failed", "RetryPolicy", "UsageAccount", "said_by_server", "seconds_to_wait", "without_keys"]

_SHORTEST_KEY = 6
_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True)
class Answered:
    """The server answered."""

    response: LLMResponse
    """The answer and its usage."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The server rejected the request, or did not respond."""

    reason: str
    """What happened, without keys."""
    status_code: int | None
    """The HTTP status, or None without a response."""
    retry_after: float | None = None
    """The delay that the server asked for, in seconds."""
    is_authentication: bool = False
    """Whether the key is missing or was refused."""
    missing_variables: tuple[str, ...] = ()
    """The environment variables from which the key would be read."""
    problem: str = ""
    """The problem of an established connection, such as its certificate, a timeout or an answer that cannot be read;
    empty if nothing is known, or the server reported the problem itself."""
    is_too_long: bool = False
    """Whether the request is longer than the context window."""


def without_keys(reason: str, request: Mapping[str, Any]) -> str:
    """Redact the keys of a request and of the environment in a message of a server or a library.

    Args:
        reason: The message.
        request: The arguments of the request.

    Example:
        >>> without_keys("wrong key sk-mine-1", {"api_key": "sk-mine-1"})
        'wrong key [hidden]'
    """
    return redact(reason, [*environment_secrets(), *_keys_in(request)])[:_LONGEST_REASON]


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Return the delay in a `Retry-After` header, in seconds; None for a date, so that our own backoff applies.

    Args:
        retry_after: The value of the header.

    Example:
        >>> seconds_to_wait("1.5"), seconds_to_wait("Wed, 21 Oct 2026 07:28:00 GMT"), seconds_to_wait(None)
        (1.5, None, None)
    """
    try:
        return None if retry_after is None else max(0.0, float(retry_after))
    except ValueError:
        return None


def said_by_server(text: str) -> str:
    """Return the message in the body of an error response; the whole body if it does not contain one.

    Args:
        text: The body.

    Example:
        >>> said_by_server('{"error": {"message": "no such model", "code": 404}}'), said_by_server("Bad gateway")
        ('no such model', 'Bad gateway')
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    for name in ("error", "message", "detail"):
        inner = found.get(name) if isinstance(found, dict) else None
        if isinstance(inner, dict):
            inner = _with_parameter(inner.get("message"), inner.get("param"))
        if isinstance(inner, str) and inner.strip():
            return inner.strip()
    return text.strip()


def _with_parameter(message: object, parameter: object) -> object:
    """Return the message of an error, with the parameter that it is about; some messages do not name it."""
    if not isinstance(message, str) or not isinstance(parameter, str) or not parameter or parameter in message:
        return message
    return f"{message.strip()} (parameter: {parameter})"


def _keys_in(request: Mapping[str, Any]) -> list[str]:
    return [secret for secret in secrets_in(request) if len(secret) >= _SHORTEST_KEY]


_RETRIED_STATUS_CODES = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter.

    Raises:
        ValueError: A value is not a number, or is negative.

    Example:
        >>> policy = RetryPolicy(max_retries=2)
        >>> policy.is_worth_retrying(429), policy.is_worth_retrying(400), policy.is_worth_retrying(None)
        (True, False, True)
    """

    max_retries: int = 3
    """How often a request is retried; 0 sends it only once."""
    retry_delay: float = 0.5
    """The maximum delay before the first retry, in seconds."""
    longest_retry_delay: float = 30.0
    """The maximum delay before any retry, in seconds, even if the server asks for more."""

    def __post_init__(self) -> None:
        whole_number("max_retries", self.max_retries, least=0)
        for name in ("retry_delay", "longest_retry_delay"):
            real_number(name, getattr(self, name), least=0, of="seconds")

    def is_worth_retrying(self, status_code: int | None) -> bool:
        """Return whether the same request may succeed later.

        Args:
            status_code: The HTTP status; None without a response, as after a reset or a timeout.
        """
        return status_code is None or status_code in _RETRIED_STATUS_CODES or 500 <= status_code <= 599

    def delay(self, retry: int, retry_after: float | None = None) -> float:
        """Return the delay before a retry, in seconds.

        Half of the delay is random, so that clients that failed at the same time do not retry at the same time.

        Args:
            retry: The number of the retry, from 1.
            retry_after: The delay that the server asked for, in seconds, which is the minimum.
        """
        backoff = min(self.longest_retry_delay, self.retry_delay * 2.0 ** min(retry - 1, 60))
        wait = backoff * (0.5 + random.random() / 2)
        return min(self.longest_retry_delay, max(wait, retry_after or 0.0))


class UsageAccount:
    """Sums usage. Thread-safe.

    Example:
        >>> account = UsageAccount()
        >>> account.add(Usage(calls=1, input_tokens=7))
        >>> account.total.input_tokens
        7
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = Usage()

    def add(self, usage: Usage) -> None:
        """Add the usage of one call."""
        with self._lock:
            self._total = self._total + usage

    @property
    def total(self) -> Usage:
        """The sum of all usage added so far."""
        with self._lock:
            return self._total
