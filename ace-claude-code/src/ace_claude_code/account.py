"""What a run has cost: calls, tokens, time, money."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ace.json_fields import Record, mapping_in, number_in, text_in
from ace.traces import TraceStep
from ace_claude_code.conversation import Line

__all__ = ["metrics_of_lines", "metrics_of_result", "metrics_of_steps"]

Metrics = dict[str, float]

_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def metrics_of_result(result: Record) -> Metrics:
    """Return the numbers of a `result` event. For a resumed session, recent releases count its whole cost.

    Args:
        result: The event.
    """
    found = {
        "turns": number_in(result, "num_turns"),
        "cost_usd": number_in(result, "total_cost_usd"),
        "duration_ms": number_in(result, "duration_ms"),
    }
    return {
        **_tokens(mapping_in(result, "usage")),
        **{name: value for name, value in found.items() if value is not None},
    }


def metrics_of_lines(lines: Sequence[Line]) -> Metrics:
    """Return the numbers of the messages of a stored turn.

    Args:
        lines: The messages.
    """
    # Each block of an answer repeats the usage of the whole answer.
    usages = {
        text_in(mapping_in(line.record, "message"), "id"): mapping_in(mapping_in(line.record, "message"), "usage")
        for line in lines
        if line.record.get("type") == "assistant"
    }
    tokens = [_tokens(usage) for usage in usages.values()]
    metrics: Metrics = {"model_calls": len(usages)}
    for name in ("input_tokens", "output_tokens"):
        metrics[name] = sum(each.get(name, 0) for each in tokens)
    times = [time for line in lines if (time := _time(line.record)) is not None]
    if len(times) > 1:
        metrics["duration_ms"] = round((max(times) - min(times)).total_seconds() * 1000)
    return metrics


def metrics_of_steps(steps: Sequence[TraceStep]) -> Metrics:
    """Return the numbers of tool calls, and of those that failed or were denied.

    Args:
        steps: The steps of the trace.
    """
    return {
        "tool_calls": sum(each["kind"] == "call" for each in steps),
        "failed_tool_calls": sum(each["kind"] == "result" and each["is_error"] for each in steps),
    }


def _tokens(usage: Record) -> Metrics:
    if not usage:
        return {}
    return {
        "input_tokens": sum(number_in(usage, name) or 0 for name in _INPUT),
        "output_tokens": number_in(usage, "output_tokens") or 0,
    }


def _time(record: Record) -> datetime | None:
    try:
        return datetime.fromisoformat(text_in(record, "timestamp"))
    except ValueError:
        return None
