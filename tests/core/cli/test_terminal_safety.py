"""Text from a trace cannot control the terminal, whichever command prints it; a file or a pipe gets it as it is."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, ace, command_environment

CONTROL = "red\x1b[31m c1\x9b31m bidi\u202etxt.exe\u2066 bell\x07 end"
FORBIDDEN = ("\x1b[31m", "\x9b", "\u202e", "\u2066", "\x07")


def on_a_terminal(folder: Path, *arguments: str, error_too: bool = True) -> str:
    """Run `ace` with a terminal as its output, and its error if `error_too`, and return what the terminal was sent."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [ACE, *arguments],
        cwd=folder,
        env={**command_environment(folder), "TERM": "xterm", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=other,
        stderr=other if error_too else subprocess.DEVNULL,
    )
    os.close(other)
    shown = bytearray()
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:  # the other end was closed
            break
        if not data:
            break
        shown += data
    process.wait()
    os.close(main)
    return shown.decode("utf-8").replace("\r\n", "\n")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as skillbook:
        skillbook.add_skill("ui", f"Old {CONTROL}", skill_id="ui-1")
        skillbook.commit(author=CONTROL)
        skillbook.update_skill("ui-1", content=f"Check {CONTROL}")
        skillbook.commit(author=CONTROL)
    return tmp_path


COMMANDS = [
    ["skillbook", "show"],
    ["skillbook", "show", "ui-1"],
    ["skillbook", "show", "--query", "Check"],
    ["skillbook", "log"],
    ["skillbook", "blame", "ui-1"],
    ["skillbook", "diff", "1"],
    ["skillbook", "export", "-"],
    ["skillbook", "dedup", "--dry-run"],
    ["skillbook", "edit", "ui-1", f"New {CONTROL}"],
    ["skillbook", "add", f"Another {CONTROL}", "--section", "ui"],
    ["skillbook", "show", CONTROL],
    ["skillbook", "show", "--skillbook", f"{CONTROL}.db"],
    ["learn", f"{CONTROL}.json", "--yes"],
]


@pytest.mark.parametrize("as_json", [False, True], ids=["", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:24])
def test_no_command_sends_control_characters_to_a_terminal(book: Path, command: list[str], as_json: bool) -> None:
    shown = on_a_terminal(book, *command, *(["--json"] if as_json and command[1] != "export" else []))
    assert shown
    assert [sign for sign in FORBIDDEN if sign in shown] == []


@pytest.mark.parametrize("as_json", [False, True], ids=["", "json"])
@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[2], COMMANDS[6]], ids=lambda command: " ".join(command)[:24])
def test_nor_where_standard_error_goes_elsewhere(book: Path, command: list[str], as_json: bool) -> None:
    options = ["--json"] if as_json and command[1] != "export" else []
    shown = on_a_terminal(book, *command, *options, error_too=False)
    assert shown
    assert [sign for sign in FORBIDDEN if sign in shown] == []


def test_the_json_of_a_terminal_is_the_same_object(book: Path) -> None:
    shown = on_a_terminal(book, "skillbook", "show", "--json")
    piped = ace("skillbook", "show", "--json", folder=book)
    assert json.loads(shown) == piped.data
    assert "\\u202e" in shown and "\u202e" in piped.out
