"""The real `ace skillbook` in processes of its own, with and without a terminal."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.cli.skillbook.conftest import contents
from tests.support.command_line import ACE, ace, command_environment


def test_help_lists_every_command(tmp_path: Path) -> None:
    done = ace("skillbook", "--help", folder=tmp_path)
    assert done.code == 0
    for name in (
        "show",
        "log",
        "diff",
        "blame",
        "add",
        "edit",
        "remove",
        "restore",
        "rollback",
        "export",
        "import",
        "merge",
        "prune",
        "dedup",
    ):
        assert f" {name} " in done.out


def test_a_day_with_a_skillbook(store: Path, playbook: Path, folder: Path) -> None:
    taken = ace("skillbook", "import", "play.txt", folder=folder)
    assert (taken.code, taken.err) == (0, "")
    assert ace("skillbook", "prune", "--yes", folder=folder).code == 0
    log = ace("skillbook", "log", folder=folder)
    assert (log.code, log.out.splitlines()[0]) == (0, "skills.db at version 7")
    assert "\x1b" not in log.out and "─" not in log.out
    unknown = ace("skillbook", "show", "maths-0001", folder=folder)
    assert (unknown.code, unknown.out) == (2, "")
    assert "did you mean 'maths-00001'?" in unknown.err


def test_the_skillbook_of_the_settings_is_used(json_book: Path, folder: Path) -> None:
    done = ace("skillbook", "show", folder=folder, environ={"ACE_SKILLBOOK": "skills.json"})
    assert done.out.startswith("skills.json: 2 of 2 skills")


def at_a_terminal(
    folder: Path, *arguments: str, answer: bytes = b"", kind: str = "xterm", columns: int = 100
) -> tuple[int, str]:
    """Run `ace skillbook` at a terminal, type the answer, and return exit code and screen."""
    ours, theirs = pty.openpty()
    environ = {**command_environment(folder), "COLUMNS": str(columns), "TERM": kind}
    process = subprocess.Popen(
        [ACE, "skillbook", *arguments], cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, answer)
    screen = b""
    try:
        while more := os.read(ours, 4096):
            screen += more
    except OSError:  # how Linux says that nobody holds the other end any more
        pass
    os.close(ours)
    return process.wait(), screen.decode("utf-8")


@pytest.mark.parametrize(("answer", "code", "skills"), [(b"n\n", 2, 4), (b"y\n", 0, 1)])
def test_at_a_terminal_a_rollback_asks(store: Path, folder: Path, answer: bytes, code: int, skills: int) -> None:
    done, screen = at_a_terminal(folder, "rollback", "1", answer=answer)
    assert "remove 3" in screen and "[y/N]" in screen
    assert done == code
    assert len(contents(store)) == skills


def test_a_question_needs_a_terminal_but_none_that_can_be_drawn_on(store: Path, folder: Path) -> None:
    done, screen = at_a_terminal(folder, "rollback", "1", answer=b"y\n", kind="dumb")
    assert (done, len(contents(store))) == (0, 1) and "[y/N]" in screen and "\x1b" not in screen


def test_a_question_that_cannot_be_asked_says_which_stream_is_not_a_terminal(store: Path, folder: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [ACE, "skillbook", "rollback", "1"],
            cwd=folder,
            env=command_environment(folder),
            stdin=theirs,
            capture_output=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert done.stderr.endswith(b", but standard error is not a terminal, so nothing was changed; pass --yes\n")
    assert len(contents(store)) == 4


def test_at_a_terminal_the_table_is_drawn(store: Path, folder: Path) -> None:
    code, screen = at_a_terminal(folder, "show")
    assert code == 0
    assert "┃" in screen and "Guess quickly." in screen


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120])
def test_ids_can_be_copied_and_texts_read_however_narrow_the_terminal_is(folder: Path, columns: int) -> None:
    text = " ".join(["word"] * 30)
    with Skillbook.open(folder / "long.db") as book:
        skill = book.add_skill("conventions", text)
    code, screen = at_a_terminal(folder, "show", "--skillbook", "long.db", columns=columns)
    screen = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    assert code == 0
    assert skill.id in screen
    assert all(len(line) <= columns for line in screen.splitlines())
    assert max(line.count("word") for line in screen.splitlines()) >= 2, screen
    assert screen.count("word") == 30


def test_a_table_that_does_not_fit_is_printed_as_one_list_for_each_row(folder: Path) -> None:
    with Skillbook.open(folder / "long.db") as book:
        book.add_skill("conventions", "Name a branch by its ticket, then two to four words with hyphens.")
        book.add_skill("money", "Divide by 100.")
    code, screen = at_a_terminal(folder, "show", "--skillbook", "long.db", columns=50)
    assert code == 0
    assert [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen).splitlines()] == [
        "long.db at version 2: 2 of 2 skills",
        "",
        "id       conventions-00001",
        "section  conventions",
        "helpful  0",
        "harmful  0",
        "neutral  0",
        "content  Name a branch by its ticket, then two to",
        "         four words with hyphens.",
        "",
        "id       money-00002",
        "section  money",
        "helpful  0",
        "harmful  0",
        "neutral  0",
        "content  Divide by 100.",
    ]
