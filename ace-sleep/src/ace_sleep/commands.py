"""`ace sleep`: finds lessons in the sessions of coding agents, and proves them by running."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from ace.cli import CommandContext
from ace.integrations import (
    DONE,
    WITH_FAILURES,
    UsageError,
    ask,
    counted,
    file_lock,
    moment_of,
    note,
    print_json,
    print_text,
    replace_file,
)
from ace.protocols import LLMCallError
from ace_sleep.agents import AgentName

if TYPE_CHECKING:
    from ace.cli import Settings
    from ace.protocols import LLMClientLike
    from ace_sleep.agents import CodingAgent
    from ace_sleep.ledger import NightRecord
    from ace_sleep.night import Found, Staged
    from ace_sleep.upkeep import LiveLesson

__all__ = ["app"]

app = App(name="sleep", help="Find lessons in the sessions of your coding agents, and prove them by running.")

Flag = Parameter(negative="")
_REASONS: Final = {
    "transient": "do not fail any more in the same state",
    "obsolete": "do not hold in the current commit",
    "flaky": "work only sometimes",
    "network": "need the network",
    "worse": "made the agent worse",
    "harmful": "are never run again",
    "bypass": "may only skip what failed",
    "not reproducible": "cannot be reproduced",
}
_CENT: Final = 0.01
_CHARACTERS_PER_TOKEN: Final = 4
_TOKENS_OF_PROMPT: Final = 600
"""The size of our own prompts, with the schema of the answer."""
_TOKENS_OF_ANSWER: Final = 100
Json = Annotated[bool, Parameter(name="--json", negative="")]


@app.default
def sleep(
    *,
    agent: Annotated[list[str] | None, Parameter(negative="")] = None,
    since: str | None = None,
    project: Path | None = None,
    no_model: Annotated[bool, Parameter(name="--no-model", negative="")] = False,
    model: str | None = None,
    prove_with: AgentName | None = None,
    budget: float = 0.5,
    minutes: float = 30.0,
    calls: int = 60,
    nightly: str | None = None,
    off: Annotated[bool, Flag] = False,
    yes: Annotated[bool, Flag] = False,
    as_json: Json = False,
    context: CommandContext,
) -> int:
    """Read new sessions, find commands that failed and what worked instead, run both again, and propose lessons.

    A lesson is only proposed if running the commands proves it: in a copy of the repository at the commit of the
    session, without network, twice. Your working tree is not touched. `ace review` in the repository shows the lessons
    with their evidence; those that you accept are written to AGENTS.md.

    For example:

        ace sleep --no-model
        ace sleep --agent codex --since 7d --project .
        ace sleep --no-model --nightly 03:00

    Args:
        agent: Only sessions of this agent, such as codex; repeatable. [default: all whose sessions are found]
        since: Only sessions since then: 12h, 7d, 2w or a date such as 2026-11-28.
        project: Only sessions in the repository of this folder.
        no_model: Word the lessons without a model, so that nothing is sent anywhere.
        model: The model that words the lessons. [env: ACE_MODEL]
        prove_with: Also try each lesson with this agent: the prompt of its session, 3 times without it and 3 with it.
        budget: The most that the model and the agent may cost, in US dollars.
        minutes: The most time for running commands and the agent. What was not looked at is looked at next time.
        calls: The most calls of the model and runs of the agent.
        nightly: Instead of reading sessions now, do so every night at this time, such as 03:00, with the other options.
        off: Remove what --nightly wrote.
        yes: Do not ask before sessions are first sent to a model or given to an agent.
        as_json: Print one JSON object.
        context: Provides the settings and the model.
    """
    from ace.redaction import Redactor
    from ace_sleep.budget import Budget
    from ace_sleep.ledger import Ledger
    from ace_sleep.night import Night, gather
    from ace_sleep.sandbox import best_sandbox
    from ace_sleep.sessions import find_files
    from ace_sleep.workspace import Workspace, state_folder

    _check(project, budget, minutes, calls)
    state = state_folder()
    if off:
        return _unscheduled()
    tried = None if prove_with is None else _agent(prove_with)
    if nightly is not None:
        hour, minute = _time_of_day(nightly)
        model_name = None if no_model else _model_name(context.settings(model=model))
        _agree(_recipients(model_name, tried), None, state, yes=yes)
        options = {
            "--since": since,
            "--model": model,
            "--prove-with": prove_with,
            "--budget": f"{budget:g}",
            "--minutes": f"{minutes:g}",
            "--calls": str(calls),
        }
        words = [word for name, value in options.items() if value is not None for word in (name, value)]
        words += [word for name in agent or () for word in ("--agent", name)]
        words += ["--project", str(project.absolute())] if project is not None else []
        words += ["--no-model"] if no_model else []
        return _scheduled(hour, minute, ["sleep", *words])
    with _one_night_at_a_time(state):
        settings = context.settings(model=model)
        begin = None if since is None else moment_of(since, "--since")
        try:
            files = list(find_files(agent or (), begin))
        except ValueError as error:
            raise UsageError(f"--agent: {error}") from error
        ledger = Ledger(state)
        found = gather(files, ledger, state / "work", begin, project)
        for problem in found.problems:
            note(f"ace: {problem}")
        asks_model = bool(found.count) and not no_model
        if found.count:
            _agree(_recipients(_model_name(settings) if asks_model else None, tried), found, state, yes=yes)
        with (
            Workspace(state / "work") as workspace,
            context.model(settings, assume_yes=yes) if asks_model else nullcontext() as client,
        ):
            limits = Budget(budget, minutes * 60, calls, lambda: _cost_of(client))
            night = Night(
                ledger=ledger,
                sandbox=best_sandbox(),
                scratch=workspace.folder,
                redactor=Redactor(allow=settings.learning.allow),
                client=client,
                agent=tried,
                budget=limits,
                say=_say,
            )
            record, staged = night.run(found)
        record.cost = limits.cost
        ledger.note_night(record)
        _report(record, staged, found, as_json=as_json)
        if night.outage is not None:
            failed = night.outage
            what = context.explained(failed, settings) if isinstance(failed, LLMCallError) else str(failed)
            note(f"ace: {what}; the sessions are looked at again next time")
            return WITH_FAILURES
        if record.error:
            note(f"ace: {record.error}")
        return DONE


def _check(project: Path | None, budget: float, minutes: float, calls: int) -> None:
    from ace_sleep.repository import find_repository

    if not 0 <= budget < inf:
        raise UsageError(f"--budget must be at least 0 US dollars, got {budget:g}")
    if not 0 < minutes < inf:
        raise UsageError(f"--minutes must be greater than 0, got {minutes:g}")
    if calls < 0:
        raise UsageError(f"--calls must be at least 0, got {calls}")
    if shutil.which("git") is None:
        raise UsageError("git was not found; install it, because lessons are proven in copies of git repositories")
    if project is not None and find_repository(str(project.absolute())) is None:
        raise UsageError(f"--project: {str(project)!r} is not in a git repository")


@contextmanager
def _one_night_at_a_time(state: Path) -> Iterator[None]:
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file_lock(state / "night", on_wait=lambda: note("ace: another `ace sleep` is running; waiting for it")):
        yield


def _say(line: str) -> None:
    if sys.stderr.isatty():
        note(line)


def _agent(name: AgentName) -> CodingAgent:
    from ace_sleep.agents import NoAgentError, find_agent
    from ace_sleep.sandbox import best_sandbox

    if not best_sandbox().shows_copy_as_root:
        raise UsageError("--prove-with needs a sandbox; install bubblewrap or unshare")
    try:
        return find_agent(name)
    except NoAgentError as error:
        raise UsageError(f"--prove-with: {error}") from error


@dataclass(frozen=True)
class _Recipient:
    """A model or an agent that something of the sessions is sent to."""

    name: str
    """What it is known by after the user has agreed."""
    what: str
    """What is sent, and how often, for people."""
    price: Callable[[Found], float | None]
    """Returns the estimated price of a night in US dollars; None if it is not known."""


def _model_name(settings: Settings) -> str:
    return settings.model or "the model on this machine"


def _recipients(model: str | None, agent: CodingAgent | None) -> Iterator[_Recipient]:
    """Yield whom something of the sessions is sent to.

    Args:
        model: The name of the model that words lessons; None if there is none.
        agent: The agent that lessons are tried with; None if there is none.
    """
    from ace_sleep.night import MOST_LESSONS
    from ace_sleep.trials import RUNS

    if model is not None:
        what = (
            f"what failed and what worked in them, and what you said in them, is sent to {model}: one short call for "
            f"each session in which you replied, and for each of at most {MOST_LESSONS} lessons a night"
        )
        yield _Recipient(model, what, lambda found: _price_of_calls(model, found))
    if agent is not None:
        runs = 2 * RUNS * MOST_LESSONS
        what = f"their first prompts are given to {agent.title}, in at most {runs} runs on copies of the repositories"
        yield _Recipient(agent.title, what, lambda found: _price_of_runs(found, runs))


def _price_of_calls(model: str, found: Found) -> float | None:
    """Return the price of a call for each lesson and each session, which contains what was said; None if not known."""
    from ace.providers import price_of_model
    from ace_sleep.night import MOST_LESSONS

    price = price_of_model(model)
    if price is None:
        return None
    runs = [session.run for pairs in found.sessions.values() for session, _ in pairs]
    said = sum(len(step.content) for run in runs for step in run.steps if step.kind == "message")
    calls = MOST_LESSONS + len(runs)
    sent = calls * _TOKENS_OF_PROMPT + said // _CHARACTERS_PER_TOKEN
    return (sent * price.input_usd + calls * _TOKENS_OF_ANSWER * price.output_usd) / 1e6


def _price_of_runs(found: Found, runs: int) -> float | None:
    """Return the price of runs that each cost what the sessions cost on average; None if no session says."""
    from ace_sleep.budget import cost_of

    costs = [cost for pairs in found.sessions.values() for session, _ in pairs if (cost := cost_of(session.run))]
    return runs * sum(costs) / len(costs) if costs else None


def _agree(recipients: Iterable[_Recipient], found: Found | None, state: Path, *, yes: bool) -> None:
    """Ask once before sessions are sent to a model or given to an agent.

    Args:
        recipients: Whom they are sent to.
        found: The sessions; None before they are looked for.
        state: The folder of what is remembered.
        yes: Whether to agree without a question.
    """
    consent = state / "consent.json"
    known = json.loads(consent.read_text(encoding="utf-8")) if consent.exists() else []
    asked = [recipient for recipient in recipients if recipient.name not in known]
    if not asked:
        return
    if found is not None:
        note(_about(found))
    ask("; ".join(_told(recipient, found) for recipient in asked), assume_yes=yes)
    consent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(consent, json.dumps([*known, *(recipient.name for recipient in asked)]).encode())


def _told(recipient: _Recipient, found: Found | None) -> str:
    if found is None:
        return recipient.what
    price = recipient.price(found)
    if price is None:
        return f"{recipient.what} (the price is not known)"
    about = f"about ${price:.2f} at most" if price >= _CENT else "less than $0.01" if price else "no charge"
    return f"{recipient.what} ({about})"


def _about(found: Found) -> str:
    sessions = [session for pairs in found.sessions.values() for session, _ in pairs]
    agents = ", ".join(sorted({session.agent for session in sessions}))
    projects = ", ".join(sorted(common.parent.name for common in found.sessions))
    return f"{counted(len(sessions), 'session')} of {agents}, in {projects}"


def _time_of_day(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text.strip())
    if found is None:
        raise UsageError(f"--nightly takes a time such as 03:00, got {text!r}")
    return int(found[1]), int(found[2])


def _scheduled(hour: int, minute: int, arguments: Sequence[str]) -> int:
    from ace_sleep.nightly import NoSchedulerError, Schedule, schedule

    try:
        written = schedule(Schedule(hour, minute, arguments))
    except (NoSchedulerError, OSError) as error:
        note(f"ace: {error}")
        return WITH_FAILURES
    print_text("\n".join(written).rstrip())
    print_text(f"\n`ace sleep` starts every night at {hour:02}:{minute:02}; `ace sleep --off` removes this")
    return DONE


def _unscheduled() -> int:
    from ace_sleep.nightly import NoSchedulerError, remove

    try:
        removed = remove()
    except (NoSchedulerError, OSError) as error:
        note(f"ace: {error}")
        return WITH_FAILURES
    print_text("\n".join(f"removed: {what}" for what in removed) or "Nothing was scheduled.")
    return DONE


def _cost_of(client: LLMClientLike | None) -> float:
    from ace import Usage

    usage = getattr(client, "usage", None)  # not every client counts it
    return usage.cost if isinstance(usage, Usage) else 0.0


def _report(record: NightRecord, lessons: Sequence[Staged], found: Found, *, as_json: bool) -> None:
    if as_json:
        about = [
            {
                "id": staged.skill_id,
                "project": str(staged.project.root),
                "skillbook": str(staged.project.skillbook),
                "text": staged.lesson.text,
                "evidence": staged.lesson.evidence.splitlines(),
            }
            for staged in lessons
        ]
        print_json({"command": "sleep", **asdict(record), "skipped": dict(found.skipped), "lessons": about})
        return
    print_text(_summary(record, found))
    for number, staged in enumerate(lessons, 1):
        heading = f"Lesson {number} of {len(lessons)}   project {staged.project.name}   [{staged.skill_id}]"
        evidence = "\n".join(f"    {line}" for line in staged.lesson.evidence.splitlines())
        print_text(f"\n{heading}\n  {staged.lesson.text}\n{evidence}")
    for root in dict.fromkeys(staged.project.root for staged in lessons):
        print_text(f"\nDecide with `ace review` in {root}")


def _summary(record: NightRecord, found: Found) -> str:
    """Return what was found in one line, with the reasons if nothing was proven."""
    counts = [counted(record.sessions, "session"), counted(record.candidates, "candidate")]
    reasons = [f"{number} {_REASONS[verdict]}" for verdict, number in record.reasons.items()]
    reasons += [f"{number} sessions {reason}" for reason, number in found.skipped.items()]
    unproven = f", {record.unproven} proposed without proof" if record.unproven else ""
    found_out = f"{', '.join(counts)}, {record.proven} reproduced{unproven}"
    return found_out + (f": {', '.join(reasons)}" if reasons else "")


@dataclass(frozen=True)
class _ProjectStatus:
    """The lessons of a project."""

    root: str
    live: list[LiveLesson]
    pending: int


def _about_live(lesson: LiveLesson) -> str:
    where = "a skill folder" if lesson.lands == "folder" else "the block"
    used = f"used in {counted(lesson.uses, 'session')}, failed in {lesson.failures}"
    return f"[{lesson.id}] in {where} since {lesson.since[:10]}: {used}"


@app.command
def status(*, as_json: Json = False) -> int:
    """Show the last night, what it cost, and the lessons of each project.

    For example:

        ace sleep status

    Args:
        as_json: Print one JSON object.
    """
    from ace.skillbook import Skillbook
    from ace_sleep.ledger import last_nights
    from ace_sleep.projects import all_projects, personal_project
    from ace_sleep.upkeep import live_lessons
    from ace_sleep.workspace import state_folder

    nights = list(last_nights(state_folder()))
    projects = []
    personal = personal_project()
    for project in [*all_projects(), *([personal] if personal.skillbook.is_file() else [])]:
        with Skillbook.open(project.skillbook) as book:
            pending = len(book.pending_skills())
        projects.append(_ProjectStatus(str(project.root), live_lessons(project), pending))
    spent = sum(night["cost"] for night in nights)
    if as_json:
        last_night = nights[-1] if nights else None
        print_json(
            {
                "command": "sleep status",
                "last_night": last_night,
                "spent": spent,
                "projects": [asdict(found) for found in projects],
            }
        )
        return DONE
    if not nights:
        print_text("last night   none yet; run 'ace sleep'")
    else:
        last = nights[-1]
        print_text(
            f"last night   {last['at']}: {counted(last['sessions'], 'session')}, {last['candidates']} candidates, "
            f"{last['proven']} proven, {last['staged'] + last['unproven']} proposed"
        )
        print_text(f"spent        ${spent:.2f} in {counted(len(nights), 'night')}")
    for found in projects:
        print_text(f"{found.root}: {counted(len(found.live), 'lesson')} live, {found.pending} pending")
        for lesson in found.live:
            print_text(f"  - {lesson.text}\n    {_about_live(lesson)}")
    return DONE
