"""The hook of `bd`: it returns at once, and its learner survives the kill of its process group."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ace.integrations import JobQueue
from tests.beads.conftest import Tracker, only_fake
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import ScriptedServer

BASH = '#!/usr/bin/env bash\nset -eu\ncat > "$PWD/issue.json"\nexit 0\n'


def queue_of(tracker: Tracker) -> JobQueue:
    return JobQueue(tracker.folder / ".beads" / "ace")


def hook_of(tracker: Tracker) -> Path:
    return tracker.folder / ".beads" / "hooks" / "on_close"


def wait_for_file(path: Path) -> str:
    while not path.exists() or not path.read_text(encoding="utf-8"):
        time.sleep(0.05)
    return path.read_text(encoding="utf-8")


def wait_for_request(server: ScriptedServer) -> None:
    """Wait until the learner is at work."""
    while not server.requests:
        time.sleep(0.05)


def wait_until_learned(tracker: Tracker) -> None:
    while not tracker.insights():
        time.sleep(0.1)
    while queue_of(tracker).waiting():
        time.sleep(0.05)


def capture(tracker: Tracker, issue: str) -> None:
    arguments = ("--task", issue, "--outcome", "failure", "--description", "LESSON imports")
    assert tracker.run("capture", *arguments, folder=tracker.folder).code == 0


def every_file(tracker: Tracker) -> dict[str, bytes]:
    """The files of the project without those of the tracker's data."""
    files = (path for path in tracker.folder.rglob("*") if path.is_file() and "issues." not in path.name)
    return {str(path.relative_to(tracker.folder)): path.read_bytes() for path in files}


def test_an_issue_that_bd_closes_is_learned_from(tracker: Tracker, issue: str) -> None:
    capture(tracker, issue)
    assert tracker.ace("install").code == 0
    assert hook_of(tracker).stat().st_mode & stat.S_IXUSR
    tracker.bd("close", issue)
    wait_until_learned(tracker)
    assert tracker.insights() == ["Remember LESSON imports."]


def test_the_hook_returns_while_the_model_is_still_asked_and_its_learner_survives_its_kill(
    tracker: Tracker, issue: str, model_answers: threading.Event, server: ScriptedServer
) -> None:
    capture(tracker, issue)
    tracker.ace("install")
    with hook_of(tracker).open("a", encoding="utf-8") as script:
        script.write("echo done > hook-went-on\nsleep 600\n")
    model_answers.clear()
    hook = subprocess.Popen(
        [hook_of(tracker), issue, "close"],
        cwd=tracker.folder,
        env=command_environment(tracker.folder, tracker.environ),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for_file(tracker.folder / "hook-went-on")
    wait_for_request(server)
    assert [job.field("task_id") for job in queue_of(tracker).waiting()] == [issue]
    os.killpg(hook.pid, signal.SIGKILL)
    hook.wait()
    model_answers.set()
    wait_until_learned(tracker)


@only_fake
def test_bd_kills_a_hook_that_takes_too_long_and_its_learner_survives(
    tracker: Tracker, issue: str, model_answers: threading.Event, server: ScriptedServer
) -> None:
    capture(tracker, issue)
    tracker.ace("install")
    with hook_of(tracker).open("a", encoding="utf-8") as script:
        script.write("echo $$ > pid\nsleep 600\n")
    model_answers.clear()
    tracker.bd("close", issue, environ={"FAKE_BD_KILL_FILE": str(tracker.folder / "kill")})
    process = int(wait_for_file(tracker.folder / "pid"))
    wait_for_request(server)
    (tracker.folder / "kill").touch()
    while Path(f"/proc/{process}").exists():
        time.sleep(0.05)
    model_answers.set()
    wait_until_learned(tracker)


def test_the_hook_does_nothing_for_what_ace_itself_closes(tracker: Tracker, issue: str) -> None:
    tracker.ace("install")
    with hook_of(tracker).open("a", encoding="utf-8") as script:
        script.write('echo "learning: $ACE_LEARNING" > variable\n')
    assert tracker.ace("close", issue, "--no-learn").code == 0
    assert wait_for_file(tracker.folder / "variable") == "learning: 1\n"
    done = tracker.ace("hook", "close", issue, environ={"ACE_LEARNING": "1"})
    assert (done.code, done.out) == (0, "")
    assert queue_of(tracker).waiting() == []
    assert not queue_of(tracker).log.exists()


def test_an_issue_without_attempts_is_removed_from_the_queue(tracker: Tracker, issue: str) -> None:
    assert tracker.ace_process("hook", "close", issue).code == 0
    while queue_of(tracker).waiting():
        time.sleep(0.05)
    assert f"{issue}: logs/execution_traces.jsonl has no attempts at it" in wait_for_file(queue_of(tracker).log)


def test_jobs_that_cannot_be_done_are_kept_with_their_error(tracker: Tracker, issue: str) -> None:
    capture(tracker, issue)
    queue = queue_of(tracker)
    queue.add({"task_id": "--status", "folder": str(tracker.folder)})
    queue.add({"task_id": issue, "folder": "/nowhere"})
    queue.add({"task_id": issue, "folder": str(tracker.folder)})
    queue.add({"task_id": issue, "folder": str(tracker.folder)})
    done = subprocess.run(
        [sys.executable, "-m", "ace_beads.learner"],
        cwd=queue.folder,
        env=command_environment(tracker.folder, {**tracker.environ, "ACE_MODEL": "openai/unknown"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    first, second, third, fourth = queue.waiting()
    assert [job.attempts for job in (first, second, third, fourth)] == [1, 1, 0, 0]
    assert "'--status' is not a task id" in first.error
    assert "No such file or directory: '/nowhere'" in second.error
    assert "openai/unknown" in third.error
    assert fourth.error == ""  # no model, so the rest waits
    status = tracker.ace("status", "--json")
    assert (status.code, [task["task_id"] for task in status.data["waiting"]]) == (1, ["--status", issue, issue, issue])


@pytest.mark.parametrize("arguments", [["hook", "close", "bd;1"], ["hook", "close"], ["hook", "update", "bd-1"]])
def test_wrong_events_are_a_sentence(tracker: Tracker, arguments: list[str]) -> None:
    done = tracker.ace(*arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert not queue_of(tracker).folder.exists()


def test_uninstalling_leaves_nothing_behind(tracker: Tracker, issue: str) -> None:
    before = every_file(tracker)
    assert tracker.ace("install").code == 0
    assert tracker.ace("install").code == 0
    assert queue_of(tracker).add({"task_id": issue, "folder": str(tracker.folder)}).exists()
    assert tracker.ace("uninstall").out == "Removed.\n"
    assert every_file(tracker) == before
    assert not hook_of(tracker).parent.exists()
    assert tracker.ace("uninstall").out == "Nothing was installed.\n"


@pytest.mark.parametrize(
    "script",
    [
        BASH,
        "#!/bin/sh\n",
        "#!/bin/sh",
        "#!/usr/bin/env -S bash -e\necho no line feed at the end",
        "#!/bin/sh -e\n# \udcff not UTF-8\n\n\nexit 0\n",
    ],
)
def test_an_existing_script_keeps_every_other_byte(tracker: Tracker, script: str) -> None:
    original = script.encode("utf-8", "surrogateescape")
    hook = hook_of(tracker)
    hook.parent.mkdir()
    hook.write_bytes(original)
    hook.chmod(0o755)
    assert tracker.ace("install").code == 0
    first = hook.read_bytes()
    assert all(line in first.splitlines() for line in original.splitlines())
    assert subprocess.run(["sh", "-n", hook], check=False).returncode == 0
    tracker.ace("install")
    assert hook.read_bytes() == first
    assert tracker.ace("uninstall").code == 0
    assert hook.read_bytes() == original
    assert stat.S_IMODE(hook.stat().st_mode) == 0o755


def test_a_section_of_another_installation_is_replaced_and_reported(tracker: Tracker) -> None:
    hook = hook_of(tracker)
    hook.parent.mkdir()
    hook.write_text(BASH, encoding="utf-8")
    hook.chmod(0o755)
    tracker.ace("install")
    ours = hook.read_text(encoding="utf-8")
    hook.write_text(ours.replace(str(ACE), "/gone/bin/ace"), encoding="utf-8")
    status = tracker.ace("status")
    assert status.code == 1
    assert "was written by another installation of ACE; run 'ace beads install' again" in status.err
    tracker.ace("install")
    assert hook.read_text(encoding="utf-8") == ours
    assert tracker.ace("status").code == 0


def test_the_existing_script_still_reads_the_issue_and_a_failing_learner_does_not_stop_it(
    tracker: Tracker, issue: str
) -> None:
    hook = hook_of(tracker)
    hook.parent.mkdir()
    hook.write_text(BASH, encoding="utf-8")
    hook.chmod(0o755)
    tracker.ace("install")
    hook.write_text(hook.read_text(encoding="utf-8").replace(str(ACE), "/bin/false"), encoding="utf-8")
    tracker.bd("close", issue)
    found = json.loads(wait_for_file(tracker.folder / "issue.json"))
    assert (found["id"], found["status"]) == (issue, "closed")


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("#!/usr/bin/env python3\n", 0o755, "is not a shell script (it begins with '#!/usr/bin/env python3')"),
        ("", 0o755, "is not a shell script"),
        ("\x7fELF", 0o755, "is not a shell script"),
        (BASH, 0o644, "is not executable, so bd does not call it"),
    ],
)
def test_a_file_that_cannot_take_the_section_is_not_changed(
    tracker: Tracker, content: str, mode: int, said: str
) -> None:
    hook = hook_of(tracker)
    hook.parent.mkdir()
    hook.write_text(content, encoding="utf-8")
    hook.chmod(mode)
    done = tracker.ace("install")
    assert done.code == 1
    assert said in done.err
    assert hook.read_text(encoding="utf-8") == content


def test_installing_without_bd_is_refused(tracker: Tracker) -> None:
    done = tracker.ace("install", environ={"ACE_BD_BINARY": "/nowhere/bd"})
    assert (done.code, hook_of(tracker).exists()) == (2, False)
    assert "install bd (https://github.com/steveyegge/beads)" in done.err


def test_the_status_shows_the_hook_the_version_the_test_and_the_queue(tracker: Tracker) -> None:
    before = tracker.ace("status")
    assert before.code == 0
    assert "hook     not installed; run 'ace beads install'\n" in before.out
    (tracker.folder / "ace.toml").write_text('[beads]\ntest = "pytest -q"\n', encoding="utf-8")
    tracker.ace("install")
    queue = queue_of(tracker)
    queue.add({"task_id": "bd-7", "folder": str(tracker.folder)})
    queue.add({"task_id": "bd-8", "folder": str(tracker.folder)})
    for _ in range(3):
        queue.note_failure(queue.waiting()[-1] if len(queue.waiting()) > 1 else queue.failed()[0], "no answer")
    done = tracker.ace("status")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == f"project  {tracker.folder}"
    assert lines[2:] == [
        f"hook     installed in {hook_of(tracker)}",
        "test     pytest -q",
        "queue    1 issue waiting, 1 failed",
        "         bd-7",
        "         bd-8 failed; run 'ace learn --task bd-8'",
    ]
    assert "ace: no answer" in done.err


def test_the_status_without_bd_says_where_to_get_it(tracker: Tracker) -> None:
    done = tracker.ace("status", environ={"ACE_BD_BINARY": "/nowhere/bd"})
    assert done.code == 1
    assert "bd       cannot be called" in done.out
    assert "install bd" in done.err
