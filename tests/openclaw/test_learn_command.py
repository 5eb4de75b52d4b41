"""`ace openclaw learn`: several at once, a model that cannot be asked, a limit of the cost, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from ace_openclaw.home import skillbook_path
from tests.openclaw.samples import said, text
from tests.support.command_line import ACE, Done, Run, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

TURNS = 6
KEY = {"OPENAI_API_KEY": "sk-scripted-0123456789"}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script(delay=0.2)) as started:
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a session of OpenClaw in it."""
    path = tmp_path / ".openclaw/agents/main/sessions/s.jsonl"
    path.parent.mkdir(parents=True)
    lines = [{"type": "session", "version": 3, "id": "s", "cwd": "/"}]
    for number in range(TURNS):
        lines.append(said("user", f"Do the job number{number}.", 10 * number + 1))
        lines.append(said("assistant", text(f"LESSON number{number}"), 10 * number + 2, stopReason="stop"))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return tmp_path


def arguments(server: ScriptedServer) -> list[str]:
    return ["openclaw", "learn", "--json", "--model", "openai/scripted", "--api-base", server.api_base]


def start_learning(server: ScriptedServer, home: Path) -> subprocess.Popen[bytes]:
    environ = command_environment(home, KEY)
    return subprocess.Popen([ACE, *arguments(server)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def learn(here: Run, server: ScriptedServer, *more: str) -> Done:
    return here(*arguments(server), *more, environ=KEY)


def test_two_at_once_learn_each_turn_once(server: ScriptedServer, home: Path) -> None:
    answer, is_waiting = server.script, threading.Event()

    def held(request: ScriptedRequest) -> Any:
        is_waiting.wait()  # for the other process
        return answer(request)

    def listen(process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        if any(b"waiting for another 'ace openclaw learn' to finish" in line for line in process.stderr):
            is_waiting.set()

    server.script = held
    both = [start_learning(server, home) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(listen, both))
    reports = [json.loads(process.communicate()[0]) for process in both]
    assert sorted(report["turns_learned"] for report in reports) == [0, TURNS]
    assert sorted(report["turns_known"] for report in reports) == [0, TURNS]
    assert len(server.by_role("reflector")) == TURNS


def test_lessons_that_no_one_judged_stay_out_of_the_skills(here: Run, server: ScriptedServer, home: Path) -> None:
    done = here(*arguments(server), environ={**KEY, "ACE_UNPROVEN": "pending"})
    assert done.data["turns_learned"] == TURNS
    with Skillbook.open(skillbook_path(home / ".openclaw")) as book:
        assert (len(book), len(book.pending_skills()), book.as_prompt()) == (0, TURNS, "")


def test_ctrl_c_ends_after_what_is_under_way_and_the_next_run_goes_on(
    here: Run, server: ScriptedServer, home: Path
) -> None:
    answer, is_noticed = server.script, threading.Event()

    def held(request: ScriptedRequest) -> Any:
        if server.by_role("skill_manager"):
            is_noticed.wait()
        return answer(request)

    server.script = held
    process = start_learning(server, home)
    assert process.stderr is not None
    while not server.by_role("skill_manager"):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    try:
        assert any(b"stopping after the current turns" in line for line in process.stderr)
    finally:
        is_noticed.set()
    out, _ = process.communicate()
    assert process.returncode == 130
    report = json.loads(out)
    assert 0 < report["turns_learned"] < TURNS
    assert (report["turns_unfinished"], report["problems"]) == (TURNS - report["turns_learned"], [])
    rest = learn(here, server).data
    assert (rest["turns_known"], rest["turns_learned"]) == (report["turns_learned"], report["turns_unfinished"])
    assert len(server.by_role("skill_manager")) == TURNS


def test_without_a_key_it_is_told_once(here: Run, home: Path) -> None:
    done = here("openclaw", "learn", "--model", "openai/gpt-4o-mini")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "ace: the model 'openai/gpt-4o-mini' needs a key: set the environment variable OPENAI_API_KEY\n"
    )


@pytest.mark.parametrize("learned", [TURNS - 1, 0])
def test_a_turn_that_the_model_refuses_keeps_no_other_from_it_unless_all_are_refused(
    here: Run, home: Path, learned: int
) -> None:
    script = learning_script()

    def refusing(request: ScriptedRequest) -> Any:
        # A turn is shown with the answers before it, so the first one is the only one that lacks the second.
        is_refused = "LESSON number1" not in request.text if learned else True
        return HttpError(400, "too long") if is_refused else script(request)

    with ScriptedServer(refusing) as server:
        done = learn(here, server)
    if learned:
        assert (done.code, done.data["turns_learned"], len(done.data["problems"])) == (1, learned, 1)
    else:
        assert (done.code, done.out) == (2, "")
        assert "gave no answer for the model 'openai/scripted' (status 400)" in done.err


def test_a_limit_of_the_cost_needs_a_price(here: Run, server: ScriptedServer, home: Path) -> None:
    done = learn(here, server, "--max-cost", "1")
    assert (done.code, done.out) == (2, "")
    assert "--max-cost cannot be enforced: the price of the model 'openai/scripted' is not known" in done.err


@pytest.mark.parametrize("given", ["flag", "variable", "file", "nothing"])
def test_a_class_that_is_allowed_is_learned_as_it_is(
    here: Run, server: ScriptedServer, tmp_path: Path, given: str
) -> None:
    mail = "jane@acme.com"
    session = [
        {"type": "session", "version": 3, "id": "s", "cwd": "/"},
        said("user", f"Write to {mail}, tel. +1 212 555 0100.", 1),
        said("assistant", text("LESSON w1"), 2, stopReason="stop"),
    ]
    (tmp_path / "s.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in session), encoding="utf-8")
    (tmp_path / ".config/ace").mkdir(parents=True)
    if given == "file":
        (tmp_path / ".config/ace/config.toml").write_text('allow = ["email_address"]\n', encoding="utf-8")
    flags = ["--allow", "email_address"] if given == "flag" else []
    environ = {**KEY, "ACE_ALLOW": "email_address"} if given == "variable" else KEY
    done = here(*arguments(server), "s.jsonl", *flags, environ=environ)
    assert (done.code, done.data["turns_learned"]) == (0, 1)
    sent = "".join(request.text for request in server.requests)
    assert "LESSON w1" in sent
    assert (mail in sent, "555 0100" in sent) == (given != "nothing", False)


@pytest.mark.parametrize("provenance", ["full", "ids"])
def test_with_ids_no_text_of_a_session_is_stored(
    here: Run, server: ScriptedServer, home: Path, provenance: str
) -> None:
    done = here(*arguments(server), environ={**KEY, "ACE_PROVENANCE": provenance})
    assert (done.code, done.data["turns_learned"]) == (0, TURNS)
    stored = b"".join(path.read_bytes() for path in (home / ".openclaw/ace").rglob("*") if path.is_file())
    assert b"number1" in stored
    assert (b"Do the job" in stored) == (provenance == "full")


def test_a_limit_of_the_cost_is_a_setting_too(here: Run, server: ScriptedServer, home: Path) -> None:
    done = here(*arguments(server), environ={**KEY, "ACE_MAX_COST": "1"})
    assert (done.code, done.out) == (2, "")
    assert "--max-cost cannot be enforced" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("install", "--workspace"),
        ("install", "--state-dir"),
        ("uninstall", "--state-dir"),
        ("status", "--json", "--state-dir"),
        ("learn", "--json", "--state-dir"),
        ("learn",),
    ],
)
def test_a_location_is_not_a_file_and_its_password_is_not_shown(
    here: Run, home: Path, command: tuple[str, ...]
) -> None:
    done = here("openclaw", *command, "postgresql://ann:s3cret-pw@db/skills")
    assert (done.code, done.out) == (2, "")
    assert "takes a file or a folder, not 'postgresql://[hidden]@db/skills'" in done.err


def test_no_command_shows_a_password_of_a_setting(here: Run, home: Path) -> None:
    environ = {**KEY, "ACE_SKILLBOOK": "postgresql://ann:s3cret-pw@db/skills"}
    model = ["--model", "openai/scripted", "--api-base", "http://ann:s3cret-pw@127.0.0.1:9/v1"]
    commands = [["install", *model], ["learn"], ["learn", "--json"], ["status"], ["status", "--json"]]
    done = [here("openclaw", *command, environ=environ) for command in commands]
    assert [run.code for run in done] == [0, 2, 2, 0, 0]
    assert "the server at http://127.0.0.1:9/v1 cannot be reached" in done[1].err
    assert not [run for run in done if "s3cret" in run.out + run.err]
