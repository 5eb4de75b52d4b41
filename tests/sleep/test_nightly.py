"""`ace sleep --nightly`: what is written for each scheduler, with programs that behave like the real ones."""

from __future__ import annotations

import os
import plistlib
from pathlib import Path

import pytest

from tests.sleep.conftest import Machine

CRONTAB = """#!/bin/sh
if [ "$1" = "-l" ]; then test -f "$HOME/cron" && cat "$HOME/cron"; else cat > "$HOME/cron"; fi
"""
RECORDS = '#!/bin/sh\necho "$@" >> "$HOME/calls"\n'


def with_program(machine: Machine, name: str, text: str) -> None:
    """Give the machine one scheduler, and no other program but git and the shell's."""
    folder = machine.home / "bin"
    folder.mkdir()
    for tool in ("git", "sh", "cat", "test"):
        found = next(Path(part, tool) for part in os.environ["PATH"].split(":") if Path(part, tool).exists())
        (folder / tool).symlink_to(found)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o755)
    machine.environ = {**machine.environ, "PATH": str(folder)}


def calls(machine: Machine) -> list[str]:
    return (machine.home / "calls").read_text("utf-8").splitlines()


def test_cron_gets_one_line_and_keeps_the_others(machine: Machine) -> None:
    with_program(machine, "crontab", CRONTAB)
    (machine.home / "cron").write_text("5 4 * * * backup\n", encoding="utf-8")
    for time in ("03:00", "4:30"):
        done = machine.ace("sleep", "--no-model", "--nightly", time, "--agent", "codex")
        assert done.code == 0, done.err
    first, second = (machine.home / "cron").read_text("utf-8").splitlines()
    assert first == "5 4 * * * backup"
    assert second.startswith("30 4 * * * PATH=")
    assert second.endswith(
        "/ace sleep --budget 0.5 --minutes 30 --calls 60 --agent codex --no-model # ace sleep --nightly"
    )
    assert second in done.out
    assert machine.ace("sleep", "--off").out == "removed: the line in the crontab\n"
    assert (machine.home / "cron").read_text("utf-8") == "5 4 * * * backup\n"
    assert machine.ace("sleep", "--off").out == "Nothing was scheduled.\n"


def test_systemd_gets_a_timer_of_the_user(machine: Machine) -> None:
    with_program(machine, "systemctl", RECORDS)
    done = machine.ace("sleep", "--no-model", "--nightly", "03:00", "--project", machine.repo.root)
    assert done.code == 0, done.err
    folder = machine.home / ".config" / "systemd" / "user"
    timer, service = ((folder / f"ace-sleep.{kind}").read_text("utf-8") for kind in ("timer", "service"))
    assert "OnCalendar=*-*-* 03:00:00\nPersistent=true\n" in timer
    assert f'"--project" "{machine.repo.root}" "--no-model"\n' in service
    assert calls(machine)[1:] == ["--user daemon-reload", "--user enable --now ace-sleep.timer"]
    assert timer in done.out
    assert machine.ace("sleep", "--off").code == 0
    assert list(folder.iterdir()) == []
    assert "--user disable --now ace-sleep.timer" in calls(machine)


def test_launchd_gets_an_agent(machine: Machine) -> None:
    with_program(machine, "launchctl", RECORDS)
    done = machine.ace("sleep", "--no-model", "--nightly", "03:05")
    assert done.code == 0, done.err
    path = machine.home / "Library" / "LaunchAgents" / "ace.sleep.plist"
    found = plistlib.loads(path.read_bytes())
    assert found["StartCalendarInterval"] == {"Hour": 3, "Minute": 5}
    assert found["ProgramArguments"][1:] == [
        "sleep",
        "--budget",
        "0.5",
        "--minutes",
        "30",
        "--calls",
        "60",
        "--no-model",
    ]
    assert calls(machine) == [f"load -w {path}"]
    assert machine.ace("sleep", "--off").code == 0
    assert not path.exists()


def test_without_a_scheduler_that_is_said(machine: Machine) -> None:
    with_program(machine, "other", RECORDS)
    done = machine.ace("sleep", "--no-model", "--nightly", "03:00")
    assert done.code == 1
    assert "no systemd of the user, launchd or cron was found" in done.err


@pytest.mark.parametrize("time", ["25:00", "3", "03:60", "midnight"])
def test_a_time_that_is_none_is_a_usage_error(machine: Machine, time: str) -> None:
    done = machine.ace("sleep", "--no-model", "--nightly", time)
    assert (done.code, done.err) == (2, f"ace: --nightly takes a time such as 03:00, got {time!r}\n")
