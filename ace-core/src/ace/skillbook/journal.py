"""The journal of a skillbook, and the store to which its changes are committed.

The journal contains the changes since a skillbook was last synchronized with its file or store, and undoes them. If
another process has committed first, the skillbook returns to the last common state, applies the other changes, and
reapplies its own. Only what the events changed is undone, so the cost of a commit depends on the number of changes, not
on the size of the skillbook.

Who calls what: every method of `Skillbook` that writes makes its event through `Journal.make`; `StoreBinding.commit`
undoes and redoes the events when the store has newer versions; `JsonFiles.merge` redoes them on the newest file. All of
them run on the thread of the caller, who holds the lock of the skillbook. Nothing here locks or reads a clock, and only
`StoreBinding.commit` waits.

Invariants of the journal:

- `undo` restores exactly the state that the book had when the journal was created or last cleared. To that end, the
  first value that an event replaced is kept for each skill and each pair; later events do not overwrite it.
- `events` contains the events as they were applied, in order, with the ids that the skills have in this book.
- An event that cannot be applied changes nothing and is not in the journal.
- An id that the book numbered, or that a model chose, may change in `redo`; one that the caller chose never does, and
  its event is refused if another process has taken the id.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

from ace._internal.arguments import instance_of
from ace._internal.decoding import LARGEST_COUNT
from ace._internal.gc_pause import gc_paused
from ace.skill import SimilarityDecision, Skill, similarity_pair
from ace.skillbook import history
from ace.skillbook.errors import EventRefusedError, SkillbookError, SkillbookFileError, SkillbookStoreError
from ace.skillbook.events import (
    NO_NUMBER,
    Added,
    Embedded,
    Event,
    Imported,
    Kept,
    RolledBack,
    Updated,
    apply_event,
    encode_compactly,
    encode_events,
    event_dict,
    rewritten_ids,
    touched_ids,
    with_ids,
)
from ace.skillbook.history import BlameEntry, HistoryEntry, SkillbookDiff
from ace.skillbook.json_read import decision_pair, object_value, read_entries
from ace.skillbook.state import BookState
from ace.skillbook.store import (
    AlreadyCommittedError,
    Commit,
    Head,
    SampleKey,
    SkillbookStore,
    SkillRow,
    VersionConflictError,
)

logger = logging.getLogger(__name__)

_PATIENT_TRIES = 3
_ROWS_AT_ONCE = 500

Refusal = tuple[Event, str]
"""An event that could not be reapplied, and the reason."""


@dataclass(slots=True)
class Rebase:
    """The result of reapplying changes."""

    renamed: dict[str, str] = field(default_factory=dict)
    """New ids of skills whose ids were taken by another process."""
    refused: list[Refusal] = field(default_factory=list)
    """Events that could not be reapplied, with the reasons."""


@final
class Journal:
    """The unsaved events, with the values that they replaced."""

    def __init__(self, state: BookState) -> None:
        self.events: list[Event] = []
        self._before: dict[str, tuple[Skill | None, int | None]] = {}
        self._decisions: dict[tuple[str, str], SimilarityDecision | None] = {}
        self._numbers = (state.next_id, state.id_floor, state.next_position)

    def make(self, state: BookState, event: Event) -> Event:
        """Apply the event to the book and record it. Returns the event as it was applied."""
        # The old values are read before the event changes them, and recorded after it was applied: an event that is
        # refused raises an error here, and must leave no trace in the journal.
        before = {id: (state.skills.get(id), state.positions.get(id)) for id in touched_ids(event)}
        decisions = {pair: state.decisions.get(pair) for pair in _pairs(event)}
        made = apply_event(state, event)
        if made is not event:  # a skill got another id, under which there was nothing before
            before |= {id: (None, None) for id in touched_ids(made) if id not in before}
            decisions |= {pair: None for pair in _pairs(made) if pair not in decisions}
        # `setdefault`: `undo` returns to the values before the first event, not before the last one.
        for id, old in before.items():
            self._before.setdefault(id, old)
        for pair, decision in decisions.items():
            self._decisions.setdefault(pair, decision)
        self.events.append(made)
        return made

    def changed_ids(self) -> Iterable[str]:
        """Return the ids of all skills that the events touched."""
        return self._before.keys()

    def changed_pairs(self) -> Iterable[tuple[str, str]]:
        """Return all pairs that the events decided about."""
        return self._decisions.keys()

    def clear(self, state: BookState) -> None:
        """Forget all events: the book is synchronized."""
        self.events = []
        self._before = {}
        self._decisions = {}
        self._numbers = (state.next_id, state.id_floor, state.next_position)

    def undo(self, state: BookState) -> list[Event]:
        """Undo all events and return them."""
        for id, (skill, position) in self._before.items():
            # `put` keeps the position of a skill that exists, so one that has moved is removed before.
            if id in state.skills and (skill is None or state.positions[id] != position):
                state.remove(id)
            if skill is not None:
                state.put(skill, position)
        for pair, decision in self._decisions.items():
            if decision is None:
                state.decisions.pop(pair, None)
            else:
                state.decisions[pair] = decision
        state.next_id, state.id_floor, state.next_position = self._numbers
        events = self.events
        self.clear(state)  # after the numbers were restored, which it records
        return events

    def redo(self, state: BookState, events: Sequence[Event]) -> tuple[dict[str, str], list[Refusal]]:
        """Reapply the events to a book that has changed.

        A new skill takes the next number of the book, since others may have used its old one.

        Returns:
            The old and new ids of skills whose id has changed, and the events that can no longer be applied.
        """
        self.clear(state)  # from here on, `undo` returns to this state, which includes the changes of others
        renamed: dict[str, str] = {}
        refused: list[Refusal] = []
        for event in events:
            try:
                # Later events refer to the skills of earlier ones, which may have new ids by now.
                made = self.make(state, _numbered_anew(with_ids(event, renamed), state))
            except EventRefusedError as error:
                refused.append((event, str(error)))
                continue
            renamed |= dict(_given_ids(event, made))
        return renamed, refused


def _numbered_anew(event: Event, state: BookState) -> Event:
    """Return the event with the next free number, if the book numbered its skill.

    Also if its old id is free: another process may have used and removed it, and an id is never used twice.
    """
    if not isinstance(event, Added) or event.number in (None, NO_NUMBER):
        return event
    new_id, number = state.free_id(event.skill.section)
    return event if number == event.number else Added(event.skill.replace(id=new_id), number)


def _pairs(event: Event) -> Iterable[tuple[str, str]]:
    match event:
        case Kept():
            return (similarity_pair(event.first_id, event.second_id),)
        case Imported():
            return tuple(similarity_pair(first, second) for first, second, _ in event.decisions)
        case _:
            return ()


def _given_ids(event: Event, made: Event) -> Iterable[tuple[str, str]]:
    """Return the old and the new id of each skill whose id has changed."""
    if isinstance(event, Added | Imported) and isinstance(made, Added | Imported):
        return [(old, new) for old, new in zip(touched_ids(event), touched_ids(made), strict=True) if old != new]
    return ()


def head_of(version: int, state: BookState) -> Head:
    """Return the data that a store keeps about a book besides its skills."""
    return Head(version, state.next_id, state.id_floor, state.next_position)


def row_of(skill: Skill, position: int) -> SkillRow:
    """Return the row of a skill, with its position in the book."""
    return SkillRow(skill.id, position, encode_compactly(skill.to_dict()), skill.embedding)


def decision_json(decision: SimilarityDecision) -> str:
    """Return a decision as JSON, as a store keeps it with the pair."""
    return json.dumps(decision.to_dict(), ensure_ascii=False)


def state_of(rows: Sequence[SkillRow], decisions: Sequence[tuple[str, str, str]], head: Head) -> BookState:
    """Return the book in these rows.

    Raises:
        SkillbookFileError: If a row is invalid; the error names it.
    """
    state = BookState()
    for row in rows:
        if not 0 <= row.position <= LARGEST_COUNT:
            raise SkillbookFileError(f"{row.position} is not a valid position", place=f"skills[{row.id!r}]")
        check_vector(row)
    entries = {row.id: fields for row, fields in zip(rows, _fields(rows), strict=True)}
    if len(entries) != len(rows):
        raise SkillbookFileError("an id appears twice", place="skills")
    skills = [
        skill if row.embedding is None else skill.replace(embedding=row.embedding)
        for row, skill in zip(rows, read_entries(entries), strict=True)
    ]
    state.fill(skills, [row.position for row in rows])
    for first, second, data in decisions:
        place = f"similarity_decisions[{f'{first},{second}'!r}]"
        fields = object_value(_parsed(data, place), place)
        pair, decision = decision_pair(f"{first},{second}", {**fields, "skill_ids": [first, second]})
        state.decisions[pair] = decision
    state.next_id, state.id_floor, state.next_position = head.next_id, head.id_floor, head.next_position
    return state


def check_vector(row: SkillRow) -> None:
    """Reject a vector whose size is not a multiple of 4 bytes.

    Raises:
        SkillbookFileError: If it has any other size.
    """
    if row.embedding is not None and len(row.embedding) % 4:
        reason = f"a vector has 4 bytes per number; {len(row.embedding)} is not a multiple of 4"
        raise SkillbookFileError(reason, place=f"skills[{row.id!r}].embedding")


def content_of(row: SkillRow) -> object:
    """Return the content in a row.

    Raises:
        SkillbookFileError: If the row is not a JSON object.
    """
    place = f"skills[{row.id!r}]"
    return object_value(_parsed(row.data, place), place).get("content")


def _fields(rows: Sequence[SkillRow]) -> Iterator[Any]:
    """Yield the fields of all rows. Other threads wait while many are parsed at once, as they hold the GIL."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield from _fields_of_some(rows[start : start + _ROWS_AT_ONCE])


def _fields_of_some(rows: Sequence[SkillRow]) -> list[Any]:
    """Return the fields of rows, parsed at once; on an error, one by one to find the invalid row."""
    try:
        together: list[Any] = json.loads(f"[{','.join(row.data for row in rows)}]")
    except (ValueError, RecursionError):
        together = []
    # The number of objects reveals a row that contains half an object, or two.
    return together if len(together) == len(rows) else [_parsed(row.data, f"skills[{row.id!r}]") for row in rows]


def _parsed(data: str, place: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SkillbookFileError(f"not valid JSON: {error}", place=place) from error


class CommitNote(NamedTuple):
    """The metadata of a commit."""

    at: str
    author: str = ""
    key: SampleKey | None = None
    progress: str | None = None
    skipped: Sequence[dict[str, object]] = ()


@final
class StoreBinding:
    """A store, and the version that the book in memory is based on."""

    def __init__(self, store: SkillbookStore, location: str | Path) -> None:
        self._store = store
        self._location = location
        self.is_closed = False
        self.version = 0

    @property
    def store(self) -> SkillbookStore:
        """The store.

        Raises:
            SkillbookStoreError: If it is closed.
        """
        self.check_open()
        return self._store

    def check_open(self) -> None:
        """Raise an error if the store is closed.

        Raises:
            SkillbookStoreError: If it is closed.
        """
        if self.is_closed:
            raise SkillbookStoreError(
                "this skillbook is closed and its store can no longer be used; reopen it with Skillbook.open"
            )

    def close(self) -> None:
        """Release the store."""
        self._store.close()
        self.is_closed = True

    def load(self, state: BookState) -> None:
        """Load the book from the store."""
        with gc_paused(), self._naming_it():
            stored = self.store.load()
            # `state_of` raises before `become`, so a damaged store leaves the book as it was, with its version.
            state.become(state_of(stored.skills, stored.decisions, stored.head))
        self.version = stored.head.version

    def catch_up(self, state: BookState, journal: Journal, rebase: Rebase) -> None:
        """Apply the commits of others, and reapply the changes of the journal on top of them."""
        if self.store.version() == self.version:
            return
        # The events of others are replayed on the state that they were made for: ids and positions come out as in every
        # other process that shares the store. An error from here on leaves the book at a committed version, without
        # the changes of the journal.
        mine = journal.undo(state)
        embedded: dict[str, None] = {}
        for stored in self.store.events(self.version):
            with self._naming_it():
                events = history.decoded(stored)
            if any(isinstance(event, RolledBack) for event in events):
                self.load(state)  # the newest version, beyond the batches that are still to be read
                break
            for event in events:
                apply_event(state, event)
                if isinstance(event, Embedded):
                    embedded |= dict.fromkeys(touched_ids(event))
            self.version = stored.version  # after all events of the batch: a version is applied as a whole
        self._take_vectors(state, embedded)
        renamed, refused = journal.redo(state, mine)
        # A commit may have to catch up several times: what was renamed before may be renamed again.
        for old, new in rebase.renamed.items():
            rebase.renamed[old] = renamed.get(new, new)
        rebase.renamed |= {old: new for old, new in renamed.items() if old not in rebase.renamed}
        rebase.refused += refused
        for event, reason in refused:
            logger.warning("A change conflicts with another process and was skipped: %s: %s", event_dict(event), reason)

    def commit(self, state: BookState, journal: Journal, note: CommitNote) -> Rebase:
        """Write the changes of the journal as one transaction.

        Raises:
            AlreadyCommittedError: If the sample has been committed already; the changes are rolled back.
            Exception: Any error of the store; the changes are rolled back.
        """
        rebase = Rebase()
        tries = 0
        # No lock is held on the store between two tries: the first writer to append wins, and the others reapply their
        # changes. A batch with a key is written even if it is empty, because it marks the sample as done.
        while journal.events or note.key is not None:
            try:
                self.store.append(self._commit(state, journal, note, rebase.refused))
            except VersionConflictError:
                tries += 1
                if tries > _PATIENT_TRIES:  # under contention; random, or the same processes would meet again
                    _wait(tries)
                self.catch_up(state, journal, rebase)
            except AlreadyCommittedError:
                # Another process has done the sample: its changes replace those of this one.
                journal.undo(state)
                self.catch_up(state, journal, rebase)
                raise
            except BaseException:
                # Ctrl-C may arrive within `append` when the store has just committed. The version stays the old one, so
                # the next `catch_up` reads these events from the history: nothing is lost or applied twice.
                journal.undo(state)
                raise
            else:  # only here, when the batch is on the disk
                self.version += 1
                break
        journal.clear(state)
        return rebase

    def roll_back(self, state: BookState, journal: Journal, version: int, at: str, author: str) -> int:
        """Restore the book to an earlier version, as a new version, and return its number."""
        while True:
            self.catch_up(state, journal, Rebase())
            old = history.rolled_back(state, self.state_at(version))
            rows = [row_of(skill, old.positions[skill.id]) for skill in old.ordered_skills().values()]
            decisions = [(*pair, decision_json(decision)) for pair, decision in sorted(old.decisions.items())]
            commit = Commit(
                expected_version=self.version,
                at=at,
                author=author,
                operations=encode_events([RolledBack(version)]),
                head=head_of(self.version + 1, old),
                changed=rows,
                decisions=decisions,
                replaces_all=True,
            )
            try:
                self.store.append(commit)
            except VersionConflictError:
                continue  # the rows would have replaced those of the other process; start from its version
            # The book changes only now: until the store has the new version, an error leaves it as it was.
            self.version += 1
            state.become(old)
            journal.clear(state)
            return self.version

    def entries(self, after: int) -> list[HistoryEntry]:
        """Return the versions above `after`, oldest first."""
        instance_of("after", after, int)
        with self._naming_it():
            return list(history.entries(self.store, after))

    def rewritten_after(self, version: int) -> frozenset[str] | None:
        """Return the ids of the skills that were added, removed or reworded since a version; None if unknown."""
        if version == self.version:
            return frozenset()
        try:
            events = [event for entry in self.entries(version) for event in entry.events]
        except SkillbookError as error:
            logger.info("Cannot determine what has changed since version %d: %s", version, error)
            return None
        if any(isinstance(event, RolledBack) for event in events):
            return None
        return frozenset(id for event in events for id in rewritten_ids(event))

    def state_at(self, version: int) -> BookState:
        """Return the book as it was at a version."""
        with self._naming_it():
            return history.state_at(self.store, version)

    def shown_at(self, state: BookState, journal: Journal, version: int) -> BookState:
        """Return the book as prompts showed it at a version.

        The history is replayed only if what was shown has been rewritten, moved or removed since.
        """
        if not journal.events:
            with self._naming_it():
                since = [
                    event for stored in self.store.events(version, self.version) for event in history.decoded(stored)
                ]
            then = history.before_events(state, since)
            if then is not None:
                return then
        return self.state_at(version)

    def difference(self, first: int, second: int) -> SkillbookDiff:
        """Return the differences between two versions."""
        return history.difference(self.state_at(first), self.state_at(second))

    def blame(self, skill_id: str) -> list[BlameEntry]:
        """Return every change to a skill, oldest first."""
        instance_of("skill_id", skill_id, str)
        with self._naming_it():
            return history.blame(self.store, skill_id)

    def before_decision(self, skill_id: str) -> Skill | None:
        """Return a skill as it was before it was last accepted or rejected; None if it never was."""
        decisions = [
            entry.version
            for entry in self.blame(skill_id)
            if isinstance(entry.event, Updated) and entry.event.status is not None
        ]
        return self.state_at(decisions[-1] - 1).skills.get(skill_id) if decisions else None

    @contextlib.contextmanager
    def _naming_it(self) -> Iterator[None]:
        """Add the location to an error that has none."""
        try:
            yield
        except SkillbookFileError as error:
            raise error if error.path is not None else error.at(self._location) from error

    def _take_vectors(self, state: BookState, ids: Iterable[str]) -> None:
        """Load vectors that others have stored, which are not in the history.

        They are read from the newest version, which may be later than the one that was replayed: a vector is only taken
        if it was computed from the text that the skill has here.
        """
        for row in self.store.rows(ids) if ids else ():
            skill = state.skills.get(row.id)
            with self._naming_it():
                check_vector(row)
                is_current = skill is not None and content_of(row) == skill.content
            if skill is not None and is_current:
                state.put(skill.replace(embedding=row.embedding))

    def _commit(self, state: BookState, journal: Journal, note: CommitNote, refused: Sequence[Refusal]) -> Commit:
        skipped = [
            *note.skipped,
            *({"event": event_dict(event), "reason": reason} for event, reason in refused),
        ]
        others = [event for event in journal.events if not isinstance(event, Embedded)]
        written = {id for event in others for id in touched_ids(event)}
        changed, removed, vectors = [], [], []
        for id in journal.changed_ids():
            skill = state.skills.get(id)
            if skill is None:
                removed.append(id)
            elif id not in written:  # only its vector has changed; the row of its text is not rewritten
                vectors.append((id, skill.embedding))
            else:
                changed.append(row_of(skill, state.positions[id]))
        decisions: list[tuple[str, str, str | None]] = []
        for first, second in journal.changed_pairs():
            decision = state.decisions.get((first, second))
            decisions.append((first, second, None if decision is None else decision_json(decision)))
        return Commit(
            expected_version=self.version,
            at=note.at,
            author=note.author,
            operations=encode_events(journal.events),
            head=head_of(self.version + 1, state),
            changed=changed,
            removed=removed,
            decisions=decisions,
            skipped=json.dumps(skipped),  # in ASCII: skipped texts may contain lone surrogates
            key=note.key,
            progress=note.progress,
            vectors=vectors,
        )


def _wait(tries: int) -> None:
    """Wait for a random time of up to 40 milliseconds, to let other processes go first."""
    import random  # needed under contention only, and slow to import

    time.sleep(random.random() * 0.002 * min(tries, 20))
