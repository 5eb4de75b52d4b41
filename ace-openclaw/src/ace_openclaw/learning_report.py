"""`LearningReport`: what came of a run over stored sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["LearningReport"]


@dataclass
class LearningReport:
    """What came of a run."""

    sessions: int = 0
    """How many sessions were looked at."""
    turns_learned: int = 0
    turns_known: int = 0
    """Turns that had been learned from before."""
    turns_unfinished: int = 0
    """Turns that are still under way, or were not begun because the run was interrupted; the next run takes them."""
    skipped_lines: int = 0
    """Lines or rows that hold no event, such as one that was cut."""
    unknown_events: int = 0
    """Events of a type that is not known here."""
    problems: list[str] = field(default_factory=list)
    """What could not be learned from, each with the reason."""
