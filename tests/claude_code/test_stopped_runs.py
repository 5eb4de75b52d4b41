"""The real binary is stopped: by somebody, by its time, by a cancellation. The commands of its tools end, too."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled
from ace_claude_code import ClaudeCodeExecuteStep
from ace_claude_code.process import ClaudeProcess
from tests.claude_code.conftest import MARKER, ServerFor, nothing_left, processes_with
from tests.claude_code.steps import bash, book, run
from tests.support.scripted_anthropic_server import Text


def test_a_binary_that_somebody_terminates_is_a_failed_run(claude: str, project: Path, serving: ServerFor) -> None:
    started = project / "started"
    serving(hangs(started))
    step = ClaudeCodeExecuteStep(project, claude=claude, allowed_tools=["Bash"], model=f"claude-{MARKER}")

    def terminate_when_started() -> None:
        wait_for(started)
        [line] = [line for line in processes_with(f"claude-{MARKER}") if "stream-json" in line]
        os.kill(int(line.split()[0]), signal.SIGTERM)

    killer = threading.Thread(target=terminate_when_started)
    killer.start()
    with nothing_left(MARKER):
        result = run(step, "Wait.")
    killer.join()
    assert (result.success, result.timed_out, result.returncode) == (False, False, 143)
    assert "ended with exit code 143 and without a result" in str(result.error)
    assert "call Bash" in result.execution_trace


def hangs(started: Path) -> Any:
    """A script whose tool starts a command that would run for ten minutes."""
    command = f"touch '{started}'; python3 -c 'import time; time.sleep(600)' {MARKER}"
    return lambda request: [Text("done")] if request.tool_results else [bash(command)]


def test_a_timeout_ends_the_commands_of_the_tools_too(
    claude: str, project: Path, serving: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ClaudeProcess.__init__.__kwdefaults__ or {}, "grace", 600.0)  # on a busy machine
    started = project / "started"
    serving(hangs(started))
    for seconds in (4, 30, 240):  # on a busy machine, the time may be up before the command was started
        step = ClaudeCodeExecuteStep(project, claude=claude, allowed_tools=["Bash"], timeout=seconds)
        with nothing_left(MARKER):
            result = run(step, "Wait.")
        if started.exists():
            break
    assert started.exists()
    assert (result.success, result.timed_out, result.returncode) == (False, True, 143)
    assert result.error == f"The run was stopped after {seconds} seconds; what it had done until then stays."
    assert "call Bash" in result.execution_trace


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


def test_a_cancelled_run_ends_the_commands_of_the_tools_too(claude: str, project: Path, serving: ServerFor) -> None:
    started = project / "started"
    serving(hangs(started))
    token = CancellationToken()

    def cancel_when_started() -> None:
        wait_for(started)
        token.cancel()

    canceller = threading.Thread(target=cancel_when_started)
    canceller.start()
    pipeline = Pipeline[ACEStepContext]([ClaudeCodeExecuteStep(project, claude=claude, allowed_tools=["Bash"])])
    context = ACEStepContext(sample="Wait.", skillbook=SkillbookView(book()))
    with nothing_left(MARKER):
        [result] = pipeline.run([context], cancel_token=token)
    canceller.join()
    assert isinstance(result.error, PipelineCancelled)
    assert result.output is None


def test_a_cancelled_task_ends_the_commands_of_the_tools_too(claude: str, project: Path, serving: ServerFor) -> None:
    started = project / "started"
    serving(hangs(started))
    pipeline = Pipeline[ACEStepContext]([ClaudeCodeExecuteStep(project, claude=claude, allowed_tools=["Bash"])])
    context = ACEStepContext(sample="Wait.", skillbook=SkillbookView(book()))

    async def main() -> None:
        task = asyncio.create_task(pipeline.run_async([context]))
        await asyncio.to_thread(wait_for, started)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with nothing_left(MARKER):
        asyncio.run(main())
