"""Finds in several sessions of a project what nothing can prove, without a model, by structure alone.

- Calls that a person rejected, which says: ask first.
- The same commands in the same order, which are a procedure.
- Files that every session reads.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ace_sleep.lessons import digest_of, short_text
from ace_sleep.notes import Rejection, SessionNotes, subject_of
from ace_sleep.projects import LessonFacts, StagedLesson
from ace_sleep.shell import harm_of

__all__ = ["agents_in", "personal_rejections", "procedures", "read_every_time", "rejected_calls"]

_FEWEST_STEPS: Final = 3
"""Fewer commands are not a procedure."""
_MOST_STEPS: Final = 12
_FEWEST_READERS: Final = 3
"""With fewer sessions, that all of them read a file says nothing."""
_SAID: Final = "not proven: a person rejected it; accept it, and agents are shown it"
_SEEN: Final = "not proven: only seen in sessions; accept it, and agents are shown it"
_OWN_FILES: Final = frozenset({"AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md"})
_WORD: Final = re.compile(r"[a-z][a-z0-9]+")


def rejected_calls(notes: Iterable[SessionNotes], used: Iterable[str]) -> Iterator[StagedLesson]:
    """Yield a lesson for what a person rejected in two sessions, and never let pass in another one.

    Args:
        notes: The sessions of a project.
        used: The subjects that have a lesson already.
    """
    every = list(notes)
    for rejection, sessions in _rejections(every).items():
        if len(sessions) > 1 and rejection.subject not in used:
            yield _ask_first(rejection, sessions, f"in {len(sessions)} sessions")


def personal_rejections(projects: Mapping[str, Iterable[SessionNotes]]) -> Iterator[tuple[Rejection, StagedLesson]]:
    """Yield a lesson for what a person rejected in two projects, with the rejection. Files belong to one project.

    Args:
        projects: The sessions by the names of their projects.
    """
    found: dict[Rejection, dict[str, list[SessionNotes]]] = defaultdict(dict)
    for name, notes in projects.items():
        for rejection, sessions in _rejections(list(notes)).items():
            if rejection.verb != "change":
                found[rejection][name] = sessions
    for rejection, of_projects in found.items():
        if len(of_projects) > 1:
            sessions = [session for part in of_projects.values() for session in part]
            yield rejection, _ask_first(rejection, sessions, f"in {len(of_projects)} repositories", "preferences")


def _rejections(notes: Sequence[SessionNotes]) -> Mapping[Rejection, list[SessionNotes]]:
    """Return the sessions in which something was rejected, without what was done in any session."""
    done = {("change", f"`{path}`") for note in notes for path in note.changed}
    done |= {("run", subject_of(command)) for note in notes for command in note.worked if command}
    done |= {("run", subject_of(command)) for note in notes for command in note.failed}
    found: dict[Rejection, list[SessionNotes]] = defaultdict(list)
    for note in notes:
        for rejection in dict.fromkeys(_without_reason(rejection) for rejection in note.rejections):
            if (rejection.verb, rejection.subject) not in done:
                found[rejection].append(note)
    return found


def _without_reason(rejection: Rejection) -> Rejection:
    return Rejection(verb=rejection.verb, subject=rejection.subject)


def _ask_first(
    rejection: Rejection, sessions: Sequence[SessionNotes], where: str, section: str = "wishes"
) -> StagedLesson:
    said = [(note, other.why) for note in sessions for other in note.rejections if _without_reason(other) == rejection]
    reasons = [f'  {note.day or "once"}, {note.agent}: "{short_text(why)}"' for note, why in said if why]
    evidence = [f"NOT PROVEN (grade E): rejected in {agents_in(sessions)}", *(reasons or ["  No reason was given."])]
    return StagedLesson(
        key=digest_of(f"E\n{rejection.verb}\n{rejection.subject}"),
        section=section,
        text=f"Ask before you {rejection.verb} {rejection.subject}: a person rejected that {where}.",
        evidence="\n".join(evidence),
        sessions=[note.session for note in sessions],
        task=sessions[0].task,
        error=f"A person rejected {rejection.subject}",
        pending=_SAID,
        kind="person",
        about=LessonFacts(mistake=rejection.subject if rejection.verb == "run" else ""),
    )


def procedures(notes: Iterable[SessionNotes], names: Iterable[str], root: str) -> Iterator[StagedLesson]:
    """Yield a skill folder for each sequence of three commands or more that ran verbatim in two sessions.

    Args:
        notes: The sessions of a project.
        names: The names of skill folders that are taken.
        root: The folder of the repository.
    """
    taken = set(names)
    for steps, sessions in _sequences(list(notes)):
        name = _free_name(_name_for(steps, sessions), taken)
        taken.add(name)
        text = "\n".join(
            [
                f"Run these in order; that worked in {len(sessions)} sessions:",
                *(f"{number}. `{step}`" for number, step in enumerate(steps, 1)),
                *(
                    ["`scripts/run.sh` runs all of them, and stops at the first that fails."]
                    if not _harm(steps, root)
                    else []
                ),
            ]
        )
        yield StagedLesson(
            key=digest_of("\n".join(("P", *steps))),
            section=name,
            text=text,
            evidence=f"NOT PROVEN: the same commands in the same order, seen in {agents_in(sessions)}",
            sessions=[note.session for note in sessions],
            task=sessions[0].task,
            error="",
            pending=_SEEN,
            kind="none",
            about=LessonFacts(lands="folder", steps=steps),
        )


def _harm(steps: Iterable[str], root: str) -> bool:
    return any(harm_of(step, root) for step in steps)


def _sequences(notes: Sequence[SessionNotes]) -> Iterator[tuple[tuple[str, ...], list[SessionNotes]]]:
    """Yield the longest sequences that several sessions share, without the parts of those."""
    seen: dict[tuple[str, ...], list[SessionNotes]] = defaultdict(list)
    for note in notes:
        for window in dict.fromkeys(_windows(note.worked)):
            seen[window].append(note)
    shared = {window: sessions for window, sessions in seen.items() if len(sessions) > 1}
    kept: list[tuple[str, ...]] = []
    for window in sorted(shared, key=lambda window: (-len(window), window)):
        if not any(_is_part(window, longer) for longer in kept):
            kept.append(window)
            yield window, shared[window]


def _windows(commands: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield all sequences of different commands that ran one after the other."""
    for is_done, run in itertools.groupby(_split(commands), key=bool):
        steps = list(run) if is_done else []
        for length in range(_FEWEST_STEPS, min(len(steps), _MOST_STEPS) + 1):
            for start in range(len(steps) - length + 1):
                window = tuple(steps[start : start + length])
                if len(set(window)) == length:
                    yield window


def _split(commands: Iterable[str]) -> Iterator[str]:
    """Yield commands, those that were joined by `&&` one by one, unless they depend on a folder."""
    for command in commands:
        parts = command.split(" && ")
        is_plain = not any(quote in command for quote in "'\"`") and not any(part.startswith("cd ") for part in parts)
        yield from parts if is_plain else [command]


def _is_part(window: tuple[str, ...], longer: tuple[str, ...]) -> bool:
    """Whether a sequence shares more than half of its steps with another one."""
    return 2 * len(set(window) & set(longer)) > len(window)


def _name_for(steps: Sequence[str], sessions: Sequence[SessionNotes]) -> str:
    """Return the words that the tasks have in common; without any, the last words of the steps."""
    tasks = [_WORD.findall(note.task.lower()) for note in sessions]
    common = [word for word in dict.fromkeys(tasks[0]) if len(word) > 3 and all(word in task for task in tasks)]
    words = common[:4] or [word for step in steps for word in _WORD.findall(step.lower())[-1:]][:4]
    return "-".join(words) or "procedure"


def _free_name(name: str, taken: set[str]) -> str:
    return next(
        found for number in itertools.count(1) if (found := name if number == 1 else f"{name}-{number}") not in taken
    )


def read_every_time(notes: Iterable[SessionNotes], root: Path) -> Iterator[StagedLesson]:
    """Yield a lesson for each file that all of three sessions or more have read, and that still exists.

    Args:
        notes: The sessions of a project.
        root: The folder of the repository.
    """
    every = [note for note in notes if note.read or note.worked or note.failed]
    if len(every) < _FEWEST_READERS:
        return
    counts = Counter(path for note in every for path in note.read)
    for path, count in counts.items():
        is_own = path.rpartition("/")[2] in _OWN_FILES or path.endswith("/SKILL.md")
        if count == len(every) and not is_own and (root / path).is_file():
            yield StagedLesson(
                key=digest_of(f"R\n{path}"),
                section="files",
                text=f"Read `{path}` first: every one of {count} sessions needed it.",
                evidence=f"NOT PROVEN: read in all of {agents_in(every)}",
                sessions=[note.session for note in every],
                task=every[0].task,
                error="",
                pending=_SEEN,
                kind="none",
            )


def agents_in(notes: Sequence[SessionNotes]) -> str:
    """Return the number of sessions with those of each agent, for people.

    Args:
        notes: Those of the sessions.
    """
    counts = Counter(note.agent for note in notes)
    agents = ", ".join(f"{agent} {count}" for agent, count in counts.most_common())
    return f"{len(notes)} session{'s' if len(notes) != 1 else ''} ({agents})"
