"""What becomes of accepted lessons."""

from __future__ import annotations

from datetime import timedelta

from ace.skillbook import Skillbook
from tests.sleep.conftest import Machine
from tests.sleep.test_night import LESSON
from tests.support.agent_sessions import BEGAN, CHECK, MISTAKE, RIGHT, WRONG, Rejected, Shell

LATER = BEGAN + timedelta(days=3650)


def accepted(machine: Machine) -> str:
    machine.claude(*MISTAKE)
    [lesson] = machine.sleep()["lessons"]
    assert machine.ace("review", "--accept", lesson["id"]).code == 0
    return str(lesson["id"])


def test_the_status_counts_uses_and_failures_in_later_sessions(machine: Machine) -> None:
    id = accepted(machine)
    machine.claude(Shell(RIGHT, "1 passed"), began=LATER)
    machine.codex(Shell(f"{RIGHT} 2>&1 | tail -3", "1 passed"), WRONG, began=LATER)
    machine.claude(Shell("ls"), began=LATER + timedelta(hours=1))
    machine.sleep()
    [lesson] = machine.ace("sleep", "status", "--json").data["projects"][0]["live"]
    assert (lesson["text"], lesson["uses"], lesson["failures"]) == (LESSON, 2, 1)
    assert f"[{id}] in the block since 20" in machine.ace("sleep", "status").out
    assert "used in 2 sessions, failed in 1" in machine.ace("sleep", "status").out


def test_a_lesson_whose_command_fails_now_is_proposed_for_removal(machine: Machine) -> None:
    id = accepted(machine)
    assert machine.sleep()["lessons"] == []
    machine.repo.commit({"Makefile": "verify:\n\t@true\n", "run_tests.py": CHECK + "\n"})
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == f"Remove {id}, because `{RIGHT}` fails now. It says: {LESSON}"
    assert LESSON in (machine.repo.root / "AGENTS.md").read_text("utf-8")
    assert machine.sleep()["lessons"] == []
    assert machine.ace("review", "--accept", lesson["id"]).code == 0
    assert not (machine.repo.root / "AGENTS.md").exists()
    assert machine.ace("undo", lesson["id"]).code == 0
    assert LESSON in (machine.repo.root / "AGENTS.md").read_text("utf-8")
    assert machine.ace("review", "--reject", lesson["id"], "--because", "Keep it.").code == 0
    assert machine.sleep()["lessons"] == []


def test_when_the_block_is_full_the_least_used_lesson_is_proposed_for_removal(machine: Machine) -> None:
    id = accepted(machine)
    machine.claude(Shell(RIGHT, "1 passed"), began=LATER)
    machine.claude(Rejected(Shell("git push")), began=LATER)
    machine.claude(Rejected(Shell("git push")), began=LATER + timedelta(hours=1))
    [ask] = machine.sleep()["lessons"]
    with Skillbook.open(ask["skillbook"]) as book:
        for number in range(38):
            book.add_skill("notes", f"Lesson {number}.")
    assert machine.ace("review", "--accept", ask["id"]).code == 0
    [lesson] = machine.sleep()["lessons"]
    assert "because 40 is the most, and it is the least used." in lesson["text"]
    assert id not in lesson["text"]  # it was used once, and the others never
