"""Compares runs that send what they do with runs that do not: in one process, in rounds of one run of each kind.

Each run is compared with the run of its round that sends nothing, so neither imports nor a change of the load distort
the ratio. The CPU time is that of this process with all its threads, so it includes preparing and sending what is sent
while the run lasts; unlike the wall time, it hardly depends on what else the machine does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from ace.outputs import ReflectorOutput
from ace.protocols.observers import ModelCalled, emit, is_observed
from ace.runners import TraceAnalyser
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from benchmarks.wrong_result import require

__all__ = ["CLOSED", "LOADS", "QUICK_LOADS", "Load", "Took", "call", "compare", "run"]

CLOSED = "http://127.0.0.1:9"
"""Nothing listens on the port for discarded data."""


def call() -> ModelCalled:
    return ModelCalled("r", "t", "openai/m", "Reflector", 9, 3, 0.1, 0.01, False)


class Load(NamedTuple):
    """What a run has to do."""

    samples: int
    call_seconds: float
    """The time of one simulated model call."""


LOADS = (Load(300, 0.005), Load(60, 0.05))
"""Calls that are much quicker than any model, which shows every delay, and calls of a quick model."""
QUICK_LOADS = (Load(20, 0.005),)


class Took(NamedTuple):
    """What a run took, in seconds."""

    wall: float
    cpu: float


class WaitingReflector:
    """Takes the time of a model call for each trace, and tells of one if there is an observer."""

    def __init__(self, call_seconds: float) -> None:
        self._call_seconds = call_seconds

    def reflect(self, **arguments: Any) -> ReflectorOutput:
        time.sleep(self._call_seconds)
        if is_observed():
            emit(call())
        return ScriptedReflector().reflect(**arguments)


def run(load: Load, steps: Sequence[Any] = ()) -> Took:
    """Run with four workers.

    Raises:
        WrongResult: A sample failed, or its skill is missing.
    """
    runner = TraceAnalyser.from_roles(
        reflector=WaitingReflector(load.call_seconds),
        skill_manager=ScriptedSkillManager(),
        extra_steps=list(steps),
        unproven="keep",
    )
    traces = [f"Repeat the code word kit{number:04d}code." for number in range(load.samples)]
    started = time.perf_counter(), time.process_time()
    results = runner.run(traces, workers=4)
    took = Took(time.perf_counter() - started[0], time.process_time() - started[1])
    failed = sum(result.error is not None for result in results)
    require(failed == 0 and len(runner.skillbook) == load.samples, f"{failed} of {load.samples} samples failed")
    return took


def compare(load: Load, rounds: int, kinds: Mapping[str, Callable[[Load], tuple[Took, float]]]) -> None:
    """Print the ratios of each kind of run to the run of the same round that sends nothing.

    Args:
        load: What each run has to do.
        rounds: The rounds, after one that only imports what is needed.
        kinds: Measures a run, and the end of sending in seconds, by the name of the kind.
    """
    nothing = "nothing sent"
    measures: dict[str, Callable[[Load], tuple[Took, float]]] = {nothing: lambda load: (run(load), 0.0), **kinds}
    for measure in measures.values():
        measure(load)
    rows = [{kind: measure(load) for kind, measure in measures.items()} for _ in range(rounds)]
    print(f"{load.samples} samples, four at a time, model calls of {load.call_seconds * 1000:.0f} ms")
    for kind in measures:
        wall, cpu = (_ratio([(row[kind][0][which], row[nothing][0][which]) for row in rows]) for which in (0, 1))
        added = median(row[kind][0].cpu - row[nothing][0].cpu for row in rows) / load.samples * 1000
        end = max(row[kind][1] for row in rows)
        print(
            f"{kind:12} CPU {median(row[kind][0].cpu for row in rows):5.2f} s, ratio {cpu}, {added:+.2f} ms a sample; "
            f"wall {median(row[kind][0].wall for row in rows):5.2f} s, ratio {wall}; end at most {end:4.2f} s"
        )
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def _ratio(pairs: Sequence[tuple[float, float]]) -> str:
    """The median of the ratios, and their range."""
    ratios = [measured / baseline for measured, baseline in pairs]
    return f"{median(ratios):4.2f} ({min(ratios):4.2f} to {max(ratios):4.2f})"
