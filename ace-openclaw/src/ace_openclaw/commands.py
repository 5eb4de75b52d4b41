"""`ace openclaw`: learn from the sessions of OpenClaw."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ace.cli import CommandContext
from ace.integrations import (
    DONE,
    INTERRUPTED,
    WITH_FAILURES,
    UsageError,
    ask,
    check_is_path,
    counted,
    learn_until_stopped,
    note,
    print_json,
    print_spend,
    print_table,
    print_text,
    skill_count,
)
from ace.steps import GuardedKind

if TYPE_CHECKING:
    from ace_openclaw.learning_report import LearningReport
    from ace_openclaw.status import LearningStatus

__all__ = ["app"]

app = App(name="openclaw", help="Learn from the sessions of OpenClaw.")

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]


@app.command
def install(
    *,
    state_dir: Path | None = None,
    workspace: Path | None = None,
    model: str = "",
    api_base: str = "",
    learn: Annotated[bool, Parameter(name="--learn", negative="")] = False,
    budget: float | None = None,
    capture: Flag = False,
) -> int:
    """Set up learning from sessions, with the skills written to the workspace.

    With --learn, ACE learns from each turn automatically; otherwise, run `ace openclaw learn`.

    For example:

        ace openclaw install --learn --model openai/gpt-4o-mini
        ace openclaw install --learn --budget 0.2
        ace openclaw install --model openai/gpt-4o-mini

    Args:
        state_dir: The folder of OpenClaw. [env: OPENCLAW_STATE_DIR] [default: ~/.openclaw]
        workspace: The folder that the agent works in. [default: the workspace in OpenClaw's configuration]
        model: The learning model.
        api_base: The base URL of an OpenAI-compatible server for that model.
        learn: Also learn automatically after each turn, with a plugin for OpenClaw, which adds an entry to
            openclaw.json and requires a restart of OpenClaw.
        budget: The daily limit on the cost of automatic learning (USD). The remaining turns wait for the next day.
            `ace openclaw learn` is not limited. [default: 1]
        capture: Also let the plugin write each finished turn to a file that is kept.
    """
    from ace_openclaw.home import state_folder, workspace_folder
    from ace_openclaw.installing import install as write
    from ace_openclaw.settings import DEFAULT_BUDGET_USD, InstallError, Settings

    check_is_path("--state-dir", state_dir)
    check_is_path("--workspace", workspace)
    if budget is not None and not learn:
        raise UsageError("--budget limits automatic learning; give --learn too")
    if budget is not None and not 0 < budget < inf:
        raise UsageError(f"--budget must be more than 0 US dollars, got {budget:g}")
    state = (state_dir or state_folder()).absolute()
    if not state.is_dir():
        raise UsageError(f"no such folder: {str(state)!r}; run OpenClaw once, or name its folder with --state-dir")
    folder = (workspace or workspace_folder(state)).absolute()
    limit = (budget or DEFAULT_BUDGET_USD) if learn else None
    settings = Settings(str(folder), model=model, api_base=api_base, budget_usd=limit, capture=capture)
    try:
        notes = write(state, settings)
    except InstallError as error:
        raise UsageError(str(error)) from error
    for line in notes:
        note(line)
    print_text(f"Installed. 'ace openclaw learn' learns from {state}, and writes the skills to {folder}.")
    if limit is not None:
        who = model or "The model of your settings"
        print_text(f"{who} learns from each turn once it has ended, for at most {limit:g} USD a day.")
        print_text("Restart OpenClaw if it is running.")
    return DONE


@app.command
def uninstall(
    *,
    state_dir: Path | None = None,
    delete_skills: Flag = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
) -> int:
    """Remove the skills from the workspace, the plugin and the settings. The skillbook is kept.

    For example:

        ace openclaw uninstall
        ace openclaw uninstall --delete-skills

    Args:
        state_dir: The folder of OpenClaw. [env: OPENCLAW_STATE_DIR] [default: ~/.openclaw]
        delete_skills: Also delete the skillbook, after a confirmation.
        yes: Do not ask for confirmation.
    """
    from ace.integrations import ManagedBlockError
    from ace_openclaw.home import skillbook_path, state_folder
    from ace_openclaw.installing import uninstall as remove
    from ace_openclaw.learning import LEARNER_AT_WORK
    from ace_openclaw.settings import InstallError

    check_is_path("--state-dir", state_dir)
    state = (state_dir or state_folder()).absolute()
    book = skillbook_path(state)
    if book.exists() and delete_skills:
        ask(f"the skillbook {book} with {counted(skill_count([book]), 'skill')} will be deleted", assume_yes=yes)
    keeps = book.exists() and not delete_skills
    try:
        was_there = remove(state, keep_skills=keeps, on_wait=lambda: note(LEARNER_AT_WORK))
    except (InstallError, ManagedBlockError) as error:
        raise UsageError(str(error)) from error
    print_text("Removed." if was_there else "Nothing was installed.")
    if keeps:
        print_text(f"Kept {counted(skill_count([book]), 'skill')} in {book}; --delete-skills deletes the skillbook.")
    return DONE


@app.command
def status(*, state_dir: Path | None = None, as_json: Json = False) -> int:
    """Show what is installed, what was learned from which session, and what it has cost.

    For example:

        ace openclaw status

    Args:
        state_dir: The folder of OpenClaw. [env: OPENCLAW_STATE_DIR] [default: ~/.openclaw]
        as_json: Print one JSON object.
    """
    from ace_openclaw.home import state_folder
    from ace_openclaw.settings import InstallError
    from ace_openclaw.status import learning_status

    check_is_path("--state-dir", state_dir)
    try:
        found = learning_status((state_dir or state_folder()).absolute())
    except InstallError as error:
        raise UsageError(str(error)) from error
    if as_json:
        print_json(asdict(found))
        return WITH_FAILURES if found.problems else DONE
    print_text(found.headline)
    if found.sessions:
        rows = [
            [session.session_id, session.session_key or "-", str(session.turns), " ".join(session.skill_ids) or "-"]
            for session in found.sessions
        ]
        print_table(["session", "key", "turns", "skills"], rows)
    _print_spend(found)
    for problem in found.problems:
        note(problem)
    return WITH_FAILURES if found.problems else DONE


@app.command
def learn(
    *sources: str,
    state_dir: Path | None = None,
    model: str = "",
    api_base: str = "",
    max_cost: float | None = None,
    allow: Annotated[list[GuardedKind] | None, Parameter(negative="")] = None,
    as_json: Json = False,
    context: CommandContext,
) -> int:
    """Learn from new turns of the sessions, and write the skills to the workspace.

    Each turn is processed once. Without `ace openclaw install`, the workspace is not changed.

    For example:

        ace openclaw learn
        ace openclaw learn main --max-cost 1
        ace openclaw learn session.jsonl --model anthropic/claude-sonnet-4-5

    Args:
        sources: Session files, exported sessions, folders, or ids of agents. [default: all sessions of OpenClaw]
        state_dir: The folder of OpenClaw. [env: OPENCLAW_STATE_DIR] [default: ~/.openclaw]
        model: The learning model. [default: the model chosen at installation, else the model of your settings, else one
            on this machine]
        api_base: The base URL of an OpenAI-compatible server for that model.
        max_cost: Stop starting new turns once the run has cost this much (USD). [env: ACE_MAX_COST]
        allow: Turn off a safeguard: allow personal data (or one class of it), secrets, or copies of a prompt, which are
            otherwise redacted or rejected. [env: ACE_ALLOW]
        as_json: Print one JSON object.
        context: Gives the settings and the model.
    """
    from ace.pipeline import CancellationToken
    from ace_openclaw.home import state_folder
    from ace_openclaw.learning import learn_sessions
    from ace_openclaw.settings import InstallError, read_settings

    check_is_path("--state-dir", state_dir)
    for source in sources:
        check_is_path("SOURCES", source)
    state = (state_dir or state_folder()).absolute()
    if not sources and not state.is_dir():
        raise UsageError(f"no such folder: {str(state)!r}; name sessions, or the folder with --state-dir")
    try:
        settings = read_settings(state)
    except InstallError as error:
        raise UsageError(str(error)) from error
    installed = settings if settings is not None and not model else None
    name = model or (installed.model if installed is not None else "")
    base = api_base or (installed.api_base if installed is not None else "")
    chosen = context.settings(
        model=name or None, api_base=base or None, max_cost=max_cost, allow=",".join(allow or ()) or None
    )
    token = CancellationToken()
    with context.model(chosen) as client:
        report = learn_until_stopped(
            lambda: learn_sessions(
                state,
                sources,
                client=client,
                workspace=settings.workspace if settings is not None else None,
                max_cost=chosen.run.max_cost,
                allow=chosen.learning.allow,
                provenance=chosen.learning.provenance,
                unproven=chosen.learning.unproven,
                cancel_token=token,
                tell=note,
            ),
            token,
        )
    if as_json:
        print_json(asdict(report))
    else:
        _print_report(report)
    if token.reason == "cancelled":
        return INTERRUPTED
    if token.is_cancelled:
        note(f"ace: stopped, because {_REASONS[token.reason]}; run the same command again to resume")
    return WITH_FAILURES if report.problems or token.is_cancelled else DONE


_REASONS = {
    "max_cost": "the limit of --max-cost was reached",
    "authentication": "the server of the model refused the key",
    "server_failures": "the model could not be reached for several turns in a row",
    "skillbook_not_written": "the skillbook cannot be written",
}


def _print_spend(status: LearningStatus) -> None:
    if status.spent_today.calls:
        print_spend("today", status.spent_today, status.budget_usd)
    if status.spent_in_30_days.calls:
        print_spend("in 30 days", status.spent_in_30_days)


def _print_report(report: LearningReport) -> None:
    learned = f"{counted(report.turns_learned, 'turn')} learned, {report.turns_known} known already"
    print_text(f"{counted(report.sessions, 'session')}: {learned}")
    if report.turns_unfinished:
        note(f"not finished: {counted(report.turns_unfinished, 'turn')}; the next run learns from what is left")
    if report.skipped_lines or report.unknown_events:
        lines = counted(report.skipped_lines, "line")
        note(f"skipped: {lines} without an event, {report.unknown_events} of unknown types")
    for problem in report.problems:
        note(problem)
