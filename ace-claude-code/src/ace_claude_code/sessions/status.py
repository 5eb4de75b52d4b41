"""The state of the installation and of the queue, and what was learned from which session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ace.integrations import JobQueue, counted
from ace.runners import Spend, spend_of_days
from ace_claude_code.sessions.home import learned_path, plugin_folder, state_folder
from ace_claude_code.sessions.learned import LearnedTurn, read_learned
from ace_claude_code.sessions.plugin_files import is_our_plugin, plugin_files
from ace_claude_code.sessions.settings import SettingsError, read_settings

__all__ = ["LearnedBook", "LearnedSession", "LearnedSkill", "SessionStatus", "session_status"]


@dataclass(frozen=True)
class LearnedSession:
    """A session with learned turns."""

    session_id: str
    project: str
    """The name of the project's folder of transcripts."""
    turns: int
    """The number of its learned turns."""
    skill_ids: tuple[str, ...]
    """The skills that were learned from them."""
    last_learned: str
    """The time of the last learned turn, as ISO time."""


@dataclass(frozen=True)
class LearnedSkill:
    """A skill in a skillbook."""

    id: str
    content: str
    helpful: int
    harmful: int
    shown: int
    """The number of learned turns in whose prompt it was."""
    cited: int
    """The number of these turns that cite it."""
    pinned: bool


@dataclass(frozen=True)
class LearnedBook:
    """The skillbook of a project."""

    project: str
    """The name of the project's folder of transcripts."""
    path: str
    """Its file, for `ace skillbook`."""
    skills: tuple[LearnedSkill, ...]
    """The skills, newest first."""


@dataclass(frozen=True)
class SessionStatus:
    """The state of the installation, the queue and the skillbooks."""

    installed: bool
    headline: str
    """A summary in one line."""
    waiting: int
    """The number of sessions in the queue."""
    failed: int
    """The number of queued sessions that failed too often and are no longer tried."""
    sessions: tuple[LearnedSession, ...] = ()
    skillbooks: tuple[LearnedBook, ...] = ()
    spent_today: Spend = field(default_factory=Spend)
    spent_in_30_days: Spend = field(default_factory=Spend)
    budget_usd: float | None = None
    """The daily limit on the cost of automatic learning, in US dollars; None if nothing is installed."""
    problems: tuple[str, ...] = field(default=())


def session_status() -> SessionStatus:
    """Return the state of the installation, the queue and the skillbooks."""
    plugin, state = plugin_folder(), state_folder()
    installed = is_our_plugin(plugin)
    waiting, failed = JobQueue(state).waiting(), JobQueue(state).failed()
    problems = [job.error for job in [*waiting, *failed] if job.error]
    try:
        settings = read_settings(state)
    except SettingsError as error:
        settings, problems = None, [str(error), *problems]
    if installed:
        problems = [*_problems_of(plugin), *problems]
    if not installed:
        headline = "Not installed; run 'ace claude-code install'."
    else:
        whose = ", ".join(settings.projects) if settings is not None and settings.projects else "all projects"
        who = settings.model if settings is not None and settings.model else "Claude Code itself"
        queued = f"{counted(len(waiting), 'session')}{_and_failed(len(failed))}"
        headline = f"Installed for {whose}; {who} learns; waiting: {queued}."
    sessions = tuple(
        session for folder in sorted(state.glob("projects/*")) for session in _sessions_of(state, folder.name)
    )
    books, unreadable = _books(state)
    return SessionStatus(
        installed=installed,
        headline=headline,
        waiting=len(waiting),
        failed=len(failed),
        sessions=sessions,
        skillbooks=tuple(books),
        spent_today=spend_of_days(state),
        spent_in_30_days=spend_of_days(state, 30),
        budget_usd=settings.budget_usd if settings is not None else None,
        problems=(*problems, *unreadable),
    )


def _books(state: Path) -> tuple[list[LearnedBook], list[str]]:
    """Return the skillbooks, and the errors of those that cannot be read."""
    from ace.runners import skill_use
    from ace.skillbook import Skillbook, SkillbookError

    found: list[LearnedBook] = []
    problems: list[str] = []
    for path in sorted(state.glob("projects/*/skillbook.db")):
        try:
            with Skillbook.open(path) as book:
                uses = skill_use(book)
                skills = sorted(book.skills(), key=lambda skill: skill.created_at, reverse=True)
        except SkillbookError as error:
            problems.append(str(error))
            continue
        learned = tuple(
            LearnedSkill(
                id=skill.id,
                content=skill.content,
                helpful=skill.helpful,
                harmful=skill.harmful,
                shown=uses[skill.id].chosen,
                cited=uses[skill.id].cited,
                pinned=skill.pinned,
            )
            for skill in skills
        )
        found.append(LearnedBook(path.parent.name, str(path), learned))
    return found, problems


def _and_failed(failed: int) -> str:
    return f", {failed} failed ('ace claude-code learn' tries them again)" if failed else ""


def _problems_of(plugin: Path) -> list[str]:
    """Return the problems that keep the hooks from working."""
    written = (plugin / "hooks" / "hooks.json").read_text(encoding="utf-8", errors="replace")
    if written == plugin_files()["hooks/hooks.json"]:
        return []
    return [f"{plugin} was written by another installation of ACE; run 'ace claude-code install' again"]


def _sessions_of(state: Path, key: str) -> Iterator[LearnedSession]:
    by_session: dict[str, list[LearnedTurn]] = {}
    for turn in read_learned(learned_path(state, key)):
        by_session.setdefault(turn.session_id, []).append(turn)
    for session_id, turns in by_session.items():
        skill_ids = tuple(dict.fromkeys(skill_id for turn in turns for skill_id in turn.skill_ids))
        yield LearnedSession(session_id, key, len(turns), skill_ids, max(turn.at for turn in turns))
