"""Standard streams that are closed, gone or full: a command does its work, and ends with a sentence at most."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import ScriptedServer

TRACES = 6
WATCHDOG = 200
"""Seconds after which a command counts as hanging. No command here takes more than a few."""


def shell(line: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run `ace` with some arguments inside a line of the shell, where `$ACE` stands for it."""
    return subprocess.run(
        ["bash", "-c", line.replace("$ACE", '"$0" "$@"'), str(ACE), *arguments],
        cwd=folder,
        env=command_environment(folder),
        capture_output=True,
        check=False,
        timeout=WATCHDOG,
    )


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    records = [{"task": f"t{number}", "answer": f"LESSON w{number} GHOST"} for number in range(TRACES)]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "line",
    [
        "$ACE 2>&-",
        "$ACE 2> >(exec 0<&-)",
        "$ACE 2>/dev/full",
        "$ACE >&- 2>&- <&-",
        "($ACE; echo $? >code) 2>&1 | head -0; exit $(cat code)",
        "(sleep 1; $ACE; echo $? >code) 2>&1 | true; exit $(cat code)",
    ],
)
def test_a_run_whose_standard_error_is_gone_learns_everything(
    tmp_path: Path, traces: Path, model: list[str], line: str
) -> None:
    done = shell(line, "learn", traces.name, "--skillbook", "s.db", *model, folder=tmp_path)
    assert done.returncode in (0, 1), done
    assert b"Traceback" not in done.stdout + done.stderr
    with Skillbook.open(tmp_path / "s.db") as book:
        learned = {source.trace_id for skill in book.skills() for source in skill.sources}
    assert len(learned) == TRACES


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_report_that_cannot_be_printed_is_no_wrong_usage(
    tmp_path: Path, traces: Path, model: list[str], options: list[str]
) -> None:
    done = shell("$ACE >/dev/full", "learn", traces.name, "--skillbook", "s.db", *options, *model, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == (
        "ace: standard output cannot be written: No space left on device; what the command has changed is kept"
    )
    with Skillbook.open(tmp_path / "s.db") as book:
        assert len(book) == TRACES


COMMANDS = [
    ["--version"],
    ["--help"],
    ["nonsense"],
    ["ask", "--help"],
    ["ask", "What about w1?", "--skillbook", "s.json"],
    ["ask", "-", "--skillbook", "s.json"],
    ["ask", "q", "--skillbook", "missing.db"],
    ["completion", "bash"],
    ["config"],
    ["eval", "samples.jsonl", "--skillbook", "s.json"],
    ["learn", "t.jsonl", "--skillbook", "learned.db"],
    ["learn", "-", "--skillbook", "learned.db"],
    ["learn", "missing.jsonl"],
    ["models", "list"],
    ["models", "pull", "no-such-model"],
    ["plugins"],
    ["skillbook", "show", "--skillbook", "s.json"],
    ["skillbook", "log", "--skillbook", "s.db"],
    ["skillbook", "blame", "--skillbook", "s.db"],
    ["skillbook", "diff", "1", "--skillbook", "s.db"],
    ["skillbook", "export", "--skillbook", "s.json", "out.md"],
    ["skillbook", "import", "s.json", "--skillbook", "other.db", "--yes"],
    ["skillbook", "merge", "s.json", "--skillbook", "other.db", "--yes"],
    ["skillbook", "prune", "--skillbook", "s.db", "--yes"],
    ["skillbook", "dedup", "--skillbook", "s.db", "--yes"],
    ["skillbook", "rollback", "0", "--skillbook", "s.db", "--yes"],
    ["train", "samples.jsonl", "--skillbook", "trained.db"],
    ["claude-code", "--help"],
    ["openclaw", "--help"],
]
LINES = [
    "$ACE 2>&-",
    "$ACE >&-",
    "$ACE <&- >&- 2>&-",
    "$ACE <&-",
    "$ACE >/dev/full",
    "$ACE | head -0; exit ${PIPESTATUS[0]}",
]
ASKS_A_MODEL = {"ask", "eval", "learn", "train"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_a_traceback_when_a_stream_is_gone(
    tmp_path: Path, server: ScriptedServer, model: list[str], traces: Path, command: list[str]
) -> None:
    sample = {"question": "What about w1?", "ground_truth": "LESSON w1"}
    (tmp_path / "samples.jsonl").write_text(f"{json.dumps(sample)}\n", encoding="utf-8")
    book = Skillbook()
    book.add_skill("lessons", "Remember LESSON w1.")
    book.save_to_file(tmp_path / "s.json")
    with Skillbook.open(tmp_path / "s.db") as stored:
        stored.add_skill("lessons", "Remember LESSON w1.")
    asked = [*command, *model] if command[0] in ASKS_A_MODEL and "--help" not in command else command
    # All commands handle their streams alike: a command meets one of the lines, and a line some five commands.
    line = LINES[COMMANDS.index(command) % len(LINES)]
    done = shell(line, *asked, folder=tmp_path)
    assert done.returncode in (0, 1, 2), (line, done)
    assert b"Traceback" not in done.stdout + done.stderr, (line, done.stderr.decode())
    assert b"Exception ignored" not in done.stderr, (line, done.stderr.decode())
    assert done.stderr.count(b"\nace: ") <= 2, (line, done.stderr.decode())
    with Skillbook.open(tmp_path / "s.db"):
        pass  # nothing was written into the store in place of standard error


def test_what_a_broken_observer_raises_is_logged_and_a_broken_log_handler_harms_nothing() -> None:
    import logging

    from ace.protocols.observers import SkillsChanged, emit, observing

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise BrokenPipeError(32, os.strerror(32))

    def watcher(event: object) -> None:
        raise ValueError("watching failed")

    seen: list[object] = []
    logger = logging.getLogger("ace.protocols.observers")
    handler = Broken()
    logger.addHandler(handler)
    try:
        with observing(watcher), observing(seen.append):
            emit(SkillsChanged("run", "trace", (), ()))
    finally:
        logger.removeHandler(handler)
    assert len(seen) == 1
