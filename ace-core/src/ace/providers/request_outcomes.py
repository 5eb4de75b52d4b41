"""What became of one request to a model, when to repeat it, and the account of what a client has used.

None of this holds a key.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ace.calls.secrets import environment_secrets, redact, secrets_in
from ace.protocols.llm import LLMResponse, Usage

__all__ = ["Answered", "Failed", "RetryPolicy", "UsageAccount", "seconds_to_wait", "without_keys"]

_SHORTEST_KEY = 6
_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True)
class Answered:
    """The server answered."""

    response: LLMResponse
    """The answer with its usage."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The server refused, or there was no response."""

    reason: str
    """What happened, without keys."""
    status_code: int | None
    """The HTTP status, or None if there was no response."""
    retry_after: float | None = None
    """The wait that the server asked for, in seconds."""
    is_authentication: bool = False
    """Whether the key is missing or was refused."""
    missing_variables: tuple[str, ...] = ()
    """The environment variables that would hold the key."""
    problem: str = ""
    """What was wrong with a connection that was made, such as its certificate; empty where nothing is known."""


def without_keys(reason: str, request: Mapping[str, Any]) -> str:
    """Return what a server or a library said, without the keys of a request and of the environment.

    Args:
        reason: What was said.
        request: The settings of the request.

    Example:
        >>> without_keys("wrong key sk-mine-1", {"api_key": "sk-mine-1"})
        'wrong key [hidden]'
    """
    return redact(reason, [*environment_secrets(), *_keys_in(request)])[:_LONGEST_REASON]


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Return the wait that a server asks for. Where it gives a date, our own backoff is good enough.

    Args:
        retry_after: The value of the header `Retry-After`.

    Example:
        >>> seconds_to_wait("1.5"), seconds_to_wait("Wed, 21 Oct 2026 07:28:00 GMT"), seconds_to_wait(None)
        (1.5, None, None)
    """
    try:
        return None if retry_after is None else max(0.0, float(retry_after))
    except ValueError:
        return None


def _keys_in(request: Mapping[str, Any]) -> list[str]:
    return [secret for secret in secrets_in(request) if len(secret) >= _SHORTEST_KEY]


_RETRIED_STATUS_CODES = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Backoff that doubles, with jitter.

    Raises:
        ValueError: A number is negative.

    Example:
        >>> policy = RetryPolicy(max_retries=2)
        >>> policy.is_worth_retrying(429), policy.is_worth_retrying(400), policy.is_worth_retrying(None)
        (True, False, True)
    """

    max_retries: int = 3
    """How often a request is repeated; 0 sends it once."""
    retry_delay: float = 0.5
    """The maximum delay before the first retry, in seconds."""
    longest_retry_delay: float = 30.0
    """The maximum delay before any retry, in seconds, even if the server asks for more."""

    def __post_init__(self) -> None:
        for name in ("max_retries", "retry_delay", "longest_retry_delay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)!r}")

    def is_worth_retrying(self, status_code: int | None) -> bool:
        """Tell whether the same request may succeed later.

        Args:
            status_code: The HTTP status; None for a reset, a timeout or any other lost request.
        """
        return status_code is None or status_code in _RETRIED_STATUS_CODES or 500 <= status_code <= 599

    def delay(self, retry: int, retry_after: float | None = None) -> float:
        """Return how long to wait, in seconds.

        Half of the wait is fixed and half is random, so that clients that failed together do not
        come back together.

        Args:
            retry: The number of the repetition, from 1.
            retry_after: What the server asked for, in seconds; it counts as the shortest wait.
        """
        backoff = min(self.longest_retry_delay, self.retry_delay * 2.0 ** min(retry - 1, 60))
        wait = backoff * (0.5 + random.random() / 2)
        return min(self.longest_retry_delay, max(wait, retry_after or 0.0))


class UsageAccount:
    """Adds up usage from several threads.

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
        """Add what one call has used.

        Args:
            usage: The usage of the call.
        """
        with self._lock:
            self._total = self._total + usage

    @property
    def total(self) -> Usage:
        """The sum so far."""
        with self._lock:
            return self._total
