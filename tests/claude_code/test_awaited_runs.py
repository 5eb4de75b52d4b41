"""The real binary is awaited: several run together on one event loop, and a cancelled task ends them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ace import ACEStepContext, SampleResult
from tests.claude_code import check_world
from tests.claude_code.conftest import MARKER, ServerFor, nothing_left, processes_with
from tests.claude_code.steps import bash
from tests.claude_code.test_runner import runner_in, trace_of
from tests.claude_code.test_stopped_runs import wait_for
from tests.support.gate import Gate
from tests.support.scripted_anthropic_server import Text


def test_binaries_run_together_on_the_loop_of_the_caller(claude: str, project: Path, serving: ServerFor) -> None:
    check_world.lay_out(project)
    gate = Gate(2)

    def script(request: Any) -> Any:
        if check_world.is_agent(request) and not request.tool_results:
            gate.wait()
        return check_world.play(request)

    serving(script)
    ended: list[int] = []
    threads: set[int] = set()

    def tell(result: SampleResult[ACEStepContext]) -> None:
        threads.add(threading.get_ident())
        ended.append(result.index)

    async def main() -> None:
        runner = runner_in(project, claude)
        results, _ = await asyncio.gather(
            runner.arun([check_world.TASK] * 2, workers=2, on_sample_done=tell, on_sample_end=tell), gate.open()
        )
        assert [trace_of(result)["success"] for result in results] == [True, True]
        assert [skill.content for skill in runner.skillbook.skills()] == [check_world.RULE]

    asyncio.run(main())
    assert sorted(ended) == [0, 0, 1, 1]
    assert threads == {threading.get_ident()}


def test_a_cancelled_task_ends_the_binaries_and_nothing_is_learned(
    claude: str, project: Path, serving: ServerFor
) -> None:
    started = [project / "started-0", project / "started-1"]

    def script(request: Any) -> Any:
        if request.tool_results:
            return [Text("done")]
        number = int("task one" in request.text)
        return [bash(f"touch '{started[number]}'; python3 -c 'import time; time.sleep(600)' {MARKER}")]

    server = serving(script)
    runner = runner_in(project, claude, allowed_tools=["Bash"])

    async def main() -> None:
        task = asyncio.create_task(runner.arun(["Do task zero.", "Do task one.", "Do task two."], workers=2))
        for path in started:
            await asyncio.to_thread(wait_for, path)
        assert processes_with(MARKER)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with nothing_left(MARKER):
        asyncio.run(main())
    assert all(check_world.is_agent(request) for request in server.requests if request.tools)
    assert len(runner.skillbook) == 0
    assert runner.learning_stats["active"] == runner.learning_stats["queued"] == 0
