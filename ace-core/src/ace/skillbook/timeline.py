"""The history of a store in memory, for pages that show the histories of many skills."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from ace._internal.gc_pause import gc_paused
from ace.skill import ACTIVE, Skill
from ace.skillbook import history
from ace.skillbook.errors import EventRefusedError, SkillbookFileError
from ace.skillbook.events import Embedded, Event, RolledBack, apply_event, touched_ids
from ace.skillbook.history import HistoryEntry
from ace.skillbook.state import BookState
from ace.skillbook.store import SampleKey, SkillbookStore, StoredEvent

__all__ = ["BookSize", "BookSizes", "SkillChange", "SkillTimeline"]

_KINDS: Final = re.compile('"kind":"([a-z]+)"')
"""Finds the kinds of the events in a stored batch. In a text, the quotes would be escaped."""
_RESIZING: Final = frozenset({"add", "remove", "merge", "import", "rollback"})
"""The kinds of events that can change the number of active skills."""


class SkillChange(NamedTuple):
    """One change to a skill, with the skill before and after it, without vectors."""

    skill_id: str
    version: int
    at: str
    """The time of the commit: ISO 8601, UTC."""
    author: str
    key: SampleKey | None
    """The sample that taught it, if any."""
    event: Event
    before: Skill | None
    """None if the skill did not exist."""
    after: Skill | None
    """None if it was deleted."""
    position: int = 0
    """Its place in the order of the book after the change."""


class BookSize(NamedTuple):
    """The number of active skills at a version."""

    version: int
    at: str
    active: int


@final
class SkillTimeline:
    """The history of a store, replayed once and kept in memory. Not thread-safe.

    `Skillbook.blame` and `Skillbook.as_of` replay the history on each call. This class keeps one copy of a skill for
    each change to it.

    Example:
        >>> import tempfile
        >>> from ace.skillbook import Skillbook
        >>> book = Skillbook.open(f"{tempfile.mkdtemp()}/skills.db")
        >>> skill = book.add_skill("maths", "Check the units.")
        >>> book.tag_skill(skill.id, "helpful").helpful
        1
        >>> timeline = SkillTimeline(book.store)
        >>> timeline.read_new()
        2
        >>> [(change.version, change.after.helpful) for change in timeline.changes(skill.id)]
        [(1, 0), (2, 1)]
        >>> [skill.helpful for skill in timeline.skills_at(1)]
        [0]
        >>> book.close()
    """

    def __init__(self, store: SkillbookStore) -> None:
        self._store = store
        self._state = BookState()
        self._entries: list[HistoryEntry] = []
        self._changes: dict[str, list[SkillChange]] = {}
        self._by_version: dict[int, list[SkillChange]] = {}
        self._sizes: list[BookSize] = []
        self._damage: SkillbookFileError | None = None
        """Why the history cannot be read; in that case, the last version may be incomplete."""
        self.version = 0
        """The newest version that was read."""

    def read_new(self) -> int:
        """Read the versions that were committed since the last call.

        Returns:
            The number of versions.

        Raises:
            SkillbookFileError: The history is damaged. The versions that were read before are kept.
        """
        if self._damage is not None:
            raise self._damage
        first = self.version
        try:
            with gc_paused():
                for entry in history.entries(self._store, self.version):
                    self._take(entry)
        except SkillbookFileError as error:
            self._damage = error
            raise
        self.version = max(self.version, self._store.version())
        return self.version - first

    @property
    def entries(self) -> Sequence[HistoryEntry]:
        """The versions, oldest first, except those that only stored embeddings."""
        return self._entries

    @property
    def sizes(self) -> Sequence[BookSize]:
        """The number of active skills after each of these versions."""
        return self._sizes

    def entry(self, version: int) -> HistoryEntry | None:
        """Return a version; None if there is none, or if it only stored embeddings.

        Args:
            version: Its number.
        """
        place = bisect_right(self._entries, version, key=lambda entry: entry.version) - 1
        return self._entries[place] if place >= 0 and self._entries[place].version == version else None

    def changes(self, skill_id: str) -> Sequence[SkillChange]:
        """Return every change to a skill, oldest first.

        Args:
            skill_id: The skill.
        """
        return self._changes.get(skill_id, ())

    def changes_of(self, version: int) -> Sequence[SkillChange]:
        """Return the changes that a version made, in their order.

        Args:
            version: Its number.
        """
        return self._by_version.get(version, ())

    def skill_at(self, skill_id: str, version: int) -> Skill | None:
        """Return a skill as it was at a version; None if it did not exist.

        Args:
            skill_id: The skill.
        """
        change = self._last_change(skill_id, version)
        return None if change is None else change.after

    def skills_at(self, version: int, *, include_invalid: bool = False) -> list[Skill]:
        """Return the skills of a version in the order of the book, without vectors.

        Args:
            version: The version; 0 is empty.
            include_invalid: Whether to include skills that were soft-removed or merged into others.
        """
        found = [(change.position, change.after) for change in self._changes_at(version) if change.after is not None]
        found.sort(key=lambda pair: pair[0])
        return [skill for _, skill in found if include_invalid or skill.is_active]

    def _changes_at(self, version: int) -> list[SkillChange]:
        changes = (self._last_change(skill_id, version) for skill_id in self._changes)
        return [change for change in changes if change is not None]

    def _last_change(self, skill_id: str, version: int) -> SkillChange | None:
        changes = self._changes.get(skill_id, ())
        place = bisect_right(changes, version, key=lambda change: change.version) - 1
        return changes[place] if place >= 0 else None

    def _take(self, entry: HistoryEntry) -> None:
        for event in entry.events:
            if isinstance(event, Embedded):
                continue
            try:
                if isinstance(event, RolledBack):
                    self._roll_back(entry, event)
                else:
                    self._apply(entry, event)
            except EventRefusedError as error:
                place = f"version {entry.version} of the history"
                raise SkillbookFileError(f"it is inconsistent with the earlier ones: {error}", place=place) from error
        self._entries.append(entry)
        self._sizes.append(BookSize(entry.version, entry.at, self._state.active_count))
        self.version = entry.version

    def _apply(self, entry: HistoryEntry, event: Event) -> None:
        before = {skill_id: self._state.skills.get(skill_id) for skill_id in touched_ids(event)}
        applied = apply_event(self._state, event)
        for skill_id in dict.fromkeys(touched_ids(applied)):
            self._note(entry, applied, skill_id, before.get(skill_id))

    def _roll_back(self, entry: HistoryEntry, event: RolledBack) -> None:
        target = [change for change in self._changes_at(event.version) if change.after is not None]
        then = BookState()
        then.fill([change.after for change in target if change.after], [change.position for change in target])
        now, self._state = self._state, history.rolled_back(self._state, then)
        for skill_id in [*self._state.skills, *(skill_id for skill_id in now.skills if skill_id not in then.skills)]:
            before = now.skills.get(skill_id)
            if before != then.skills.get(skill_id) or now.positions.get(skill_id) != then.positions.get(skill_id):
                self._note(entry, event, skill_id, before)

    def _note(self, entry: HistoryEntry, event: Event, skill_id: str, before: Skill | None) -> None:
        after = self._state.skills.get(skill_id)
        if before is None and after is None:
            return
        position = self._state.positions.get(skill_id, 0)
        change = SkillChange(skill_id, entry.version, entry.at, entry.author, entry.key, event, before, after, position)
        self._changes.setdefault(skill_id, []).append(change)
        self._by_version.setdefault(entry.version, []).append(change)


@final
class BookSizes:
    """The number of active skills of a store at each version, several times faster than `SkillTimeline`.

    Only the ids of the skills are read, and no change to a skill is kept. Not thread-safe.

    Example:
        >>> import tempfile
        >>> from ace.skillbook import Skillbook
        >>> book = Skillbook.open(f"{tempfile.mkdtemp()}/skills.db")
        >>> skill = book.add_skill("maths", "Check the units.")
        >>> book.remove_skill(skill.id)
        >>> [(size.version, size.active) for size in BookSizes(book.store).read_new()]
        [(1, 1), (2, 0)]
        >>> book.close()
    """

    def __init__(self, store: SkillbookStore) -> None:
        self._store = store
        self._sizes: list[BookSize] = []
        self._version = 0
        self._active: set[str] = set()
        self._toggled: list[tuple[int, set[str]]] = []
        """The versions that changed the set of active skills, with the ids that were added or removed."""

    def read_new(self) -> Sequence[BookSize]:
        """Read the versions that were committed since the last call.

        Returns:
            The sizes at all versions, oldest first, except those that only stored embeddings.

        Raises:
            SkillbookFileError: If the history is damaged.
        """
        with gc_paused():
            for stored in self._store.events(self._version):
                kinds = set(_KINDS.findall(stored.operations))
                if kinds & _RESIZING:
                    self._take(stored)
                if kinds != {"embed"} or stored.skipped != "[]":
                    self._sizes.append(BookSize(stored.version, stored.at, len(self._active)))
                self._version = stored.version
        return self._sizes

    def _take(self, stored: StoredEvent) -> None:
        changed: set[str] = set()
        self._toggled.append((stored.version, changed))
        try:
            for event in json.loads(stored.operations):
                ids = self._resized_by(event)
                self._active ^= ids
                changed ^= ids
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            place = f"version {stored.version} of the history"
            raise SkillbookFileError(f"it cannot be read: {error}", place=place) from error

    def _resized_by(self, event: Mapping[str, Any]) -> set[str]:
        """Return the ids of the skills that become active, or stop being active, by an event."""
        match event["kind"]:
            case "add":
                return _active_ids([event["skill"]]) - self._active
            case "import":
                return _active_ids(event["skills"]) - self._active
            case "remove":
                return {event["skill_id"]} & self._active
            case "merge":
                return {*event["merged_ids"]} & self._active
            case "rollback":
                return self._toggled_since(event["version"])
            case _:
                return set()

    def _toggled_since(self, version: int) -> set[str]:
        toggled: set[str] = set()
        for changed_in, ids in reversed(self._toggled):
            if changed_in <= version:
                break
            toggled ^= ids
        return toggled


def _active_ids(skills: Sequence[Mapping[str, Any]]) -> set[str]:
    return {skill["id"] for skill in skills if skill["status"] == ACTIVE}
