"""Figures beside a baseline that was measured in turns with them, as lines or as a Markdown table."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Action = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """One figure, its baseline, and what was wished for."""

    what: str
    measured: float
    baseline_name: str
    baseline: float
    most: float | None = None
    """The goal: the largest ratio."""
    most_measured: float | None = None
    """The goal, if it is not a ratio: the largest figure."""
    unit: str = "ms"

    @property
    def ratio(self) -> float:
        return self.measured / self.baseline if self.baseline else float("inf")

    @property
    def goal(self) -> str:
        if self.most is not None:
            return f"≤ {self.most:g}"
        return "" if self.most_measured is None else f"≤ {self.most_measured:g} {self.unit}"

    @property
    def met(self) -> str:
        if self.most is None and self.most_measured is None:
            return ""
        within = self.ratio <= self.most if self.most is not None else self.measured <= (self.most_measured or 0)
        return "yes" if within else "**no**"


def in_turns(measured: Action, baseline: Action, rounds: int = 5) -> tuple[float, float]:
    """Return the smallest CPU milliseconds of the process for each of the two, which run in turns."""
    times = [(cpu_ms(measured), cpu_ms(baseline)) for _ in range(rounds)]
    return min(first for first, _ in times), min(second for _, second in times)


def cpu_ms(action: Action) -> float:
    """Return the CPU milliseconds of the process, with all its threads, for one call."""
    gc.collect()
    start = time.process_time_ns()
    kept = action()
    nanoseconds = time.process_time_ns() - start
    del kept  # what it takes to throw the result away is not counted
    return nanoseconds / 1e6


def show(rows: Sequence[Ratio], *, markdown: bool) -> None:
    """Print the rows."""
    if markdown:
        print("| what | figure | ratio | to | goal | met |\n| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        figure = f"{row.measured:.4g} {row.unit}"
        cells = [row.what, figure, f"{row.ratio:.2f}", row.baseline_name, row.goal, row.met]
        if markdown:
            print(f"| {' | '.join(cells)} |")
        else:
            goal = f"; goal {row.goal}" if row.goal else ""
            print(f"{row.what:<44} {figure:>12} {row.ratio:9.2f} x {row.baseline_name}{goal}")
