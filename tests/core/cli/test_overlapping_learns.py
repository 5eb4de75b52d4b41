"""Two `ace learn` over the same traces at once: each trace is paid for once, even if one of them is killed."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

TRACES = 20


class Held:
    """Answers like the learning script, but the requests of the reflector only when they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self._script = learning_script()

    def __call__(self, request: ScriptedRequest) -> Any:
        if request.role == "reflector":
            self.released.wait()
        return self._script(request)


@pytest.fixture
def script() -> Held:
    return Held()


@pytest.fixture
def server(script: Held) -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as server:
        yield server
        script.released.set()


@pytest.fixture(autouse=True)
def many(tmp_path: Path) -> None:
    lines = [{"task": f"task {number}.", "answer": f"LESSON w{number}"} for number in range(TRACES)]
    (tmp_path / "many.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def started(folder: Path, server: ScriptedServer, *more: str) -> subprocess.Popen[str]:
    model = ["--model", "openai/scripted", "--api-base", server.api_base, "--no-merge"]
    return subprocess.Popen(
        [str(ACE), "learn", "many.jsonl", *model, "--json", *more],
        cwd=folder,
        env=command_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, int], str]:
    out, err = process.communicate()
    assert process.returncode in (0, 1), err
    return process.returncode, json.loads(out)["traces"], err


def reflections(server: ScriptedServer) -> Counter[str]:
    """How often the reflector was asked about each task."""
    return Counter(re.findall(r"task \d+\.", request.text)[-1] for request in server.by_role("reflector"))


def wait_until_asked(server: ScriptedServer, times: int, process: subprocess.Popen[str]) -> None:
    """Wait until the reflector was asked so often, or the process has ended."""
    while len(server.by_role("reflector")) < times and process.poll() is None:
        time.sleep(0.01)


def test_no_trace_is_paid_for_twice(tmp_path: Path, server: ScriptedServer, script: Held) -> None:
    first = started(tmp_path, server)
    wait_until_asked(server, 3, first)
    second = started(tmp_path, server)
    wait_until_asked(server, 4, second)
    script.released.set()
    results = [ended(process) for process in (first, second)]
    assert reflections(server) == Counter({f"task {number}.": 1 for number in range(TRACES)})
    assert [code for code, _, _ in results] == [0, 0]
    assert sum(traces["learned"] for _, traces, _ in results) == TRACES
    assert sum(traces["already_learned"] for _, traces, _ in results) == TRACES
    assert len(Skillbook.open(tmp_path / "skills.db").skills()) == TRACES
    assert "of the inputs were skipped because another run is learning from them" in results[1][2]


def test_runs_that_start_together_share_the_traces(tmp_path: Path, server: ScriptedServer, script: Held) -> None:
    script.released.set()
    results = [ended(process) for process in [started(tmp_path, server) for _ in range(3)]]
    assert reflections(server) == Counter({f"task {number}.": 1 for number in range(TRACES)})
    assert sum(traces["learned"] for _, traces, _ in results) == TRACES
    assert len(Skillbook.open(tmp_path / "skills.db").skills()) == TRACES


def test_what_a_killed_run_had_claimed_is_learned(tmp_path: Path, server: ScriptedServer, script: Held) -> None:
    first = started(tmp_path, server)
    wait_until_asked(server, 3, first)
    first.kill()
    first.communicate()
    script.released.set()
    code, traces, err = ended(started(tmp_path, server))
    assert (code, traces["learned"]) == (0, TRACES), err
    assert "another run is learning" not in err
    assert set(reflections(server)) == {f"task {number}." for number in range(TRACES)}
    assert len(Skillbook.open(tmp_path / "skills.db").skills()) == TRACES
    assert not list(tmp_path.glob(".ace-run-*.lock")), "the claims of the killed run were left behind"
