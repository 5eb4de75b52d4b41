"""`ace learn` reads the trace log: each line is a trace that keeps its name wherever its line is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace import read_trace
from ace.cli.inputs import gather_traces
from ace.loop import ExecutionError, ExecutionResult, ExecutionTrace, TraceLog, execution_to_trace
from ace.protocols import TraceConversionError
from ace.runners.samples import trace_identity
from tests.support.command_line import Run
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

FAILED = ExecutionResult(
    runner="pytest",
    command="pytest -q",
    status="fail",
    errors=(
        ExecutionError(tool="pytest", message="assert 1 == 2", file="tests/test_a.py", line=12),
        ExecutionError(severity="warning", message="deprecated", more={"rule": "W1"}),
    ),
    more={"duration_seconds": 2.5, "output": "1 failed"},
)
PASSED = ExecutionResult(runner="npm", command="npm run lint", status="pass", more={"duration_seconds": 1})


def trace(task: str, trace_id: str, *results: ExecutionResult) -> ExecutionTrace:
    return ExecutionTrace(
        task_id=task,
        trace_id=trace_id,
        outcome="failure",
        task_description="Fix the sum",
        execution_results=results,
        bullets_consulted=("math-00001",),
        more={"branch": "fix-sum"},
    )


def test_a_trace_becomes_the_standard_trace() -> None:
    found = read_trace(trace("bd-1", "t1", FAILED, PASSED).as_record())
    assert (found["question"], found["success"], found["skill_ids"]) == ("Fix the sum", False, ["math-00001"])
    assert [(step["name"], step["place"], step["is_error"]) for step in found["steps"]] == [
        ("pytest", "1", True),
        ("npm", "2", False),
    ]
    assert found["steps"][0]["content"].splitlines() == [
        "$ pytest -q",
        "status: fail",
        "tests/test_a.py:12: error: assert 1 == 2 (pytest)",
        "warning: deprecated",
        "duration_seconds: 2.5",
        '{"rule": "W1"}',
        "1 failed",
    ]
    assert found["feedback"] == (
        "The outcome is failure.\n"
        "pytest -q failed: tests/test_a.py:12: error: assert 1 == 2 (pytest); warning: deprecated"
    )
    metadata = found["rest"]["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["task_id"], metadata["branch"]) == ("bd-1", "fix-sum")
    assert found["rest"]["metrics"] == {"duration_seconds": 3.5, "score": 0.0}


def test_many_errors_are_counted_in_the_feedback() -> None:
    errors = tuple(ExecutionError(message=f"number {number}") for number in range(500))
    many = ExecutionResult(runner="tsc", command="tsc", status="fail", errors=errors)
    feedback = execution_to_trace(trace("bd-1", "t1", many))["feedback"]
    assert feedback.endswith("error: number 29; 470 more errors")


@pytest.mark.parametrize(("outcome", "success"), [("success", True), ("failure", False), ("partial", None)])
def test_the_outcome_decides_success(outcome: str, success: bool | None) -> None:
    found = execution_to_trace({"bead_id": "bd-9", "outcome": outcome, "execution_results": []})
    assert (found["success"], found["question"], found["feedback"]) == (
        success,
        "Task bd-9",
        f"The outcome is {outcome}.",
    )


def test_a_file_with_several_traces_is_not_one_trace(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    log.append(trace("bd-1", "t1"))
    assert read_trace(log.path)["question"] == "Fix the sum"
    log.append(trace("bd-1", "t2"))
    with pytest.raises(TraceConversionError, match="holds 2 runs; give the runs to the runner one by one"):
        read_trace(log.path)


def test_traces_are_named_by_task_and_stay_known_when_their_lines_move(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "execution_traces.jsonl")
    for number in range(3):
        log.append(trace("bd-1", f"t{number}", FAILED))
    text = log.path.read_text(encoding="utf-8").splitlines(keepends=True)
    log.path.write_text("not JSON\n" + json.dumps({"bead_id": "--status", "outcome": "success"}) + "\n" + "".join(text))
    with gather_traces([str(log.path)]) as gathered:
        assert [found.place for found in gathered.traces] == ["bd-1/t0", "bd-1/t1", "bd-1/t2"]
        assert [problem.place for problem in gathered.problems] == [f"{log.path}#2", f"{log.path}#1"]
        assert read_trace(gathered.traces[2].record)["question"] == "Fix the sum"
        before = [trace_identity(found, number) for number, found in enumerate(gathered.traces, 1)]
    log.path.write_text(text[2] + text[0])
    with gather_traces([str(log.path)]) as gathered:
        after = [trace_identity(found, number) for number, found in enumerate(gathered.traces, 1)]
    assert after == [before[2], before[0]]


def test_ace_learn_learns_from_each_line_once(tmp_path: Path, here: Run) -> None:
    log = TraceLog(tmp_path / "logs" / "execution_traces.jsonl")
    for number in range(3):
        log.append(trace("bd-1", f"t{number}", FAILED))
    with log.path.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps({'bead_id': 'Test ACE hooks', 'outcome': 'success'})}\n")
    text = log.path.read_text(encoding="utf-8").splitlines(keepends=True)
    with ScriptedServer(learning_script()) as server:
        command = ("learn", log.path, "--model", "openai/scripted", "--api-base", server.api_base, "--json")
        first = here(*command)
        log.path.write_text("".join(text[1:]), encoding="utf-8")
        asked = len(server.by_role("reflector"))
        second = here(*command)
        assert len(server.by_role("reflector")) == asked == 3
    [failure] = first.data["failures"]
    assert failure["reason"].startswith("'Test ACE hooks' is not a task id")
    assert [(done.data["traces"]["learned"], done.data["traces"]["already_learned"]) for done in (first, second)] == [
        (3, 0),
        (0, 2),
    ]
