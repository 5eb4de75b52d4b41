"""When to ask a server again, and how long to wait before."""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["RetryPolicy"]

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
