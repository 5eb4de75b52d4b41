"""How a turn or a session ended, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ace.integrations import mapping_in, number_in, text_in
from ace.logs import Step, time_of
from ace_openclaw.conversation import Line
from ace_openclaw.messages import calls_tools, is_echo, message_of, own_words, problem_of

__all__ = ["Outcome", "ended_at", "metrics_of", "outcome_of", "times_of"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a turn."""

    success: bool | None
    """Whether the turn succeeded; None if it is not known, because a stored session does not contain this."""
    answer: str
    """The last text of the model."""
    problems: tuple[str, ...]
    """The problems, one sentence each."""
    is_finished: bool
    """Whether the model answered or failed."""
    source: str = ""
    """The field that says whether it succeeded; empty if none does."""


def outcome_of(lines: Sequence[Line]) -> Outcome:
    """Determine the outcome of a turn, or of a session by its last turn.

    An error from which the model recovered is not a failure, and neither is a failed command.

    Args:
        lines: The events.
    """
    spoken = [line.event for line in lines if line.event.get("type") == "message" and not is_echo(line.event)]
    answers = [event for event in spoken if message_of(event, "assistant")]
    answer = next((words for event in reversed(answers) if (words := own_words(event))), "")
    run = next((line.event for line in reversed(lines) if line.event.get("type") == "run"), None)
    problem = problem_of(answers[-1]) if answers else ""
    has_answered = bool(answers) and spoken[-1] is answers[-1] and not calls_tools(answers[-1])
    # A run is reported as successful even if its model failed, so failures of the model are checked first.
    if problem:
        return Outcome(False, answer, (problem,), is_finished=True, source="" if run is None else "success")
    if run is not None and isinstance(run.get("success"), bool):
        failures = () if run["success"] else (f"The run failed: {text_in(run, 'error') or 'no reason given'}",)
        return Outcome(not failures, answer, failures, is_finished=True, source="success")
    if has_answered:
        return Outcome(None, answer, (), is_finished=True)
    return Outcome(False, answer, ("The turn ended without a final answer.",), is_finished=False)


def metrics_of(lines: Sequence[Line], steps: Sequence[Step]) -> dict[str, float]:
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
    times = times_of(lines)
    if len(times) > 1:
        metrics["duration_seconds"] = round((max(times) - min(times)).total_seconds(), 3)
    metrics["tool_calls"] = sum(step.kind == "call" for step in steps)
    metrics["failed_tool_calls"] = sum(step.kind == "result" and step.is_error for step in steps)
    return metrics


def ended_at(lines: Sequence[Line]) -> str:
    """Return the time of the last event as ISO time; empty if no event has one.

    Args:
        lines: The events.
    """
    last = max(times_of(lines), default=None)
    return "" if last is None else last.astimezone(UTC).isoformat(timespec="seconds")


def times_of(lines: Sequence[Line]) -> list[datetime]:
    """Return the times of events; captured messages have them inside.

    Args:
        lines: The events.
    """
    named = ((line.event.get("timestamp"), mapping_in(line.event, "message").get("timestamp")) for line in lines)
    found = (time_of(own) or time_of(inner) for own, inner in named)
    return [time for time in found if time is not None]
