"""`ace sleep`: finds lessons in the sessions of coding agents, and proves them by running."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
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

if TYPE_CHECKING:
    from ace.protocols import LLMClientLike
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
    "harmful": "are never run again",
    "not reproducible": "cannot be reproduced",
}
Json = Annotated[bool, Parameter(name="--json", negative="")]


@app.default
def sleep(
    *,
    agent: Annotated[list[str] | None, Parameter(negative="")] = None,
    since: str | None = None,
    project: Path | None = None,
    no_model: Annotated[bool, Parameter(name="--no-model", negative="")] = False,
    model: str | None = None,
    budget: float = 0.5,
    minutes: float = 30.0,
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
        budget: The most that the model may cost, in US dollars.
        minutes: The most time for running commands. What was not looked at is looked at next time.
        nightly: Instead of reading sessions now, do so every night at this time, such as 03:00, with the other options.
        off: Remove what --nightly wrote.
        yes: Do not ask before sessions are first sent to a model.
        as_json: Print one JSON object.
        context: Provides the settings and the model.
    """
    from ace.redaction import Redactor
    from ace_sleep.ledger import Ledger
    from ace_sleep.night import Night, gather
    from ace_sleep.sandbox import best_sandbox
    from ace_sleep.sessions import find_files
    from ace_sleep.workspace import Workspace, state_folder

    _check(project, budget, minutes)
    state = state_folder()
    if off:
        return _unscheduled()
    if nightly is not None:
        hour, minute = _time_of_day(nightly)
        if not no_model:
            _agree(context.settings(model=model).model, "", state, yes=yes)
        options = {"--since": since, "--model": model, "--budget": f"{budget:g}", "--minutes": f"{minutes:g}"}
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
        if asks_model:
            _agree(settings.model, _about(found), state, yes=yes)
        with (
            Workspace(state / "work") as workspace,
            context.model(settings, assume_yes=yes) if asks_model else nullcontext() as client,
        ):
            night = Night(
                ledger=ledger,
                sandbox=best_sandbox(),
                scratch=workspace.folder,
                redactor=Redactor(allow=settings.learning.allow),
                client=client,
                budget=budget,
                seconds=minutes * 60,
                say=_say,
                cost_so_far=lambda: _cost_of(client),
            )
            record, staged = night.run(found)
        record.cost = _cost_of(client)
        ledger.note_night(record)
        _report(record, staged, found, as_json=as_json)
        if night.outage is not None:
            note(f"ace: {context.explained(night.outage, settings)}; the sessions are looked at again next time")
            return WITH_FAILURES
        return DONE


def _check(project: Path | None, budget: float, minutes: float) -> None:
    from ace_sleep.repository import find_repository

    if not 0 <= budget < inf:
        raise UsageError(f"--budget must be at least 0 US dollars, got {budget:g}")
    if not 0 < minutes < inf:
        raise UsageError(f"--minutes must be greater than 0, got {minutes:g}")
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


def _agree(model: str | None, about: str, state: Path, *, yes: bool) -> None:
    """Ask once before sessions are sent to a model.

    Args:
        model: The model; None for the one on this machine.
        about: The sessions, for people.
    """
    from ace_sleep.night import MOST_LESSONS

    name = model or "the model on this machine"
    consent = state / "consent.json"
    known = json.loads(consent.read_text(encoding="utf-8")) if consent.exists() else []
    if name in known:
        return
    if about:
        note(about)
    what = (
        f"what failed and what worked in them, and what you said in them, is sent to {name}: one short call for each "
        f"session in which you replied, and for each of at most {MOST_LESSONS} lessons a night"
    )
    ask(what, assume_yes=yes)
    consent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(consent, json.dumps([*known, name]).encode())


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
    if record.error:
        note(f"ace: {record.error}")


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
