"""What is installed, what is waiting, and what was learned from which session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ace.runners import Spend, spend_of_days
from ace_claude_code.sessions.home import learned_path, plugin_folder, state_folder
from ace_claude_code.sessions.jobs import failed_jobs, waiting_jobs
from ace_claude_code.sessions.learned import LearnedTurn, read_learned
from ace_claude_code.sessions.plugin_files import is_our_plugin, plugin_files
from ace_claude_code.sessions.settings import SettingsError, read_settings

__all__ = ["LearnedBook", "LearnedSession", "LearnedSkill", "SessionStatus", "session_status"]


@dataclass(frozen=True)
class LearnedSession:
    """A session that was learned from."""

    session_id: str
    project: str
    """The name of the project's folder of transcripts."""
    turns: int
    """How many of its turns were learned from."""
    skill_ids: tuple[str, ...]
    """The skills that they taught."""
    last_learned: str
    """When, as ISO time."""


@dataclass(frozen=True)
class LearnedSkill:
    """A skill in a skillbook."""

    id: str
    content: str
    helpful: int
    harmful: int
    shown: int
    """To how many of the turns that were learned from it was shown."""
    cited: int
    """How many of them cite it."""
    pinned: bool


@dataclass(frozen=True)
class LearnedBook:
    """What was learned in a project."""

    project: str
    """The name of the project's folder of transcripts."""
    path: str
    """Its file, which `ace skillbook` takes."""
    skills: tuple[LearnedSkill, ...]
    """The skills, the newest first."""


@dataclass(frozen=True)
class SessionStatus:
    """How things stand."""

    installed: bool
    headline: str
    """The same as a sentence."""
    waiting: int
    """How many sessions are in the queue."""
    failed: int
    """How many of the queue were tried in vain too often."""
    sessions: tuple[LearnedSession, ...] = ()
    skillbooks: tuple[LearnedBook, ...] = ()
    spent_today: Spend = field(default_factory=Spend)
    spent_in_30_days: Spend = field(default_factory=Spend)
    budget_usd: float | None = None
    """The most US dollars a day; None if nothing is installed."""
    problems: tuple[str, ...] = field(default=())


def session_status() -> SessionStatus:
    """Look at the installation, the queue and the notes."""
    plugin, state = plugin_folder(), state_folder()
    installed = is_our_plugin(plugin)
    waiting, failed = waiting_jobs(state), failed_jobs(state)
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
        headline = f"Installed for {whose}; {who} learns; {len(waiting)} sessions wait{_and_failed(len(failed))}."
    sessions = tuple(each for folder in sorted(state.glob("projects/*")) for each in _sessions_of(state, folder.name))
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
    """Return the skillbooks, and why others cannot be read."""
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
                id=each.id,
                content=each.content,
                helpful=each.helpful,
                harmful=each.harmful,
                shown=uses[each.id].chosen,
                cited=uses[each.id].cited,
                pinned=each.pinned,
            )
            for each in skills
        )
        found.append(LearnedBook(path.parent.name, str(path), learned))
    return found, problems


def _and_failed(failed: int) -> str:
    return f", {failed} failed ('ace claude-code learn' tries them again)" if failed else ""


def _problems_of(plugin: Path) -> list[str]:
    """Return what keeps the hooks from working."""
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
