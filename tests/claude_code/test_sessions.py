"""The installed plugin: real sessions are learned from when they end, and shown the skills when they start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ace.cli import main
from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import Pipeline
from ace.skillbook import Skillbook
from ace_claude_code import ClaudeCodeExecuteStep, ClaudeCodeLLMClient
from ace_claude_code.sessions.jobs import learner_lock
from tests.claude_code import check_world
from tests.claude_code.conftest import ServerFor
from tests.claude_code.samples import TRANSCRIPTS
from tests.support.scripted_anthropic_server import Refusal, Reply, Request, ScriptedAnthropicServer, Text, ToolUse

Ace = Callable[..., dict[str, Any]]


@pytest.fixture
def ace(capsys: pytest.CaptureFixture[str]) -> Ace:
    """Run `ace claude-code ...` and return its JSON (or its words) and exit code."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        done = main(["claude-code", *arguments])
        printed = capsys.readouterr()
        assert done == code, printed.err
        found: dict[str, Any] = json.loads(printed.out) if "--json" in arguments else {"out": printed.out}
        return {**found, "err": printed.err}

    return run


def session(claude: str, project: Path, *arguments: str, prompt: str = check_world.TASK) -> str:
    """Run a session as a user does, and return its last words."""
    command = [claude, "-p", "--allowedTools", "Bash(python3:*)", *arguments]
    done = subprocess.run(command, input=prompt, cwd=project, capture_output=True, encoding="utf-8", check=False)
    assert "Hook" not in done.stderr, done.stderr
    return done.stdout.strip()


def wait_for_the_learner(ace: Ace, turns: int) -> dict[str, Any]:
    """Wait until nothing is queued and so many turns are noted; the learner is a process of its own."""
    for _ in range(600):
        status = ace("status", "--json")
        if not status["waiting"] and sum(each["turns"] for each in status["sessions"]) >= turns:
            return status
        time.sleep(0.1)
    log = Path(os.environ["HOME"]) / ".claude" / "ace" / "learner.log"
    raise AssertionError(f"the learner did not come to an end: {log.read_text(encoding='utf-8')}")


def agents(server: ScriptedAnthropicServer) -> list[Request]:
    return [request for request in server.requests if check_world.is_agent(request)]


def files_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_what_a_session_taught_is_in_the_request_of_the_next_one(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
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
        "1 turns learned, 0 known",
        "1 turns learned, 0 known",
    ]
    assert files_in(project) == before
    ace("uninstall")
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


def test_installing_and_removing_changes_no_byte_of_the_users_files(claude: str, home: Path, ace: Ace) -> None:
    ace("install", "--claude", claude)
    ace("uninstall")
    assert files_in(home) == {}
    folder = home / ".claude"
    (folder / "skills" / "mine").mkdir(parents=True)
    (folder / "skills" / "mine" / "SKILL.md").write_bytes(b"---\r\nname: mine\r\n---\r\n")
    (folder / "settings.json").write_bytes(b'{"hooks" : {}}')
    (folder / "CLAUDE.md").write_bytes(b"# Mine\n")
    (folder / "projects").mkdir()
    before = files_in(home)
    for _ in range(2):
        ace("install", "--claude", claude)
    assert {name: data for name, data in files_in(home).items() if name in before} == before
    checked = subprocess.run(
        [claude, "plugin", "validate", str(folder / "skills" / "ace-learning")], capture_output=True, encoding="utf-8"
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ace("uninstall")
    left = {name: data for name, data in files_in(home).items() if "ace" in name}
    assert left == {}
    assert {name: data for name, data in files_in(home).items() if name in before} == before
    assert ace("uninstall")["out"] == "Nothing was installed.\n"


def test_the_skills_can_be_kept(claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace) -> None:
    check_world.lay_out(project)
    serving(check_world.play)
    session(claude, project)
    ace("install", "--claude", claude)
    ace("learn", "--all", "--project", str(project))
    ace("uninstall", "--keep-skills")
    [book] = (home / ".claude" / "ace" / "projects").glob("*/skillbook.db")
    assert len(Skillbook.open(book)) == 1
    assert not (home / ".claude" / "skills").exists()
    ace("install", "--claude", claude)
    assert session(claude, project) == "The check passed, as [checks-00001] says."


def test_what_is_learned_is_readable_for_the_user_only(claude: str, home: Path, ace: Ace) -> None:
    ace("install", "--claude", claude)
    assert (home / ".claude" / "ace").stat().st_mode & 0o777 == 0o700


def test_with_another_model_no_binary_is_needed(home: Path, ace: Ace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "is not on PATH" in ace("install", code=2)["err"]
    ace("install", "--model", "openai/gpt-4o-mini")
    assert "openai/gpt-4o-mini learns" in ace("status")["out"]


def test_a_plugin_of_somebody_else_is_left_alone(claude: str, home: Path, ace: Ace) -> None:
    folder = home / ".claude" / "skills" / "ace-learning"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("mine", encoding="utf-8")
    before = files_in(home)
    for command in (["install", "--claude", claude], ["uninstall"]):
        assert "is not ours; move it away first" in ace(*command, code=2)["err"]
    assert files_in(home) == before


def test_a_missing_binary_is_told_by_the_installation(home: Path, ace: Ace) -> None:
    assert "which is no program" in ace("install", "--claude", str(home / "gone"), code=2)["err"]
    assert files_in(home) == {}


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


def test_bad_sessions_are_counted_and_the_rest_is_learned(
    claude: str, home: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(check_world.play)
    good, cut, empty, foreign = (home / "p" / name for name in ("good.jsonl", "cut.jsonl", "none.jsonl", "x.jsonl"))
    good.parent.mkdir()
    whole = (TRANSCRIPTS / "tests-fixed.jsonl").read_bytes()
    good.write_bytes(whole)
    cut.write_bytes((TRANSCRIPTS / "2.1.197" / "denied.jsonl").read_bytes() + b'{"type": "hologram"}\n{"type": "us')
    empty.write_text('{"type": "system", "subtype": "init"}\n', encoding="utf-8")
    foreign.write_text("not JSON\n", encoding="utf-8")
    paths = [str(path) for path in (good, foreign, cut, empty, home / "gone.jsonl")]
    monkeypatch.setenv("ACE_CLAUDE_BINARY", claude)
    report = ace("learn", *paths, "--json", code=1)
    assert (report["sessions"], report["turns_learned"]) == (5, 2)
    assert (report["skipped_lines"], report["unknown_records"]) == (1, 1)
    books = [path.parent.name for path in (home / ".claude" / "ace" / "projects").glob("*/skillbook.db")]
    assert sorted(books) == ["-home-dev-calc", "-home-dev-repo"]
    problems = report["problems"]
    assert len(problems) == 2
    assert "x.jsonl: there is no record of Claude Code here" in problems[0]
    assert "there is no transcript" in problems[1]
    assert report["without_prompt"] == [str(empty)]


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
    for _ in range(600):
        if b"no learning today" in log.read_bytes():
            break
        time.sleep(0.1)
    with learner_lock(log.parent, wait=True):
        pass
    status = ace("status", "--json", code=1)
    assert (status["waiting"], status["failed"]) == (1, 0)
    assert "no learning today" in status["problems"][0]
    assert status["problems"][0].count(".jsonl") == 1
    broken = False
    server.clear()
    assert ace("learn", "--json")["turns_learned"] == 1
    assert ace("status", "--json")["waiting"] == 0


def test_several_learners_at_once_learn_each_session_once(
    claude: str, home: Path, serving: ServerFor, ace: Ace
) -> None:
    server = serving(check_world.play)
    ace("install", "--claude", claude)
    state = home / ".claude" / "ace"
    folder = home / ".claude" / "projects" / "-home-dev-repo"
    folder.mkdir(parents=True)
    (state / "queue").mkdir()
    for number in range(6):
        path = folder / f"{number % 3}.jsonl"
        lines = (TRANSCRIPTS / "2.1.197" / "denied.jsonl").read_text(encoding="utf-8")
        path.write_text(lines.replace("REJECT", f"Task {number % 3}"), encoding="utf-8")
        job = {"transcript": str(path), "session_id": str(number)}
        (state / "queue" / f"{number:03}.json").write_text(json.dumps(job), encoding="utf-8")
    environ = {**os.environ, "ACE_LEARNING": "1"}
    learners = [
        subprocess.Popen([sys.executable, "-m", "ace_claude_code.sessions.learner"], env=environ) for _ in range(3)
    ]
    assert [learner.wait() for learner in learners] == [0, 0, 0]
    assert list((state / "queue").iterdir()) == []
    notes = (state / "projects" / "-home-dev-repo" / "learned.jsonl").read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["question"] for line in notes) == ["Task 0", "Task 1", "Task 2"]
    reflections = [request for request in server.requests if "StructuredOutput" in request.tools]
    assert len({request.prompt for request in reflections if not request.tool_results}) == 6
