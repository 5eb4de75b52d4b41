"""The state of the hook and the queue of a project."""

from __future__ import annotations

from dataclasses import dataclass

from ace.integrations import counted
from ace_beads.client import BeadsClient, BeadsError
from ace_beads.hook_file import NOT_INSTALLED, section_problem
from ace_beads.project import Project

__all__ = ["BeadsStatus", "QueuedIssue", "beads_status"]


@dataclass(frozen=True)
class QueuedIssue:
    """An issue in the queue."""

    task_id: str
    attempts: int
    """The number of failed attempts to learn from it."""
    error: str
    """The error of the last one."""


@dataclass(frozen=True)
class BeadsStatus:
    """The state of the hook and the queue of a project."""

    project: str
    """The folder of the project."""
    installed: bool
    hook: str
    """The file of the hook."""
    bd_version: str
    """The version of `bd`; empty if it cannot be called."""
    test: str
    """The command that tests an issue; empty if none is set."""
    waiting: tuple[QueuedIssue, ...]
    """The issues that wait to be learned from."""
    failed: tuple[QueuedIssue, ...]
    """The issues that failed three times and are not retried."""
    problems: tuple[str, ...]
    """The problems of the hook, and the errors of the queue."""

    def lines(self) -> list[str]:
        """Return the state as lines of text."""
        where = f"installed in {self.hook}" if self.installed else "not installed; run 'ace beads install'"
        queued = f"{counted(len(self.waiting), 'issue')} waiting"
        if self.failed:
            queued += f", {len(self.failed)} failed"
        return [
            f"project  {self.project}",
            f"bd       {self.bd_version or 'cannot be called'}",
            f"hook     {where}",
            f"test     {self.test or 'no command; set test in the table beads of ace.toml'}",
            f"queue    {queued}",
            *(f"         {each.task_id}" for each in self.waiting),
            *(f"         {each.task_id} failed; run 'ace learn --task {each.task_id}'" for each in self.failed),
        ]


def beads_status(project: Project, test: str) -> BeadsStatus:
    """Return the state of the hook and the queue of a project.

    Args:
        project: The project.
        test: The command that tests an issue; empty if none is set.
    """
    problems: list[str] = []
    try:
        version = BeadsClient(folder=project.root).version()
    except BeadsError as error:
        version = ""
        problems.append(str(error))
    problem = section_problem(project.hook)
    is_installed = problem != NOT_INSTALLED
    if problem is not None and is_installed:
        problems.append(problem)
    waiting, failed = (
        tuple(QueuedIssue(job.field("task_id") or job.path, job.attempts, job.error) for job in jobs)
        for jobs in (project.queue.waiting(), project.queue.failed())
    )
    problems += [each.error for each in (*waiting, *failed) if each.error]
    return BeadsStatus(
        project=str(project.root),
        installed=is_installed,
        hook=str(project.hook),
        bd_version=version,
        test=test,
        waiting=waiting,
        failed=failed,
        problems=tuple(problems),
    )
