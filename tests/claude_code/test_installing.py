"""Installing and removing in every order, and killed in between: nothing is left. No binary is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.cli import main
from ace_claude_code.sessions.home import skillbook_path, state_folder
from ace_claude_code.sessions.installing import install, uninstall
from ace_claude_code.sessions.settings import SessionSettings
from tests.support.killed_changes import killed_before_change

pytestmark = pytest.mark.thorough

SETTINGS = SessionSettings(model="openai/gpt-4o-mini")

PROGRAM = """
from ace_claude_code.sessions.installing import install, uninstall
from ace_claude_code.sessions.settings import SessionSettings

{command}
"""
COMMANDS = {"install": "install(SessionSettings(model='openai/gpt-4o-mini'))", "uninstall": "uninstall()"}


def files_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def learn_something() -> None:
    path = skillbook_path(state_folder(), "-home-p")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")


def test_skills_that_were_kept_and_are_removed_later_leave_nothing(home: Path) -> None:
    install(SETTINGS)
    learn_something()
    assert uninstall(keep_skills=True)
    assert skillbook_path(state_folder(), "-home-p").exists()
    assert uninstall()
    assert files_in(home) == {}
    assert not uninstall()


def test_skills_that_were_kept_for_another_installation_leave_nothing(home: Path) -> None:
    install(SETTINGS)
    learn_something()
    uninstall(keep_skills=True)
    install(SETTINGS)
    uninstall()
    assert files_in(home) == {}


def test_the_folders_of_the_user_stay_though_they_are_empty(home: Path) -> None:
    (home / ".claude" / "skills").mkdir(parents=True)
    install(SETTINGS)
    uninstall(keep_skills=True)
    uninstall()
    assert files_in(home) == {".claude": None, ".claude/skills": None}


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_the_next_removal_finishes_what_was_killed(home: Path, command: str) -> None:
    point = 0
    was_killed = True
    while was_killed:
        point += 1
        if command == "uninstall":
            install(SETTINGS)
            learn_something()
        was_killed = killed_before_change(point, home, PROGRAM.format(command=COMMANDS[command]))
        uninstall()
        # Where nothing but empty folders was there, nobody can tell whose they are.
        assert files_in(home) in ({}, {".claude": None}), point
        if (home / ".claude").exists():
            (home / ".claude").rmdir()
    assert point > 5


@pytest.mark.parametrize("command", [("install",), ("learn", "--all")])
def test_an_address_without_a_model_is_wrong_usage(
    home: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claude-code", *command, "--api-base", "http://localhost:1/v1"]) == 2
    assert "--api-base is the address for --model; give that too" in capsys.readouterr().err
