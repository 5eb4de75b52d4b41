"""Sums up the cost of model calls: that of each attempt of an evaluation, and that of learning."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, final

from ace.protocols.observers import Event, ModelCalled

__all__ = ["EVALUATION_PREFIX", "CallCosts", "LearningCosts", "Spent"]

EVALUATION_PREFIX: Final = "evaluation-"
"""The prefix of the trace ids of attempts."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The usage and the cost of model calls."""

    calls: int = 0
    """The number of model calls."""
    input_tokens: int = 0
    """The tokens of the prompts."""
    output_tokens: int = 0
    """The tokens of the answers."""
    cost: float | None = 0.0
    """US dollars; None if a price is not known."""
    cached_input_tokens: int = 0
    """The part of `input_tokens` that the provider had in its cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the provider wrote to its cache."""

    def plus(self, other: Spent) -> Spent:
        """Return the sum of both.

        Example:
            >>> Spent(1, 20, 5, 0.25).plus(Spent(1, 10, 5, 0.5))
            Spent(calls=2, input_tokens=30, output_tokens=10, cost=0.75, cached_input_tokens=0, cache_write_tokens=0)
        """
        return Spent(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
            self.cached_input_tokens + other.cached_input_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


def spent_by(event: ModelCalled) -> Spent:
    """Return the usage and the cost of one call."""
    return Spent(
        1,
        event.input_tokens,
        event.output_tokens,
        event.cost,
        event.cached_input_tokens,
        event.cache_write_tokens,
    )


@final
class CallCosts:
    """An observer that sums up the cost of each attempt whose trace id begins with a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}

    def __call__(self, event: Event) -> None:
        """Count a model call."""
        if isinstance(event, ModelCalled) and event.trace_id.startswith(self._prefix):
            with self._lock:
                self._spent[event.trace_id] = self._spent.get(event.trace_id, Spent()).plus(spent_by(event))

    def take(self, trace_id: str) -> Spent:
        """Return the sum of an attempt, and remove it."""
        with self._lock:
            return self._spent.pop(trace_id, Spent())


@final
class LearningCosts:
    """An observer that sums up what a run spends on learning, without its validations.

    Args:
        run_id: The run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lock = threading.Lock()
        self._spent = Spent()

    def __call__(self, event: Event) -> None:
        """Count a model call."""
        if not isinstance(event, ModelCalled) or event.run_id != self._run_id:
            return
        if not event.trace_id.startswith(EVALUATION_PREFIX):
            with self._lock:
                self._spent = self._spent.plus(spent_by(event))

    def take(self) -> Spent:
        """Return the sum since the last call of this method."""
        with self._lock:
            spent, self._spent = self._spent, Spent()
            return spent
