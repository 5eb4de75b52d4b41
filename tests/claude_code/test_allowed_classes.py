"""What the learning commands send of personal data: nothing, unless the user allows its class. No password is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claude_code.conftest import Ace
from tests.claude_code.samples import assistant, user
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

MAIL = "jane@acme.com"
PASSWORD = "s3cret-pw"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789")
    with ScriptedServer(learning_script()) as started:
        yield started


@pytest.fixture
def transcript(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stored session with a mail address and a telephone number in it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.chdir(home)
    records = [user(f"Write to {MAIL}, tel. +1 212 555 0100.", "u1"), assistant("LESSON w1", "a1", "u1")]
    path = home / ".claude/projects/-home-dev-mail/s.jsonl"
    path.parent.mkdir(parents=True)
    lines = [{"sessionId": "s", "cwd": "/home/dev/mail", **record} for record in records]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def allow_in_settings(home: Path, words: str) -> None:
    path = home / ".config/ace/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f"allow = {words}\n", encoding="utf-8")


@pytest.mark.parametrize("given", ["flag", "variable", "file", "nothing"])
def test_a_class_that_is_allowed_is_learned_as_it_is(
    given: str, home: Path, transcript: Path, server: ScriptedServer, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given == "variable":
        monkeypatch.setenv("ACE_ALLOW", "email_address")
    if given == "file":
        allow_in_settings(home, '["email_address"]')
    flags = ["--allow", "email_address"] if given == "flag" else []
    model = ["--model", "openai/scripted", "--api-base", server.api_base]
    assert ace("learn", str(transcript), *model, *flags, "--json")["turns_learned"] == 1
    sent = "".join(request.text for request in server.requests)
    noted = (home / ".claude/ace/projects/-home-dev-mail/learned.jsonl").read_text(encoding="utf-8")
    assert "LESSON w1" in sent
    assert (MAIL in sent, MAIL in noted) == ((given != "nothing"),) * 2
    assert "555 0100" not in sent + noted


@pytest.mark.parametrize("provenance", ["full", "ids"])
def test_with_ids_no_text_of_a_session_is_stored(
    provenance: str, home: Path, transcript: Path, server: ScriptedServer, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACE_PROVENANCE", provenance)
    model = ["--model", "openai/scripted", "--api-base", server.api_base]
    assert ace("learn", str(transcript), *model, "--json")["turns_learned"] == 1
    project = home / ".claude/ace/projects/-home-dev-mail"
    stored = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert b"w1" in stored
    assert (b"Write to" in stored) == (provenance == "full")


@pytest.mark.parametrize("is_allowed", [True, False])
def test_the_learner_of_the_plugin_heeds_the_settings(
    is_allowed: bool, home: Path, transcript: Path, server: ScriptedServer, ace: Ace
) -> None:
    if is_allowed:
        allow_in_settings(home, '["personal_data"]')
    ace("install", "--model", "openai/scripted", "--api-base", server.api_base)
    assert learn_queued(transcript) == ""
    sent = "".join(request.text for request in server.requests)
    assert "LESSON w1" in sent
    assert (MAIL in sent, "555 0100" in sent) == (is_allowed, is_allowed)


def learn_queued(transcript: Path) -> str:
    """Have the learner work a session off, and return what keeps it from that."""
    queue = Path(os.environ["HOME"]) / ".claude/ace/queue"
    queue.mkdir()
    job = queue / "001.json"
    job.write_text(json.dumps({"transcript": str(transcript), "session_id": "s"}), encoding="utf-8")
    learner = [sys.executable, "-m", "ace_claude_code.sessions.learner"]
    subprocess.run(learner, env={**os.environ, "ACE_LEARNING": "1"}, cwd=queue.parent, check=True, capture_output=True)
    return json.loads(job.read_bytes())["error"] if job.exists() else ""


def test_a_setting_that_is_wrong_is_told_by_the_status(
    home: Path, transcript: Path, server: ScriptedServer, ace: Ace
) -> None:
    allow_in_settings(home, '["everything"]')
    ace("install", "--model", "openai/scripted", "--api-base", server.api_base)
    assert "knows copied_answer, " in learn_queued(transcript)
    [problem] = ace("status", "--json", code=1)["problems"]
    assert f"{transcript}: " in problem and "config.toml" in problem and "'everything'" in problem
    assert "config.toml" in ace("learn", str(transcript), code=2)["err"]
    assert server.requests == []


def test_an_unknown_class_is_wrong_usage(transcript: Path, ace: Ace) -> None:
    assert "everything" in ace("learn", str(transcript), "--allow", "everything", code=2)["err"]


@pytest.mark.parametrize("option", [(), ("--project",)])
def test_a_location_is_not_a_file_and_its_password_is_not_shown(
    option: tuple[str, ...], transcript: Path, ace: Ace
) -> None:
    done = ace("learn", *option, f"postgresql://ann:{PASSWORD}@db/skills", code=2)
    assert "takes a file or a folder, not 'postgresql://[hidden]@db/skills'" in done["err"]


def test_no_command_shows_a_password_of_a_setting(
    transcript: Path, ace: Ace, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789")
    monkeypatch.setenv("ACE_SKILLBOOK", f"postgresql://ann:{PASSWORD}@db/skills")
    model = ["--model", "openai/scripted", "--api-base", f"http://ann:{PASSWORD}@127.0.0.1:9/v1"]
    shown = [ace("install", *model), ace("learn", str(transcript), "--json", code=1)]
    problem = learn_queued(transcript)
    shown += [ace("status", code=1), ace("status", "--json", code=1)]
    assert "openai/scripted" in problem
    assert PASSWORD not in problem + json.dumps(shown)
