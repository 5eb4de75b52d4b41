"""`ace sleep`: from sessions to lessons that a person decides about."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from ace.integrations import file_lock
from tests.sleep.conftest import Machine
from tests.support.agent_sessions import BEGAN, DIRECTLY, MISTAKE, RIGHT, RULE, WRONG, Replace, Said, Shell, new_repo
from tests.support.command_line import ACE, command_environment

LESSON = f"Run `{RIGHT}`; `{DIRECTLY}` fails here: RuntimeError: {RULE}."


def test_a_mistake_of_two_agents_becomes_one_lesson_with_its_evidence(machine: Machine) -> None:
    machine.claude(WRONG, Said("No, never call it directly here."), Shell(RIGHT, "1 passed"))
    machine.codex(*MISTAKE)
    found = machine.sleep("--project", machine.repo.root)
    assert (found["sessions"], found["candidates"], found["proven"], found["staged"]) == (2, 1, 1, 1)
    [lesson] = found["lessons"]
    assert lesson["text"] == LESSON
    head, ran, failed, worked, said = lesson["evidence"]
    assert head == "PROVEN by running (grade A), seen in 2 sessions (Claude Code 1, Codex CLI 1)"
    assert ran.startswith(f"Ran at {machine.repo.git('rev-parse', '--short=7', 'HEAD')} in a copy")
    assert failed.split() == f'{DIRECTLY} exit 1 "RuntimeError: {RULE}" 2 of 2 runs'.split()
    assert worked.split() == f'{RIGHT} exit 0 "1 passed" 2 of 2 runs'.split()
    assert said == 'You said (2026-11-20, Claude Code): "No, never call it directly here."'


def test_review_lists_the_lesson_and_accepting_it_writes_agents_md(machine: Machine) -> None:
    machine.claude(*MISTAKE)
    [lesson] = machine.sleep()["lessons"]
    listed = machine.ace("review")
    assert listed.code == 0, listed.err
    assert lesson["id"] in listed.out
    assert "PROVEN by running" in listed.out
    assert not (machine.repo.root / "AGENTS.md").exists()
    done = machine.ace("review", "--accept", lesson["id"])
    assert done.code == 0, done.err
    assert f"- {LESSON}\n" in (machine.repo.root / "AGENTS.md").read_text("utf-8")


def test_a_rejected_lesson_is_never_proposed_again(machine: Machine) -> None:
    machine.claude(*MISTAKE)
    [lesson] = machine.sleep()["lessons"]
    assert machine.ace("review", "--reject", lesson["id"], "--because", "Not here.").code == 0
    machine.codex(*MISTAKE)
    found = machine.sleep()
    assert (found["sessions"], found["lessons"]) == (1, [])
    assert not (machine.repo.root / "AGENTS.md").exists()


def test_sessions_are_read_once_until_they_continue(machine: Machine) -> None:
    machine.claude(Shell("ls", "shop.py"), id="11111111-1111-4111-8111-111111111111")
    assert machine.sleep()["sessions"] == 1
    assert machine.sleep()["sessions"] == 0
    machine.claude(Shell("ls", "shop.py"), *MISTAKE, id="11111111-1111-4111-8111-111111111111")
    assert len(machine.sleep()["lessons"]) == 1


def test_nothing_to_learn_says_why(machine: Machine) -> None:
    calling = 'import socket\nsocket.create_connection(("192.0.2.7", 80))\n'
    machine.repo.commit({"run_tests.py": calling, "Makefile": "check:\n\t@echo ok\n"})
    machine.claude(Shell(DIRECTLY, "OSError: [Errno 101] Network is unreachable", 1), Shell(RIGHT, "ok"))
    done = machine.ace("sleep", "--no-model")
    assert done.code == 0, done.err
    assert done.out == "1 session, 1 candidate, 0 reproduced: 1 need the network\n"


def test_one_night_proposes_five_lessons_and_keeps_the_others_for_the_next(machine: Machine) -> None:
    for number in range(7):
        repo = new_repo(machine.home.parent / f"shop-{number}")
        machine.claude(*MISTAKE, cwd=repo.root)
    assert len(machine.sleep()["lessons"]) == 5
    rest = machine.sleep()
    assert (rest["sessions"], len(rest["lessons"])) == (2, 2)
    assert machine.sleep()["sessions"] == 0


def test_the_most_frequent_mistake_comes_first(machine: Machine) -> None:
    other = new_repo(machine.home.parent / "frequent")
    machine.claude(*MISTAKE)
    for number in range(3):
        machine.claude(*MISTAKE, cwd=other.root, began=BEGAN + timedelta(hours=number))
    first, second = machine.sleep()["lessons"]
    assert (Path(first["project"]).name, Path(second["project"]).name) == ("frequent", "shop")


def test_an_edit_that_made_a_test_green_is_a_lesson_of_grade_b(machine: Machine) -> None:
    machine.repo.commit(
        {"check.py": "from shop import price\nassert price == 4, f'price is {price}'\nprint('1 passed')\n"}
    )
    red = Shell("python3 check.py", "AssertionError: price is 3", 1)
    machine.claude(red, Replace("shop.py", "price = 3", "price = 4"), Shell("python3 check.py", "1 passed"))
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == 'If `python3 check.py` fails with "AssertionError: price is 3", change `shop.py`.'
    assert "grade B" in lesson["evidence"][0]
    assert (machine.repo.root / "shop.py").read_text("utf-8") == "price = 3\n"


def test_a_night_that_begins_while_another_one_is_running_waits_for_it(machine: Machine) -> None:
    machine.claude(*MISTAKE)
    machine.state.mkdir(parents=True)
    environ = {**command_environment(machine.home), "HOME": str(machine.home)}
    with file_lock(machine.state / "night"):
        command = [str(ACE), "sleep", "--no-model"]
        with_errors = subprocess.Popen(command, cwd=machine.repo.root, env=environ, stderr=subprocess.PIPE, text=True)
        assert with_errors.stderr is not None
        assert "another `ace sleep` is running; waiting for it" in with_errors.stderr.readline()
        assert with_errors.poll() is None
        assert list(machine.state.rglob("skills.db")) == []
    with_errors.communicate()
    assert with_errors.returncode == 0
    assert len(list(machine.state.rglob("skills.db"))) == 1


def test_status_tells_the_last_night_and_what_is_live(machine: Machine) -> None:
    machine.claude(*MISTAKE)
    [lesson] = machine.sleep()["lessons"]
    data = machine.ace("sleep", "status", "--json").data
    assert (data["last_night"]["staged"], data["projects"][0]["pending"]) == (1, 1)
    machine.ace("review", "--accept", lesson["id"])
    assert f"  - {LESSON}" in machine.ace("sleep", "status").out


@pytest.mark.parametrize("name", ["expected.txt", "test_shop.py", "tests/shop.py", "__snapshots__/shop.snap"])
def test_an_edit_of_what_a_check_compares_with_is_not_a_lesson(machine: Machine, name: str) -> None:
    check = f"from pathlib import Path\nfrom shop import price\nwanted = int(Path('{name}').read_text()[2:])\n"
    check += "assert price == wanted, f'price is {price}'\nprint('1 passed')\n"
    machine.repo.commit({"check.py": check, name: "# 4\n"})
    red = Shell("python3 check.py", "AssertionError: price is 3", 1)
    machine.claude(red, Replace(name, "# 4", "# 3"), Shell("python3 check.py", "1 passed"))
    assert machine.sleep()["candidates"] == 0


def test_the_error_is_that_of_the_check_and_not_that_of_make(machine: Machine) -> None:
    machine.repo.commit(
        {"Makefile": "lint:\n\t@echo 'shop.py: error: price is missing'; exit 1\nfast:\n\t@cat shop.py\n"}
    )
    output = "shop.py: error: price is missing\nmake[1]: *** [Makefile:2: lint] Error 1\nmake: *** [lint] Error 2"
    machine.claude(Shell("make lint", output, 2), Shell("make fast", "ok"))
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == "Run `make fast`; `make lint` fails here: shop.py: error: price is missing."
