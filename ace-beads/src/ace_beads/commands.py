"""`ace beads`: closes issues of the issue tracker beads when their tests pass, and learns from the work on them."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ace.cli import CommandContext
from ace.integrations import DONE, WITH_FAILURES, UsageError, check_is_path, counted, note, print_json, print_text

if TYPE_CHECKING:
    from ace_beads.closing import Closing
    from ace_beads.project import Project

__all__ = ["app"]

app = App(name="beads", help="Close issues of beads when their tests pass, and learn from the work on them.")
hook_app = App(name="hook", help="Commands for the hooks of bd.")
app.command(hook_app)

Flag = Parameter(negative="")
Json = Annotated[bool, Parameter(name="--json", negative="")]


@app.command
def close(
    id: str,
    *,
    reason: Annotated[str, Parameter(show_default=False, allow_leading_hyphen=True)] = "",
    test: str | None = None,
    no_learn: Annotated[bool, Parameter(name="--no-learn", negative="")] = False,
    force: Annotated[bool, Flag] = False,
    learn_timeout: float = 120.0,
    context: CommandContext,
) -> int:
    """Run the tests, record the attempt, learn from it, and close the issue if the tests pass.

    If the tests fail, the attempt is still recorded and learned from, and the issue stays open. If learning takes too
    long, it continues in the background; if it fails, it is queued and retried when the next issue is closed. The issue
    is closed in both cases.

    For example:

        ace beads close bd-42 --reason "Imports are fixed"
        ace beads close bd-42 --test "pytest -q tests/imports"

    Args:
        id: The id of the issue.
        reason: The reason for closing it, which bd records.
        test: The test command, which is run without a shell. Its environment contains the id of the issue in ACE_TASK.
            [env: ACE_BEADS_TEST] [default: the setting test in the table beads of ace.toml]
        no_learn: Record the attempt, but do not learn from it now.
        force: Close the issue even if the tests fail.
        learn_timeout: The time after which learning continues in the background, in seconds.
        context: Provides the settings.
    """
    from ace_beads.client import BeadsError, BeadsNotFoundError

    if not 0 < learn_timeout < inf:
        raise UsageError(f"--learn-timeout must be greater than 0 seconds, got {learn_timeout:g}")
    command = _test_command(test, context)
    try:
        closing = _closing(id, context)
    except BeadsNotFoundError as error:
        raise UsageError(str(error)) from error
    except BeadsError as error:
        note(f"ace: {error}")
        return WITH_FAILURES
    print_text(f"{closing.bead.id}: {closing.bead.title}")
    if command is None:
        print_text("test     no command: pass --test, or set test in the table beads of ace.toml")
    ran = None if command is None else closing.test(command)
    is_captured = closing.capture(ran)
    continues = is_captured and not no_learn and closing.learn(learn_timeout)
    is_refused = ran is not None and ran.exit_code != 0 and not force
    if is_refused:
        closing.failures.append(
            f"the tests failed, so {closing.bead.id} stays open; fix them and run the same command again, or pass "
            "--force"
        )
    else:
        try:
            closing.close(reason)
        except BeadsError as error:
            closing.failures.append(f"{error}; solve the problem, then run 'bd close {closing.bead.id}'")
    if continues:
        closing.continue_in_background()
    for failure in closing.failures:
        note(f"ace: {failure}")
    return WITH_FAILURES if closing.failures else DONE


def _test_command(option: str | None, context: CommandContext) -> list[str] | None:
    from ace_beads.closing import parsed_command

    if option is not None:
        return parsed_command(option, "--test")
    setting = context.own_setting("test")
    return None if setting is None else parsed_command(setting, "the setting test in [beads]")


def _closing(id: str, context: CommandContext) -> Closing:
    """Return the steps that close an open issue.

    Raises:
        UsageError: The id is not valid, or the issue is closed.
        BeadsError: `bd` cannot show the issue.
    """
    from ace.loop import TraceLog
    from ace.redaction import Redactor
    from ace_beads.client import BeadsClient
    from ace_beads.closing import Closing

    project = _project(None)
    settings = context.settings()
    client = BeadsClient()
    try:
        bead = client.show(id)
    except ValueError as error:
        raise UsageError(f"ID: {error}") from error
    if bead.is_closed:
        raise UsageError(f"{bead.id} is already closed; to learn from the attempts at it: ace learn --task {bead.id}")
    return Closing(
        client, bead, project, TraceLog(settings.trace_log), Redactor(allow=settings.learning.allow), print_text
    )


@app.command
def install(*, project: Path | None = None) -> int:
    """Install a hook that learns from every issue that bd closes.

    It is a section in .beads/hooks/on_close; the rest of the file is not changed. The hook only starts a background
    process, which learns from the recorded attempts at the issue.

    For example:

        ace beads install

    Args:
        project: The folder of the project. [default: the current folder]
    """
    from ace_beads.client import BeadsClient, BeadsNotFoundError
    from ace_beads.hook_file import HookFileError, install_section

    found = _project(project)
    client = BeadsClient(folder=found.root)
    if shutil.which(client.binary) is None:
        try:
            client.version()
        except BeadsNotFoundError as error:
            raise UsageError(str(error)) from error
    missing = [parent for parent in (found.hook.parent,) if not parent.exists()]
    found.make_state_folder()
    found.made.note(missing)
    try:
        install_section(found.hook)
    except HookFileError as error:
        found.made.remove_empty()
        note(f"ace: {error}")
        return WITH_FAILURES
    print_text(f"Installed in {found.hook}. When bd closes an issue, ACE learns from the recorded attempts at it.")
    return DONE


@app.command
def uninstall(*, project: Path | None = None) -> int:
    """Remove the hook and the queue. Skills and recorded attempts are kept.

    For example:

        ace beads uninstall

    Args:
        project: The folder of the project. [default: the current folder]
    """
    from ace.integrations import LEARNER_AT_WORK
    from ace_beads.hook_file import remove_section

    found = _project(project)
    was_installed = remove_section(found.hook)
    had_queue = found.queue.folder.exists()
    if had_queue:
        shutil.rmtree(found.queue.folder / "queue", ignore_errors=True)
        with found.queue.lock(wait=True, on_wait=lambda: note(LEARNER_AT_WORK)):
            made = found.made.read()
            shutil.rmtree(found.queue.folder)
        found.made.remove_empty(made)
    print_text("Removed." if was_installed or had_queue else "Nothing was installed.")
    return DONE


@app.command
def status(*, project: Path | None = None, as_json: Json = False, context: CommandContext) -> int:
    """Show whether the hook is installed and works, the test command, and the queued issues.

    For example:

        ace beads status

    Args:
        project: The folder of the project. [default: the current folder]
        as_json: Print one JSON object.
        context: Provides the settings.
    """
    found = _status_of(_project(project), context.own_setting("test") or "")
    if as_json:
        print_json(asdict(found))
    else:
        print_text("\n".join(found.lines()))
        for problem in found.problems:
            note(f"ace: {problem}")
    return WITH_FAILURES if found.problems else DONE


@hook_app.command(name="close")
def hook_close(id: str, *, project: Path | None = None) -> int:
    """Queue a closed issue, and start a background process that learns from it. Called by the hook on_close.

    For example:

        ace beads hook close bd-42

    Args:
        id: The id of the issue.
        project: The folder of the project. [default: the current folder]
    """
    import os

    from ace.integrations import LEARNING_VARIABLE
    from ace.loop import check_task_id
    from ace_beads.project import LEARNER_MODULE

    if os.environ.get(LEARNING_VARIABLE):  # `ace beads close` has just learned from it
        return DONE
    try:
        check_task_id(id)
    except ValueError as error:
        raise UsageError(f"ID: {error}") from error
    found = _project(project)
    found.add_job(id, found.root)
    found.queue.start_learner(LEARNER_MODULE)
    print_text(f"{id} is queued; a background process learns from its attempts")
    return DONE


@dataclass(frozen=True)
class _QueuedIssue:
    """An issue in the queue."""

    task_id: str
    attempts: int
    """The number of failed attempts to learn from it."""
    error: str
    """The error of the last one."""


@dataclass(frozen=True)
class _BeadsStatus:
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
    waiting: tuple[_QueuedIssue, ...]
    """The issues that wait to be learned from."""
    failed: tuple[_QueuedIssue, ...]
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
            *(f"         {issue.task_id}" for issue in self.waiting),
            *(f"         {issue.task_id} failed; run 'ace learn --task {issue.task_id}'" for issue in self.failed),
        ]


def _status_of(project: Project, test: str) -> _BeadsStatus:
    """Return the state of the hook and the queue of a project.

    Args:
        test: The command that tests an issue; empty if none is set.
    """
    from ace_beads.client import BeadsClient, BeadsError
    from ace_beads.hook_file import NOT_INSTALLED, section_problem

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
        tuple(_QueuedIssue(job.field("task_id") or job.path, job.attempts, job.error) for job in jobs)
        for jobs in (project.queue.waiting(), project.queue.failed())
    )
    problems += [issue.error for issue in (*waiting, *failed) if issue.error]
    return _BeadsStatus(
        project=str(project.root),
        installed=is_installed,
        hook=str(project.hook),
        bd_version=version,
        test=test,
        waiting=waiting,
        failed=failed,
        problems=tuple(problems),
    )


def _project(folder: Path | None) -> Project:
    from ace_beads.project import NoTrackerError, find_project

    check_is_path("--project", folder)
    try:
        return find_project(folder or Path.cwd())
    except NoTrackerError as error:
        raise UsageError(str(error)) from error
