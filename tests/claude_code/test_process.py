"""Programs in the place of the binary: one that does not listen, one that says strange things."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import Pipeline
from ace.skillbook import Skillbook
from ace_claude_code import ClaudeCodeExecuteStep, ClaudeCodeResult, ClaudeNotFoundError, find_claude
from ace_claude_code.process import ClaudeProcess, FinishedProcess
from tests.claude_code.conftest import MARKER, nothing_left
from tests.support.subprocesses import run_python

STUBBORN = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for session in (False, True):
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)", "{MARKER}"]
    subprocess.Popen(sleeping, start_new_session=session)
print("started", flush=True)
time.sleep(600)
"""


def program(folder: Path, code: str) -> Path:
    path = folder / "claude"
    path.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    path.chmod(0o755)
    return path


def out_of_time(code: str, folder: Path, **settings: Any) -> FinishedProcess:
    """Run a program until its time is up, with more time if it was not enough to start."""
    for seconds in (1.5, 12.0, 96.0):
        command = [sys.executable, "-c", code]
        finished = ClaudeProcess(command, stdin="", cwd=folder, environ={}, timeout=seconds, **settings).run()
        if finished.stdout:
            break
    return finished


def run(claude: Path, folder: Path) -> ClaudeCodeResult:
    step = ClaudeCodeExecuteStep(folder, claude=claude)
    context = ACEStepContext(sample="Go.", skillbook=SkillbookView(Skillbook()))
    [result] = Pipeline[ACEStepContext]([step]).run([context])
    assert result.error is None and result.output is not None
    assert isinstance(result.output.trace, ClaudeCodeResult)
    return result.output.trace


def test_a_program_that_does_not_listen_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    with nothing_left(MARKER):
        finished = out_of_time(STUBBORN, tmp_path, grace=0.3)
    assert (finished.timed_out, finished.returncode, finished.stdout) == (True, -9, b"started\n")


def test_what_a_program_leaves_behind_when_it_ends_is_killed(tmp_path: Path) -> None:
    obedient = STUBBORN.replace("signal.SIG_IGN", "lambda *_: sys.exit(143)")
    with nothing_left(MARKER):
        finished = out_of_time(obedient, tmp_path, grace=600.0)
    assert (finished.timed_out, finished.returncode) == (True, 143)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux shows the environment of a process")
def test_what_a_command_has_detached_from_everything_is_killed_too(tmp_path: Path) -> None:
    # The one between has ended, so nothing but its environment tells where the orphan comes from.
    detaching = f"""
import subprocess, sys, time
orphan = [sys.executable, "-c", "import time; time.sleep(600)", "{MARKER}"]
between = f"import subprocess; subprocess.Popen({{orphan!r}}, start_new_session=True)"
subprocess.run([sys.executable, "-c", between])
print("started", flush=True)
time.sleep(600)
"""
    with nothing_left(MARKER):
        finished = out_of_time(detaching, tmp_path)
    assert (finished.timed_out, finished.stdout) == (True, b"started\n")


INTERRUPTED = """
import faulthandler, os, signal, subprocess
from pathlib import Path
from ace_claude_code import process
from ace_claude_code.process import ClaudeProcess
from tests.support.ctrl_c import interrupted_at, is_inside

FILES = {process.__file__, subprocess.__file__}

def counts(frame):
    return frame.f_code.co_filename in FILES and is_inside(frame, process.__file__)

signal.signal(signal.SIGINT, signal.default_int_handler)
moment, is_interrupted = 0, True
while is_interrupted:
    moment += 1
    faulthandler.dump_traceback_later(120, exit=True)  # otherwise, a lock of the process is waited for
    running = ClaudeProcess(["sleep", "600"], stdin="", cwd=Path.cwd(), environ=os.environ, timeout=0.02)
    is_interrupted = interrupted_at(moment, running.run, counts=counts)
    assert not process.processes_with("ACE_CLAUDE_RUN", running._run_id)
print("survived", moment > 3)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by their environment")
def test_ctrl_c_at_every_moment_leaves_no_process_behind() -> None:
    assert run_python(INTERRUPTED).stdout == "survived True\n"


def test_a_run_whose_loop_is_gone_is_stopped(tmp_path: Path) -> None:
    """It hangs if the end of the program is waited for."""
    process = ClaudeProcess(["sleep", "600"], stdin="", cwd=tmp_path, environ=os.environ, timeout=None)

    async def interrupted() -> None:
        running = process.run_async()
        running.send(None)
        running.close()  # as the interpreter does with a task that Ctrl-C left pending

    asyncio.run(interrupted())


def test_a_program_that_prints_nothing_is_a_failure_with_its_words_on_standard_error(tmp_path: Path) -> None:
    result = run(program(tmp_path, "import sys; print('out of memory', file=sys.stderr); sys.exit(3)"), tmp_path)
    assert not result.success
    assert result.error == "The claude binary ended with exit code 3 and without a result: out of memory"
    assert result.events == ()


def test_a_program_that_dies_of_a_signal_keeps_what_it_said(tmp_path: Path) -> None:
    code = """
import os
print('{"type": "assistant", "session_id": "s1", "message": {"content": [{"type": "text", "text": "I look."}]}}')
print('{"type": "user", "mess', flush=True)
os.kill(os.getpid(), 9)
"""
    result = run(program(tmp_path, code), tmp_path)
    assert (result.success, result.returncode, result.skipped_lines) == (False, -9, 1)
    assert result.session_id == "s1"
    assert "I look." in result.execution_trace
    assert "was ended by signal 9 and without a result" in str(result.error)


def test_the_binary_is_found_by_argument_by_variable_and_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ACE_CLAUDE_BINARY", raising=False)
    assert find_claude() == find_claude(path) == str(path)
    monkeypatch.setenv("ACE_CLAUDE_BINARY", str(tmp_path / "other"))
    with pytest.raises(ClaudeNotFoundError, match=r"ACE_CLAUDE_BINARY names '.*other', which is not a program"):
        find_claude()
    assert find_claude(path) == str(path)


def test_the_binary_inside_the_sdk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claude_agent_sdk" / "_bundled").mkdir(parents=True)
    (tmp_path / "claude_agent_sdk" / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    path = program(tmp_path / "claude_agent_sdk" / "_bundled", "")
    monkeypatch.delenv("ACE_CLAUDE_BINARY", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClaudeNotFoundError, match="npm install -g @anthropic-ai/claude-code"):
        find_claude()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_claude() == str(path)


def test_misuse_is_told_before_anything_runs(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    with pytest.raises(NotADirectoryError, match=r"no such working folder: '.*gone'"):
        ClaudeCodeExecuteStep(tmp_path / "gone", claude=path)
    with pytest.raises(TypeError, match=r"allowed_tools is a list of tools: \['Bash'\]"):
        ClaudeCodeExecuteStep(tmp_path, claude=path, allowed_tools="Bash")
    step = ClaudeCodeExecuteStep(tmp_path, claude=path)
    for sample, error in ((7, "a task is a text"), ("  ", "the task is empty")):
        context = ACEStepContext(sample=sample, skillbook=SkillbookView(Skillbook()))
        [result] = Pipeline[ACEStepContext]([step]).run([context])
        assert error in str(result.error)
