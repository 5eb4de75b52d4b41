"""The versions of a skillbook: a description of each change, and the command that undoes it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ace.cli.console import print_text
from ace.cli.errors import UsageError
from ace.cli.skillbooks.opened_book import location_of
from ace.skill import ACTIVE, INVALID, SkillCase
from ace.skillbook import Skillbook, shown_location
from ace.skillbook.events import (
    Added,
    CaseChange,
    CasesChanged,
    Embedded,
    Event,
    Imported,
    Kept,
    Merged,
    Removed,
    RolledBack,
    Tagged,
    Updated,
)

__all__ = [
    "change_counts",
    "check_version",
    "described",
    "newest_version",
    "place_of",
    "print_undo",
    "undo_command",
    "undo_decisions_command",
]


def newest_version(book: Skillbook, location: str) -> int:
    """Return the newest version of a store.

    Args:
        location: Where it was opened.

    Raises:
        UsageError: The book keeps no history.
    """
    if book.version is None:
        raise UsageError(
            f"the skillbook {shown_location(location)!r} keeps no history; create a store from it with "
            f"`ace skillbook merge {shown_location(location)} --output skills.db`"
        )
    return book.version


def check_version(book: Skillbook, location: str, version: int) -> int:
    """Check that the history of a book has a version, and return it.

    Args:
        location: Where it was opened.
        version: The number that the user gave.

    Raises:
        UsageError: There is no such version, or no history.
    """
    newest = newest_version(book, location)
    if not 0 <= version <= newest:
        raise UsageError(
            f"the skillbook {shown_location(location)!r} has no version {version}; "
            f"its versions go from 0 to {newest}, and `ace skillbook log` lists them"
        )
    return version


def place_of(trace_id: str) -> str:
    """Return the place in the name of a recorded trace.

    Example:
        >>> place_of("5575ae1c4f02063d@logs/a.jsonl#12")
        'logs/a.jsonl#12'
    """
    return trace_id.partition("@")[2] or trace_id


def undo_command(location: str, version: int | None, otherwise: Sequence[str] = ()) -> str:
    """Return the command that undoes the last change, quoted for a shell.

    Args:
        location: Where the skillbook was opened.
        version: The version created by the change; None for a skillbook without history.
        otherwise: What undoes the change without history: the arguments of `ace skillbook`. Nothing if nothing does.

    Returns:
        The command; an empty text if there is none.
    """
    arguments = otherwise if version is None else ["rollback", str(version - 1)]
    if not arguments:
        return ""
    return shlex.join(["ace", "skillbook", *arguments[:1], *_option_for(location), *arguments[1:]])


def undo_decisions_command(location: str, ids: Sequence[str]) -> str:
    """Return the command that undoes the acceptance or rejection of skills, quoted for a shell.

    Args:
        location: Where the skillbook was opened; it has a history.
        ids: The ids of the skills.
    """
    return shlex.join(["ace", "undo", *_option_for(location), *ids])


def _option_for(location: str) -> list[str]:
    return [] if location == location_of(None) else ["--skillbook", shown_location(location)]


def print_undo(location: str, version: int | None, undo: str) -> None:
    """Print the version created by a change, and the command that undoes it.

    Args:
        location: Where the skillbook was opened.
        version: The new version; None for a skillbook without history.
        undo: What `undo_command` returned.
    """
    if version is not None:
        print_text(f"{shown_location(location)} is at version {version}; `{undo}` undoes this")
    elif undo:
        print_text(f"`{undo}` undoes this")


def change_counts(events: Sequence[Event]) -> str:
    """Return the number of changes of each kind, as text.

    Args:
        events: The changes of one version.

    Example:
        >>> change_counts([Tagged("a-00001", {"helpful": 1}, ""), Tagged("a-00002", {"helpful": 1}, ""), RolledBack(3)])
        '2 tagged, rolled back to version 3'
    """
    numbers: Counter[str] = Counter()
    others = []
    for event in events:
        match event:
            case RolledBack(version=version):
                others.append(f"rolled back to version {version}")
            case Imported(skills=skills):
                numbers["imported"] += len(skills)
            case Embedded(vectors=vectors):
                numbers["embedded"] += len(vectors)
            case Merged(merged_ids=merged):
                numbers["merged"] += len(merged)
            case CasesChanged(changes=changes):
                others += _case_numbers(changes.values())
            case _:
                numbers[_verb(event)] += 1
    return ", ".join([*(f"{number} {verb}" for verb, number in numbers.items()), *others]) or "nothing"


def described(event: Event, skill_id: str) -> str:
    """Return the effect of a change on one skill, as text.

    Args:
        event: The change.
        skill_id: The skill that the words are about.

    Example:
        >>> described(Tagged("a-00001", {"helpful": 2}, ""), "a-00001")
        'tagged: helpful +2'
    """
    match event:
        case Added(skill=skill):
            return f"{_verb(event)}: {skill.content}" + (f" ({skill.reason})" if skill.reason else "")
        case Updated():
            return _updated(event)
        case Tagged(counters=counters):
            return f"tagged: {', '.join(_raised(counters))}"
        case Merged(keep_id=keep_id, merged_ids=merged, content=content):
            if skill_id != keep_id:
                return f"merged into {keep_id}"
            return f"merged with {', '.join(merged)}" + ("" if content is None else f": {content}")
        case Kept(first_id=first, second_id=second, decision=decision):
            reason = f": {decision.reasoning}" if decision.reasoning else ""
            return f"kept apart from {second if skill_id == first else first}{reason}"
        case Imported(skills=skills):
            return "imported: " + next((skill.content for skill in skills if skill.id == skill_id), "")
        case RolledBack(version=version):
            return f"rolled back to version {version}"
        case Embedded():
            return "embedded"
        case CasesChanged(changes=changes):
            return "; ".join(_changed_cases(changes.get(skill_id, CaseChange()))) or "cases of other skills"
        case Removed():
            return _verb(event)


def _verb(event: Added | Updated | Tagged | Removed | Kept) -> str:
    match event:
        case Added(skill=skill):
            return "added as pending" if skill.is_pending else "added"
        case Updated(status=str(status)):
            return {ACTIVE: "accepted", INVALID: "rejected"}.get(status, status)
        case Updated(texts=texts, counters=counters, pinned=bool(pinned)) if not texts and not counters:
            return "pinned" if pinned else "unpinned"
        case Updated():
            return "updated"
        case Tagged():
            return "tagged"
        case Removed(soft=soft):
            return "removed" if soft else "deleted"
        case Kept():
            return "kept apart"


def _updated(event: Updated) -> str:
    verb = _verb(event)
    if verb in ("pinned", "unpinned"):
        return verb
    parts = [
        *([event.reason] if event.reason else []),
        *(f"{name}: {text}" for name, text in event.texts.items()),
        *_raised(event.counters),
        *(f"case {case.id}: {_case_words(case)}" for case in event.cases),
    ]
    if event.status is not None and not parts:
        return verb
    return f"{verb}: {'; '.join(parts) or 'one more source'}"


def _raised(counters: Mapping[str, int]) -> list[str]:
    return [f"{tag} +{increment}" for tag, increment in counters.items() if increment]


def _changed_cases(change: CaseChange) -> list[str]:
    return [
        *(f"case {case.id} set: {_case_words(case)}" for case in change.put),
        *(f"case {id} removed" for id in change.removed),
        *(
            f"case {run.case_id} {_result(run.result)}{f' with {run.model}' if run.model else ''}"
            for run in change.results
        ),
    ]


def _case_words(case: SkillCase) -> str:
    return f"{case.question} ({_result(case.last_result)})"


def _case_numbers(changes: Collection[CaseChange]) -> list[str]:
    numbers = {
        "set": sum(len(change.put) for change in changes),
        "removed": sum(len(change.removed) for change in changes),
        "run": sum(len(change.results) for change in changes),
    }
    return [f"{number} case{'' if number == 1 else 's'} {verb}" for verb, number in numbers.items() if number]


def _result(result: str) -> str:
    return result.replace("_", " ")
