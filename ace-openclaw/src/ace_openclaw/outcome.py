"""Whether a turn succeeded, by what OpenClaw itself says, and what went wrong on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ace.json_fields import text_in
from ace_openclaw.conversation import Line
from ace_openclaw.messages import calls_tools, is_echo, message_of, own_words, problem_of

__all__ = ["Outcome", "outcome_of"]


@dataclass(frozen=True)
class Outcome:
    """How a turn ended."""

    success: bool | None
    """None if unknown: a stored session holds no verdict."""
    answer: str
    """The last words of the model."""
    problems: tuple[str, ...]
    """What went wrong, each in a sentence."""
    is_finished: bool
    """Whether the model gave its answer, or failed."""


def outcome_of(lines: Sequence[Line]) -> Outcome:
    """Judge a turn, or a whole session by its last turn.

    An error that the model recovered from is not a failure, and neither is a failed command.

    Args:
        lines: The events.
    """
    spoken = [line.event for line in lines if line.event.get("type") == "message" and not is_echo(line.event)]
    answers = [event for event in spoken if message_of(event, "assistant")]
    answer = next((words for event in reversed(answers) if (words := own_words(event))), "")
    run = next((line.event for line in reversed(lines) if line.event.get("type") == "run"), None)
    problem = problem_of(answers[-1]) if answers else ""
    has_answered = bool(answers) and spoken[-1] is answers[-1] and not calls_tools(answers[-1])
    # A run whose model failed is called a success, too: the model's own word comes first.
    if problem:
        return Outcome(False, answer, (problem,), is_finished=True)
    if run is not None and isinstance(run.get("success"), bool):
        failures = () if run["success"] else (f"The run failed: {text_in(run, 'error') or 'no reason given'}",)
        return Outcome(not failures, answer, failures, is_finished=True)
    if has_answered:
        return Outcome(None, answer, (), is_finished=True)
    return Outcome(False, answer, ("The turn ended without a final answer.",), is_finished=False)
