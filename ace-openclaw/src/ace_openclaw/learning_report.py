"""`LearningReport`, the outcome of a run over stored sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["LearningReport"]


@dataclass
class LearningReport:
    """The outcome of a run over stored sessions."""

    sessions: int = 0
    """The number of sessions that were read."""
    turns_learned: int = 0
    turns_known: int = 0
    """Turns that were learned in earlier runs."""
    turns_unfinished: int = 0
    """Turns that have not ended yet, or were not started because the run was interrupted; the next run learns them."""
    skipped_lines: int = 0
    """Lines or rows without an event, such as truncated ones."""
    unknown_events: int = 0
    """Events of an unknown type."""
    problems: list[str] = field(default_factory=list)
    """The sessions and turns that could not be learned from, with the reasons."""
