"""Adds up what the model calls of each attempt cost."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import final

from ace.protocols.observers import Event, ModelCalled

__all__ = ["CallCosts", "Spent"]


@dataclass(frozen=True, slots=True)
class Spent:
    """What the model calls of one attempt cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    def plus(self, event: ModelCalled) -> Spent:
        """Return the sum with one more call."""
        return Spent(
            self.calls + 1,
            self.input_tokens + event.input_tokens,
            self.output_tokens + event.output_tokens,
            None if self.cost is None or event.cost is None else self.cost + event.cost,
        )


@final
class CallCosts:
    """An observer that keeps the sums of the attempts whose names begin with a prefix.

    Args:
        prefix: What the trace ids begin with.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}

    def __call__(self, event: Event) -> None:
        """Count a model call."""
        if isinstance(event, ModelCalled) and event.trace_id.startswith(self._prefix):
            with self._lock:
                self._spent[event.trace_id] = self._spent.get(event.trace_id, Spent()).plus(event)

    def take(self, trace_id: str) -> Spent:
        """Return the sum of an attempt, and forget it.

        Args:
            trace_id: Its name.
        """
        with self._lock:
            return self._spent.pop(trace_id, Spent())
