"""The result of a run of an Acme agent."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AcmeResult", "Deed"]


@dataclass(frozen=True)
class Deed:
    """One action of the agent."""

    kind: str
    """`called`, `returned` or `failed`."""
    name: str
    """The name of the tool."""
    text: str
    """Its argument, its result or its error."""


@dataclass(frozen=True)
class AcmeResult:
    """The result of a run, even if it failed. It contains plain data only, and no objects of the framework."""

    task: str
    """The task, without the skills."""
    success: bool | None
    """Whether the run completed with an answer; None for a log, which does not record this."""
    output: str = ""
    """The answer."""
    error: str | None = None
    """The error; None if the run completed."""
    deeds: tuple[Deed, ...] = ()
    """The actions of the agent, in order."""
    skill_ids: tuple[str, ...] = ()
    """The ids of the skills that it cited."""
