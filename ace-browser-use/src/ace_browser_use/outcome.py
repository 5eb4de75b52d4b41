"""Determines the outcome of a history: whether the task succeeded, the error, and the problems during the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ace_browser_use.history import History
from ace_browser_use.result import BrowserStep
from ace_browser_use.shortening import shortened

__all__ = ["Outcome", "outcome_of"]

_LONGEST_PROBLEM = 500
_OF_THE_BROWSER = ("cdp", "browser", "websocket", "navigation", "target")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    success: bool
    error: str | None
    problems: tuple[str, ...]


def outcome_of(history: History, *, broke_off: str = "", max_steps: int | None = None) -> Outcome:
    """Determine the outcome of a history.

    A run succeeded if the agent finished and reported success, and the judge, if there was one, agreed.

    Args:
        history: The contents of the history.
        broke_off: The reason if the run was interrupted.
        max_steps: The maximum number of steps of the agent, if known.

    Example:
        >>> outcome_of(History(steps=(), ran_out_of_steps=True), max_steps=3).error
        'it ran out of steps: max_steps=3'
    """
    problems = tuple(_merged(_problems(history.steps)))
    error = broke_off or _failure(history, problems, max_steps)
    return Outcome(success=not error, error=error or None, problems=problems)


def _failure(history: History, problems: Sequence[str], max_steps: int | None) -> str:
    if history.ran_out_of_steps:
        return "it ran out of steps" + ("" if max_steps is None else f": max_steps={max_steps}")
    if not history.is_done:
        return f"the agent stopped without being done{f'; {problems[-1]}' if problems else ''}"
    if not history.is_successful:
        said = shortened(history.last_word, _LONGEST_PROBLEM)
        last = f" (this was the last of max_steps={max_steps})" if max_steps == len(history.steps) else ""
        return f"by its own word, the agent did not succeed{last}: {said}"
    if history.is_approved is False:
        return f"the judge does not agree that it succeeded: {shortened(history.judgement, _LONGEST_PROBLEM)}"
    return ""


def _problems(steps: Sequence[BrowserStep]) -> Iterator[tuple[int, str]]:
    """Yield the problems of a run, each with the number of the step."""
    status_before: tuple[str, int | None] = ("", None)
    for step in steps:
        did_not_load = False
        for action in step["actions"]:
            if action["error"]:
                did_not_load = did_not_load or "Navigation failed" in action["error"]
                yield step["number"], _of_action(action["name"], action["error"])
        if step["error"]:
            yield step["number"], _of_step(step["error"])
        status = (step["arrived_at"], step["http_status"])
        if (step["http_status"] or 0) >= 400 and status != status_before and not did_not_load:
            yield step["number"], f"the page {step['arrived_at']} did not load: HTTP status {step['http_status']}"
        status_before = status


def _of_action(name: str, error: str) -> str:
    problem = shortened(error, _LONGEST_PROBLEM)
    return f"a page did not load: {problem}" if "Navigation failed" in error else f"{name} failed: {problem}"


def _of_step(error: str) -> str:
    problem = shortened(error, _LONGEST_PROBLEM)
    if "Navigation failed" in error:
        return f"a page did not load: {problem}"
    is_browsers = any(word in error.lower() for word in _OF_THE_BROWSER)
    return f"the {'browser' if is_browsers else 'model'} failed: {problem}"


def _merged(problems: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Merge equal problems of consecutive steps."""
    for text, group in groupby(problems, key=lambda problem: problem[1]):
        numbers = [number for number, _ in group]
        where = f"step {numbers[0]}" if len(numbers) == 1 else f"steps {numbers[0]} to {numbers[-1]}"
        yield f"{where}: {text}"
