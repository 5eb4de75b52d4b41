"""`ace beads close`: tests, the trace, learning, and only then `bd close`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ace.integrations import JobQueue
from tests.beads.conftest import Tracker, only_fake
from tests.support.command_line import ACE, command_environment

FAILING = f"{sys.executable} -c \"print('FAILED tests/test_a.py::test_a - LESSON testing'); raise SystemExit(3)\""

_STEPS = ["test     ", "capture  ", "learn    ", "close    "]


def queue_of(tracker: Tracker) -> JobQueue:
    return JobQueue(tracker.folder / ".beads" / "ace")


def wait_until_learned(tracker: Tracker) -> None:
    while queue_of(tracker).waiting():
        time.sleep(0.05)


def test_an_issue_whose_tests_pass_is_learned_from_and_closed(tracker: Tracker, issue: str) -> None:
    (tracker.folder / "ace.toml").write_text("[beads]\ntest = \"sh -c 'test $ACE_TASK = bd-1'\"\n", encoding="utf-8")
    log = tracker.folder / "logs" / "execution_traces.jsonl"
    log.parent.mkdir()
    bad = '{"bead_id": "--status", "outcome": "success"}\n'  # real logs contain such lines
    log.write_text(bad, encoding="utf-8")
    done = tracker.ace("close", issue, "--reason", "All is well")
    assert done.code == 0, done.err
    assert tracker.status_of(issue) == "closed"
    [_, trace] = tracker.traces()
    assert (trace["bead_id"], trace["outcome"], trace["tested"]) == (issue, "success", True)
    assert trace["task_description"] == "Fix the imports\n\nLESSON imports"
    assert [result["status"] for result in trace["execution_results"]] == ["pass"]
    starts = [line[:9] for line in done.out.splitlines() if line[:9] in ("bd-1: Fix", *_STEPS)]
    assert starts == ["bd-1: Fix", *_STEPS]
    assert queue_of(tracker).waiting() == []


def test_an_issue_whose_tests_fail_is_learned_from_and_stays_open(tracker: Tracker, issue: str) -> None:
    done = tracker.ace("close", issue, "--test", FAILING)
    assert done.code == 1
    assert f"ace: the tests failed, so {issue} stays open; fix them" in done.err
    assert tracker.status_of(issue) == "open"
    [trace] = tracker.traces()
    assert trace["outcome"] == "failure"
    [error] = trace["execution_results"][0]["errors"]
    assert error["file"] == "tests/test_a.py"
    assert "FAILED tests/test_a.py" in done.out


def test_force_closes_an_issue_whose_tests_fail(tracker: Tracker, issue: str) -> None:
    done = tracker.ace("close", issue, "--test", FAILING, "--force", "--no-learn")
    assert (done.code, tracker.status_of(issue)) == (0, "closed")
    assert [trace["outcome"] for trace in tracker.traces()] == ["failure"]
    assert not (tracker.folder / "skills.db").exists()


def test_an_issue_without_a_test_command_is_closed_and_the_trace_says_so(tracker: Tracker, issue: str) -> None:
    done = tracker.ace("close", issue, "--no-learn")
    assert done.code == 0
    assert "no command: pass --test, or set test in the table beads of ace.toml" in done.out
    assert [(trace["outcome"], trace["tested"]) for trace in tracker.traces()] == [("success", False)]


def test_the_test_command_can_capture_a_trace_of_its_own(tracker: Tracker, issue: str) -> None:
    done = tracker.ace("close", issue, "--test", f"{ACE} capture --run -- true", "--no-learn")
    assert done.code == 0, done.err
    assert [trace["bead_id"] for trace in tracker.traces()] == [issue, issue]


def test_without_bd_nothing_is_done(tracker: Tracker, issue: str) -> None:
    for name in ("/nowhere/bd", "bd-that-is-not-installed"):
        done = tracker.ace("close", issue, "--test", "touch ran", environ={"ACE_BD_BINARY": name})
        assert done.code == 2
        assert f"ace: '{name}' was not found: install bd (https://github.com/steveyegge/beads)" in done.err
    assert tracker.traces() == []
    assert not (tracker.folder / "ran").exists()


@only_fake
def test_another_version_of_bd_closes_the_issue_too(tracker: Tracker, issue: str) -> None:
    done = tracker.ace("close", issue, "--no-learn", environ={"FAKE_BD_VERSION": "2.1.0"})
    assert (done.code, tracker.status_of(issue)) == (0, "closed")


@only_fake
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("nonsense", "'bd close bd-1 --json' did not print issues as JSON, but 'Everything is fine.'"),
        ("error", "'bd close bd-1' failed: database is locked"),
    ],
)
def test_an_issue_that_bd_does_not_close_is_named(tracker: Tracker, issue: str, fault: str, said: str) -> None:
    done = tracker.ace("close", issue, "--no-learn", environ={"FAKE_BD_FAULT": f"close:{fault}"})
    assert done.code == 1
    assert f"ace: {said}; solve the problem, then run 'bd close bd-1'" in done.err
    assert len(tracker.traces()) == 1


@only_fake
def test_an_issue_that_bd_does_not_show_is_not_tested(tracker: Tracker, issue: str) -> None:
    for fault, said in (("nonsense", "did not print issues"), ("error", "database is locked")):
        done = tracker.ace("close", issue, "--test", "touch ran", environ={"FAKE_BD_FAULT": f"show:{fault}"})
        assert done.code == 1
        assert said in done.err
    assert not (tracker.folder / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--status"], "unknown option"),
        (["bd;1"], "ID: 'bd;1' is not a task id"),
        (["bd-1", "--learn-timeout", "0"], "--learn-timeout must be greater than 0 seconds, got 0"),
        (["bd-1", "--test", "a && b"], "--test: no shell reads 'a && b', so '&&' has no effect; use: sh -c 'a && b'"),
        (["bd-1", "--test", "'a"], '--test: "\'a" cannot be read: No closing quotation'),
        (["bd-1", "--test", " "], "--test: no command in ' '"),
        (["bd-1", "--test", "nothing-here -v"], "cannot run nothing-here -v: No such file or directory"),
    ],
)
def test_wrong_usage_is_a_sentence(tracker: Tracker, issue: str, arguments: list[str], said: str) -> None:
    done = tracker.ace("close", *arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
    assert tracker.traces() == []
    assert tracker.status_of(issue) == "open"


def test_a_closed_issue_is_not_closed_again(tracker: Tracker, issue: str) -> None:
    tracker.bd("close", issue)
    done = tracker.ace("close", issue)
    assert done.code == 2
    assert "bd-1 is already closed; to learn from the attempts at it: ace learn --task bd-1" in done.err


def test_outside_of_a_project_nothing_is_done(tracker: Tracker, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = tracker.ace("close", "bd-1", folder="../elsewhere")
    assert done.code == 2
    assert "no folder .beads in" in done.err
    assert "run 'bd init' in the project first" in done.err


def test_when_learning_fails_the_issue_is_closed_and_queued(tracker: Tracker, issue: str) -> None:
    done = tracker.ace("close", issue, "--test", "true", environ={"ACE_MODEL": "openai/unknown"})
    assert (done.code, tracker.status_of(issue)) == (1, "closed")
    assert "ace: learning from bd-1 failed with exit code 2; it is queued and retried" in done.err
    assert [job.field("task_id") for job in queue_of(tracker).waiting()] == [issue]


def test_when_learning_takes_too_long_it_continues_in_the_background(
    tracker: Tracker, issue: str, model_answers: threading.Event
) -> None:
    model_answers.clear()
    done = tracker.ace_process("close", issue, "--test", FAILING, "--force", "--learn-timeout", "0.5")
    assert (done.code, tracker.status_of(issue)) == (1, "closed")
    assert "ace: learning from bd-1 took longer than 0.5 s; it continues in the background" in done.err
    assert [job.field("task_id") for job in queue_of(tracker).waiting()] == [issue]
    model_answers.set()
    wait_until_learned(tracker)
    assert len(tracker.insights()) == 2


def test_an_interrupted_close_leaves_the_issue_open(tracker: Tracker, issue: str) -> None:
    process = subprocess.Popen(
        [ACE, "beads", "close", issue, "--test", "sh -c 'touch started; sleep 600'"],
        cwd=tracker.folder,
        env=command_environment(tracker.folder, tracker.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not (tracker.folder / "started").exists():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate()
    assert process.returncode == 130, complaint
    assert tracker.status_of(issue) == "open"
    assert tracker.traces() == []


def test_the_queue_is_ignored_by_git(tracker: Tracker, issue: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tracker.folder, check=True)
    tracker.ace("close", issue, "--test", "true", environ={"ACE_MODEL": "openai/unknown"})
    assert queue_of(tracker).waiting()
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=tracker.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ".beads/ace" not in listed


def test_secrets_in_the_issue_and_the_output_are_not_recorded(tracker: Tracker) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    id = tracker.create("Deploy", f"The key is {secret}")
    tracker.ace("close", id, "--test", f"echo {secret}", "--no-learn")
    assert len(tracker.traces()) == 1
    assert secret not in json.dumps(tracker.traces())
