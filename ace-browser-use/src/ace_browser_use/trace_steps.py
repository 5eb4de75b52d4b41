"""The steps of the standard trace, made of the steps of a browser agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal, TypedDict

from ace_browser_use.result import BrowserStep

__all__ = ["TraceStep", "render_steps", "trace_steps", "words_of"]

Kind = Literal["thought", "call", "result", "message"]


class TraceStep(TypedDict):
    """One step of a trace."""

    kind: Kind
    name: str
    """Who speaks, or the action. What `page` says is the text of a stranger."""
    content: str
    is_error: bool
    place: str
    """The number of the agent's step."""


def trace_steps(steps: Iterable[BrowserStep]) -> list[TraceStep]:
    """Return what a browser agent saw, thought, did and got back, in order.

    Args:
        steps: Its steps.
    """
    return [part for step in steps for part in _parts(step)]


def _parts(step: BrowserStep) -> Iterator[TraceStep]:
    place = str(step["number"])

    def part(kind: Kind, name: str, content: str, *, is_error: bool = False) -> TraceStep:
        return TraceStep(kind=kind, name=name, content=content, is_error=is_error, place=place)

    if step["url"] or step["page"]:
        yield part("message", "page", "\n".join(filter(None, (step["url"], step["title"], step["page"]))))
    if step["thoughts"]:
        yield part("thought", "agent", "\n".join(f"{name}: {text}" for name, text in step["thoughts"].items()))
    for action in step["actions"]:
        yield part("call", action["name"], json.dumps(action["arguments"], ensure_ascii=False))
        if action["error"] or action["result"]:
            yield part("result", action["name"], action["error"] or action["result"], is_error=bool(action["error"]))
    if step["error"]:
        yield part("result", "step", step["error"], is_error=True)
    if (step["http_status"] or 0) >= 400:
        yield part("result", "page", f"{step['arrived_at']}: HTTP status {step['http_status']}", is_error=True)


def render_steps(steps: Iterable[TraceStep]) -> str:
    """Return steps as text, in order; failed ones are marked.

    Args:
        steps: The steps.

    Example:
        >>> step = TraceStep(kind="result", name="click", content="no such element", is_error=True, place="2")
        >>> print(render_steps([step]))
        [2] result click (failed)
        no such element
    """
    lines = []
    for step in steps:
        failed = " (failed)" if step["is_error"] else ""
        lines.append(f"[{step['place']}] {step['kind']} {step['name']}{failed}\n{step['content']}")
    return "\n".join(lines)


def words_of(steps: Iterable[BrowserStep]) -> str:
    """Return all that the agent said itself. What pages say is no part of it.

    Args:
        steps: Its steps.
    """
    said: list[str] = []
    for step in steps:
        said += step["thoughts"].values()
        for action in step["actions"]:
            if action["name"] == "done" and isinstance(action["arguments"], dict):
                said.append(str(action["arguments"].get("text", "")))
    return "\n".join(said)
