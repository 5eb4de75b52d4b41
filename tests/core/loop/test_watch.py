"""`ace learn --watch`: each attempt is learned once, whatever happens to the process, the model and the log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ace._internal.managed_block import read_managed_block
from ace.loop import InsightLog, running_watcher
from ace.skillbook import Skillbook
from ace.steps import artifacts_in
from tests.support.attempts import append, attempt, attempts_script, log_in
from tests.support.command_line import ACE, Run, ace, command_environment
from tests.support.killed_watch import FIRST
from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer
from tests.support.small_disk import on_small_disk

SEED = os.environ.get("ACE_TEST_SEED", "26")
PATIENCE = 120.0
"""Seconds until a condition counts as never met."""


def wait_until(condition: Callable[[], bool], why: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, why
        time.sleep(0.05)


class Watch:
    """A watcher in a process of its own."""

    def __init__(self, folder: Path, api_base: str, *arguments: str) -> None:
        self.folder = folder
        model = ["--model", "openai/scripted", "--api-base", api_base]
        self._out = (folder / "watch.out").open("ab")
        self.process = subprocess.Popen(
            [ACE, "learn", "--watch", "--no-prove", "--no-merge", *arguments, *model],
            cwd=folder,
            env=command_environment(folder, {"PYTHONUNBUFFERED": "1"}),
            stdout=self._out,
            stderr=self._out,
            start_new_session=True,
        )

    @property
    def told(self) -> str:
        return (self.folder / "watch.out").read_text(encoding="utf-8")

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.told.count(text) >= times or self.process.poll() is not None, f"{text!r} {self.told}")
        assert self.told.count(text) >= times, self.told

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.close()

    def close(self) -> int:
        code = self.process.wait(PATIENCE)
        self._out.close()
        return code


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(attempts_script) as started:
        yield started


@pytest.fixture
def start(tmp_path: Path, server: ScriptedServer) -> Iterator[Callable[..., Watch]]:
    started: list[Watch] = []

    def begin(*arguments: str, api_base: str = "") -> Watch:
        started.append(Watch(tmp_path, api_base or server.api_base, *arguments))
        return started[-1]

    yield begin
    for watch in started:
        if watch.process.poll() is None:
            watch.process.kill()
            watch.close()


def lesson(number: int) -> Any:
    return attempt(f"bd-{number}", f"LESSON w{number} BECAUSE src/a.ts", trace=str(number))


def texts(folder: Path) -> list[str]:
    with Skillbook.open(folder / "skills.db") as book:
        return [skill.content for skill in book.skills()]


def test_attempts_are_learned_as_they_come_and_once_even_after_a_restart(
    tmp_path: Path, server: ScriptedServer, start: Callable[..., Watch]
) -> None:
    watch = start("--block", "AGENTS.md")
    watch.wait_for("learning until Ctrl-C")  # the log does not exist yet
    append(tmp_path, lesson(1))
    watch.wait_for("kept     version 1")
    log = log_in(tmp_path).path
    with log.open("a", encoding="utf-8") as file:
        file.write("nonsense\n" + json.dumps(lesson(2).as_record())[:30])  # the rest of the line comes later
    watch.wait_for(f"{log.relative_to(tmp_path)}:2: truncated, or not JSON")
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(lesson(2).as_record())[30:] + "\n")
    watch.wait_for("kept     version 2")
    assert running_watcher(log, str(tmp_path / "skills.db")) == watch.process.pid
    assert watch.stop(signal.SIGINT) == 0, watch.told
    assert "2 traces, 2 accepted, 0 refused" in watch.told
    append(tmp_path, lesson(3))  # while no watcher is running
    again = start("--block", "AGENTS.md")
    again.wait_for("kept     version 3")
    assert again.stop() == 0
    assert sum(request.role == "reflector" for request in server.requests) == 3
    block = read_managed_block((tmp_path / "AGENTS.md").read_bytes())
    assert block is not None and [word for word in ("w1", "w2", "w3") if word in block] == ["w1", "w2", "w3"]


@pytest.mark.parametrize("change", ["truncated", "replaced", "deleted"])
def test_a_log_that_changes_otherwise_is_read_from_its_start_and_known_attempts_stay_known(
    tmp_path: Path, server: ScriptedServer, start: Callable[..., Watch], change: str
) -> None:
    append(tmp_path, lesson(1), lesson(2))
    watch = start()
    watch.wait_for("kept     version 2")
    path = log_in(tmp_path).path
    kept = path.read_bytes().splitlines(keepends=True)[1]
    if change == "truncated":
        path.write_bytes(kept)
    else:
        path.unlink()
        if change == "replaced":
            path.write_bytes(kept)
    append(tmp_path, lesson(3))
    watch.wait_for("kept     version 3")
    assert watch.stop() == 0
    assert sum(request.role == "reflector" for request in server.requests) == 3


def test_a_second_watcher_of_the_same_log_and_book_is_refused_and_each_attempt_is_learned_once(
    tmp_path: Path, server: ScriptedServer, start: Callable[..., Watch]
) -> None:
    first = start()
    first.wait_for("learning until Ctrl-C")
    second = start("--task", "bd-1")
    assert second.close() == 2, second.told
    assert f"the process {first.process.pid} is already watching 'logs/execution_traces.jsonl'" in second.told
    append(tmp_path, lesson(1))
    first.wait_for("kept     version 1")
    first.process.kill()
    first.close()
    again = start()  # the lock of a killed process is not in the way
    append(tmp_path, lesson(2))
    again.wait_for("kept     version 2")
    assert again.stop() == 0
    assert sum(request.role == "reflector" for request in server.requests) == 2


def test_a_command_that_learns_beside_a_watcher_learns_nothing_twice(
    tmp_path: Path, start: Callable[..., Watch]
) -> None:
    def script(request: ScriptedRequest) -> Any:
        answer: Any = attempts_script(request)
        return Answer(answer.content, delay=0.5) if request.role == "reflector" else answer

    with ScriptedServer(script) as server:
        watch = start(api_base=server.api_base)
        watch.wait_for("learning until Ctrl-C")
        append(tmp_path, *(lesson(number) for number in range(8)))
        model = ("--model", "openai/scripted", "--api-base", server.api_base)
        tasks = ",".join(f"bd-{number}" for number in range(8))
        done = ace("learn", "--task", tasks, "--no-prove", "--no-merge", "--json", *model, folder=tmp_path)
        wait_until(lambda: len(texts(tmp_path)) >= 8, watch.told)
        assert (done.code, watch.stop()) == (0, 0), (done.err, watch.told)
        assert sorted(texts(tmp_path)) == [f"Remember LESSON w{number}." for number in range(8)]
        assert sum(request.role == "reflector" for request in server.requests) == 8


def test_while_the_model_is_down_the_watcher_waits_and_then_catches_up(
    tmp_path: Path, start: Callable[..., Watch]
) -> None:
    is_down = True

    def script(request: ScriptedRequest) -> Any:
        # Requests with other statuses, such as 500, are repeated after pauses.
        return HttpError(404, "the model is not loaded") if is_down else attempts_script(request)

    with ScriptedServer(script) as server:
        append(tmp_path, *(lesson(number) for number in range(6)))
        watch = start(api_base=server.api_base)
        watch.wait_for("could not be reached for 5 attempts; trying again in 1 s")
        watch.wait_for("failed   ReflectStep", times=6)
        is_down = False
        append(tmp_path, lesson(6))
        watch.wait_for("kept     version 7")
        assert watch.stop() == 0
    assert sorted(texts(tmp_path)) == [f"Remember LESSON w{number}." for number in range(7)]


def test_a_server_that_refuses_the_key_ends_it(tmp_path: Path, start: Callable[..., Watch]) -> None:
    with ScriptedServer(lambda request: HttpError(401, "invalid key")) as server:
        append(tmp_path, lesson(1), lesson(2))
        watch = start(api_base=server.api_base)
        assert watch.close() == 1
    assert "refused the key" in watch.told and "the next --watch continues" in watch.told


def test_thirty_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, server: ScriptedServer) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    count = 24
    append(folder, *(lesson(number) for number in range(count)))
    arguments: list[str | Path] = [
        folder,
        SEED,
        "30",
        "learn",
        "--watch",
        "--no-prove",
        "--no-merge",
        "--block",
        "AGENTS.md",
    ]
    arguments += ["--model", "openai/scripted", "--api-base", server.api_base]
    environ = command_environment(folder, {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_watch", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    told = f"seed {SEED}\n{done.stdout}\n{done.stderr}\n{(tmp_path / 'output').read_text(encoding='utf-8')[-3000:]}"
    assert done.returncode == 0, told
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    killed = {(place, call) for place, call, code in runs if code == -signal.SIGKILL}
    assert killed >= set(FIRST), told
    assert runs[-1][2] == 0, told
    with Skillbook.open(folder / "skills.db") as book:
        lessons = [skill.content for skill in book.skills()]
        assert sorted(lessons) == sorted(f"Remember LESSON w{number}." for number in range(count)), told
        learned = [entry.key.sample for entry in book.history() if entry.key is not None]
        assert len(learned) == len(set(learned)) == count, told
        versions = [entry.version for entry in book.history() if entry.events]
        block = read_managed_block((folder / "AGENTS.md").read_bytes())
        assert block is not None and block.strip() == book.as_markdown().strip(), told
    artifacts = folder / "logs" / "artifacts"
    assert [artifact.version for artifact in sorted(artifacts_in(artifacts))] == versions, told
    assert len(list(artifacts.iterdir())) == count, told
    for artifact in artifacts_in(artifacts):
        assert sorted(file.name for file in artifact.folder.iterdir()) == [
            *("decision.json", "insights.json", "playbook.md", "trace.json")
        ], told
    insights = InsightLog(folder / "logs" / "insights.jsonl").insights()
    assert [(insight.status, insight.trace_id) for insight in insights] == [
        ("accepted", str(number)) for number in range(count)
    ], told
    paid = [request.role for request in server.requests]
    assert (paid.count("reflector"), paid.count("skill_manager")) == (count, count), told


FULL = """
import contextlib, io
from ace.cli import main
from ace.protocols.observers import InsightsFound, register_observer
logs, api_base = Path(os.environ["ACE_LOGS"]), os.environ["TEST_API_BASE"]
os.chdir(folder)
with Skillbook.open(folder / "skills.db") as book:
    book.add_skill("rules", "Check the units.")
register_observer("full disk", lambda event: fill() if isinstance(event, InsightsFound) else None)
sys.argv = ["ace", "learn", "--watch", "--no-prove", "--model", "openai/scripted", "--api-base", api_base]
told = io.StringIO()
with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
    try:
        code = main()
    except SystemExit as error:
        code = error.code
(folder / "filler").unlink()
with Skillbook.open(folder / "skills.db") as book:
    print(json.dumps({"code": code, "told": told.getvalue(), "skills": len(book)}))
"""


def test_a_full_disk_ends_it_and_the_attempt_is_learned_later(
    tmp_path: Path, server: ScriptedServer, here: Run, model: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, lesson(1))
    for name, value in {"ACE_LOGS": str(tmp_path / "logs"), "TEST_API_BASE": server.api_base}.items():
        monkeypatch.setenv(name, value)
    result = on_small_disk(tmp_path / "disk", FULL)
    assert (result["code"], result["skills"]) == (1, 1), result["told"]
    assert "the skillbook cannot be written" in result["told"]
    [insight] = InsightLog(tmp_path / "logs" / "insights.jsonl").insights()
    assert insight.status == "pending"
    assert here("learn", "--mode", "online", *model).code == 0
    assert texts(tmp_path) == ["Remember LESSON w1."]
