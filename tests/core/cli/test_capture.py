"""`ace capture` appends one trace, and with `--run` does what the command does."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ace.loop import TraceLog
from tests.support.command_line import ACE, Run, command_environment

PYTHON = Path(sys.executable).name
FAILING = """
class TestSum:
    def test_add(self):
        print("key sk-proj-a1B2c3D4e5F6g7H8i9")
        assert 1 + 1 == 3

def test_ok():
    pass
"""
LOG = "logs/execution_traces.jsonl"


def record(folder: Path) -> dict[str, Any]:
    [line] = (folder / LOG).read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize("option", ["--task", "--bead", "--beads"])
def test_the_options_are_recorded_and_the_id_is_printed(tmp_path: Path, here: Run, option: str) -> None:
    (tmp_path / "results.json").write_text('[{"runner": "npm", "command": "npm t", "status": "pass", "x": 1}]')
    options = ("--description", "Fix it", "--skills", "a-1, b-2", "--discovered", "bd-9", "--exec", "results.json")
    done = here("capture", option, "bd-1", "--outcome", "partial", *options)
    assert (done.code, done.err) == (0, "")
    assert record(tmp_path) == {
        "trace_id": done.out.strip(),
        "timestamp": "2026-01-01T00:00:00+00:00",
        "bead_id": "bd-1",
        "task_description": "Fix it",
        "bullets_consulted": ["a-1", "b-2"],
        "execution_results": [{"runner": "npm", "command": "npm t", "status": "pass", "errors": [], "x": 1}],
        "discovered_issues": ["bd-9"],
        "outcome": "partial",
    }
    assert stat.S_IMODE((tmp_path / LOG).stat().st_mode) == 0o600


def test_a_failing_test_is_recorded_with_file_and_line(tmp_path: Path, here: Run) -> None:
    (tmp_path / "test_sum.py").write_text(FAILING, encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sum.py")
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = here("capture", "--task", "bd-1", "--run", "--", *command, environ=environ)
    assert done.code == 1
    assert "1 failed, 1 passed" in done.out and "sk-proj-a1B2c3D4e5F6g7H8i9" in done.out
    assert done.err.startswith("ace: captured bd-1/")
    found = record(tmp_path)
    [result] = found["execution_results"]
    assert (found["outcome"], result["status"], result["runner"], result["exit_code"]) == (
        *("failure", "fail", "pytest"),
        1,
    )
    assert result["duration_seconds"] > 0
    assert result["errors"] == [
        {
            "tool": "pytest",
            "severity": "error",
            "message": "TestSum::test_add - assert (1 + 1) == 3",
            "file": "test_sum.py",
            "line": 5,
        }
    ]
    assert "1 failed, 1 passed" in result["output"] and "[hidden: secret]" in result["output"]
    assert "sk-proj" not in (tmp_path / LOG).read_text(encoding="utf-8")


def test_a_command_that_passes_is_a_success_and_its_streams_stay_apart(tmp_path: Path, here: Run) -> None:
    code = "import os; os.write(1, b'out\\n'); os.write(2, b'err\\n'); os.write(1, b'\\xff no line end')"
    done = subprocess.run(
        [ACE, "capture", "--task", "bd-1", "--run", "--", sys.executable, "-c", code],
        cwd=tmp_path,
        env=command_environment(tmp_path),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"out\n\xff no line end"
    assert done.stderr.startswith(b"err\n")
    found = record(tmp_path)
    assert (found["outcome"], found["execution_results"][0]["status"]) == ("success", "pass")
    assert found["execution_results"][0]["errors"] == []


def test_only_the_end_of_a_long_output_is_recorded(tmp_path: Path, here: Run) -> None:
    code = "for number in range(200_000): print('line', number)"
    done = here("capture", "--task", "bd-1", "--run", "--", sys.executable, "-c", code)
    assert (done.code, done.out.count("\n")) == (0, 200_000)
    output = record(tmp_path)["execution_results"][0]["output"]
    assert 19_900 < len(output) <= 20_000
    assert output.startswith("line 198") and output.endswith("line 199999\n")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("raise SystemExit(7)", 7), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)],
)
def test_the_exit_code_is_that_of_the_command(tmp_path: Path, here: Run, code: str, exit_code: int) -> None:
    assert here("capture", "--task", "bd-1", "--run", "--", sys.executable, "-c", code).code == exit_code
    assert record(tmp_path)["outcome"] == "failure"
    assert record(tmp_path)["execution_results"][0]["exit_code"] == exit_code


def test_a_process_that_the_command_leaves_behind_is_not_waited_for(tmp_path: Path, here: Run) -> None:
    # The process keeps the output open until this test ends it.
    done = here("capture", "--task", "bd-1", "--run", "--", "sh", "-c", "sleep 1000 & echo $!")
    os.kill(int(done.out), signal.SIGKILL)
    assert record(tmp_path)["outcome"] == "success"


@pytest.mark.parametrize(
    ("variables", "task"),
    [
        ({"ACE_TASK": "bd-7"}, "bd-7"),
        ({"BEADS_ID": "bd-8"}, "bd-8"),
        ({"ACE_TASK": "bd-7", "BEADS_ID": "bd-8"}, "bd-7"),
        ({"ACE_TASK": "", "BEADS_ID": "bd-8"}, "bd-8"),
    ],
)
def test_the_task_comes_from_the_environment(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], task: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert here("capture", "--outcome", "success").code == 0
    assert record(tmp_path)["bead_id"] == task


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--outcome", "success"], "no task: give --task ID, or set the variable ACE_TASK or BEADS_ID"),
        (["--task", "a b", "--outcome", "success"], "--task: 'a b' is not a task id"),
        (["--task", "bd-1"], "give --outcome success, failure or partial, or --run -- COMMAND"),
        (["--task", "bd-1", "--outcome", "done"], 'invalid value "done" for --outcome'),
        (["--task", "bd-1", "--run"], "--run needs a command: ace capture --run -- COMMAND"),
        (["--task", "bd-1", "--outcome", "success", "--run", "--", "true"], "--outcome and --run exclude each other"),
        (["--task", "bd-1", "--outcome", "success", "true"], "unexpected argument 'true'; a command to run"),
        (["--task", "bd-1", "--run", "--", "no-such-program", "-x"], "cannot run no-such-program -x: No such file"),
        (["--task", "bd-1", "--outcome", "success", "--discovered", "a,b c"], "--discovered: 'b c' is not a task id"),
        (["--task", "bd-1", "--outcome", "success", "--exec", "none.json"], "--exec: none.json: No such file"),
        (["--task", "bd-1", "--outcome", "success", "--exec", "-"], "--exec: standard input is not JSON"),
    ],
)
def test_wrong_usage_captures_nothing(tmp_path: Path, here: Run, arguments: list[str], said: str) -> None:
    done = here("capture", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"ace: {said}"), done.err
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ('{"runner": "a"}', "standard input must be a JSON list of execution results, not a dict"),
        ('[{"status": "pass"}, {"status": "ok"}]', "standard input, result 2: the status of an execution result must"),
    ],
)
def test_wrong_execution_results_are_rejected(here: Run, results: str, said: str) -> None:
    done = here("capture", "--task", "bd-1", "--outcome", "success", "--exec", "-", stdin=results)
    assert done.code == 2
    assert done.err.startswith(f"ace: --exec: {said}"), done.err


@pytest.mark.parametrize("depth", [900, 100_000])
def test_deeply_nested_execution_results_are_rejected(here: Run, tmp_path: Path, depth: int) -> None:
    results = f'[{{"status": "pass", "x": {"[" * depth}{"]" * depth}}}]'
    done = here("capture", "--task", "bd-1", "--outcome", "success", "--exec", "-", stdin=results)
    if done.code == 0:  # the limit depends on the version of Python
        assert depth == 900 and record(tmp_path)["execution_results"]
        return
    assert done.code == 2
    assert "nested too deeply" in done.err


def test_the_description_is_redacted(tmp_path: Path, here: Run) -> None:
    said = ("--description", "Ask jane@acme.com about the imports")
    assert here("capture", "--task", "bd-1", "--outcome", "partial", *said).code == 0
    assert record(tmp_path)["task_description"] == "Ask [hidden: email_address] about the imports"


def test_execution_results_are_redacted(tmp_path: Path, here: Run) -> None:
    results = '[{"runner": "a", "command": "login jane@acme.com", "status": "pass"}]'
    assert here("capture", "--task", "bd-1", "--outcome", "success", "--exec", "-", stdin=results).code == 0
    assert record(tmp_path)["execution_results"][0]["command"] == "login [hidden: email_address]"


@pytest.mark.parametrize(("status", "code"), [(0, 1), (5, 5)])
def test_a_log_that_cannot_be_written_is_reported(tmp_path: Path, here: Run, status: int, code: int) -> None:
    (tmp_path / "logs").write_text("a file in the place of the folder", encoding="utf-8")
    done = here("capture", "--task", "bd-1", "--run", "--", sys.executable, "-c", f"raise SystemExit({status})")
    assert done.code == code
    assert done.err == f"ace: {LOG}: Not a directory; the trace of bd-1 was not captured\n"
    assert here("capture", "--task", "bd-1", "--outcome", "success").code == 1


def test_the_folder_is_a_setting(tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ace.toml").write_text('logs = "records"\n', encoding="utf-8")
    capture = ("capture", "--task", "bd-1", "--outcome", "success")
    assert here(*capture).code == 0
    monkeypatch.setenv("ACE_LOGS", "others")
    assert here(*capture).code == 0
    assert here(*capture, "--logs", "third").code == 0
    for folder in ("records", "others", "third"):
        assert len(list(TraceLog(tmp_path / folder / "execution_traces.jsonl").read())) == 1
    monkeypatch.delenv("ACE_LOGS")
    (tmp_path / "ace.toml").write_text('logs = "../elsewhere"\n', encoding="utf-8")
    refused = here(*capture)
    assert refused.code == 2
    assert "'logs' in the file of a project must be a folder inside the project" in refused.err


def test_captures_at_once_leave_complete_lines(tmp_path: Path) -> None:
    script = 'for i in $(seq 3); do "$0" capture --task "$1" --outcome success || exit 1; done'
    environ = command_environment(tmp_path)
    processes = [
        subprocess.Popen(
            ["sh", "-c", script, ACE, f"bd-{number}"], cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL
        )
        for number in range(4)
    ]
    assert [process.wait() for process in processes] == [0] * 4
    log = TraceLog(tmp_path / LOG)
    assert len({found.trace.place for found in log.read()}) == 12
    assert log.problem_count == 0


def test_a_full_disk_is_reported_and_leaves_a_valid_log(tmp_path: Path, here: Run) -> None:
    capture = ("capture", "--task", "bd-1", "--outcome", "success", "--description")
    assert here(*capture, "short").code == 0
    before = (tmp_path / LOG).read_bytes()
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 4; exec "$0" "$@"', ACE, *capture, "x" * 9000],  # blocks of 512 or 1,024 bytes
        cwd=tmp_path,
        env={**command_environment(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ace: {LOG}: File too large; the trace of bd-1 was not captured\n"
    assert (tmp_path / LOG).read_bytes() == before


@pytest.mark.parametrize("is_terminal", [True, False])
def test_an_interrupted_command_is_ended_and_not_captured(tmp_path: Path, is_terminal: bool) -> None:
    command = [str(ACE), "capture", "--task", "bd-1", "--run", "--", "sh", "-c", "echo $$; exec sleep 1000"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=command_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    if is_terminal:  # Ctrl-C reaches the command too
        os.killpg(process.pid, signal.SIGINT)
    else:
        os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate()
    assert (process.returncode, said) == (130, b"ace: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not (tmp_path / "logs").exists()
