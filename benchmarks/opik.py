"""Measures what sending samples to Opik costs a run, with servers that receive and servers that do not.

All runs are in one process, and each round has a run without Opik, with which the others of the round are compared: so
neither imports nor a change of the load distort the ratio. It exits with 1 if a run learned less than without Opik, or
if a working server did not get the trace of every sample; never because of time.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from ace.outputs import ReflectorOutput
from ace.runners import TraceAnalyser
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace_opik import OpikStep
from benchmarks.options import add_quick, parser_of
from benchmarks.wrong_result import WrongResult, require
from tests.opik.receiver import Receiver
from tests.opik.with_opik import close_connections

CLOSED = "http://127.0.0.1:9/api"
"""Nothing listens on the port for discarded data."""


class WaitingReflector:
    """Takes 5 ms for each trace."""

    def reflect(self, **arguments: Any) -> ReflectorOutput:
        time.sleep(0.005)
        return ScriptedReflector().reflect(**arguments)


def run(samples: int, steps: Sequence[OpikStep] = ()) -> float:
    """The seconds of a run with four workers."""
    runner = TraceAnalyser.from_roles(
        reflector=WaitingReflector(), skill_manager=ScriptedSkillManager(), extra_steps=list(steps)
    )
    traces = [f"Repeat the code word kit{number:04d}code." for number in range(samples)]
    started = time.perf_counter()
    results = runner.run(traces, workers=4)
    seconds = time.perf_counter() - started
    failed = sum(result.error is not None for result in results)
    require(failed == 0 and len(runner.skillbook) == samples, f"{failed} of {samples} samples failed")
    return seconds


def with_server(samples: int, address: str = "", **answers: Any) -> tuple[float, float]:
    """The seconds of a run that sends to a server, and of the end of sending."""
    with Receiver(**answers) as receiver:
        os.environ.update(receiver.environ | ({"OPIK_URL_OVERRIDE": address} if address else {}))
        seconds = run(samples, [OpikStep()])
        started = time.perf_counter()
        close_connections()
        end = time.perf_counter() - started
        expected = 0 if address or answers else samples
        require(len(receiver.traces) == expected, f"{len(receiver.traces)} of {expected} traces were received")
    return seconds, end


def main() -> int:
    parser = parser_of("opik", __doc__)
    add_quick(parser, "20 samples, one round")
    quick = parser.parse_args().quick
    logging.disable(logging.WARNING)  # the traces that are lost on purpose
    samples, rounds = (20, 1) if quick else (300, 5)
    kinds: dict[str, Callable[[], tuple[float, float]]] = {
        "without Opik": lambda: (run(samples), 0.0),
        "received": lambda: with_server(samples),
        "status 500": lambda: with_server(samples, status=500),
        "no answer": lambda: with_server(samples, silent=True),
        "no network": lambda: with_server(samples, address=CLOSED),
    }
    try:
        for measure in kinds.values():  # imports and first uses
            measure()
        rows = [{kind: measure() for kind, measure in kinds.items()} for _ in range(rounds)]
    except WrongResult as error:
        print(error, file=sys.stderr)
        return 1
    for kind in kinds:
        ratios = [row[kind][0] / row["without Opik"][0] for row in rows]
        seconds, end = median(row[kind][0] for row in rows), max(row[kind][1] for row in rows)
        print(
            f"{kind:14} run {seconds:6.2f} s, ratio {median(ratios):4.2f} ({min(ratios):4.2f} to {max(ratios):4.2f}), "
            f"end at most {end:4.2f} s"
        )
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
