"""What is kept of each session, without secrets: what ran, what was read, what a person rejected or corrected.

A lesson that nothing proves needs two sessions, which may be weeks apart; and the uses of a lesson are counted in later
sessions. So these notes outlive a night.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from ace.integrations import replace_file
from ace.logs import Run, Step
from ace.redaction import Redactor
from ace_sleep.edits import edits_of
from ace_sleep.lessons import short_text
from ace_sleep.mining import ShellCall, arguments_of, calls_of, command_of, shell_calls
from ace_sleep.repository import Repository
from ace_sleep.sessions import Session
from ace_sleep.shell import is_looking, programs, shown_command

__all__ = ["Correction", "Notes", "Rejection", "SessionNotes", "note_of", "subject_of"]

_MOST_SESSIONS: Final = 300
"""The newest sessions of a project; older ones are forgotten."""
_LONGEST: Final = 300
_LONGEST_REASON: Final = 1000
_READERS: Final = frozenset({"cat", "head", "tail", "sed", "nl", "less", "bat"})
_READ_PATHS: Final = ("file_path", "filePath", "path", "absolute_path", "target_file", "filename")
_SKILL_TOOLS: Final = ("skill", "command", "name")
"""The argument of the tool `Skill` that names the skill."""


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True)


class Rejection(_Kept):
    """A call that a person rejected."""

    verb: Literal["run", "change", "use"]
    subject: str
    """What the agent wanted to run, change or use: a command as `subject_of` names it, a file, or a tool."""
    why: str = ""
    """What the person said about it; may be empty."""


class Correction(_Kept):
    """What a person said to correct an agent, as the model found it and the core checked it."""

    said: str
    """The words of the person."""
    wrong: str
    """What the agent had said or done."""
    failed: bool = False
    """Whether a command that the person named failed afterwards, and never worked in the session."""


class SessionNotes(_Kept):
    """What is kept of one session."""

    session: str
    """Identifies it; see `Session.key`."""
    agent: str
    began: str = ""
    """When it began: ISO 8601; empty if that is not known."""
    task: str = ""
    worked: tuple[str, ...] = ()
    """The commands that worked and did something, as a lesson shows them, in order; an empty one where one failed."""
    failed: tuple[str, ...] = ()
    """The commands that failed."""
    read: tuple[str, ...] = ()
    """The files of the repository that the agent read, relative to it."""
    changed: tuple[str, ...] = ()
    """The files of the repository that it changed."""
    rejections: tuple[Rejection, ...] = ()
    corrections: tuple[Correction, ...] = ()

    @property
    def day(self) -> str:
        """The day on which it began, for people."""
        return self.began[:10]


class _File(BaseModel):
    """What is in the file."""

    sessions: list[SessionNotes] = []
    asked: list[str] = []


class Notes:
    """The notes about the sessions of one project.

    Args:
        folder: The folder of what is remembered about the project.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notes.json"
        found = _File.model_validate_json(self._path.read_bytes()) if self._path.exists() else _File()
        self._kept = {note.session: note for note in found.sessions}
        self.asked = set(found.asked)
        """The keys of the remarks that a model was asked about."""

    def __iter__(self) -> Iterator[SessionNotes]:
        return iter(self._kept.values())

    def add(self, notes: Sequence[SessionNotes]) -> None:
        """Keep notes. Those of a session that was continued replace its earlier ones.

        Args:
            notes: The notes of the sessions of one night.
        """
        self._kept |= {note.session: note for note in notes}
        newest = sorted(self._kept.values(), key=lambda note: note.began)[-_MOST_SESSIONS:]
        self._kept = {note.session: note for note in newest}
        self._save()

    def note_asked(self, keys: Iterable[str]) -> None:
        """Remember that a model was asked about remarks.

        Args:
            keys: The keys of the remarks.
        """
        self.asked |= set(keys)
        self._save()

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = _File(sessions=list(self._kept.values()), asked=sorted(self.asked))
        replace_file(self._path, file.model_dump_json(exclude_defaults=True).encode())


def note_of(
    session: Session, repository: Repository, redactor: Redactor, corrections: Sequence[Correction] = ()
) -> SessionNotes:
    """Return what is kept of a session.

    Args:
        session: What the agent stored.
        repository: The repository that it ran in.
        redactor: Replaces secrets. A command with one is not kept.
        corrections: What the model found.
    """
    run, root = session.run, repository.root
    commands = list(shell_calls(run.steps))
    paths = [path for call in commands if not call.failed for path in _read_by(call)]
    paths += [path for _, step, result in calls_of(run.steps) if not result.is_error for path in _read_with(step)]
    changed = [edit.path for step in _done(run.steps) for edit in edits_of(arguments_of(step.content))]
    return SessionNotes(
        session=redactor.redact_name(session.key),
        agent=session.agent,
        began=run.started.isoformat() if run.started else "",
        task=short_text(redactor.redact(run.task)),
        worked=tuple(_worked(commands, run, root, redactor)),
        failed=tuple(
            dict.fromkeys(call.shown(run, str(root)) for call in commands if call.failed and _is_kept(call, redactor))
        ),
        read=_inside(paths, run, root, redactor),
        changed=_inside(changed, run, root, redactor),
        rejections=tuple(_rejections(run, root, redactor)),
        corrections=tuple(corrections),
    )


def subject_of(command: str) -> str:
    """Return what a command is about: its program and what that is asked to do.

    Args:
        command: A command, as a lesson shows it.

    Example:
        >>> subject_of("git push --force origin main"), subject_of("SRC=1 pnpm add left-pad")
        ('`git push`', '`pnpm add`')
    """
    try:
        found = [words for words in programs(command) if words[0] != "cd"]
    except ValueError:
        return f"`{command}`"
    if len(found) != 1:
        return f"`{command}`"
    words = [found[0][0], *(word for word in found[0][1:] if not word.startswith("-"))]
    return f"`{' '.join(words[:2])}`"


def _done(steps: Sequence[Step]) -> Iterator[Step]:
    yield from (step for _, step, result in calls_of(steps) if not result.is_error)


def _worked(commands: Sequence[ShellCall], run: Run, root: Path, redactor: Redactor) -> Iterator[str]:
    """Yield the commands that worked; an empty text keeps apart what was not done in a row."""
    for call in commands:
        if call.failed or not _is_kept(call, redactor):
            yield ""
        elif not is_looking(call.command):
            yield call.shown(run, str(root))


def _is_kept(call: ShellCall, redactor: Redactor) -> bool:
    return len(call.command) <= _LONGEST and "\n" not in call.command and not redactor.find(call.command)


def _read_by(call: ShellCall) -> list[str]:
    """Return the files that a command only prints."""
    try:
        found = programs(call.command)
    except ValueError:
        return []
    return [words[-1] for words in found if words[0] in _READERS and len(words) > 1 and not words[-1].startswith("-")]


def _read_with(step: Step) -> list[str]:
    """Return the file that a call reads, with a tool for that, or the skill that it opens."""
    arguments = arguments_of(step.content)
    if isinstance(arguments, str) or (command_of(arguments) and step.name != "Skill") or edits_of(arguments):
        return []
    if step.name == "Skill":
        names = [arguments[name] for name in _SKILL_TOOLS if isinstance(arguments.get(name), str)]
        return [f".claude/skills/{name}/SKILL.md" for name in names[:1]]
    return [arguments[name] for name in _READ_PATHS if isinstance(arguments.get(name), str)][:1]


def _inside(paths: Sequence[str], run: Run, root: Path, redactor: Redactor) -> tuple[str, ...]:
    """Return paths relative to the repository, without those outside of it, and without folders."""
    found = []
    for path in dict.fromkeys(paths):
        relative = os.path.relpath(os.path.realpath(os.path.join(run.cwd, path)), root)
        is_file = relative.split(os.sep)[0] != ".." and not os.path.isdir(root / relative)
        if is_file and len(relative) <= _LONGEST and not redactor.find(relative):
            found.append(relative)
    return tuple(found)


def _rejections(run: Run, root: Path, redactor: Redactor) -> Iterator[Rejection]:
    results = {id(result): at for at, result in enumerate(run.steps)}
    for _, step, result in calls_of(run.steps):
        if result.is_rejected:
            why = _said_next(run.steps[results[id(result)] + 1 :])
            for found in _rejected_by(step, run, root):
                yield Rejection(
                    verb=found.verb, subject=redactor.redact(found.subject), why=redactor.redact(why)[:_LONGEST_REASON]
                )


def _rejected_by(step: Step, run: Run, root: Path) -> Iterator[Rejection]:
    arguments = arguments_of(step.content)
    edits = edits_of(arguments)
    command = command_of(arguments)
    if edits:
        for path in dict.fromkeys(edit.path for edit in edits):
            relative = os.path.relpath(os.path.realpath(os.path.join(run.cwd, path)), root)
            yield Rejection(verb="change", subject=f"`{path if relative.startswith('..') else relative}`")
    elif command:
        yield Rejection(verb="run", subject=subject_of(shown_command(command, str(root))))
    else:
        yield Rejection(verb="use", subject=f"the tool `{step.name}`")


def _said_next(steps: Sequence[Step]) -> str:
    """Return what the person said before the agent did something else; empty if that was nothing."""
    for step in steps:
        if step.kind == "message" and step.speaker == "person":
            return step.content
        if step.kind == "call":
            return ""
    return ""
