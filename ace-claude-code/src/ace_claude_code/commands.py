"""`ace claude-code`: learn from every session of Claude Code."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
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
    is_terminal,
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
    from ace_claude_code.sessions.learning import LearningReport
    from ace_claude_code.sessions.status import LearnedSkill, SessionStatus

__all__ = ["app"]

app = App(name="claude-code", help="Learn from every session of Claude Code.")

_SHOWN_SKILLS = 10

Json = Annotated[bool, Parameter(name="--json", negative="")]


@app.command
def install(
    *,
    project: Annotated[bool, Parameter(negative="")] = False,
    model: str | None = None,
    api_base: str = "",
    budget: float = 1.0,
    budget_tokens: int = 2000,
    claude: Path | None = None,
) -> int:
    """Install the plugin for Claude Code.

    When a session ends, ACE learns from it, and the next session in the same project has the skills in its prompt. At a
    terminal, you are asked for the learning model, unless --model is given or it was chosen before. Its list price and
    the cost of a typical session are printed.

    For example:

        ace claude-code install
        ace claude-code install --model claude_code/sonnet --budget 0.5
        ace claude-code install --project --model openai/gpt-4o-mini

    Args:
        project: Learn only from sessions in the current folder; by default, from all sessions.
        model: The learning model. claude_code/NAME is called through Claude Code, with your login.
            [default: claude_code/haiku]
        api_base: The base URL of an OpenAI-compatible server for that model.
        budget: The daily limit on the cost of automatic learning (USD). The remaining sessions wait for the next day.
            `ace claude-code learn` is not limited.
        budget_tokens: The maximum size of the skills in the prompt of a session, in tokens.
        claude: The path of the claude binary, if it is not on PATH. Only used for claude_code/NAME models.
    """
    from ace_claude_code.binary import ClaudeNotFoundError, find_claude
    from ace_claude_code.sessions.installing import ForeignPluginError, earlier_settings
    from ace_claude_code.sessions.installing import install as write_plugin
    from ace_claude_code.sessions.learner_model import own_model
    from ace_claude_code.sessions.settings import SessionSettings

    _check_address(api_base, model)
    check_is_path("--claude", claude)
    if budget_tokens < 1:
        raise UsageError(f"--budget-tokens must be at least 1, got {budget_tokens}")
    if not 0 < budget < inf:
        raise UsageError(f"--budget must be more than 0 US dollars, got {budget:g}")
    before = earlier_settings()
    if model is None and before is not None and before.model:
        model, api_base = before.model, before.api_base
    try:
        if model is None:
            model = _chosen_learner()
        settings = SessionSettings(
            model=model,
            api_base=api_base,
            claude=find_claude(claude) if claude is not None or own_model(model) is not None else "",
            budget_tokens=budget_tokens,
            budget_usd=budget,
            projects=(str(Path.cwd().resolve()),) if project else (),
        )
        folder = write_plugin(settings)
    except (ClaudeNotFoundError, ForeignPluginError) as error:
        raise UsageError(str(error)) from error
    whose = "in this folder" if project else "in every folder"
    print_text(f"Installed in {folder}. ACE now learns from each session {whose} when it ends,")
    print_text(f"with {model or 'Claude Code itself'}, for at most {budget:g} USD a day.")
    print_text(_price_text(model))
    return DONE


def _chosen_learner() -> str:
    """Ask for the model that learns; without a terminal, return the default."""
    from ace_claude_code.sessions.home import state_folder
    from ace_claude_code.sessions.learner_model import PROPOSED_MODELS, price_of_learner, use_of_a_session
    from ace_claude_code.sessions.settings import DEFAULT_MODEL

    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):  # the user cannot see the question or answer it
        return DEFAULT_MODEL
    use = use_of_a_session(state_folder())
    for number, model in enumerate(PROPOSED_MODELS, 1):
        price = price_of_learner(model)
        if price is not None:
            note(f"{number}. {model}: about {use.cost(price):.3f} USD for an ordinary session")
    note(f"Which model learns? A number, or any model, such as local/qwen2.5-coder-1.5b [{DEFAULT_MODEL}]")
    answer = sys.stdin.readline().strip()
    numbered = {str(number): model for number, model in enumerate(PROPOSED_MODELS, 1)}
    return numbered.get(answer, answer or DEFAULT_MODEL)


def _price_text(model: str) -> str:
    """Return a text with the list price of a model, and the cost of learning from an ordinary session."""
    from ace_claude_code.sessions.home import state_folder
    from ace_claude_code.sessions.learner_model import own_model, price_of_learner, use_of_a_session

    price = price_of_learner(model)
    if price is None:
        return (
            "The price of this model is not known. `ace claude-code status` shows the tokens that learning uses, and "
            "its cost as far as the model reports it."
        )
    if not price.input_usd and not price.output_usd:
        return "This model runs on this machine, free of charge."
    use = use_of_a_session(state_folder())
    plan = " With a subscription, it counts towards the limits of your plan instead." if own_model(model) else ""
    return (
        f"Its list price is {price.input_usd:g} USD for a million tokens in, and {price.output_usd:g} out. "
        f"An ordinary session costs about {use.cost(price):.3f} USD to learn from: {use.input_tokens:,} tokens in and "
        f"{use.output_tokens:,} out ({use.origin}).{plan}"
    )


@app.command
def uninstall(
    *,
    delete_skills: Annotated[bool, Parameter(negative="")] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
) -> int:
    """Remove the plugin, the queue and the log. The skillbooks are kept, and the command says where they are.

    For example:

        ace claude-code uninstall
        ace claude-code uninstall --delete-skills

    Args:
        delete_skills: Also delete the skillbooks of all projects, after a confirmation.
        yes: Do not ask for confirmation.
    """
    from ace.integrations import LEARNER_AT_WORK
    from ace_claude_code.sessions.home import state_folder
    from ace_claude_code.sessions.installing import ForeignPluginError
    from ace_claude_code.sessions.installing import uninstall as remove_plugin

    projects = state_folder() / "projects"
    books = sorted(projects.glob("*/skillbook.db"))
    if books and delete_skills:
        found = f"{counted(len(books), 'skillbook')} with {counted(skill_count(books), 'skill')} in {projects}"
        ask(f"{found} will be deleted", assume_yes=yes)
    keeps = bool(books) and not delete_skills
    try:
        was_there = remove_plugin(keep_skills=keeps, on_wait=lambda: note(LEARNER_AT_WORK))
    except ForeignPluginError as error:
        raise UsageError(str(error)) from error
    print_text("Removed." if was_there else "Nothing was installed.")
    if keeps:
        kept = f"{counted(len(books), 'skillbook')} with {counted(skill_count(books), 'skill')}"
        print_text(f"Kept {kept} in {projects}; --delete-skills deletes them.")
    return DONE


@app.command
def status(*, as_json: Json = False) -> int:
    """Show whether the plugin is installed, the queued sessions, what was learned, where it is stored, and its cost.

    For example:

        ace claude-code status

    Args:
        as_json: Print one JSON object.
    """
    from ace_claude_code.sessions.status import session_status

    found = session_status()
    if as_json:
        print_json(asdict(found))
        return WITH_FAILURES if found.problems else DONE
    print_text(found.headline)
    if found.sessions:
        rows = [
            [session.session_id, session.project, str(session.turns), " ".join(session.skill_ids) or "-"]
            for session in found.sessions
        ]
        print_table(["session", "project", "turns", "skills"], rows)
    for book in found.skillbooks:
        print_text(f"\n{counted(len(book.skills), 'skill')} of {book.project} in {book.path}")
        for skill in book.skills[:_SHOWN_SKILLS]:
            print_text(f"  [{skill.id}] {skill.content} ({_usage_text(skill)})")
        if len(book.skills) > _SHOWN_SKILLS:
            print_text(f"  and {len(book.skills) - _SHOWN_SKILLS} earlier ones: ace skillbook show {book.path}")
    _print_spend(found)
    for problem in found.problems:
        note(problem)
    return WITH_FAILURES if found.problems else DONE


@app.command
def learn(
    *transcripts: Path,
    every: Annotated[bool, Parameter(name="--all", negative="")] = False,
    project: Path | None = None,
    model: str | None = None,
    api_base: str | None = None,
    allow: Annotated[list[GuardedKind] | None, Parameter(negative="")] = None,
    as_json: Json = False,
    context: CommandContext,
) -> int:
    """Learn now from queued sessions, from transcripts, or from all stored sessions of a project.

    Each turn is processed once. The command can be stopped at any time; the next call continues from there.

    For example:

        ace claude-code learn
        ace claude-code learn --all
        ace claude-code learn ~/.claude/projects/-home-me-shop/SESSION.jsonl --model openai/gpt-4o-mini

    Args:
        transcripts: Files of stored sessions. [default: the queued sessions]
        every: Learn from every stored session of the project.
        project: The folder of the project. [default: the current folder]
        model: The learning model. [default: the model chosen at installation]
        api_base: The base URL of an OpenAI-compatible server for that model.
        allow: Turn off a safeguard: allow personal data (or one class of it), secrets, or copies of a prompt, which are
            otherwise redacted or rejected. [env: ACE_ALLOW]
        as_json: Print one JSON object.
        context: Gives the settings and the model.
    """
    from ace.pipeline import CancellationToken
    from ace_claude_code.binary import ClaudeNotFoundError
    from ace_claude_code.sessions.home import state_folder
    from ace_claude_code.sessions.learning import NothingToLearnError, learn_now, opened_learner
    from ace_claude_code.sessions.settings import SessionSettings, SettingsError, read_settings

    _check_address(api_base, model)
    check_is_path("--project", project)
    for transcript in transcripts:
        check_is_path("TRANSCRIPTS", transcript)
    state = state_folder()
    try:
        settings = read_settings(state) or SessionSettings()
        if model is not None:
            settings = replace(settings, model=model, api_base=api_base or "")
        folder = (project or Path.cwd()).resolve() if every or project is not None else None
        token = CancellationToken()
        with opened_learner(context, state, settings, allow=allow or (), cancel_token=token) as learner:
            report = learn_until_stopped(
                lambda: learn_now(learner, transcripts, folder, cancel_token=token, tell=note), token
            )
    except (NothingToLearnError, SettingsError, ClaudeNotFoundError) as error:
        raise UsageError(str(error)) from error
    if as_json:
        print_json(asdict(report))
    else:
        _print_report(report)
    if token.reason == "cancelled":
        return INTERRUPTED
    if token.is_cancelled:
        note("ace: stopped, because the model could not be reached; run the same command again to resume")
    return WITH_FAILURES if report.problems or token.is_cancelled else DONE


def _usage_text(skill: LearnedSkill) -> str:
    use = f"shown in {counted(skill.shown, 'turn')}, cited in {skill.cited}"
    judged = f"helpful {skill.helpful}, harmful {skill.harmful}, {use}"
    return f"pinned, {judged}" if skill.pinned else judged


def _print_spend(status: SessionStatus) -> None:
    if status.spent_today.calls or status.budget_usd is not None:
        print_spend("today", status.spent_today, status.budget_usd)
    if status.spent_in_30_days.calls:
        print_spend("in 30 days", status.spent_in_30_days)


Forwarded = Annotated[str, Parameter(allow_leading_hyphen=True)]


@app.command
def show(*arguments: Forwarded, project: Path | None = None) -> int:
    """Show the skills of this project; same arguments as `ace skillbook show`.

    Args:
        arguments: The arguments, such as ids of skills or --json.
        project: The folder of the project. [default: the current folder]
    """
    return _on_skillbook("show", arguments, project)


@app.command
def forget(*arguments: Forwarded, project: Path | None = None) -> int:
    """Remove skills of this project; same arguments as `ace skillbook remove`.

    Args:
        arguments: The ids of the skills.
        project: The folder of the project. [default: the current folder]
    """
    return _on_skillbook("remove", arguments, project)


@app.command
def edit(*arguments: Forwarded, project: Path | None = None) -> int:
    """Edit a skill of this project; same arguments as `ace skillbook edit`.

    Args:
        arguments: The id of the skill, and its new text; without one, your editor opens.
        project: The folder of the project. [default: the current folder]
    """
    return _on_skillbook("edit", arguments, project)


@app.command
def pin(*arguments: Forwarded, project: Path | None = None) -> int:
    """Pin skills of this project; same arguments as `ace skillbook pin`.

    Pinned skills come first in the prompt of every session. Learning and pruning do not change or remove them.

    Args:
        arguments: The ids of the skills.
        project: The folder of the project. [default: the current folder]
    """
    return _on_skillbook("pin", arguments, project)


@app.command
def unpin(*arguments: Forwarded, project: Path | None = None) -> int:
    """Unpin skills of this project; same arguments as `ace skillbook unpin`.

    Args:
        arguments: The ids of the skills.
        project: The folder of the project. [default: the current folder]
    """
    return _on_skillbook("unpin", arguments, project)


@app.command
def export(*arguments: Forwarded, project: Path | None = None) -> int:
    """Export the skills of this project; same arguments as `ace skillbook export`.

    Args:
        arguments: The file or folder, such as AGENTS.md.
        project: The folder of the project. [default: the current folder]
    """
    return _on_skillbook("export", arguments, project)


def _on_skillbook(command: str, arguments: tuple[str, ...], project: Path | None) -> int:
    """Run a subcommand of `ace skillbook` on the skillbook of a project."""
    from ace.cli import main
    from ace_claude_code.sessions.home import skillbook_path, state_folder
    from ace_claude_code.sessions.stored import key_of_project

    check_is_path("--project", project)
    folder = (project or Path.cwd()).resolve()
    book = skillbook_path(state_folder(), key_of_project(folder))
    if not book.exists():
        raise UsageError(f"no skills have been learned from sessions in {str(folder)!r} yet")
    return main(["skillbook", command, *arguments, "--skillbook", str(book)])


def _check_address(api_base: str | None, model: str | None) -> None:
    if api_base and not model:
        raise UsageError("--api-base requires --model: it is the address of the server of that model")


def _print_report(report: LearningReport) -> None:
    if report.sessions == 0:
        print_text("No session is queued. To learn from every stored session of this folder, add --all.")
        return
    learned = f"{counted(report.turns_learned, 'turn')} learned, {report.turns_known} known already"
    print_text(f"{counted(report.sessions, 'session')}: {learned}")
    if report.turns_trivial or report.private_sessions:
        private = counted(report.private_sessions, "private session")
        note(f"not sent: {counted(report.turns_trivial, 'trivial turn')}, {private}")
    if report.turns_unfinished:
        note(f"not finished: {counted(report.turns_unfinished, 'turn')}; the next run learns from what is left")
    if report.skipped_lines or report.unknown_records or report.without_prompt:
        note(
            f"skipped: {counted(report.skipped_lines, 'line')} without a record, "
            f"{counted(report.unknown_records, 'record')} of unknown types, "
            f"{counted(len(report.without_prompt), 'session')} without a user prompt"
        )
    for problem in report.problems:
        note(problem)
