"""`ace openclaw install --learn`: each turn is learned from when it has ended, within the budget of a day."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ace.integrations import file_lock
from ace_openclaw.automatic import main
from ace_openclaw.home import learner_lock_path, queue_folder
from tests.openclaw.samples import make_database, text
from tests.support.command_line import Run, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

KEY = {"OPENAI_API_KEY": "sk-scripted-0123456789"}
PRICED = "openai/gpt-4o-mini"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as started:
        yield started


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of an OpenClaw that has stored nothing."""
    path = tmp_path / ".openclaw"
    path.mkdir()
    return path


@pytest.fixture
def openclaw(here: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `ace openclaw` in this process, on one day."""
    monkeypatch.setattr("ace.runners.spend._now", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for name, value in KEY.items():
        monkeypatch.setenv(name, value)
    return partial(here, "openclaw")


def install(openclaw: Run, server: ScriptedServer, *more: str, model: str = PRICED) -> None:
    done = openclaw("install", "--learn", "--model", model, "--api-base", server.api_base, *more)
    assert done.code == 0, done.err


def messages(word: str, start: int = 0) -> list[dict[str, Any]]:
    asked = {"role": "user", "content": f"Do the job {word}.", "timestamp": start + 1}
    return [
        asked,
        {"role": "assistant", "content": text(f"LESSON {word}"), "timestamp": start + 2, "stopReason": "stop"},
    ]


def stored() -> list[dict[str, object]]:
    return [{"type": "message", "message": message} for message in messages("stored")]


def end_turn(state: Path, session: str, said: list[dict[str, Any]]) -> Path:
    """Put a turn into the queue, as the plugin does."""
    turn = {"sessionId": session, "agentId": "main", "runId": f"{session}-{len(said)}", "success": True}
    queue = queue_folder(state)
    queue.mkdir(exist_ok=True)
    path = queue / f"{len(list(queue.iterdir())):015}-1-000001.json"
    path.write_text(json.dumps({**turn, "messages": said}), encoding="utf-8")
    return path


def test_each_turn_is_learned_once_and_its_skills_are_in_the_workspace(
    openclaw: Run, state: Path, server: ScriptedServer
) -> None:
    install(openclaw, server)
    end_turn(state, "one", messages("alpha"))
    assert main([str(state)]) == 0
    end_turn(state, "one", messages("alpha") + messages("beta", 10))
    end_turn(state, "idle", [{"role": "user", "content": "Read HEARTBEAT.md if it exists.", "timestamp": 1}])
    assert main([str(state)]) == 0
    assert len(server.by_role("reflector")) == 2
    assert "LESSON beta" in (state / "workspace/AGENTS.md").read_text(encoding="utf-8")
    status = openclaw("status", "--json").data
    assert (status["waiting"], status["problems"], [session["turns"] for session in status["sessions"]]) == (0, [], [2])
    assert status["budget_usd"] == 1
    assert status["spent_today"]["calls"] == len(server.requests)
    assert status["spent_today"]["cost_usd"] > 0
    assert " of 1 USD, " in openclaw("status").out
    assert openclaw("learn", "--json").data["turns_learned"] == 0


def test_what_the_budget_does_not_allow_waits_and_is_learned_by_hand(
    openclaw: Run, state: Path, server: ScriptedServer
) -> None:
    install(openclaw, server, "--budget", "0.0000001")
    for number in range(3):
        end_turn(state, f"session{number}", messages(f"word{number}"))
    main([str(state)])
    asked = len(server.requests)
    assert asked > 0  # the limit is that of what was spent: what is under way is finished
    end_turn(state, "late", messages("late"))
    assert main([str(state)]) == 1
    assert len(server.requests) == asked
    status = openclaw("status")
    assert (status.code, "is spent; the waiting turns follow tomorrow" in status.err) == (1, True)
    assert openclaw("status", "--json").data["waiting"] >= 1
    make_database(state / "agents/main/agent/openclaw-agent.sqlite", [[{"type": "session", "id": "s"}, *stored()]])
    assert openclaw("learn").code == 0
    assert len(server.by_role("reflector")) == 5
    assert not list(queue_folder(state).iterdir())


def test_a_turn_that_cannot_be_learned_from_is_given_up_and_a_model_that_is_away_is_waited_for(
    openclaw: Run, state: Path
) -> None:
    script = learning_script()
    away = True

    def answer(request: ScriptedRequest) -> Any:
        return HttpError(401, "no credit") if away else script(request)

    with ScriptedServer(answer) as server:
        install(openclaw, server)
        end_turn(state, "poison", messages("UNUSABLE"))
        end_turn(state, "good", messages("alpha"))
        for _ in range(4):
            assert main([str(state)]) == 1
        status = openclaw("status", "--json")
        assert (status.code, status.data["waiting"], status.data["failed"]) == (1, 2, 0)
        assert "refused the key" in status.data["problems"][0]
        away = False
        assert [main([str(state)]) for _ in range(4)] == [1, 1, 1, 0]
        status = openclaw("status", "--json")
        assert (status.code, status.data["waiting"], status.data["failed"]) == (0, 0, 1)
        assert "1 failed ('ace openclaw learn' tries them again)" in status.data["headline"]
        asked = len(server.by_role("reflector"))
        assert openclaw("learn").code == 1
        assert len(server.by_role("reflector")) > asked


def test_the_settings_of_the_folder_that_openclaw_was_started_in_do_not_apply(
    openclaw: Run, state: Path, server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(openclaw, server)
    project = tmp_path / "project"
    project.mkdir()
    (project / "ace.toml").write_text('api_base = "http://127.0.0.1:9"\nmodel = 7\n', encoding="utf-8")
    end_turn(state, "one", messages("alpha"))
    monkeypatch.chdir(project)
    assert main([str(state)]) == 0
    assert "LESSON alpha" in (state / "workspace/AGENTS.md").read_text(encoding="utf-8")


def test_turns_that_the_model_refuses_do_not_keep_later_ones_from_being_learned(
    openclaw: Run, state: Path, server: ScriptedServer
) -> None:
    install(openclaw, server)
    for number in range(6):  # more than a run tries before it takes the model for unusable
        end_turn(state, f"refused{number}", messages(f"REFUSED {number}"))
    end_turn(state, "good", messages("alpha"))
    for _ in range(8):
        main([str(state)])
    status = openclaw("status", "--json").data
    assert (status["waiting"], status["failed"]) == (0, 6)
    assert "LESSON alpha" in (state / "workspace/AGENTS.md").read_text(encoding="utf-8")


def test_one_learner_learns_and_one_waits(openclaw: Run, state: Path, server: ScriptedServer, tmp_path: Path) -> None:
    install(openclaw, server)
    end_turn(state, "one", messages("alpha"))
    environ = command_environment(tmp_path, KEY)
    command = [sys.executable, "-E", "-P", "-m", "ace_openclaw.automatic", str(state)]
    with file_lock(learner_lock_path(state)):  # as another learner holds it
        first = subprocess.Popen(command, env=environ)
        while True:  # until it is the one that waits
            with file_lock(state / "ace/waiting.lock", wait=False) as is_free:
                if not is_free:
                    break
            if first.poll() is not None:  # it came while the test held the lock, and took that for one that waits
                first = subprocess.Popen(command, env=environ)
            time.sleep(0.01)
        end_turn(state, "two", messages("beta"))
        assert subprocess.run(command, env=environ, check=False).returncode == 0
        assert first.poll() is None and not server.requests
    assert first.wait() == 0
    assert len(server.by_role("reflector")) == 2
    assert not list(queue_folder(state).iterdir())


def test_a_learner_leaves_nothing_where_learning_was_uninstalled_or_is_not_automatic_any_more(
    openclaw: Run, state: Path, server: ScriptedServer
) -> None:
    install(openclaw, server)
    end_turn(state, "one", messages("alpha"))
    model = ("--model", PRICED, "--api-base", server.api_base)
    assert openclaw("install", *model).code == 0
    assert not (state / "extensions").exists() or not list((state / "extensions").iterdir())
    assert not (state / "openclaw.json").exists()
    assert main([str(state)]) == 0
    assert openclaw("uninstall").code == 0
    assert main([str(state)]) == 0
    assert list(state.iterdir()) == [] and not server.requests


@pytest.mark.parametrize("config", ["", "// mine\n{\n  plugins: {entries: {'other': {enabled: true,},},},\n}\n"])
def test_each_installation_replaces_the_one_before_and_removing_restores_the_configuration(
    openclaw: Run, state: Path, server: ScriptedServer, config: str
) -> None:
    path = state / "openclaw.json"
    if config:
        path.write_text(config, encoding="utf-8")

    def entry() -> str:
        return path.read_text(encoding="utf-8") if path.exists() else ""

    install(openclaw, server)
    assert '"learner": ' in entry() and '"file": ' not in entry()
    install(openclaw, server, "--capture", "--budget", "0.5")
    assert '"learner": ' in entry() and '"file": ' in entry()
    assert openclaw("install").code == 0  # turns are captured further on, and only learned from by hand
    assert '"learner": ' not in entry() and '"file": ' in entry()
    install(openclaw, server)
    assert entry().count("ace-capture") == 1
    assert openclaw("uninstall").code == 0
    assert entry() == config
    assert [item.name for item in state.iterdir()] == (["openclaw.json"] if config else [])


@pytest.mark.parametrize("arguments", [("--budget", "1"), ("--learn", "--budget", "0"), ("--learn", "--budget", "inf")])
def test_a_budget_is_for_automatic_learning_and_more_than_nothing(
    openclaw: Run, state: Path, arguments: tuple[str, ...]
) -> None:
    done = openclaw("install", *arguments)
    assert (done.code, "--budget" in done.err) == (2, True)
    assert list(state.iterdir()) == []
