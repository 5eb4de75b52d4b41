"""`RecordedTrace`: a recorded trace and where it was found; `UnreadRecord`: one that is still in its file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ace.arguments import checked_class

__all__ = ["RecordedTrace", "UnreadRecord"]


@checked_class
@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """A recorded trace with its place. `TraceAnalyser.run` takes it among the traces.

    Its identity is a hash of the raw record together with the place, so a trace is known again however the
    traces around it change.

    Example:
        >>> from ace.runners.identity import trace_identity
        >>> trace_identity(RecordedTrace({"answer": "4"}, "logs/a.jsonl#12"), 1)
        '5575ae1c4f02063d@logs/a.jsonl#12'
    """

    record: object
    """The trace as it was recorded, of any type."""
    place: str
    """Where it stands, such as `logs/a.jsonl#12`."""


class UnreadRecord(ABC):
    """A record that stays in its file until it is needed."""

    __slots__ = ()

    @abstractmethod
    def load(self) -> object:
        """Return the record.

        Raises:
            OSError: The file cannot be read any more.
            ValueError: The file holds something else now.
        """
