"""The client of `bd`, which is run as a real process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ace_beads import Bead, BeadsClient, BeadsError, BeadsNotFoundError, BeadsTimeoutError
from tests.beads.conftest import BD, Tracker, only_fake
from tests.support.subprocesses import run_python


@pytest.fixture
def client(tracker: Tracker) -> BeadsClient:
    return BeadsClient(BD, tracker.folder)


@pytest.mark.parametrize("envelope", ["0", "1"])
def test_an_issue_is_shown_and_closed_in_both_forms_of_the_json(
    client: BeadsClient, issue: str, monkeypatch: pytest.MonkeyPatch, envelope: str
) -> None:
    monkeypatch.setenv("BD_JSON_ENVELOPE", envelope)
    shown = client.show(issue)
    assert (shown.id, shown.title, shown.description) == (issue, "Fix the imports", "LESSON imports")
    assert (shown.status, shown.issue_type, shown.priority, shown.is_closed) == ("open", "task", 2, False)
    closed = client.close(issue, "--reason or not")
    assert (closed.id, closed.is_closed) == (issue, True)
    assert client.show(issue).close_reason == "--reason or not"


def test_the_version_is_a_number(client: BeadsClient) -> None:
    assert client.version()[0].isdigit()


@only_fake
def test_another_version_has_the_envelope(client: BeadsClient, issue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BD_VERSION", "2.0.0")
    assert client.version() == "2.0.0"
    assert client.show(issue).labels == ("imports",)
    assert client.close(issue).is_closed


def test_an_unknown_issue_is_an_error_with_the_words_of_bd(client: BeadsClient) -> None:
    with pytest.raises(BeadsError, match=r"'bd show bd-99' failed: .*bd-99"):
        client.show("bd-99")
    with pytest.raises(BeadsError, match="'bd close bd-99' failed: "):
        client.close("bd-99")


def test_an_option_is_not_an_id(client: BeadsClient) -> None:
    with pytest.raises(ValueError, match="'--help' is not a task id"):
        client.show("--help")
    with pytest.raises(ValueError, match="is not a task id"):
        client.close("bd-1; true")


def test_a_missing_program_and_a_missing_folder_are_told_apart(tracker: Tracker, tmp_path: Path) -> None:
    with pytest.raises(BeadsNotFoundError, match=r"'/nowhere/bd' was not found: install bd .*ACE_BD_BINARY"):
        BeadsClient("/nowhere/bd", tracker.folder).version()
    with pytest.raises(BeadsNotFoundError, match="no such folder"):
        BeadsClient(BD, tmp_path / "gone").version()
    with pytest.raises(BeadsNotFoundError, match="cannot be started: Permission denied"):
        BeadsClient(str(tracker.folder), tracker.folder).version()


@only_fake
@pytest.mark.parametrize(("fault", "said"), [("nonsense", "Everything is fine."), ("other", "--status")])
def test_what_is_not_an_issue_is_quoted(
    client: BeadsClient, issue: str, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    monkeypatch.setenv("FAKE_BD_FAULT", f"show:{fault},close:{fault}")
    with pytest.raises(BeadsError, match=f"'bd show {issue} --json' did not print issues as JSON, but .*{said}"):
        client.show(issue)
    with pytest.raises(BeadsError, match=f"'bd close {issue} --json' did not print issues"):
        client.close(issue)


def test_no_version_and_no_output_are_errors() -> None:
    with pytest.raises(BeadsError, match="printed no version: nothing"):
        BeadsClient("true").version()
    with pytest.raises(BeadsError, match="did not print issues as JSON, but nothing"):
        BeadsClient("true").show("bd-1")
    with pytest.raises(BeadsError, match="'bd version' failed: exit code 1"):
        BeadsClient("false").version()


def test_a_program_that_hangs_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    program = tmp_path / "bd"
    program.write_text("#!/bin/sh\nsleep 600 & echo $! > child\nwait\n", encoding="utf-8")
    program.chmod(0o755)
    written, seconds = "", 0.5
    while not written:  # on a busy machine, it may be killed before it has started anything
        with pytest.raises(BeadsTimeoutError, match=rf"'bd show' did not end within {seconds:g} s, and was killed"):
            BeadsClient(str(program), tmp_path, timeout=seconds).show("bd-1")
        written = (tmp_path / "child").read_text(encoding="utf-8") if (tmp_path / "child").exists() else ""
        seconds *= 2
    child = int(written)
    while _is_running(child):
        time.sleep(0.01)


def test_a_process_that_bd_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "bd"
    program.write_text("#!/bin/sh\nsleep 600 & echo $! > child\necho bd version 1.2.3\n", encoding="utf-8")
    program.chmod(0o755)
    assert BeadsClient(str(program), tmp_path).version() == "1.2.3"
    os.kill(int((tmp_path / "child").read_text(encoding="utf-8")), 9)


INTERRUPTED = """
import contextlib, faulthandler, signal, subprocess
from pathlib import Path
from ace_beads import BeadsClient, BeadsError, client
from tests.support.ctrl_c import interrupted_at, is_inside

FILES = {client.__file__, subprocess.__file__}

def counts(frame):
    if frame.f_code.co_filename not in FILES or not is_inside(frame, client.__file__):
        return False
    while frame is not None and frame.f_code is not subprocess.Popen.__del__.__code__:
        frame = frame.f_back
    return frame is None  # Python only prints what is raised in a finalizer

def show():
    with contextlib.suppress(BeadsError):
        BeadsClient(PROGRAM, Path.cwd()).show("bd-1")

signal.signal(signal.SIGINT, signal.default_int_handler)
moment = 1
while interrupted_at(moment, show, counts=counts):
    faulthandler.dump_traceback_later(120, exit=True)  # otherwise, a lock of the process is waited for
    moment += 1
print("survived", moment > 30)
"""


def test_ctrl_c_at_every_moment_is_raised(tmp_path: Path) -> None:
    program = tmp_path / "bd"
    program.write_text("#!/bin/sh\nexec sleep 0.02\n", encoding="utf-8")
    program.chmod(0o755)
    assert run_python(INTERRUPTED.replace("PROGRAM", repr(str(program)))).stdout == "survived True\n"


def test_a_bead_is_data() -> None:
    assert Bead(id="bd-1", title="x", status="closed").is_closed


def _is_running(process: int) -> bool:
    """Whether a process runs. A killed one that nothing waits for is still in the table."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
