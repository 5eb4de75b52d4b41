"""Standard traces in files are read as they are in memory."""

from __future__ import annotations

import json
from pathlib import Path

from ace.logs import read_trace
from tests.core.logs.log_files import runs_of, steps_of

SAMPLE = Path(__file__).with_name("data") / "standard_trace.jsonl"


def test_a_standard_trace_is_read_back() -> None:
    [run] = runs_of(SAMPLE)
    assert (run.format, run.id, run.task, run.answer) == ("standard-trace", "t1", "Which port?", "8080")
    assert (run.success, run.truth, run.reason) == (False, "9090", "It is 9090.")
    assert steps_of(run) == ['read {"path": "cfg"}', "read failed: no file", "agent: 8080"]


def test_it_means_the_same_in_memory() -> None:
    [run] = runs_of(SAMPLE)
    stored, live = read_trace(run), read_trace(json.loads(SAMPLE.read_text(encoding="utf-8")))
    names = ("question", "answer", "success", "skill_ids", "ground_truth")
    assert {name: stored[name] for name in names} == {name: live[name] for name in names}  # type: ignore[literal-required]  # its keys
    assert [step["content"] for step in stored["steps"]] == [step["content"] for step in live["steps"]]
    assert stored["rest"]["metrics"] == live["rest"]["metrics"]
