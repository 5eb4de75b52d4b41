"""The metrics of a turn: calls, tokens, duration and cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ace.json_fields import mapping_in, number_in, text_in
from ace.traces import TraceStep
from ace_openclaw.conversation import Line
from ace_openclaw.messages import is_echo, message_of

__all__ = ["ended_at", "metrics_of"]


def metrics_of(lines: Sequence[Line], steps: Sequence[TraceStep]) -> dict[str, float]:
    """Return the metrics of a turn or of a session.

    Every model call gets the whole conversation again, so `input_tokens` counts it each time.

    Args:
        lines: The events.
        steps: The steps that the events were converted to.
    """
    answers = [
        message for line in lines if not is_echo(line.event) and (message := message_of(line.event, "assistant"))
    ]
    usages = [mapping_in(message, "usage") for message in answers]
    sums = {
        "input_tokens": [number_in(usage, name) for usage in usages for name in ("input", "cacheRead", "cacheWrite")],
        "output_tokens": [number_in(usage, "output") for usage in usages],
        "cost_usd": [number_in(mapping_in(usage, "cost"), "total") for usage in usages],
    }
    metrics: dict[str, float] = {"model_calls": len(answers)}
    for name, numbers in sums.items():
        metrics[name] = round(sum(number or 0 for number in numbers), 10)
    times = [time for line in lines if (time := _time(line)) is not None]
    if len(times) > 1:
        metrics["duration_seconds"] = round((max(times) - min(times)).total_seconds(), 3)
    metrics["tool_calls"] = sum(each["kind"] == "call" for each in steps)
    metrics["failed_tool_calls"] = sum(each["kind"] == "result" and each["is_error"] for each in steps)
    return metrics


def ended_at(lines: Sequence[Line]) -> str:
    """Return the time of the last event as ISO time; empty if no event has one.

    Args:
        lines: The events.
    """
    last = max((time for line in lines if (time := _time(line)) is not None), default=None)
    return "" if last is None else last.astimezone(UTC).isoformat(timespec="seconds")


def _time(line: Line) -> datetime | None:
    try:
        time = datetime.fromisoformat(text_in(line.event, "timestamp"))
        if time.tzinfo is not None:
            return time
    except ValueError:  # captured messages only have a number
        pass
    milliseconds = number_in(mapping_in(line.event, "message"), "timestamp")
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
