"""The callback that reports each LiteLLM call to Opik."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, final

from ace.integrations import checked_arguments
from ace.providers import load_litellm
from ace_opik.connection import Connection, SpanRecord, TraceRecord, connect_or_warn, redacted

__all__ = ["register_opik_litellm_callback"]

_lock = threading.Lock()


@checked_arguments()
def register_opik_litellm_callback(project_name: str = "ace-framework", tags: Sequence[str] | None = None) -> bool:
    """Send an Opik trace of each LiteLLM call in this process, with its tokens and cost.

    The trace contains the prompt and the answer, in which secrets and personal data are redacted. A process has one
    callback: calling this function again changes its project and tags.

    Args:
        project_name: The project in Opik.
        tags: The tags of the traces.

    Returns:
        Whether calls are reported. False if `opik` is not installed, Opik is disabled, or its client cannot start.

    Example:
        >>> import os
        >>> os.environ["OPIK_DISABLED"] = "true"
        >>> register_opik_litellm_callback()
        False
        >>> del os.environ["OPIK_DISABLED"]
    """
    connection = connect_or_warn()
    if connection is None:
        return False
    report_calls(connection, project_name, tags)
    return True


def report_calls(connection: Connection, project_name: str, tags: Sequence[str] | None) -> None:
    """Register the callback for a connection.

    Args:
        project_name: The project in Opik.
        tags: The tags of the traces.
    """
    litellm: Any = load_litellm()
    with _lock:
        _reporter.direct(connection, project_name, tuple(tags or ()))
        for callback in (_reporter.report, _reporter.areport):
            if callback not in [*litellm.success_callback, *litellm._async_success_callback]:
                litellm.success_callback.append(callback)


@final
class _Reporter:
    """The callback; LiteLLM calls it on threads of its own, and `areport` for calls of asynchronous code."""

    def __init__(self) -> None:
        self._target: tuple[Connection, str, tuple[str, ...]] | None = None

    def direct(self, connection: Connection, project: str, tags: tuple[str, ...]) -> None:
        self._target = connection, project, tags

    def report(self, details: Mapping[str, Any], response: object, start: object, end: object) -> None:
        if self._target is None:
            return
        connection, project, tags = self._target
        try:
            connection.send(_trace_of(details, _time(start), _time(end), project, tags))
        except Exception as error:  # LiteLLM would hide it
            connection.warn(f"a call of LiteLLM was not reported: {type(error).__name__}: {error}")

    async def areport(self, details: Mapping[str, Any], response: object, start: object, end: object) -> None:
        self.report(details, response, start, end)


_reporter: Final = _Reporter()


def _trace_of(
    details: Mapping[str, Any], start: datetime, end: datetime, project: str, tags: tuple[str, ...]
) -> TraceRecord:
    """Return the trace of a call, from what LiteLLM passes to callbacks."""
    # Unlike the other details, this has the same fields for all providers.
    said: Mapping[str, Any] = details.get("standard_logging_object") or {}
    model = str(said.get("model") or details.get("model") or "")
    prompt = redacted({"messages": said.get("messages") or details.get("messages")})
    answer = redacted({"response": said.get("response")})
    counts = {name: int(said.get(name) or 0) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    cost = said.get("response_cost", details.get("response_cost"))
    span = SpanRecord(
        name=f"chat {model}",
        kind="llm",
        start=start,
        end=end,
        input=prompt,
        output=answer,
        model=model,
        provider=str(said.get("custom_llm_provider") or "") or None,
        usage=counts,
        cost=None if cost is None else float(cost),
    )
    return TraceRecord(project, span.name, start, end, prompt, answer, tags=tags, spans=(span,))


def _time(value: object) -> datetime:
    """Return a time with its time zone: those of LiteLLM are local times without one."""
    return value.astimezone(UTC) if isinstance(value, datetime) else datetime.now(UTC)
