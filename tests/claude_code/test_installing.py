"""Installing and removing in every order, and killed in between: nothing of the user is changed, nothing is left."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ace.cli import main
from ace_claude_code.sessions.home import skillbook_path, state_folder
from ace_claude_code.sessions.installing import install, uninstall
from ace_claude_code.sessions.settings import SessionSettings
from tests.claude_code.conftest import Ace, files_in
from tests.support.killed_changes import killed_before_change

SETTINGS = SessionSettings(model="openai/gpt-4o-mini")

PROGRAM = """
from ace_claude_code.sessions.installing import install, uninstall
from ace_claude_code.sessions.settings import SessionSettings

{command}
"""
COMMANDS = {"install": "install(SessionSettings(model='openai/gpt-4o-mini'))", "uninstall": "uninstall()"}


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
    assert "--api-base requires --model" in capsys.readouterr().err


def test_installing_and_removing_changes_no_byte_of_the_users_files(claude: str, home: Path, ace: Ace) -> None:
    ace("install", "--claude", claude)
    ace("uninstall")
    assert files_in(home) == {}
    folder = home / ".claude"
    (folder / "skills" / "mine").mkdir(parents=True)
    (folder / "skills" / "mine" / "SKILL.md").write_bytes(b"---\r\nname: mine\r\n---\r\n")
    (folder / "settings.json").write_bytes(b'{"hooks" : {}}')
    (folder / "CLAUDE.md").write_bytes(b"# Mine\n")
    (folder / "projects").mkdir()
    before = files_in(home)
    for _ in range(2):
        ace("install", "--claude", claude)
    assert {name: data for name, data in files_in(home).items() if name in before} == before
    checked = subprocess.run(
        [claude, "plugin", "validate", str(folder / "skills" / "ace-learning")], capture_output=True, encoding="utf-8"
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ace("uninstall")
    left = {name: data for name, data in files_in(home).items() if "ace" in name}
    assert left == {}
    assert {name: data for name, data in files_in(home).items() if name in before} == before
    assert ace("uninstall")["out"] == "Nothing was installed.\n"


def test_what_is_learned_is_readable_for_the_user_only(claude: str, home: Path, ace: Ace) -> None:
    ace("install", "--claude", claude)
    assert (home / ".claude" / "ace").stat().st_mode & 0o777 == 0o700


def test_with_another_model_no_binary_is_needed(home: Path, ace: Ace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "is not on PATH" in ace("install", code=2)["err"]
    ace("install", "--model", "openai/gpt-4o-mini")
    assert "openai/gpt-4o-mini learns" in ace("status")["out"]


def test_a_plugin_of_somebody_else_is_left_alone(claude: str, home: Path, ace: Ace) -> None:
    folder = home / ".claude" / "skills" / "ace-learning"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("mine", encoding="utf-8")
    before = files_in(home)
    for command in (["install", "--claude", claude], ["uninstall"]):
        assert "was not installed by ACE; move it away first" in ace(*command, code=2)["err"]
    assert files_in(home) == before


def test_a_missing_binary_is_told_by_the_installation(home: Path, ace: Ace) -> None:
    assert "which is not a program" in ace("install", "--claude", str(home / "gone"), code=2)["err"]
    assert files_in(home) == {}
