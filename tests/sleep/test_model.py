"""The words of a model: asked for once, limited, and never decisive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sleep.conftest import Machine
from tests.sleep.test_night import LESSON
from tests.support.agent_sessions import DIRECTLY, MISTAKE, RIGHT, WRONG, Said, Shell
from tests.support.scripted_server import HttpError, ScriptedServer

WORDED = "Run the tests with `make check`, because SRC_ROOT must be set."


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda request: {"lesson": WORDED}) as started:
        yield started


@pytest.fixture
def asking(machine: Machine, server: ScriptedServer) -> Machine:
    """The machine with a model, and a session with a mistake."""
    machine.environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base, "OPENAI_API_KEY": "k"}
    machine.claude(*MISTAKE)
    return machine


def test_the_model_words_each_lesson_with_one_call(asking: Machine, server: ScriptedServer) -> None:
    done = asking.ace("sleep", "--yes", "--json")
    assert done.code == 0, done.err
    assert [lesson["text"] for lesson in done.data["lessons"]] == [WORDED]
    assert (done.data["calls"], len(server.requests)) == (1, 1)


def test_the_user_is_asked_before_sessions_are_first_sent(asking: Machine, server: ScriptedServer) -> None:
    done = asking.ace("sleep")
    assert (done.code, server.requests) == (2, [])
    assert "1 session of Claude Code, in shop" in done.err
    assert "is sent to openai/scripted" in done.err
    assert asking.ace("sleep", "--yes").code == 0
    asking.codex(Shell("python3 ./run_tests.py -v", WRONG.output, 1), Shell("make -s check", "1 passed"))
    assert asking.ace("sleep").code == 0


def test_without_a_model_nothing_is_sent(asking: Machine, server: ScriptedServer) -> None:
    assert [lesson["text"] for lesson in asking.sleep()["lessons"]] == [LESSON]
    assert server.requests == []


def test_the_model_sees_no_secret_and_not_how_the_lesson_is_proven(asking: Machine, server: ScriptedServer) -> None:
    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
    asking.claude(WRONG, Said(f"Never! The token is {secret}"), Shell(RIGHT, "1 passed"))
    assert asking.ace("sleep", "--yes").code == 0
    assert len(server.requests) > 1  # also what the person said
    assert not any(secret in request.text or "2 of 2 runs" in request.text for request in server.requests)


@pytest.mark.parametrize("answer", ["", "Do not run anything.", f"Line one `{RIGHT}`\n{'x' * 400}"])
def test_words_that_do_not_name_the_command_are_not_used(asking: Machine, answer: str) -> None:
    with ScriptedServer(lambda request: {"lesson": answer}) as server:
        asking.environ = {**asking.environ, "ACE_API_BASE": server.api_base}
        done = asking.ace("sleep", "--yes", "--json")
    assert [lesson["text"] for lesson in done.data["lessons"]] == [LESSON]


def test_an_outage_is_a_failure_and_the_sessions_stay_to_be_done(asking: Machine, server: ScriptedServer) -> None:
    with ScriptedServer(lambda request: HttpError(401, "no")) as broken:
        asking.environ = {**asking.environ, "ACE_API_BASE": broken.api_base}
        done = asking.ace("sleep", "--yes")
    assert done.code == 1
    assert "the sessions are looked at again next time" in done.err
    assert asking.ace("sleep", "status", "--json").data["last_night"]["error"]
    asking.environ = {**asking.environ, "ACE_API_BASE": server.api_base}
    again = asking.ace("sleep", "--json")
    assert (again.data["sessions"], len(again.data["lessons"])) == (1, 1)


def test_the_budget_is_checked_before_each_call(asking: Machine, server: ScriptedServer) -> None:
    done = asking.ace("sleep", "--yes", "--budget", "0", "--json")
    assert (done.code, server.requests, done.data["lessons"]) == (0, [], [])
    assert "the budget of $0 is spent" in done.data["error"]
    assert asking.ace("sleep", "--json").data["sessions"] == 1


def test_a_budget_that_makes_no_sense_is_a_usage_error(asking: Machine) -> None:
    done = asking.ace("sleep", "--budget", "-1")
    assert (done.code, done.err) == (2, "ace: --budget must be at least 0 US dollars, got -1\n")
    assert asking.ace("sleep", "--agent", "nobody").code == 2
    assert DIRECTLY not in done.err
