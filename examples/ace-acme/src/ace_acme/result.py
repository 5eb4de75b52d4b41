"""What one run of an Acme agent leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AcmeResult", "Deed"]


@dataclass(frozen=True)
class Deed:
    """One thing that the agent did."""

    kind: str
    """`called`, `returned` or `failed`."""
    name: str
    """The tool."""
    text: str
    """Its argument, what it returned, or how it failed."""


@dataclass(frozen=True)
class AcmeResult:
    """What one run leaves behind, also where it failed. It holds plain data, nothing of the framework."""

    task: str
    """What was asked, without the skills."""
    success: bool | None
    """Whether the run came to its end with an answer; None of a log that does not tell."""
    output: str = ""
    """The answer."""
    error: str | None = None
    """What went wrong; None if nothing did."""
    deeds: tuple[Deed, ...] = ()
    """What the agent did, in order."""
    skill_ids: tuple[str, ...] = ()
    """The skills that it cited."""
