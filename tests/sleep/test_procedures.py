"""Procedures that sessions repeat: skill folders after the specification, and nothing left after an undo."""

from __future__ import annotations

import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from skills_ref.parser import read_properties
from skills_ref.validator import validate

from tests.sleep.conftest import Machine
from tests.support.agent_sessions import BEGAN, Read, Shell

STEPS = (Shell("echo > built.txt", "1"), Shell("make check", "1 passed"), Shell("tar -cf shop.tar built.txt"))
TASKS = ("Package release 1.2 please", "Package release 1.3 now")


def repeated(machine: Machine, *steps: Shell) -> None:
    machine.claude(*steps, task=TASKS[0])
    machine.codex(Shell("ls"), *steps, Shell("false", "", 1), task=TASKS[1], began=BEGAN + timedelta(hours=1))


def proposed(machine: Machine) -> str:
    repeated(machine, *(Shell(step.command.replace("echo", "touch").replace(" >", "")) for step in STEPS))
    [lesson] = machine.sleep()["lessons"]
    assert lesson["evidence"] == [
        "NOT PROVEN: the same commands in the same order, seen in 2 sessions (Claude Code 1, Codex CLI 1)"
    ]
    return str(lesson["id"])


@pytest.fixture
def id(machine: Machine) -> str:
    return proposed(machine)


def test_a_procedure_becomes_a_skill_folder_that_the_specification_accepts(machine: Machine, id: str) -> None:
    before = machine.repo.bytes()
    assert not (machine.repo.root / ".agents").exists()
    assert machine.ace("review", "--accept", id).code == 0
    for place in (".agents", ".claude"):
        folder = machine.repo.root / place / "skills" / "package-release"
        assert validate(folder) == []
        found = read_properties(folder)
        assert found.name == "package-release"
        assert TASKS[0] in found.description
        assert found.metadata["written-by"] == "ace"
        text = (folder / "SKILL.md").read_text("utf-8")
        assert "1. `touch built.txt`" in text
        assert len(text.splitlines()) < 500
    assert not (machine.repo.root / "AGENTS.md").exists()
    assert machine.ace("undo", id).code == 0
    assert machine.repo.bytes() == before
    assert not (machine.repo.root / ".agents").exists()
    assert not (machine.repo.root / ".claude").exists()


def test_the_script_runs_the_steps_in_the_folder_of_the_repository(machine: Machine, id: str, tmp_path: Path) -> None:
    assert machine.ace("review", "--accept", id).code == 0
    script = machine.repo.root / ".claude/skills/package-release/scripts/run.sh"
    done = subprocess.run([script], cwd=tmp_path, env={"PATH": os.environ["PATH"]}, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (machine.repo.root / "shop.tar").exists()


def test_steps_that_would_do_harm_are_not_in_a_script(machine: Machine) -> None:
    repeated(machine, Shell("make check"), Shell("git tag v1"), Shell("git push origin main"))
    [lesson] = machine.sleep()["lessons"]
    assert machine.ace("review", "--accept", lesson["id"]).code == 0
    folder = machine.repo.root / ".agents/skills/package-release"
    assert [path.name for path in folder.iterdir()] == ["SKILL.md"]
    assert "run.sh" not in (folder / "SKILL.md").read_text("utf-8")


@pytest.mark.parametrize("linked", [".agents", ".claude/skills", ".agents/skills/package-release"])
def test_a_skill_folder_is_not_written_through_a_link(machine: Machine, id: str, linked: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (machine.repo.root / linked).parent.mkdir(parents=True, exist_ok=True)
    (machine.repo.root / linked).symlink_to(outside)
    done = machine.ace("review", "--accept", id)
    assert done.code == 1
    assert "is a link, which is not followed" in done.err
    assert list(outside.iterdir()) == []


def test_a_skill_of_the_user_is_not_overwritten(machine: Machine, id: str) -> None:
    mine = machine.repo.root / ".agents/skills/package-release/SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", encoding="utf-8")
    done = machine.ace("review", "--accept", id)
    assert (done.code, "exists already" in done.err) == (1, True)
    assert mine.read_text("utf-8") == "mine"


def test_an_edited_skill_is_left_to_the_one_who_edited_it(machine: Machine, id: str) -> None:
    assert machine.ace("review", "--accept", id).code == 0
    edited = machine.repo.root / ".agents/skills/package-release/SKILL.md"
    edited.write_text(edited.read_text("utf-8") + "My own line.\n", encoding="utf-8")
    assert machine.ace("undo", id).code == 0
    assert "My own line." in edited.read_text("utf-8")
    assert not (machine.repo.root / ".claude").exists()


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((Shell("make check"), Shell("git tag v1")), id="two steps"),
        pytest.param((Shell("make check"),) * 4, id="one step, often"),
        pytest.param(
            (Shell("make check"), Shell("git tag v1"), Shell("false", "", 1), Shell("make a")), id="a failure"
        ),
        pytest.param((Shell("ls"), Shell("cat shop.py"), Shell("git status")), id="looking"),
    ],
)
def test_what_is_no_procedure(machine: Machine, steps: tuple[Shell, ...]) -> None:
    repeated(machine, *steps)
    assert machine.sleep()["lessons"] == []


def test_the_status_counts_the_sessions_that_opened_the_skill(machine: Machine, id: str) -> None:
    assert machine.ace("review", "--accept", id).code == 0
    machine.claude(Read(".claude/skills/package-release/SKILL.md"), began=BEGAN + timedelta(days=3650))
    machine.sleep()
    [lesson] = machine.ace("sleep", "status", "--json").data["projects"][0]["live"]
    assert (lesson["id"], lesson["lands"], lesson["uses"], lesson["failures"]) == (id, "folder", 1, 0)
