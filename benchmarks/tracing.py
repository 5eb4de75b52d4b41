"""Measures what sending spans costs a run: CPU time per event, and runs with collectors that do not receive.

CPU times are those of the thread that emits the events. It exits with 1 if a span is lost that a working collector
should have received, never because of time.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from ace.outputs import ReflectorOutput
from ace.protocols.observers import (
    Event,
    ModelCalled,
    RunEnded,
    RunStarted,
    SampleEnded,
    SampleStarted,
    SkillChange,
    SkillsChanged,
    StepEnded,
    StepStarted,
    emit,
)
from ace.runners import TraceAnalyser
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace_otel import instrument
from benchmarks.options import add_quick, parser_of
from benchmarks.wrong_result import WrongResult, require
from tests.otel.collector import Collector

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CLOSED = "http://127.0.0.1:9"
"""Nothing listens on the port for discarded data."""


def call() -> ModelCalled:
    return ModelCalled("r", "t", "openai/m", "Reflector", 9, 3, 0.1, 0.01, False)


def sample(number: int) -> list[Event]:
    """The events of one sample with four steps and two model calls."""
    place = ("r", f"t{number}", 1, number)
    events: list[Event] = [SampleStarted(*place)]
    for step in ("ReflectStep", "TagStep", "UpdateStep", "ApplyStep"):
        asks = [call()] if step in ("ReflectStep", "UpdateStep") else []
        changes = [SkillsChanged("r", "t", (SkillChange("ADD", "a-00001"),), ())] if step == "ApplyStep" else []
        started = StepStarted("r", f"t{number}", step, 1, number)
        events += [started, *asks, *changes, StepEnded("r", f"t{number}", step, 0.1, None, 1, number)]
    return [*events, SampleEnded(*place, None, None, 0.1, already_learned=False)]


def per_event(samples: int) -> dict[str, float]:
    """The median CPU time of each kind of event, in microseconds."""
    taken: dict[str, list[float]] = {}
    events = [event for number in range(1, samples + 1) for event in sample(number)]
    with Collector() as collector:
        os.environ[ENDPOINT] = collector.address
        with instrument():
            emit(RunStarted("r", "trace_analyser", 1, samples, resumed=False))
            for event in events:
                started = time.thread_time()
                emit(event)
                taken.setdefault(type(event).__name__, []).append((time.thread_time() - started) * 1e6)
            emit(RunEnded("r", samples, 0, 0, 0, 1.0, ""))
        received, sent = len(collector.spans), samples * 7 + 1
        require(received == sent, f"{received} of {sent} spans were received")
    every = list(taken.values())
    return {**{kind: median(each) for kind, each in taken.items()}, "mean": sum(map(sum, every)) / len(events)}


class WaitingReflector:
    """Takes 5 ms for each trace, and tells of a model call."""

    def reflect(self, **arguments: Any) -> ReflectorOutput:
        time.sleep(0.005)
        emit(call())
        return ScriptedReflector().reflect(**arguments)


def run(samples: int) -> float:
    """The seconds of a run with four workers, without its end."""
    runner = TraceAnalyser.from_roles(reflector=WaitingReflector(), skill_manager=ScriptedSkillManager())
    traces = [f"Repeat the code word kit{number:04d}code." for number in range(samples)]
    started = time.perf_counter()
    runner.run(traces, workers=4)
    return time.perf_counter() - started


def with_collector(samples: int, **answers: Any) -> tuple[float, float]:
    """The seconds of a run, and of the end of sending."""
    with Collector(**answers) as collector:
        os.environ[ENDPOINT] = CLOSED if not answers else collector.address
        sending = instrument()
        seconds = run(samples)
        started = time.perf_counter()
        sending.close()
        return seconds, time.perf_counter() - started


def main() -> int:
    parser = parser_of("tracing", __doc__)
    add_quick(parser, "20 samples, one round")
    quick = parser.parse_args().quick
    logging.disable(logging.WARNING)  # the spans that are lost on purpose
    samples, rounds = (20, 1) if quick else (300, 3)
    try:
        for kind, microseconds in per_event(samples).items():
            print(f"{kind:16} {microseconds:6.1f} us of CPU per event")
    except WrongResult as error:
        print(error, file=sys.stderr)
        return 1
    kinds: dict[str, Callable[[], tuple[float, float]]] = {
        "without sending": lambda: (run(samples), 0.0),
        "received": lambda: with_collector(samples, status=200),
        "status 500": lambda: with_collector(samples, status=500),
        "no answer": lambda: with_collector(samples, silent=True),
        "unreachable": lambda: with_collector(samples),
    }
    measured = {kind: [measure() for _ in range(rounds)] for kind, measure in kinds.items()}
    bare = median(seconds for seconds, _ in measured["without sending"])
    for kind, times in measured.items():
        seconds, end = median(each for each, _ in times), max(each for _, each in times)
        print(f"{kind:16} run {seconds:6.2f} s, ratio {seconds / bare:4.2f}, end at most {end:4.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
