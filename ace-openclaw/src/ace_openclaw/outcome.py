"""Determines the outcome of a turn as reported by OpenClaw, and its problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ace.json_fields import text_in
from ace_openclaw.conversation import Line
from ace_openclaw.messages import calls_tools, is_echo, message_of, own_words, problem_of

__all__ = ["Outcome", "outcome_of"]


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
        return Outcome(False, answer, (problem,), is_finished=True)
    if run is not None and isinstance(run.get("success"), bool):
        failures = () if run["success"] else (f"The run failed: {text_in(run, 'error') or 'no reason given'}",)
        return Outcome(not failures, answer, failures, is_finished=True)
    if has_answered:
        return Outcome(None, answer, (), is_finished=True)
    return Outcome(False, answer, ("The turn ended without a final answer.",), is_finished=False)
