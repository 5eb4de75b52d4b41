from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.providers.request_outcomes import RetryPolicy


@given(retry=st.integers(1, 10_000), asked=st.none() | st.floats(0, 1e6))
def test_waits_grow_within_their_bounds(retry: int, asked: float | None) -> None:
    policy = RetryPolicy(retry_delay=0.5, longest_retry_delay=30.0)
    backoff = min(30.0, 0.5 * 2.0 ** min(retry - 1, 60))
    delay = policy.delay(retry, asked)
    assert delay <= 30.0
    assert delay >= min(30.0, max(backoff / 2, asked or 0.0))


def test_waits_differ_between_clients() -> None:
    policy = RetryPolicy()
    assert len({policy.delay(3) for _ in range(50)}) > 40


@pytest.mark.parametrize("status", [None, 408, 429, 500, 502, 503, 504, 529, 599])
def test_worth_retrying(status: int | None) -> None:
    assert RetryPolicy().is_worth_retrying(status)


@pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 409, 422, 600])
def test_not_worth_retrying(status: int) -> None:
    assert not RetryPolicy().is_worth_retrying(status)
