"""What a night may use: money, time, and calls of models and agents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ace.logs import Run
from ace.providers import price_of_model

__all__ = ["Budget", "BudgetSpentError", "cost_of"]


class BudgetSpentError(Exception):
    """Nothing more may begin; the message says what is spent."""


@dataclass
class Budget:
    """What a night may use. It is checked before each call, so that the last call may exceed it.

    Args:
        usd: The cost, in US dollars.
        seconds: The time for running commands and agents.
        calls: The calls of the model, and the runs of an agent.
        cost_of_model: Returns what the model has cost in this night.
    """

    usd: float = 0.5
    seconds: float = 1800.0
    calls: int = 60
    cost_of_model: Callable[[], float] = lambda: 0.0
    calls_made: int = field(default=0, init=False)
    """The calls of the model so far."""
    runs_made: int = field(default=0, init=False)
    """The runs of an agent so far."""
    _paid: float = field(default=0.0, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    @property
    def cost(self) -> float:
        """What the model and the runs of agents have cost."""
        return self._paid + self.cost_of_model()

    @property
    def is_time_over(self) -> bool:
        """Whether no further command is run."""
        return time.monotonic() - self._began > self.seconds

    def spent(self, calls: int = 1, usd: float = 0.0) -> str:
        """Return why something may not begin; empty if it may.

        Args:
            calls: How many calls or runs it takes.
            usd: What it is expected to cost.
        """
        if self.is_time_over:
            return f"the time of {self.seconds / 60:g} minutes is over"
        if self.cost >= self.usd:
            return f"the budget of ${self.usd:g} is spent"
        if usd > self.usd - self.cost:
            return f"{calls} runs may cost ${usd:.2f}, which is more than is left of the budget of ${self.usd:g}"
        if self.calls_made + self.runs_made + calls > self.calls:
            return f"the budget of {self.calls} calls is spent"
        return ""

    def check(self, calls: int = 1, usd: float = 0.0) -> None:
        """Check that something may begin.

        Args:
            calls: How many calls or runs it takes.
            usd: What it is expected to cost.

        Raises:
            BudgetSpentError: It may not.
        """
        if reason := self.spent(calls, usd):
            raise BudgetSpentError(reason)

    def note_call(self) -> None:
        """Count a call of the model, whose cost is known elsewhere."""
        self.calls_made += 1

    def note_run(self, stored: Sequence[Run]) -> None:
        """Count a run of an agent, with its cost if that is known.

        Args:
            stored: The sessions that it stored, which may include those of sub-agents.
        """
        self.runs_made += 1
        self._paid += sum(map(cost_of, stored))


def cost_of(run: Run) -> float:
    """Return what a run of an agent cost, in US dollars: as recorded, else at list price; 0 if it is not known.

    Args:
        run: Its session.
    """
    if run.cost is not None:
        return run.cost
    price = price_of_model(run.model)
    if price is None:
        return 0.0
    return ((run.tokens.input or 0) * price.input_usd + (run.tokens.output or 0) * price.output_usd) / 1e6
