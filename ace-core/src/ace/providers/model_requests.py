"""Sends one request to a model, directly to its server if possible, or else through LiteLLM. Without retries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ace.providers import litellm_library
from ace.providers.direct_requests import DirectRequest, answer_in, direct_request
from ace.providers.litellm_library import connection_problem, late
from ace.providers.request_outcomes import Answered, Failed, without_keys

__all__ = ["asend", "send"]

_BAD_REQUEST = 400
"""The status of a request that cannot be sent, for which another attempt would not help."""


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
    from ace.providers.http_exchange import post

    try:
        reply = post(found.url, found.headers, found.body, found.timeout)
    except (OSError, ValueError) as error:
        return _failure(error, request)
    if _is_for_litellm(reply.status, reply.headers):
        return litellm_library.send(request)
    return _outcome(found, request, reply.status, reply.headers, reply.body)


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
    from ace.providers.http_exchange import apost

    try:
        reply = await apost(found.url, found.headers, found.body, found.timeout)
    except (OSError, ValueError) as error:
        return _failure(error, request)
    if _is_for_litellm(reply.status, reply.headers):
        return await litellm_library.asend(request)
    return _outcome(found, request, reply.status, reply.headers, reply.body)


def _is_for_litellm(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether only LiteLLM can read a reply: it is a redirect, or compressed although that was not requested."""
    return 300 <= status < 400 or headers.get("content-encoding", "identity").lower() != "identity"


def _outcome(
    sent: DirectRequest, request: Mapping[str, Any], status: int, headers: Mapping[str, str], body: bytes
) -> Answered | Failed:
    outcome = answer_in(sent, request["model"], status, headers, body)
    if isinstance(outcome, Answered):
        return outcome
    return Failed(
        without_keys(outcome.reason, request),
        outcome.status_code,
        retry_after=outcome.retry_after,
        is_authentication=outcome.is_authentication,
        problem=without_keys(outcome.problem, request),
    )


def _failure(error: OSError | ValueError, request: Mapping[str, Any]) -> Failed:
    if isinstance(error, TimeoutError):
        return late(request)
    if not isinstance(error, OSError):
        return Failed(without_keys(str(error), request), _BAD_REQUEST)
    problem = connection_problem(error)
    reason = without_keys(problem or f"Connection error: {error}", request)
    return Failed(reason, None, problem=problem)
