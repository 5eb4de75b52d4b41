"""Converts the steps of a browser agent to steps of the standard trace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ace.traces import StepKind, TraceStep, trace_step
from ace_browser_use.result import BrowserStep

__all__ = ["trace_steps", "words_of"]


def trace_steps(steps: Iterable[BrowserStep]) -> list[TraceStep]:
    """Return the pages, thoughts, actions and results of a browser agent, in order.

    Args:
        steps: The steps of the agent.
    """
    return [part for step in steps for part in _parts(step)]


def _parts(step: BrowserStep) -> Iterator[TraceStep]:
    place = str(step["number"])

    def part(kind: StepKind, name: str, content: str, *, is_error: bool = False) -> TraceStep:
        return trace_step(kind, name, content, place, is_error=is_error)

    if step["url"] or step["page"]:
        yield part("message", "page", "\n".join(filter(None, (step["url"], step["title"], step["page"]))))
    if step["thoughts"]:
        yield part("thought", "agent", "\n".join(f"{name}: {text}" for name, text in step["thoughts"].items()))
    for action in step["actions"]:
        yield part("call", action["name"], json.dumps(action["arguments"], ensure_ascii=False))
        if action["error"] or action["result"]:
            yield part("result", action["name"], action["error"] or action["result"], is_error=bool(action["error"]))
    for name in step["downloads"]:
        yield part("result", "download", f"The file {name} was downloaded.")
    if step["error"]:
        yield part("result", "step", step["error"], is_error=True)
    if (step["http_status"] or 0) >= 400:
        yield part("result", "page", f"{step['arrived_at']}: HTTP status {step['http_status']}", is_error=True)


def words_of(steps: Iterable[BrowserStep]) -> str:
    """Return all texts of the agent itself, without those of pages.

    Args:
        steps: The steps of the agent.
    """
    said: list[str] = []
    for step in steps:
        said += step["thoughts"].values()
        for action in step["actions"]:
            if action["name"] == "done" and isinstance(action["arguments"], dict):
                said.append(str(action["arguments"].get("text", "")))
    return "\n".join(said)
