"""The result of one run of a browser agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

__all__ = ["BrowserAction", "BrowserResult", "BrowserStep"]


class BrowserAction(TypedDict):
    """One action that the agent chose."""

    name: str
    arguments: object
    result: str
    """Its outcome; empty if the action was not reached or reported nothing."""
    error: str | None


class BrowserStep(TypedDict):
    """One step of the agent: the page, its thoughts and its actions."""

    number: int
    url: str
    """The address of the page before the actions; empty without a page."""
    title: str
    page: str
    """The text of the page in the agent's prompt. It is untrusted."""
    arrived_at: str
    """The address of the page after the actions; empty if it is not known."""
    http_status: int | None
    """The HTTP status of the page after the actions."""
    thoughts: dict[str, str]
    """Those of `thinking`, `evaluation`, `memory` and `next_goal` that the agent gave."""
    actions: list[BrowserAction]
    downloads: list[str]
    """The names of the files that its actions downloaded."""
    error: str | None
    """An error outside the actions, such as one of the model."""
    seconds: float | None


@dataclass(frozen=True)
class BrowserResult:
    """The result of one run of a browser agent, successful or not.

    Example:
        >>> BrowserResult("Book a berth.", success=False, error="it ran out of steps").output
        ''
    """

    task: str
    """The task, without the skills."""
    success: bool
    """Whether the agent finished and reported success, and the judge, if there was one, agreed."""
    output: str = ""
    """The final answer of the agent; empty if it did not finish."""
    error: str | None = None
    """Why it failed."""
    steps_count: int = 0
    """The number of the agent's steps."""
    duration_seconds: float = 0.0
    """The duration of the run, including the start and the end of the browser."""
    cited_skill_ids: tuple[str, ...] = ()
    """The ids of the skills that the agent cited."""
    chronological_steps: tuple[BrowserStep, ...] = field(default=(), repr=False)
    """The steps of the agent, in order."""
    raw_history: object = field(default=None, repr=False, compare=False)
    """The `AgentHistoryList`. Unlike the other fields, it may contain values of `sensitive_data`."""
    problems: tuple[str, ...] = ()
    """The problems during the run: pages that did not load, failed actions and failed model calls."""
    context: str = ""
    """The context of the sample."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The number of model calls and tokens, as far as they are reported."""

    @property
    def skill_ids(self) -> tuple[str, ...]:
        """An alias of `cited_skill_ids`, which the results of all integrations have."""
        return self.cited_skill_ids
