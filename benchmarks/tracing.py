"""Measures what sending spans costs a run: CPU time per event, and runs with collectors that do not receive.

CPU times are those of the thread that emits the events. It exits with 1 if a run learned less than without sending, or
if a span is lost that a working collector should have received; never because of time.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from ace.protocols.observers import (
    AnswerEvaluated,
    ArtifactWritten,
    BatchJudged,
    Event,
    InsightsFound,
    ReflectionTurn,
    RunEnded,
    RunStarted,
    SampleEnded,
    SampleStarted,
    SkillChange,
    SkillProven,
    SkillsChanged,
    StepEnded,
    StepStarted,
    SubQuestionAnswered,
    emit,
)
from ace_otel import instrument
from benchmarks.options import add_quick, parser_of
from benchmarks.paired_runs import CLOSED, LOADS, QUICK_LOADS, Load, Took, call, compare, run
from benchmarks.wrong_result import WrongResult, require
from tests.otel.collector import Collector

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
IN_STEPS: dict[str, list[Event]] = {
    "EvaluateStep": [AnswerEvaluated("r", "t", "Exact", {"score": 1.0})],
    "ReflectStep": [
        call(),
        ReflectionTurn("r", "t", 1, 9, 9, "", 0.1),
        SubQuestionAnswered("r", "t", 1, "query", 9, 1),
    ],
    "TagStep": [],
    "InsightStep": [
        InsightsFound(
            run_id="r",
            trace_id="t",
            task_id="bd-1",
            description="Fix the imports",
            success=False,
            consulted=2,
            files=1,
            min_confidence=0.8,
            ready=1,
            pending=2,
        )
    ],
    "UpdateStep": [call()],
    "GateStep": [BatchJudged("r", "t", "CounterGate", True, "enough", {"net": 1}, {"net": 2})],
    "ApplyStep": [
        SkillsChanged("r", "t", (SkillChange("ADD", "a-00001"),), ()),
        SkillProven("r", "t", "a-00001", True, "before", "after", 0),
    ],
    "ArtifactStep": [ArtifactWritten("r", "t", 18, "logs/artifacts/20261122T120000.123456Z-v18")],
}
"""What happens inside the steps of a sample."""


def sample(number: int) -> list[Event]:
    """The events of one sample."""
    place = ("r", f"t{number}", 1, number)
    events: list[Event] = [SampleStarted(*place)]
    for step, inside in IN_STEPS.items():
        started = StepStarted("r", f"t{number}", step, 1, number)
        events += [started, *inside, StepEnded("r", f"t{number}", step, 0.1, None, 1, number)]
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
        received, sent = len(collector.spans), samples * 13 + 1
        require(received == sent, f"{received} of {sent} spans were received")
        received, sent = len(collector.logs), samples * 6 + 2
        require(received == sent, f"{received} of {sent} log events were received")
    every = list(taken.values())
    return {**{kind: median(times) for kind, times in taken.items()}, "mean": sum(map(sum, every)) / len(events)}


class CollectorApart:
    """A collector in a process of its own, so that receiving does not count as CPU time of the run."""

    def __init__(self, **answers: Any) -> None:
        program = f"from benchmarks.tracing import collect; collect(**{answers!r})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = self._line()

    def received(self) -> int:
        """End it; return the number of samples whose span it has received."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        count = int(self._line())
        self._process.wait()
        return count

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def collect(**answers: Any) -> None:
    """Receive until the standard input ends. Prints the address first, and last the number of samples."""
    with Collector(**answers) as collector:
        print(collector.address, flush=True)
        sys.stdin.read()
    print(sum(span.name == "ace.sample" for span in collector.spans), flush=True)


def with_collector(load: Load, address: str = "", **answers: Any) -> tuple[Took, float]:
    """A run, and the seconds of the end of sending."""
    collector = CollectorApart(**answers)
    os.environ[ENDPOINT] = address or collector.address
    sending = instrument()
    took = run(load)
    started = time.perf_counter()
    sending.close()
    end = time.perf_counter() - started
    received = collector.received()
    if not (address or answers or sending.is_disabled):
        require(received == load.samples, f"{received} of {load.samples} samples were received")
    return took, end


def switched_off(load: Load) -> tuple[Took, float]:
    """A run that `OTEL_SDK_DISABLED` forbids to send anything."""
    os.environ["OTEL_SDK_DISABLED"] = "true"
    try:
        return with_collector(load)
    finally:
        del os.environ["OTEL_SDK_DISABLED"]


def main() -> int:
    parser = parser_of("tracing", __doc__)
    add_quick(parser, "20 samples, one round")
    quick = parser.parse_args().quick
    logging.disable(logging.WARNING)  # the spans that are lost on purpose
    kinds: dict[str, Callable[[Load], tuple[Took, float]]] = {
        "disabled": switched_off,
        "received": with_collector,
        "status 500": partial(with_collector, status=500),
        "no answer": partial(with_collector, silent=True),
        "no network": partial(with_collector, address=CLOSED),
    }
    try:
        for kind, microseconds in per_event(20 if quick else 300).items():
            print(f"{kind:19} {microseconds:6.1f} us of CPU per event")
        for load in QUICK_LOADS if quick else LOADS:
            compare(load, 1 if quick else 5, kinds)
    except WrongResult as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
