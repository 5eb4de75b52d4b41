"""The installed plugin: it learns from real sessions when they end, and shows them the skills when they start."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.integrations import JobQueue
from ace.pipeline import Pipeline
from ace.skillbook import Skillbook
from ace_claude_code import ClaudeCodeExecuteStep, ClaudeCodeLLMClient
from tests.claude_code import check_world
from tests.claude_code.conftest import Ace, ServerFor, files_in
from tests.support.scripted_anthropic_server import Refusal, Reply, Request, ScriptedAnthropicServer, Text, ToolUse


def session(claude: str, project: Path, *arguments: str, prompt: str = check_world.TASK) -> str:
    """Run a session as a user does, and return its last words."""
    command = [claude, "-p", "--allowedTools", "Bash(python3:*)", *arguments]
    done = subprocess.run(command, input=prompt, cwd=project, capture_output=True, encoding="utf-8", check=False)
    assert "Hook" not in done.stderr, done.stderr
    return done.stdout.strip()


def wait_for_the_learner(ace: Ace, turns: int) -> dict[str, Any]:
    """Wait until nothing is queued and so many turns are noted; the learner is a process of its own."""
    for _ in range(3000):
        status = ace("status", "--json")
        if not status["waiting"] and sum(listed["turns"] for listed in status["sessions"]) >= turns:
            with JobQueue(Path(os.environ["HOME"]) / ".claude" / "ace").lock(wait=True):  # until it has written its log
                return status
        time.sleep(0.1)
    log = Path(os.environ["HOME"]) / ".claude" / "ace" / "learner.log"
    raise AssertionError(f"the learner did not come to an end: {log.read_text(encoding='utf-8')}")


def agents(server: ScriptedAnthropicServer) -> list[Request]:
    return [request for request in server.requests if check_world.is_agent(request)]


def test_what_a_session_taught_is_in_the_request_of_the_next_one(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACE_UNPROVEN", "keep")
    check_world.lay_out(project)
    server = serving(check_world.play)
    before = files_in(project)
    ace("install", "--claude", claude)
    assert session(claude, project) == "The check failed, and I do not know why."
    status = wait_for_the_learner(ace, 1)
    [learned] = status["sessions"]
    assert (learned["turns"], learned["skill_ids"]) == (1, ["checks-00001"])
    server.clear()
    assert session(claude, project) == "The check passed, as [checks-00001] says."
    assert all(check_world.has_rule(request) for request in agents(server))
    status = wait_for_the_learner(ace, 2)
    assert len(status["sessions"]) == 2
    [book] = (home / ".claude" / "ace" / "projects").glob("*/skillbook.db")
    [skill] = Skillbook.open(book).skills()
    assert (skill.content, skill.helpful) == (check_world.RULE, 1)
    assert skill.sources[0].integration == "claude_code"
    # The learner asked Claude Code itself, and did not learn from that.
    log = (home / ".claude" / "ace" / "learner.log").read_text(encoding="utf-8")
    assert [line.split(": ")[-1] for line in log.splitlines() if " learned, " in line] == [
        "1 turn learned, 0 known already",
        "1 turn learned, 0 known already",
    ]
    assert files_in(project) == before
    ace("uninstall", "--delete-skills", "--yes")
    assert not (home / ".claude" / "ace").exists()
    assert not (home / ".claude" / "skills").exists()
    assert session(claude, project) == "The check failed, and I do not know why."


def test_a_session_that_is_stopped_is_learned_from_too(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    started = project / "started"

    def script(request: Request) -> Reply:
        if check_world.is_agent(request) and not request.tool_results:
            (project / "wait.py").write_text(
                f"import time; open({str(started)!r}, 'w').close(); time.sleep(30)", encoding="utf-8"
            )
            return [ToolUse("Bash", {"command": "python3 wait.py", "description": "Wait"})]
        return check_world.play(request)

    serving(script)
    ace("install", "--claude", claude)
    command = [claude, "-p", "Wait.", "--allowedTools", "Bash(python3:*)"]
    running = subprocess.Popen(command, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not started.exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    assert running.wait() == 143
    assert wait_for_the_learner(ace, 1)["sessions"][0]["turns"] == 1


def test_sessions_of_our_own_runs_are_left_alone(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    serving(lambda request: [Text("ok")])
    ace("install", "--claude", claude)
    step = ClaudeCodeExecuteStep(project, claude=claude)
    Pipeline[ACEStepContext]([step]).run([ACEStepContext(sample="Go.", skillbook=SkillbookView(Skillbook()))])
    ClaudeCodeLLMClient(claude=claude).complete("Hello")
    assert not (home / ".claude" / "ace" / "queue").exists()


def test_an_installation_for_one_project_leaves_the_others_alone(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_world.lay_out(project)
    serving(check_world.play)
    other = home / "other"
    (project / "below").mkdir()
    other.mkdir()
    monkeypatch.chdir(project)
    ace("install", "--project", "--claude", claude)
    session(claude, other)
    assert ace("status", "--json")["waiting"] == 0
    session(claude, project / "below")
    [learned] = wait_for_the_learner(ace, 1)["sessions"]
    assert learned["project"].endswith("project-below")


def test_the_skills_can_be_kept(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACE_UNPROVEN", "keep")
    check_world.lay_out(project)
    serving(check_world.play)
    session(claude, project)
    ace("install", "--claude", claude)
    ace("learn", "--all", "--project", str(project))
    kept = ace("uninstall")["out"]
    assert "Kept 1 skillbook with 1 skill in " in kept and str(home / ".claude" / "ace" / "projects") in kept
    [book] = (home / ".claude" / "ace" / "projects").glob("*/skillbook.db")
    assert len(Skillbook.open(book)) == 1
    assert not (home / ".claude" / "skills").exists()
    ace("install", "--claude", claude)
    assert session(claude, project) == "The check passed, as [checks-00001] says."


def test_all_stored_sessions_of_a_project_are_learned_from_once(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACE_CLAUDE_BINARY", claude)  # nothing is installed
    check_world.lay_out(project)
    server = serving(check_world.play)
    for _ in range(2):
        session(claude, project)
    learn = ("learn", "--all", "--project", str(project), "--json")
    assert "has stored no session" in ace("learn", "--all", "--project", str(home), code=2)["err"]
    first = ace(*learn)
    assert (first["sessions"], first["turns_learned"], first["turns_known"]) == (2, 2, 0)
    server.clear()
    again = ace(*learn)
    assert (again["sessions"], again["turns_learned"], again["turns_known"]) == (2, 0, 2)
    assert server.requests == []
    # A session that has grown is new in its new turn only.
    session(claude, project, "--continue", prompt="And once more.")
    grown = ace(*learn)
    assert (grown["turns_learned"], grown["turns_known"]) == (1, 2)
    # The store knows what was learned; the notes are for the user.
    [notes] = (home / ".claude" / "ace" / "projects").glob("*/learned.jsonl")
    assert len(notes.read_text(encoding="utf-8").splitlines()) == 3
    notes.unlink()
    server.clear()
    assert ace(*learn)["turns_known"] == 3
    assert server.requests == []


def test_a_model_that_fails_keeps_the_session_in_the_queue(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    check_world.lay_out(project)
    broken = True

    def refuses_roles(request: Request) -> Reply:
        if broken and not check_world.is_agent(request):
            return Refusal(400, "no learning today")
        return check_world.play(request)

    server = serving(refuses_roles)
    ace("install", "--claude", claude)
    session(claude, project)
    log = home / ".claude" / "ace" / "learner.log"
    for _ in range(3000):
        if b"no learning today" in log.read_bytes():
            break
        time.sleep(0.1)
    with JobQueue(log.parent).lock(wait=True):
        pass
    status = ace("status", "--json", code=1)
    assert (status["waiting"], status["failed"]) == (1, 0)
    assert "no learning today" in status["problems"][0]
    assert status["problems"][0].count(".jsonl") == 1
    broken = False
    server.clear()
    assert ace("learn", "--json")["turns_learned"] == 1
    assert ace("status", "--json")["waiting"] == 0
