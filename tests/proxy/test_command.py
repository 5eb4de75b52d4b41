"""`ace proxy` as its users call it: in a process of its own, with a program on the real SDK."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ace.cli import main
from ace.integrations import SKILLBOOK_USAGE_INSTRUCTIONS, JobQueue
from ace.skillbook import Skillbook
from ace.skillbook.selection import estimate_tokens
from ace_proxy.recording import Recorder
from tests.support.command_line import ACE, Done, ace, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

KEY = "sk-secret-5f8e2c9b7a6d4e3f"
AGENT = """
import sys, openai
client = openai.OpenAI(api_key="sk-secret-5f8e2c9b7a6d4e3f", max_retries=0)
messages = [{"role": "user", "content": "What about the weather? Take LESSON umbrella."}]
print(client.chat.completions.create(model="m", messages=messages).choices[0].message.content)
sys.exit(int(sys.argv[1]))
"""
LESSON = "Remember LESSON umbrella."


@dataclass(frozen=True)
class Project:
    """A folder with an agent, and a server that answers both the agent and the learner."""

    folder: Path
    server: ScriptedServer
    environ: Mapping[str, str]

    def proxy(self, *arguments: str) -> Done:
        return ace("proxy", "--upstream", self.server.url, *arguments, folder=self.folder, environ=self.environ)

    def run_agent(self, *options: str, code: int = 0) -> Done:
        return self.proxy(*options, "--", sys.executable, "agent.py", str(code))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `ace proxy` on a free port, and leave it running."""
        return subprocess.Popen(
            [ACE, "proxy", "--upstream", self.server.url, "--port", "0", *arguments],
            cwd=self.folder,
            env=command_environment(self.folder, self.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def queue(self) -> JobQueue:
        return JobQueue(self.folder / "logs" / "proxy")

    def wait_for_learner(self) -> None:
        """Wait until nothing is queued that has not been tried."""
        while any(not job.error for job in self.queue.waiting()):
            pass
        with self.queue.lock(wait=True):
            pass

    def skills(self) -> list[str]:
        with Skillbook.open(self.folder / "skills.db") as book:
            return [skill.content for skill in book.skills()]

    def asked(self) -> list[ScriptedRequest]:
        """The requests of the agent."""
        return [request for request in self.server.requests if request.model == "m"]

    def recorded(self) -> list[Path]:
        return list((self.folder / "logs" / "proxy" / "runs").glob("*"))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    learn = learning_script()

    def script(request: ScriptedRequest) -> Any:
        return "Take LESSON umbrella." if request.model == "m" else learn(request)

    (tmp_path / "agent.py").write_text(AGENT)
    with ScriptedServer(script) as server:
        environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base, "OPENAI_API_KEY": "learner-key"}
        yield Project(tmp_path, server, environ)


def test_a_program_teaches_its_next_run(project: Project) -> None:
    first = project.run_agent(code=3)
    assert (first.code, first.out) == (3, "Take LESSON umbrella.\n")
    assert "1 run recorded; learning in the background" in first.err
    project.wait_for_learner()
    assert project.skills() == [LESSON]
    project.run_agent()
    before, after = project.asked()
    assert LESSON not in before.text
    assert after.messages[0]["role"] == "system" and LESSON in after.messages[0]["content"]
    files = [path for path in project.folder.rglob("*") if path.is_file() and path.name != "agent.py"]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_what_is_recorded_is_learned_when_the_user_wants(project: Project) -> None:
    done = project.run_agent("--learn-later")
    assert "learn: ace learn --from-proxy" in done.err
    assert project.queue.waiting() == [] and not (project.folder / "skills.db").exists()
    learned = ace("learn", "--from-proxy", folder=project.folder, environ=project.environ)
    assert learned.code == 0 and "1 new skill" in learned.err
    assert project.skills() == [LESSON]


def test_without_recorded_runs_the_command_says_how_to_record_some(project: Project) -> None:
    learned = ace("learn", "--from-proxy", folder=project.folder, environ=project.environ)
    assert learned.code == 2 and "`ace proxy` records them" in learned.err


def test_recording_and_skills_can_be_had_alone(project: Project) -> None:
    with Skillbook.open(project.folder / "skills.db") as book:
        book.add_skill("lessons", LESSON)
    project.run_agent("--record-only")
    assert len(project.recorded()) == 1 and project.queue.waiting() == []
    project.run_agent("--skills-only")
    assert len(project.recorded()) == 1
    alone, with_skills = project.asked()
    assert LESSON not in alone.text and LESSON in with_skills.text


def test_the_skills_of_a_call_are_within_the_budget(project: Project) -> None:
    with Skillbook.open(project.folder / "skills.db") as book:
        for number in range(40):
            book.add_skill("lessons", f"For the weather of town {number}, take umbrella {number}.")
    shown = []
    for budget in ("100", "400", "100000"):
        project.run_agent("--skills-only", "--skill-budget", budget)
        system = project.asked()[-1].messages[0]["content"]
        skills = system.partition(SKILLBOOK_USAGE_INSTRUCTIONS)[2]
        assert estimate_tokens(skills) <= int(budget)
        shown.append(skills.count("For the weather of town"))
    assert 0 < shown[0] < shown[1] < shown[2] == 40


def test_a_conversation_is_learned_from_after_two_minutes_of_silence(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def recorder(*arguments: Any, silence: float, **settings: Any) -> Recorder:
        waits.append(silence)
        return Recorder(*arguments, silence=silence, **settings)

    monkeypatch.setattr("ace_proxy.recording.Recorder", recorder)
    monkeypatch.chdir(project.folder)
    assert main(["proxy", "--learn-later", "--", "true"]) == 0
    assert waits == [120.0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--record-only", "--skills-only"], "exclude each other"),
        (["--skill-budget", "0"], "--skill-budget must be at least 1, got 0"),
        (["--budget", "0"], "--budget must be more than 0"),
        (["--host", "0.0.0.0"], "set a key of at least 16 ASCII characters in ACE_PROXY_KEY"),
        (["--host", "0.0.0.0", "--", "true"], "omit --host"),
        (["--upstream", "ftp://x"], "must begin with http:// or https://"),
        (["--", "/nowhere/agent"], "cannot run '/nowhere/agent': No such file"),
    ],
)
def test_wrong_usage_is_explained(project: Project, arguments: list[str], problem: str) -> None:
    done = ace("proxy", "--port", "0", *arguments, folder=project.folder, environ=project.environ)
    assert done.code == 2 and problem in done.err


def test_a_proxy_that_would_call_itself_is_refused(project: Project) -> None:
    done = ace(
        "proxy", "--port", "8798", folder=project.folder, environ={"OPENAI_BASE_URL": "http://127.0.0.1:8798/v1"}
    )
    assert done.code == 2 and "the upstream is the proxy itself" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_then_learns(project: Project, number: signal.Signals) -> None:
    with project.start() as proxy:
        assert proxy.stdout is not None and proxy.stderr is not None
        variables = dict(proxy.stdout.readline().removeprefix("export ").strip().split("=", 1) for _ in range(2))
        assert variables["OPENAI_BASE_URL"] == variables["ANTHROPIC_BASE_URL"] + "/v1"
        agent = [sys.executable, "agent.py", "0"]
        subprocess.run(agent, cwd=project.folder, env={**os.environ, **variables}, check=True, capture_output=True)
        proxy.send_signal(number)
        said = proxy.stderr.read()
    assert proxy.returncode == 0 and "1 run recorded" in said and "Traceback" not in said
    project.wait_for_learner()
    assert project.skills() == [LESSON]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_for_the_program(project: Project, number: signal.Signals) -> None:
    (project.folder / "agent.py").write_text(
        "import signal, sys, threading\n"
        "for number in (signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(number, lambda *_: (print('cleaned up', flush=True), sys.exit(7)))\n"
        "print('ready', flush=True)\n"
        "threading.Event().wait()\n"
    )
    with project.start("--", sys.executable, "agent.py") as proxy:
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == "ready\n"
        if number == signal.SIGTERM:  # forwarded
            proxy.send_signal(number)
        else:  # the terminal sends it to both
            [child] = Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split()
            for _ in range(3):
                proxy.send_signal(number)
            os.kill(int(child), number)
        assert proxy.stdout.read() == "cleaned up\n"
    assert proxy.returncode == 7


def test_with_the_store_locked_calls_pass(project: Project) -> None:
    with Skillbook.open(project.folder / "skills.db") as book:
        book.add_skill("lessons", LESSON)
    with sqlite3.connect(project.folder / "skills.db") as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        done = project.run_agent("--learn-later")
    connection.close()
    assert (done.code, done.out) == (0, "Take LESSON umbrella.\n")


def test_with_a_damaged_skillbook_calls_pass_and_that_is_said_once(project: Project) -> None:
    (project.folder / "skills.db").write_text("no database")
    done = project.run_agent("--learn-later")
    assert (done.code, done.out) == (0, "Take LESSON umbrella.\n")
    assert done.err.count("the skills are not up to date") == 1


def test_with_the_disk_full_calls_pass_and_that_is_said_once(project: Project) -> None:
    (project.folder / "agent.py").write_text(AGENT.replace("print(", "for _ in range(3): print("))
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); sys.argv[0] = 'ace'; "
    command = limited + "from ace.cli import main; sys.exit(main())"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            command,
            "proxy",
            "--upstream",
            project.server.url,
            "--",
            sys.executable,
            "-B",
            "agent.py",
            "0",
        ],
        cwd=project.folder,
        env=command_environment(project.folder, project.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Take LESSON umbrella.\n" * 3)
    assert done.stderr.count("runs are not recorded") == 1 and "Traceback" not in done.stderr


def test_a_learner_that_is_killed_leaves_its_run_for_the_next_one(project: Project) -> None:
    learn = project.server.script

    def killing(request: ScriptedRequest) -> Any:
        if request.role == "reflector":
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    is_learner = b"ace_proxy.learner" in process.read_bytes()
                    if is_learner and str((process.parent / "cwd").readlink()).startswith(str(project.folder)):
                        os.kill(int(process.parent.name), signal.SIGKILL)
                except (FileNotFoundError, ProcessLookupError):
                    continue
            project.server.script = learn
        return learn(request)

    project.server.script = killing
    assert project.run_agent().out == "Take LESSON umbrella.\n"
    while project.server.script is killing:
        pass
    with project.queue.lock(wait=True):
        assert len(project.queue.waiting()) == 1
    assert project.run_agent().out == "Take LESSON umbrella.\n"
    project.wait_for_learner()
    assert project.skills() == [LESSON] and project.queue.waiting() == []


def test_the_budget_of_a_day_ends_learning_and_the_rest_waits(project: Project) -> None:
    project = Project(project.folder, project.server, {**project.environ, "ACE_MODEL": "openai/gpt-4o-mini"})
    project.run_agent("--budget", "0.0000001")
    project.wait_for_learner()
    asked = len(project.server.requests)
    project.run_agent("--budget", "0.0000001")
    while b"the budget of 1e-07 USD for today is spent" not in project.queue.log.read_bytes():
        pass
    assert len(project.server.requests) == asked + 1  # only that of the agent
    assert project.queue.waiting()


def test_a_model_that_cannot_be_called_keeps_the_run(project: Project) -> None:
    learn = project.server.script
    project.server.script = lambda request: learn(request) if request.model == "m" else HttpError(401, "wrong key")
    project.run_agent()
    project.wait_for_learner()
    [job] = project.queue.waiting()
    assert job.attempts == 0 and job.error.endswith("ace learn ended with exit code 2")


def test_the_address_answers_as_soon_as_it_is_printed(project: Project) -> None:
    with project.start() as proxy:
        assert proxy.stdout is not None
        address = proxy.stdout.readline().partition("=")[2].strip()
        assert json.loads(httpx.get(f"{address}/models").content)["data"][0]["id"] == "scripted"
        proxy.terminate()
