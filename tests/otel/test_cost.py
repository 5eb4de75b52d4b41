"""What a run costs while nothing is sent: exactly nothing, counted in calls instead of measured in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

# Counts, on all threads, the calls of functions of OpenTelemetry and of ace-otel, the calls of functions of the module
# of the events, and the events that are created.
PROGRAM = """
import json, sys, threading
from collections import Counter
from typing import get_args

from ace import ACE, Sample, SimpleEnvironment
from ace.outputs import AgentOutput
from ace.protocols import observers
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager

EVENTS = get_args(observers.Event)
calls, created = [], []  # counted at the end: another thread may interrupt the addition of one to a count

def watch(frame, kind, argument):
    if kind != "call":
        return
    code = frame.f_code
    if "opentelemetry" in code.co_filename or "ace_otel" in code.co_filename:
        calls.append("ace-otel")
    elif code.co_filename == observers.__file__:
        calls.append(code.co_name)
    elif code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), EVENTS):
        created.append(type(frame.f_locals["self"]).__name__)

class Parrot:
    def generate(self, **arguments):
        if "FAILS" in arguments["question"]:
            raise ValueError("as told")
        return AgentOutput(reasoning="I repeat it.", final_answer=arguments["question"])

runner = ACE.from_roles(
    agent=Parrot(), environment=SimpleEnvironment(), reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager()
)
samples = [Sample(f"Repeat the code word kit{n:04d}code.", ground_truth="?") for n in range(20)]
samples.append(Sample("FAILS", ground_truth="?"))
observers.is_observed()  # plugins are found on first use
threading.setprofile(watch)
sys.setprofile(watch)
results = runner.run(samples, workers=2)
sys.setprofile(None)
threading.setprofile(None)
learned, failed = len(runner.skillbook), sum(result.error is not None for result in results)
loaded = [name for name in ("opentelemetry", "ace_otel.instrumentation") if name in sys.modules]
print(json.dumps([learned, failed, Counter(calls), Counter(created), loaded]))
"""


def counts(environ: Mapping[str, str]) -> Any:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ACE_"))}
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**inherited, "PYTHONPATH": path, **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("environ", [{}, {"ACE_OTEL": "0"}, {"ACE_OTEL": ""}])
def test_a_run_that_nothing_observes_creates_no_event(environ: Mapping[str, str]) -> None:
    learned, failed, calls, created, loaded = counts(environ)
    assert (learned, failed) == (20, 1)
    assert created == {} and loaded == []
    assert list(calls) == ["is_observed"]


def test_the_counts_find_the_events_of_a_run_that_is_sent() -> None:
    # Nothing listens on the port for discarded data.
    learned, failed, calls, created, loaded = counts(
        {"ACE_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_METRICS_EXPORTER": "none"}
    )
    assert (learned, failed) == (20, 1)
    assert created["SampleStarted"] == created["SampleEnded"] == 21 and created["AnswerEvaluated"] == 20
    assert calls["emit"] == sum(created.values()) and calls["ace-otel"] > 0
    assert loaded == ["opentelemetry", "ace_otel.instrumentation"]
