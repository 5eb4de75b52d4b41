"""The queue of a detached learner, with real processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ace._internal.detached import LEARNING_VARIABLE, Job, JobQueue, MadeFolders

LEARNER = f"""
import os, sys, time
from pathlib import Path
from ace._internal.detached import JobQueue, Job

queue = JobQueue(Path.cwd())

def learn(job: Job) -> bool:
    while not Path("go").exists():
        time.sleep(0.01)
    Path("learned").write_text(f"{{job.field('task_id')}} {{os.environ['{LEARNING_VARIABLE}']}} {{sys.argv[1:]}}")
    queue.remove(job)
    return True

queue.work_off(learn)
print("an error of the learner", file=sys.stderr)
"""


@pytest.fixture
def queue(tmp_path: Path) -> JobQueue:
    return JobQueue(tmp_path / "state")


def tasks(jobs: list[Job]) -> list[str]:
    return [job.field("task_id") for job in jobs]


def wait_for(path: Path) -> str:
    while not path.exists() or not path.read_text(encoding="utf-8"):
        time.sleep(0.01)
    return path.read_text(encoding="utf-8")


def test_jobs_are_returned_in_order_until_they_are_removed(queue: JobQueue) -> None:
    for task in ("bd-1", "bd-2"):
        queue.add({"task_id": task})
    first, second = queue.waiting()
    assert tasks([first, second]) == ["bd-1", "bd-2"]
    queue.remove(first)
    queue.remove(first)
    assert queue.waiting() == [second]


def test_only_the_user_can_read_the_queue(queue: JobQueue) -> None:
    path = queue.add({"task_id": "bd-1"})
    assert stat.S_IMODE(queue.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_job_that_fails_three_times_is_not_tried_again_but_an_outage_does_not_count(queue: JobQueue) -> None:
    queue.add({"task_id": "bd-1"})
    for is_outage in (False, True, False, True, False):
        [job] = queue.waiting()
        queue.note_failure(job, "no answer", is_outage=is_outage)
    assert queue.waiting() == []
    [job] = queue.failed()
    assert (job.attempts, job.error, job.fields) == (3, "no answer", {"task_id": "bd-1"})


def test_the_failure_of_a_job_that_was_removed_meanwhile_is_not_recorded(queue: JobQueue) -> None:
    queue.add({"task_id": "bd-1"})
    [job] = queue.waiting()
    queue.remove(job)
    queue.note_failure(job, "no answer")
    assert [*queue.waiting(), *queue.failed()] == []


def test_a_file_that_is_not_a_job_is_a_job_without_fields(queue: JobQueue) -> None:
    path = queue.add({"task_id": "bd-1"})
    for content in ("{", "[1]", '{"task_id": 7}'):
        path.write_text(content, encoding="utf-8")
        [job] = queue.waiting()
        assert (job.field("task_id"), job.path) == ("", str(path))


def test_a_field_of_the_queue_is_refused(queue: JobQueue) -> None:
    with pytest.raises(ValueError, match="cannot have a field 'error'"):
        queue.add({"error": "x"})


def test_each_job_is_tried_once_also_one_that_is_added_meanwhile(queue: JobQueue) -> None:
    queue.add({"task_id": "bd-1"})
    tried: list[str] = []

    def learn(job: Job) -> bool:
        tried.append(job.field("task_id"))
        if len(tried) == 1:
            queue.add({"task_id": "bd-2"})
        return True

    queue.work_off(learn)
    assert tried == ["bd-1", "bd-2"]


def test_the_rest_waits_when_a_job_says_so_or_learning_is_no_longer_wanted(queue: JobQueue) -> None:
    for task in ("bd-1", "bd-2"):
        queue.add({"task_id": task})
    tried: list[str] = []

    def tries(job: Job) -> bool:
        tried.append(job.field("task_id"))
        return False

    queue.work_off(tries)
    queue.work_off(tries, is_wanted=lambda: False)
    assert tried == ["bd-1"]


def test_nothing_is_tried_while_another_learner_holds_the_lock(queue: JobQueue) -> None:
    queue.add({"task_id": "bd-1"})
    with queue.lock() as is_held:
        assert is_held
        queue.work_off(lambda job: pytest.fail(f"{job} was tried"))
    assert tasks(queue.waiting()) == ["bd-1"]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no process groups to kill")
def test_a_learner_survives_the_kill_of_the_process_group_that_started_it(queue: JobQueue, tmp_path: Path) -> None:
    queue.add({"task_id": "bd-1"})
    learner = tmp_path / "learner_of_a_test.py"
    learner.write_text(LEARNER, encoding="utf-8")
    # `cProfile` is a module that runs the file which it is given.
    code = (
        "import sys, time; sys.path[:] = sys.argv[1].split(':'); from ace._internal.detached import JobQueue; "
        "JobQueue(sys.argv[2]).start_learner('cProfile', sys.argv[3], 'bd'); print('started', flush=True); "
        "time.sleep(600)"
    )
    hook = subprocess.Popen(
        [sys.executable, "-c", code, ":".join(sys.path), queue.folder, learner],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert hook.stdout is not None
    with hook.stdout:
        assert hook.stdout.readline() == b"started\n"
    os.killpg(hook.pid, signal.SIGKILL)
    assert hook.wait() == -signal.SIGKILL
    (queue.folder / "go").touch()
    assert wait_for(queue.folder / "learned") == "bd-1 1 ['bd']"
    assert wait_for(queue.log) == "an error of the learner\n"
    assert queue.waiting() == []


def test_made_folders_are_removed_only_when_they_are_empty(tmp_path: Path) -> None:
    made = MadeFolders(tmp_path / "state" / "made.json")
    outer, inner, used = tmp_path / "a", tmp_path / "a" / "b", tmp_path / "c"
    made.note([outer, inner])
    made.note([used, outer])
    assert json.loads(made.path.read_bytes()) == [str(outer), str(inner), str(used)]
    inner.mkdir(parents=True)
    used.mkdir()
    (used / "file").touch()
    made.remove_empty()
    assert (outer.exists(), used.exists()) == (False, True)


def test_a_damaged_record_of_made_folders_names_none(tmp_path: Path) -> None:
    made = MadeFolders(tmp_path / "made.json")
    made.path.write_text("{", encoding="utf-8")
    assert list(made.read()) == []
