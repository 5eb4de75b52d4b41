"""What sessions show but nothing proves, found by structure alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sleep.conftest import Machine
from tests.support.agent_sessions import BEGAN, MISTAKE, Act, Read, Rejected, Replace, Said, Shell, new_repo

PUSH = Shell("git push origin main")
GENERATED = Replace("gen/api.py", "a", "b")
WHY = "Only I push."


def later(hours: int) -> dict[str, Any]:
    return {"began": BEGAN + timedelta(hours=hours)}


def texts(found: dict[str, Any]) -> list[str]:
    return [lesson["text"] for lesson in found["lessons"]]


@pytest.mark.parametrize(
    ("wanted", "what"), [(PUSH, "run `git push`"), (GENERATED, "change `gen/api.py`")], ids=["command", "edit"]
)
def test_what_a_person_rejected_in_two_sessions_is_to_be_asked_for(machine: Machine, wanted: Any, what: str) -> None:
    machine.claude(Rejected(wanted, WHY))
    machine.codex(Rejected(wanted), **later(1))
    found = machine.sleep()
    assert texts(found) == [f"Ask before you {what}: a person rejected that in 2 sessions."]
    assert found["lessons"][0]["evidence"] == [
        "NOT PROVEN (grade E): rejected in 2 sessions (Claude Code 1, Codex CLI 1)",
        f'  2026-11-20, Claude Code: "{WHY}"',
    ]
    assert (found["proven"], found["unproven"]) == (0, 1)
    assert "not proven" in machine.ace("review", "--json").data["pending"][0]["reason"]


def test_the_two_sessions_may_be_of_different_nights(machine: Machine) -> None:
    machine.claude(Rejected(PUSH, WHY))
    assert texts(machine.sleep()) == []
    machine.claude(Rejected(PUSH), **later(30))
    assert len(texts(machine.sleep())) == 1


@pytest.mark.parametrize(
    "acts",
    [
        pytest.param([Rejected(PUSH, WHY)], id="in one session only"),
        pytest.param([Rejected(PUSH), Rejected(PUSH), Rejected(PUSH)], id="often in one session"),
    ],
)
def test_what_was_rejected_in_one_session_is_no_lesson(machine: Machine, acts: list[Act]) -> None:
    machine.claude(*acts)
    assert machine.sleep()["lessons"] == []


@pytest.mark.parametrize(
    ("wanted", "allowed"), [(PUSH, Shell("git push --force")), (GENERATED, Replace("gen/api.py", "a", "c"))]
)
def test_what_a_person_let_pass_elsewhere_is_no_lesson(machine: Machine, wanted: Any, allowed: Act) -> None:
    machine.claude(Rejected(wanted, "Not like this."))
    machine.claude(Rejected(wanted, "Not now."), allowed, **later(1))
    assert machine.sleep()["lessons"] == []


def test_a_rejected_call_is_not_a_command_that_failed(machine: Machine) -> None:
    machine.claude(Rejected(Shell("make test", "", 0), "Use check."), Shell("make check", "1 passed"))
    found = machine.sleep()
    assert (found["candidates"], found["lessons"]) == (0, [])


def test_what_is_proven_comes_first_and_five_a_night_is_the_most(machine: Machine) -> None:
    for number in range(6):
        wanted = Shell(f"deploy{number} now")
        machine.claude(Rejected(wanted), **later(2 * number))
        machine.claude(Rejected(wanted), **later(2 * number + 1))
    machine.codex(*MISTAKE)
    found = machine.sleep()
    assert (found["proven"], found["unproven"], len(found["lessons"])) == (1, 4, 5)
    machine.claude(Read("shop.py"), **later(40))
    assert len(machine.sleep()["lessons"]) == 2


def test_without_a_model_words_of_a_person_are_not_a_lesson(machine: Machine) -> None:
    for hours in range(2):
        machine.claude(Shell("ls"), Said("Always use tabs. Never call pytest."), **later(hours))
    assert machine.sleep()["lessons"] == []


def test_a_file_that_every_session_reads_is_named(machine: Machine) -> None:
    machine.claude(Read("shop.py"), Read("AGENTS.md"), Read("Makefile"))
    machine.codex(Read("shop.py"), **later(1))
    assert machine.sleep()["lessons"] == []
    machine.claude(Read("Makefile"), Read("shop.py"), Read("/etc/hosts"), **later(2))
    found = machine.sleep()
    assert texts(found) == ["Read `shop.py` first: every one of 3 sessions needed it."]
    assert found["lessons"][0]["evidence"] == ["NOT PROVEN: read in all of 3 sessions (Claude Code 2, Codex CLI 1)"]


def test_a_rejected_proposal_is_not_proposed_again(machine: Machine) -> None:
    machine.claude(Rejected(PUSH))
    machine.claude(Rejected(PUSH), **later(1))
    [lesson] = machine.sleep()["lessons"]
    assert machine.ace("review", "--reject", lesson["id"], "--because", "I forgot.").code == 0
    machine.claude(Rejected(PUSH), **later(2))
    assert machine.sleep()["lessons"] == []


def test_a_preference_in_two_repositories_is_offered_for_the_user_and_written_only_when_accepted(
    machine: Machine, tmp_path: Path
) -> None:
    other = new_repo(tmp_path / "calc")
    mine = machine.home / ".claude" / "CLAUDE.md"
    machine.claude(Rejected(PUSH, WHY))
    machine.claude(Rejected(PUSH), cwd=other.root, **later(1))
    mine.write_text("# Me\n", encoding="utf-8")
    (machine.home / ".codex").mkdir()
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == "Ask before you run `git push`: a person rejected that in 2 repositories."
    assert lesson["project"] == str(machine.home)
    assert mine.read_text("utf-8") == "# Me\n"
    accepted = machine.ace("review", "--accept", lesson["id"], folder=other.root)
    assert accepted.code == 0, accepted.err
    assert f"written: {mine}" in accepted.err
    assert lesson["text"] in mine.read_text("utf-8")
    assert lesson["text"] in (machine.home / ".codex" / "AGENTS.md").read_text("utf-8")
    assert not (other.root / "AGENTS.md").exists()
    assert machine.ace("undo", lesson["id"]).code == 0
    assert mine.read_text("utf-8") == "# Me\n"
    assert not (machine.home / ".codex" / "AGENTS.md").exists()
