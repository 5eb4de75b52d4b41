"""The detached learner: `python -m ace_beads.learner` processes the queue in the current folder and exits."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from ace.integrations import Job, JobQueue, UsageError, note
from ace.loop import TraceLog, check_task_id

__all__ = ["learn_command", "main"]


def learn_command(task_id: str) -> list[str]:
    """Return the command that learns from the attempts at an issue, in a process that can be ended.

    Args:
        task_id: The id of the issue.
    """
    code = "import sys; from ace.cli import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", code, "learn", "--task", task_id, "--yes"]


def main() -> int:
    """Process the queue in the current folder."""
    queue = JobQueue(Path.cwd())
    queue.work_off(lambda job: _learn(queue, job))
    return 0


def _learn(queue: JobQueue, job: Job) -> bool:
    """Learn from an issue, and return whether to try the next one."""
    from ace.cli import CommandContext

    task, folder = job.field("task_id"), job.field("folder")
    try:
        check_task_id(task)
        os.chdir(folder)
    except (ValueError, OSError) as error:
        _fail(queue, job, f"{job.path}: {error}")
        return True
    try:
        log = TraceLog(CommandContext("beads").settings().trace_log)
    except UsageError as error:  # a wrong setting, which concerns all jobs
        _fail(queue, job, str(error), is_outage=True)
        return False
    try:
        has_attempts = next(log.read([task]), None) is not None
    except OSError as error:
        _fail(queue, job, f"{log.path}: {error.strerror or error}")
        return True
    if not has_attempts:
        _log(f"{task}: {log.path} has no attempts at it")
        queue.remove(job)
        return True
    done = subprocess.run(learn_command(task), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    _log(f"{task}: ace learn --task {task}, exit code {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    if done.returncode == 0:
        queue.remove(job)
    else:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        _fail(queue, job, f"{task}: {lines[-1]}", is_outage=done.returncode == 2)  # 2: no usable model, for example
    return done.returncode != 2


def _fail(queue: JobQueue, job: Job, problem: str, *, is_outage: bool = False) -> None:
    _log(problem)
    queue.note_failure(job, problem, is_outage=is_outage)


def _log(text: str) -> None:
    note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}")


if __name__ == "__main__":
    sys.exit(main())
