"""The history of a store: its versions, their changes, and the state at each of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ace.skill import Skill
from ace.skillbook.errors import EventRefusedError, SkillbookFileError, SkillbookHistoryError
from ace.skillbook.events import (
    Added,
    CasesChanged,
    Embedded,
    Event,
    Imported,
    Kept,
    RolledBack,
    Tagged,
    Updated,
    apply_event,
    decode_events,
    touched_ids,
)
from ace.skillbook.state import BookState
from ace.skillbook.store import SampleKey, SkillbookStore, StoredEvent

_SHOWN_TEXTS = {"content", "section"}
"""The texts of a skill that decide where and how a prompt shows it."""


class HistoryEntry(NamedTuple):
    """One version of a skillbook, with the changes that created it."""

    version: int
    """Starts at 1; the numbers of versions that only stored embeddings are omitted."""
    at: str
    """The time of the commit: ISO 8601, UTC."""
    author: str
    """The author of the commit."""
    key: SampleKey | None
    """The sample that it belongs to, if any."""
    events: tuple[Event, ...]
    """The changes."""
    skipped: tuple[dict[str, Any], ...]
    """The skipped operations, with their reasons."""


class BlameEntry(NamedTuple):
    """One change to a skill."""

    version: int
    at: str
    author: str
    key: SampleKey | None
    event: Event


@dataclass(frozen=True, slots=True)
class SkillbookDiff:
    """The differences between two versions of a skillbook."""

    added: tuple[Skill, ...]
    """Skills that only the second one has."""
    removed: tuple[Skill, ...]
    """Skills that only the first one has."""
    changed: tuple[tuple[Skill, Skill], ...]
    """Skills that both have, before and after the change."""

    def __bool__(self) -> bool:
        """Return whether there is any difference."""
        return bool(self.added or self.removed or self.changed)


def entries(store: SkillbookStore, after: int = 0, until: int | None = None) -> Iterator[HistoryEntry]:
    """Yield the versions after `after` and up to `until`, except those that only stored embeddings."""
    for stored in store.events(after, until):
        entry = _entry(stored)
        changes = tuple(event for event in entry.events if not isinstance(event, Embedded))
        if changes or not entry.events or entry.skipped:
            yield entry._replace(events=changes)


def state_at(store: SkillbookStore, version: int) -> BookState:
    """Return the state at a version, by replaying the history from its beginning.

    Raises:
        SkillbookHistoryError: If there is no such version.
        SkillbookFileError: If the history before it is damaged.
    """
    newest = store.version()
    if type(version) is not int or not 0 <= version <= newest:
        raise SkillbookHistoryError(f"no such version: {version!r}; the versions are 0 to {newest}")
    targets = _rollback_targets(store, version)
    kept: dict[int, BookState] = {}
    state = BookState()
    if 0 in targets:
        kept[0] = state.copy()
    replayed = 0
    for stored in store.events(0, version):
        if stored.version != replayed + 1:
            break
        for event in decoded(stored):
            try:
                if isinstance(event, RolledBack):
                    state = rolled_back(state, kept[event.version].copy())
                else:
                    apply_event(state, event)
            except (EventRefusedError, KeyError) as error:
                raise _damaged(stored.version, f"it is inconsistent with the earlier versions: {error}") from error
        if stored.version in targets:
            kept[stored.version] = state.copy()
        replayed = stored.version
    if replayed != version:
        raise _damaged(replayed + 1, "it is missing")
    return state


def before_events(now: BookState, events: Sequence[Event]) -> BookState | None:
    """Return the skills of a book as prompts showed them before its last events, without reading older ones.

    Args:
        now: The book.
        events: Its last events, in order.

    Returns:
        A book with the texts, counters and positions of that time, and nothing else; None if an event does not record
        what it replaced.
    """
    then = BookState()
    then.skills, then.positions = dict(now.skills), dict(now.positions)
    for event in reversed(events):
        match event:
            case Added() | Imported():
                for id in touched_ids(event):
                    del then.skills[id], then.positions[id]
            case Tagged() | Updated():
                if isinstance(event, Updated) and (
                    event.pinned is not None or event.status is not None or event.texts.keys() & _SHOWN_TEXTS
                ):
                    return None
                skill = then.skills[event.skill_id]
                counts = skill.counts()
                lowered = {tag: counts[tag] - increment for tag, increment in event.counters.items()}
                then.skills[skill.id] = skill.replace(**lowered)
            case Embedded() | Kept() | CasesChanged():
                pass  # prompts do not show vectors, decisions and cases
            case _:
                return None
    return then


def decoded(stored: StoredEvent) -> tuple[Event, ...]:
    """Return the events of a batch.

    Raises:
        SkillbookFileError: If they cannot be read.
    """
    try:
        return decode_events(stored.operations)
    except KeyError as error:
        raise _damaged(stored.version, f"it cannot be read: {error} is missing") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(stored.version, f"it cannot be read: {error}") from error


def rolled_back(now: BookState, then: BookState) -> BookState:
    """Return the earlier state, with a counter that never reuses an id.

    The vectors of unchanged texts are kept.
    """
    for skill in list(then.skills.values()):
        current = now.skills.get(skill.id)
        if current is not None and current.embedding is not None and current.content == skill.content:
            then.put(skill.replace(embedding=current.embedding))
    then.id_floor = max(now.id_floor, then.id_floor)
    return then


def difference(first: BookState, second: BookState) -> SkillbookDiff:
    """Return the differences between two states, ignoring embeddings."""
    return compared_skills(first.ordered_skills().values(), second.ordered_skills().values())


def compared_skills(first: Iterable[Skill], second: Iterable[Skill]) -> SkillbookDiff:
    """Return the differences between two lists of skills, which are compared by id.

    Args:
        first: The skills of one skillbook.
        second: The skills of another one, or of a later version.
    """
    before = {skill.id: skill for skill in first}
    after = {skill.id: skill for skill in second}
    return SkillbookDiff(
        added=tuple(skill for id, skill in after.items() if id not in before),
        removed=tuple(skill for id, skill in before.items() if id not in after),
        changed=tuple(
            (before[id], skill)
            for id, skill in after.items()
            if id in before and _without_embedding(before[id]) != _without_embedding(skill)
        ),
    )


def blame(store: SkillbookStore, skill_id: str) -> list[BlameEntry]:
    """Return every change that touched a skill, oldest first, and the rollbacks that changed it."""
    found = []
    quoted = json.dumps(skill_id, ensure_ascii=False)
    for stored in store.events():
        if quoted not in stored.operations and '"kind":"rollback"' not in stored.operations:
            continue
        for event in decoded(stored):
            if isinstance(event, Embedded):
                about = False  # a vector is computed from the text and does not change the skill
            elif isinstance(event, RolledBack):
                about = _changed_by(store, stored.version, skill_id)
            elif isinstance(event, Imported):
                about = any(skill.id == skill_id for skill in event.skills)
            else:
                about = skill_id in touched_ids(event)
            if about:
                found.append(BlameEntry(stored.version, stored.at, stored.author, stored.key, event))
    return found


def _changed_by(store: SkillbookStore, version: int, skill_id: str) -> bool:
    before = state_at(store, version - 1).skills.get(skill_id)
    after = state_at(store, version).skills.get(skill_id)
    return before != after


def _rollback_targets(store: SkillbookStore, version: int) -> set[int]:
    targets = set()
    for stored in store.events(0, version):
        if '"kind":"rollback"' in stored.operations:
            targets |= {event.version for event in decoded(stored) if isinstance(event, RolledBack)}
    return targets


def _without_embedding(skill: Skill) -> Skill:
    return skill if skill.embedding is None else skill.replace(embedding=None)


def _entry(stored: StoredEvent) -> HistoryEntry:
    return HistoryEntry(
        stored.version,
        stored.at,
        stored.author,
        stored.key,
        decoded(stored),
        tuple(_skipped(stored)),
    )


def _skipped(stored: StoredEvent) -> list[dict[str, Any]]:
    try:
        notes = json.loads(stored.skipped)
    except (ValueError, RecursionError) as error:
        raise _damaged(stored.version, f"the skipped entries cannot be read: {error}") from error
    if not isinstance(notes, list) or not all(isinstance(note, dict) for note in notes):
        raise _damaged(stored.version, "the skipped entries are not a list of objects")
    return notes


def _damaged(version: int, reason: str) -> SkillbookFileError:
    return SkillbookFileError(
        f"{reason}; the current skills are not affected, and can be saved to another file",
        place=f"version {version} of the history",
    )
