"""`ace sleep` on sessions of agents that have no real binary here, from files in their formats."""

from __future__ import annotations

import pytest

from tests.sleep.conftest import Machine
from tests.sleep.test_night import LESSON
from tests.support.agent_sessions import RIGHT, WRONG, Read, Replace, Said, Shell, new_repo
from tests.support.other_agents import WRITERS, Writer

every_format = pytest.mark.parametrize(("title", "write"), WRITERS.items(), ids=WRITERS)


@every_format
def test_a_mistake_in_any_format_becomes_a_lesson_in_agents_md(machine: Machine, title: str, write: Writer) -> None:
    said = Said("No, never call it directly here.")
    write(machine.home, machine.repo.root, WRONG, said, Read("Makefile"), Shell(RIGHT, "1 passed"))
    found = machine.sleep()
    assert (found["sessions"], found["candidates"], found["proven"]) == (1, 1, 1)
    [lesson] = found["lessons"]
    assert (lesson["text"], lesson["project"]) == (LESSON, str(machine.repo.root))
    agent = title.partition(",")[0]
    assert lesson["evidence"][0] == f"PROVEN by running (grade A), seen in 1 session ({agent} 1)"
    assert lesson["evidence"][-1].endswith(f'{agent}): "{said.text}"')
    done = machine.ace("review", "--accept", lesson["id"])
    assert done.code == 0, done.err
    assert f"- {LESSON}\n" in (machine.repo.root / "AGENTS.md").read_text("utf-8")
    assert machine.sleep()["sessions"] == 0


@every_format
def test_an_edit_in_any_format_is_applied_and_proven(machine: Machine, title: str, write: Writer) -> None:
    check = "from shop import price\nassert price == 4, f'price is {price}'\nprint('1 passed')\n"
    machine.repo.commit({"check.py": check})
    before = machine.repo.bytes()
    red = Shell("python3 check.py", "AssertionError: price is 3", 1)
    edit = Replace("shop.py", "price = 3", "price = 4")
    write(machine.home, machine.repo.root, red, Read("shop.py"), edit, Shell("python3 check.py", "1 passed"))
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == 'If `python3 check.py` fails with "AssertionError: price is 3", change `shop.py`.'
    assert "grade B" in lesson["evidence"][0]
    assert machine.repo.bytes() == before


def test_a_folder_of_cursor_that_may_be_of_two_projects_is_of_neither(machine: Machine) -> None:
    one = new_repo(machine.home.parent / "a-b" / "c")
    new_repo(machine.home.parent / "a" / "b-c")
    WRITERS["Cursor agent transcripts"](machine.home, one.root, WRONG, Shell(RIGHT, "1 passed"))
    done = machine.ace("sleep", "--no-model")
    assert "do not say where they ran" in done.out + done.err
