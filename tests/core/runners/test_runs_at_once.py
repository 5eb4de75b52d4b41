"""Two that work on one run at the same time: the second waits or is refused, and nothing is paid for twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.runners import RunInUseError, TraceAnalyser, has_run
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.command_line import ACE, command_environment
from tests.support.held_script import HeldScript
from tests.support.scripted_server import Answer, Reply, ScriptedRequest, ScriptedServer

COUNT = 20


def traces() -> list[dict[str, str]]:
    return [
        {"question": f"What is the secret of thing{n}?", "ground_truth": f"value-of-thing{n}", "trace_id": f"t{n}"}
        for n in range(COUNT)
    ]


SECOND = """
import sys
from ace.runners import TraceAnalyser
from ace.providers import LiteLLMClient
from tests.core.runners.test_runs_at_once import traces
client = LiteLLMClient("openai/scripted", api_base={api_base!r}, api_key="k" * 9)
runner = TraceAnalyser.from_client(client, prove=False, skillbook_path={path!r})
runner.run(traces(), run_id="monday", resume=True)
"""


def test_a_second_process_is_refused_and_pays_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    may_end = threading.Event()
    is_asked = threading.Event()

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        is_asked.set()
        may_end.wait()
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        client = client_for(server, timeout=600.0)  # the second process begins and ends meanwhile
        runner = TraceAnalyser.from_client(client, prove=False, skillbook_path=path)
        runner.run(traces(), run_id="monday", wait=False)
        assert is_asked.wait(60)
        asked = len(server.requests)
        code = SECOND.format(api_base=server.api_base, path=str(path))
        environ = command_environment(tmp_path, {"PYTHONPATH": ":".join(folder for folder in sys.path if folder)})
        second = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert "RunInUseError: another process is working on the run 'monday'" in second.stderr
        assert len(server.requests) <= asked + 3
        may_end.set()
        runner.wait_for_background()
        assert len(server.requests) == 2 * COUNT
        third = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
        assert third.returncode == 0, third.stderr
        assert len(server.requests) == 2 * COUNT
    assert runner.failures == []
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".ace-run")] == []


def test_a_run_of_the_same_process_is_waited_for(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: Answer(secrets_world.answer(request), delay=0.01)) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=tmp_path / "s.db")
        for _ in range(3):
            runner.run(traces(), run_id="daily", resume=has_run(runner.skillbook, "daily"), wait=False)
        runner.wait_for_background()
        assert len(server.requests) == 2 * COUNT
    assert runner.failures == []


def test_a_run_inside_of_itself_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    refused: list[str] = []
    with ScriptedServer(secrets_world.answer) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=tmp_path / "s.db")
        other = TraceAnalyser.from_client(client_for(server), prove=False, skillbook=Skillbook.open(tmp_path / "s.db"))

        def again(result: object) -> None:
            with pytest.raises(RunInUseError) as caught:
                other.run(traces(), run_id="monday", resume=True)
            refused.append(caught.value.run_id)

        runner.run(traces()[:1], run_id="monday", on_sample_done=again, workers=1)
    assert refused == ["monday"]


def test_two_resuming_commands_pay_once_and_report_no_false_failure(tmp_path: Path) -> None:
    """T-15 of the audit: an interrupted run that two processes resume at the same time."""
    slow = False

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if not request.role:
            return '{"consolidation_operations": []}' if "consolidation" in request.text else "ready"
        return Answer(secrets_world.answer(request), delay=0.05 if slow else 0.0)

    for number, trace in enumerate(traces()):
        (tmp_path / "t").mkdir(exist_ok=True)
        text = f'{{"question": "{trace["question"]}", "ground_truth": "{trace["ground_truth"]}"}}'
        (tmp_path / "t" / f"{number:02}.json").write_text(text, encoding="utf-8")
    held = HeldScript(script)
    with ScriptedServer(held) as server:
        command = [
            str(ACE),
            "learn",
            "t",
            "--model",
            "openai/x",
            "--api-base",
            server.api_base,
            "--resume",
            "--no-prove",
        ]
        environ = command_environment(tmp_path, {"OPENAI_API_KEY": "k"})

        def start() -> subprocess.Popen[str]:
            return subprocess.Popen(
                command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        held.hold_from(12)
        first = start()
        while not held.wait(0.1):
            assert first.poll() is None
        first.kill()
        first.communicate()
        held.release()
        server.wait_until_idle()
        slow = True
        both = [start(), start()]
        outputs = [process.communicate() for process in both]
        codes = sorted(process.returncode for process in both)
        told = "".join(err for _, err in outputs)
        assert "Traceback" not in told
        assert codes in ([0, 0], [0, 2]), told
        if codes == [0, 2]:
            assert "another process is working on the run" in told
        by_role = [request.role for request in server.answered if request.role]
        lost = len(by_role) - 2 * COUNT
        assert 0 <= lost <= 4, "only what was on its way when the first process was killed is asked for again"
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert len(book) == COUNT
