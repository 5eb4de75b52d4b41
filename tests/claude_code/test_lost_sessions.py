"""Sessions that never ended as they should, and models that cannot be reached: nothing is lost in either case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ace.integrations import JobQueue
from ace_claude_code.sessions.home import state_folder
from ace_claude_code.sessions.learner import work_off
from ace_claude_code.sessions.settings import SessionSettings, write_settings
from tests.claude_code import check_world
from tests.claude_code.conftest import Ace, ServerFor
from tests.claude_code.stored_world import store, turn
from tests.claude_code.test_sessions import session, wait_for_the_learner
from tests.support.scripted_anthropic_server import Refusal, Reply, Request, ToolUse
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

NOTHING_LEARNED: dict[str, object] = {
    "reasoning": "r",
    "error_identification": "",
    "root_cause_analysis": "",
    "correct_approach": "",
    "key_insight": "k",
    "extracted_learnings": [],
    "skill_tags": [],
    "operations": [],
}


def call(event: str, path: Path, *, name: str = "s") -> None:
    said = json.dumps({"session_id": name, "transcript_path": str(path), "cwd": str(path.parent)})
    command = [sys.executable, "-m", "ace_claude_code.sessions.hook", event]
    subprocess.run(command, input=said, encoding="utf-8", check=True)


@pytest.fixture
def state(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installation whose model is an address where nothing answers."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    write_settings(state_folder(), SessionSettings(model="openai/x", api_base="http://127.0.0.1:9/v1"))
    return state_folder()


def queued(state: Path) -> list[str]:
    return [Path(job.field("transcript")).stem for job in [*JobQueue(state).waiting(), *JobQueue(state).failed()]]


def has_stored_a_call(home: Path) -> bool:
    """Whether the transcript of a session contains the call of a tool."""
    transcripts = (home / ".claude" / "projects").rglob("*.jsonl")
    return any('"tool_use"' in transcript.read_text(encoding="utf-8") for transcript in transcripts)


def test_a_killed_session_is_picked_up_when_the_next_one_starts(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    started, is_over = project / "started", project / "is-over"

    def script(request: Request) -> Reply:
        if "Wait for it." in request.text and check_world.is_agent(request) and not request.tool_results:
            wait = f"[time.sleep(0.1) for _ in iter(pathlib.Path({str(is_over)!r}).exists, True)]"
            code = f"import pathlib, time; open({str(started)!r}, 'w').close(); {wait}"
            return [ToolUse("Bash", {"command": f'python3 -c "{code}"', "description": "Wait"})]
        return check_world.play(request)

    serving(script)
    ace("install", "--claude", claude)
    command = [claude, "-p", "Wait for it.", "--allowedTools", "Bash(python3:*)"]
    running = subprocess.Popen(command, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not started.exists():
        assert running.poll() is None
        time.sleep(0.02)
    while not has_stored_a_call(home):  # Claude Code writes the transcript a little later
        time.sleep(0.02)
    running.kill()
    running.wait()
    is_over.touch()  # the command that it had started runs until then
    [note] = (home / ".claude" / "ace" / "open").iterdir()
    assert json.loads(note.read_text(encoding="utf-8"))["process"] == running.pid
    check_world.lay_out(project)
    session(claude, project)
    assert len(wait_for_the_learner(ace, 2)["sessions"]) == 2


@pytest.mark.parametrize("event", ["start", "end"])
def test_any_hook_picks_up_a_session_that_was_lost(home: Path, state: Path, event: str) -> None:
    lost, other = store(home / "p", "lost", *turn("one")), store(home / "p", "other", *turn("two"))
    started = store(home / "p", "idle", *turn("three"))
    for path in (lost, started):
        call("start", path, name=path.stem)
    for path in (lost, started):
        os.utime(path, (0, 0))  # nothing was said for a long time
    with JobQueue(state).lock() as held:
        assert held
        call(event, other, name="other")
        assert {"lost", "idle"} <= set(queued(state))
        call(event, other, name="other")
    assert sorted(name for name in queued(state) if name != "other") == ["idle", "lost"]


def test_a_session_that_goes_on_is_left_alone_until_it_ends(home: Path, state: Path) -> None:
    path, other = store(home / "p", "open", *turn("one")), store(home / "p", "other", *turn("two"))
    with JobQueue(state).lock() as held:
        assert held
        call("start", path, name="open")  # by this process, which is alive
        call("start", other, name="other")
        assert queued(state) == []
        call("end", path, name="open")
        assert queued(state) == ["open"]
        os.utime(path, (0, 0))
        call("start", other, name="other")
        assert queued(state) == ["open"]


def test_waiting_sessions_are_learned_when_one_starts(home: Path, state: Path) -> None:
    with ScriptedServer(lambda request: NOTHING_LEARNED) as server:
        write_settings(state, SessionSettings(model="openai/scripted", api_base=server.api_base))
        JobQueue(state).add({"transcript": str(store(home / "p", "waiting", *turn("one")))})
        call("start", home / "p" / "new.jsonl", name="new")
        for _ in range(3000):
            if not queued(state):
                break
            time.sleep(0.1)
        assert queued(state) == []
        with JobQueue(state).lock(wait=True):
            assert len(server.requests) > 0


@pytest.mark.parametrize("status", [429, 500, 529, 402])
def test_an_outage_uses_up_no_attempt(home: Path, state: Path, status: int) -> None:
    refuse(status, home, state, lambda: None, times=1)
    [first, second] = JobQueue(state).waiting()
    assert (first.attempts, second.attempts) == (0, 0)
    assert str(status) in first.error
    assert second.error == ""  # the next ones are not tried while the model is down


def test_a_usage_limit_of_claude_code_uses_up_no_attempt(claude: str, home: Path, serving: ServerFor, ace: Ace) -> None:
    limited = True

    def script(request: Request) -> Reply:
        return Refusal(429, "You've hit your usage limit") if limited else check_world.play(request)

    serving(script)
    write_settings(state_folder(), SessionSettings(claude=claude))
    for name in ("one", "two"):
        JobQueue(state_folder()).add({"transcript": str(store(home / "p", name, *turn(name)))})
    work_off(state_folder())
    first, second = JobQueue(state_folder()).waiting()
    assert (first.attempts, second.attempts, second.error) == (0, 0, "")
    assert "usage limit" in first.error
    assert "usage limit" in ace("status", "--json", code=1)["problems"][0]
    limited = False
    work_off(state_folder())
    assert JobQueue(state_folder()).waiting() == []
    assert sum(listed["turns"] for listed in ace("status", "--json")["sessions"]) == 2


def test_an_address_where_nothing_answers_uses_up_no_attempt(home: Path, state: Path) -> None:
    JobQueue(state).add({"transcript": str(store(home / "p", "one", *turn("one")))})
    work_off(state)
    [job] = JobQueue(state).waiting()
    assert job.attempts == 0 and job.error


def test_a_wrong_setting_uses_up_no_attempt(home: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    write_settings(state, SessionSettings(model="openai/x"))
    JobQueue(state).add({"transcript": str(store(home / "p", "one", *turn("one")))})
    for _ in range(4):
        work_off(state)
    [job] = JobQueue(state).waiting()
    assert job.attempts == 0
    assert "OPENAI_API_KEY" in job.error


def test_a_session_that_the_model_refuses_is_tried_three_times(home: Path, state: Path, ace: Ace) -> None:
    ace("install", "--model", "openai/scripted")
    refuse(400, home, state, lambda: None)
    assert queued(state) == ["one", "two"]
    assert len(JobQueue(state).failed()) == 2
    status = ace("status", "--json", code=1)
    assert "waiting: 0 sessions, 2 failed" in status["headline"]


def test_after_an_outage_everything_is_learned(home: Path, state: Path) -> None:
    server = refuse(503, home, state, lambda: work_off(state), times=1)
    assert queued(state) == []
    assert server.requests


def refuse(status: int, home: Path, state: Path, afterwards: Callable[[], None], *, times: int = 4) -> ScriptedServer:
    """Let the learner work so many times while the model refuses, with two sessions in the queue."""
    refusing = True

    def script(request: ScriptedRequest) -> HttpError | dict[str, object]:
        return HttpError(status, f"refused with {status}") if refusing else NOTHING_LEARNED

    with ScriptedServer(script) as server:
        write_settings(state, SessionSettings(model="openai/scripted", api_base=server.api_base))
        for name in ("one", "two"):
            JobQueue(state).add({"transcript": str(store(home / "p", name, *turn(name)))})
        for _ in range(times):
            work_off(state)
        refusing = False
        afterwards()
    return server
