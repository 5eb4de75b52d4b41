"""Measures what sending samples to Opik costs a run, with servers that receive and servers that do not.

Each run is a process of its own, because Opik's client belongs to the process. It exits with 1 if a run learned less
than without Opik, or if a working server did not get the trace of every sample; never because of time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks.options import add_quick, parser_of
from benchmarks.wrong_result import WrongResult, require
from tests.opik.receiver import Receiver

CLOSED = "http://127.0.0.1:9/api"
"""Nothing listens on the port for discarded data."""
RUN = """
import json, sys, time
from ace.runners import TraceAnalyser
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace_opik import OpikStep

class WaitingReflector:
    def reflect(self, **arguments):
        time.sleep(0.005)
        return ScriptedReflector().reflect(**arguments)

samples = int(sys.argv[1])
runner = TraceAnalyser.from_roles(
    reflector=WaitingReflector(), skill_manager=ScriptedSkillManager(), extra_steps=[OpikStep()]
)
traces = [f"Repeat the code word kit{number:04d}code." for number in range(samples)]
started = time.perf_counter()
results = runner.run(traces, workers=4)
seconds = time.perf_counter() - started
failed = sum(result.error is not None for result in results)
print(json.dumps({"seconds": seconds, "failed": failed, "skills": len(runner.skillbook)}))
"""


def run(samples: int, environ: Mapping[str, str]) -> tuple[float, float]:
    """The seconds of a run with four workers, without the start and the end of its process; and those of the end."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPIK_")}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(samples)],
        env={**inherited, **environ},
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the warning about traces that are lost on purpose
        encoding="utf-8",
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        started = time.perf_counter()
        code = process.wait()
    end = time.perf_counter() - started
    require(code == 0 and bool(line), f"a run ended with exit status {code}")
    found = json.loads(line)
    require(found["failed"] == 0 and found["skills"] == samples, f"a run of {samples} samples: {found}")
    return float(found["seconds"]), end


def with_receiver(samples: int, **answers: bool | int) -> tuple[float, float]:
    """The seconds of a run that sends to a receiver, and of its end."""
    with Receiver(**answers) as receiver:  # type: ignore[arg-type]  # `status` is an int, `silent` a bool
        measured = run(samples, receiver.environ)
        if not answers:
            require(len(receiver.traces) == samples, f"{len(receiver.traces)} of {samples} traces were received")
        return measured


def main() -> int:
    parser = parser_of("opik", __doc__)
    add_quick(parser, "20 samples, one round")
    quick = parser.parse_args().quick
    samples, rounds = (20, 1) if quick else (1000, 5)
    kinds = {
        "without Opik": lambda: run(samples, {"OPIK_DISABLED": "true"}),
        "received": lambda: with_receiver(samples),
        "status 500": lambda: with_receiver(samples, status=500),
        "no answer": lambda: with_receiver(samples, silent=True),
        "no network": lambda: run(samples, {"OPIK_URL_OVERRIDE": CLOSED}),
    }
    try:
        # In turn, so that a change of the load affects all kinds.
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
