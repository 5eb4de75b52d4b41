"""What became of one request to a model. Neither outcome holds a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ace.calls.secrets import environment_secrets, redact, secrets_in
from ace.protocols.llm import LLMResponse

__all__ = ["Answered", "Failed", "seconds_to_wait", "without_keys"]

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
