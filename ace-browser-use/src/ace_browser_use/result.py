"""What one run of a browser agent left behind."""

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
    """Its outcome; empty if it was not reached or reports nothing."""
    error: str | None


class BrowserStep(TypedDict):
    """One step of the agent: what it saw, thought and did."""

    number: int
    url: str
    """The page before the actions; empty if there was none."""
    title: str
    page: str
    """What the page showed, as the agent got to see it. This is the text of a stranger."""
    arrived_at: str
    """The page after the actions; empty if it was not looked at."""
    http_status: int | None
    """With what status the server answered for the page after the actions."""
    thoughts: dict[str, str]
    """Of `thinking`, `evaluation`, `memory` and `next_goal`, those that the agent told."""
    actions: list[BrowserAction]
    downloads: list[str]
    """The names of the files that its actions downloaded."""
    error: str | None
    """What went wrong outside the actions, such as in the model."""
    seconds: float | None


@dataclass(frozen=True)
class BrowserResult:
    """What one run of a browser agent left behind, also where it failed.

    Example:
        >>> BrowserResult("Book a berth.", success=False, error="it ran out of steps").output
        ''
    """

    task: str
    """What was asked, without the skills."""
    success: bool
    """Whether the agent was done and said itself that it succeeded; and, where a judge was asked, it agreed."""
    output: str = ""
    """The last word of the agent; empty if it was not done."""
    error: str | None = None
    """Why it failed."""
    steps_count: int = 0
    """How many steps the agent made."""
    duration_seconds: float = 0.0
    """How long it took, with starting and closing the browser."""
    cited_skill_ids: tuple[str, ...] = ()
    """The skills that the agent cited in its own words."""
    chronological_steps: tuple[BrowserStep, ...] = field(default=(), repr=False)
    """Its steps, in order."""
    raw_history: object = field(default=None, repr=False, compare=False)
    """The `AgentHistoryList`. It may hold what `sensitive_data` names; nothing else here does."""
    problems: tuple[str, ...] = ()
    """What went wrong on the way: pages that did not load, actions and model calls that failed."""
    context: str = ""
    """What the sample said beside the task."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Model calls and tokens, as far as they are reported."""

    @property
    def skill_ids(self) -> tuple[str, ...]:
        """`cited_skill_ids`, by the name that results of all integrations have."""
        return self.cited_skill_ids
