"""The trace log is appended to by several processes, survives kills and full disks, and is read line by line."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ace.loop import ExecutionError, ExecutionResult, ExecutionTrace, TraceLog, check_task_id

APPEND = """
import sys
from ace.loop import ExecutionTrace, TraceLog
log = TraceLog(sys.argv[1])
for number in range(int(sys.argv[3])):
    trace = ExecutionTrace(task_id=sys.argv[2], trace_id=str(number), outcome="success", task_description="x" * 3000)
    log.append(trace)
"""

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
from ace.loop import ExecutionTrace, TraceLog
try:
    TraceLog(sys.argv[1]).append(ExecutionTrace(task_id="bd-2", outcome="success", task_description="x" * 9000))
except OSError as error:
    print(error.strerror)
"""


def started(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])


def trace(task: str, trace_id: str = "t1") -> ExecutionTrace:
    return ExecutionTrace(task_id=task, trace_id=trace_id, outcome="success")


def places(log: TraceLog, *tasks: str) -> list[str]:
    return [found.trace.place for found in log.read(tasks)]


def test_what_is_appended_is_read_with_every_field(tmp_path: Path) -> None:
    error = ExecutionError(
        tool="tsc", severity="warning", message="unused", file="a.ts", line=3, column=7, more={"code": "TS6133"}
    )
    result = ExecutionResult(
        runner="tsc", command="tsc -p .", status="fail", errors=(error,), more={"duration_seconds": 1.5}
    )
    written = ExecutionTrace(
        task_id="bd-42",
        outcome="partial",
        task_description="Fix \u2028 the imports \ud800",
        execution_results=(result,),
        bullets_consulted=("typescript-1",),
        discovered_issues=("bd-43",),
        more={"branch": "main"},
    )
    log = TraceLog(tmp_path / "logs" / "execution_traces.jsonl")
    log.append(written)
    [found] = log.read()
    assert (found.trace, found.line) == (written, 1)
    record = json.loads(log.path.read_text(encoding="utf-8"))
    assert set(record) == {
        *("trace_id", "timestamp", "bead_id", "task_description", "bullets_consulted", "execution_results"),
        *("discovered_issues", "outcome", "branch"),
    }
    assert record["execution_results"] == [
        {
            "runner": "tsc",
            "command": "tsc -p .",
            "status": "fail",
            "duration_seconds": 1.5,
            "errors": [
                {
                    "tool": "tsc",
                    "severity": "warning",
                    "message": "unused",
                    "file": "a.ts",
                    "line": 3,
                    "column": 7,
                    "code": "TS6133",
                }
            ],
        }
    ]
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_a_log_that_nothing_was_written_to_is_empty(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "missing" / "log.jsonl")
    assert (list(log.read()), log.problems) == ([], [])
    assert not log.path.parent.exists()


@pytest.mark.parametrize("task", ["bd-1", "PROJ.7_x", "9", "a" * 64])
def test_a_task_id_is_valid(task: str) -> None:
    assert check_task_id(task) == task


@pytest.mark.parametrize("task", ["--status", "Test ACE hooks", "", "a" * 65, "../x", "a/b", "ä", 7, None, "a\n"])
def test_a_task_id_is_not_valid(task: object) -> None:
    with pytest.raises(ValueError, match="is not a task id"):
        check_task_id(task)


GOOD: Mapping[str, object] = {"bead_id": "bd-1", "trace_id": "t1", "outcome": "success"}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"bead_id": "--status"}, "'--status' is not a task id"),
        ({"outcome": "done"}, "the outcome must be success, failure or partial, got 'done'"),
        ({"outcome": None}, "the outcome must be success, failure or partial, got None"),
        ({"timestamp": "yesterday"}, "the timestamp must be a time in ISO 8601, got 'yesterday'"),
        ({"timestamp": 7}, "the timestamp must be a time in ISO 8601, got 7"),
        ({"bullets_consulted": "a"}, "bullets_consulted must be a list, got 'a'"),
        ({"discovered_issues": [1]}, "discovered_issues must be a list of texts, got [1]"),
        ({"execution_results": [3]}, "an execution result must be a JSON object, got 3"),
        ({"execution_results": [{"status": "ok"}]}, "the status of an execution result must be pass or fail, got 'ok'"),
        (
            {"execution_results": [{"status": "fail", "errors": [{"severity": "fatal"}]}]},
            "the severity of an error must be error, warning or info, got 'fatal'",
        ),
        (
            {"execution_results": [{"status": "fail", "errors": [{"line": "x"}]}]},
            "the line of an error must be a whole number, got 'x'",
        ),
    ],
)
def test_a_line_with_a_wrong_field_is_a_problem(tmp_path: Path, wrong: Mapping[str, object], reason: str) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    log.path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps({**GOOD, **wrong})}\n", encoding="utf-8")
    assert places(log) == ["bd-1/t1"]
    [(line, said)] = log.problems
    assert (line, said.startswith(reason)) == (3, True), said


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"bead_id": "bd-1", "outc', "truncated, or not JSON: Unterminated string starting at (column 21)"),
        (b"Traceback", "truncated, or not JSON: Expecting value (column 1)"),
        (b'{"bead_id": "\xff"}', "not UTF-8 (byte 13)"),
        (b"[]", "a trace must be a JSON object, got []"),
        (b"[" * 200_000, "nested too deeply"),
        (b'"' + b"x" * 16_000_000 + b'"', "the line is longer than 16 MB"),
    ],
)
def test_a_line_that_is_not_a_record_is_a_problem(tmp_path: Path, line: bytes, reason: str) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    good = json.dumps(GOOD).encode()
    log.path.write_bytes(b"\n".join([good, line, good, line]))
    assert [found.line for found in log.read()] == [1, 3]
    assert log.problems == [(2, reason), (4, reason)]
    assert log.problem_count == 2


@pytest.mark.parametrize("depth", range(100, 1100, 25))
def test_a_deeply_nested_line_is_read_or_is_a_problem(tmp_path: Path, depth: int) -> None:
    nested = f"{'[' * depth}{']' * depth}"
    fields = ('"bullets_consulted"', '"outcome"', '"trace_id"', '"x"')
    lines = [f'{{"bead_id": "bd-1", "outcome": "success", {field}: {nested}}}' for field in fields]
    log = TraceLog(tmp_path / "log.jsonl")
    log.path.write_text("\n".join(lines), encoding="utf-8")
    found = [entry.line for entry in log.read()]
    assert log.problem_count + len(found) == 4


def test_both_names_of_the_task_are_read_and_a_missing_trace_id_is_the_same_each_time() -> None:
    record = {"task_id": "bd-7", "outcome": "failure", "timestamp": "2026-11-22T12:00:00"}
    first, second = ExecutionTrace.from_record(record), ExecutionTrace.from_record(dict(reversed(record.items())))
    assert first == second
    assert first.trace_id
    assert first.as_record()["bead_id"] == "bd-7"
    assert first.as_record()["timestamp"] == "2026-11-22T12:00:00+00:00"
    assert ExecutionTrace.from_record({**record, "outcome": "success"}).trace_id != first.trace_id


def test_several_tasks_are_read_from_a_log_of_thousands_of_lines_with_bad_ones(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    lines = [json.dumps({**GOOD, "bead_id": f"bd-{number % 10}", "trace_id": number}) for number in range(5000)]
    for number in range(0, 5000, 100):
        lines[number] = lines[number][:20] if number % 200 else json.dumps({**GOOD, "bead_id": "Test ACE hooks"})
    log.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = places(log, "bd-3", "bd-0")
    assert len(found) == 950
    assert set(found) == {f"bd-{n % 10}/{n}" for n in range(5000) if n % 10 == 3 or (n % 10 == 0 and n % 100)}
    assert [problem.line for problem in log.problems] == list(range(1, 5000, 100))


def test_problems_are_counted_and_only_the_first_ones_kept(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    log.path.write_text("bad\n" * 2500, encoding="utf-8")
    for _ in range(2):  # a second reading starts again from 0
        assert places(log) == []
        assert (log.problem_count, len(log.problems)) == (2500, 1000)


def test_eight_processes_append_complete_lines(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "logs" / "log.jsonl")
    processes = [started(APPEND, log.path, f"bd-{number}", 200) for number in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    assert log.path.read_bytes().count(b"\n") == 1600
    assert set(places(log)) == {f"bd-{process}/{number}" for process in range(8) for number in range(200)}
    assert log.problem_count == 0


def test_the_line_of_a_process_that_was_killed_in_an_append_becomes_one_problem(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    log.append(trace("bd-1"))
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + whole[:30])  # what a kill inside the write leaves
    log.append(trace("bd-2"))
    assert places(log) == ["bd-1/t1", "bd-2/t1"]
    assert [problem.line for problem in log.problems] == [2]


def test_a_log_is_valid_after_a_kill_at_any_moment_of_its_appends(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    for kill in range(5):
        process = started(APPEND, log.path, f"bd-{kill}", 100_000)
        lines = log.path.read_bytes().count(b"\n") if log.path.exists() else 0
        while not log.path.exists() or log.path.read_bytes().count(b"\n") < lines + 3 + kill:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        log.append(trace("bd-after", str(kill)))  # the lock of the killed process is free
        for task in (f"bd-{kill}", "bd-after"):
            of_task = places(log, task)
            assert len(of_task) == len(set(of_task)) > 0
        assert log.problem_count <= kill + 1


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    log.append(trace("bd-1"))
    before = log.path.read_bytes()
    command = [sys.executable, "-c", LIMITED, str(log.path), str(len(before) + 1000)]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"File too large\n"
    assert log.path.read_bytes() == before
    log.append(trace("bd-3"))
    assert places(log) == ["bd-1/t1", "bd-3/t1"]
    assert log.problem_count == 0


def test_a_log_that_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file in the place of the folder", encoding="utf-8")
    with pytest.raises(NotADirectoryError):
        TraceLog(tmp_path / "logs" / "log.jsonl").append(trace("bd-1"))
