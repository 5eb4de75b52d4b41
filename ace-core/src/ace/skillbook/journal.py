"""The journal: the changes since a skillbook was last synchronized with its file or store, and how to undo them.

If another process has committed first, the skillbook returns to the last common state, applies the other changes, and
reapplies its own. Only what the events changed is undone, so the cost of a commit depends on the number of changes, not
on the size of the skillbook.

Who calls what: every method of `Skillbook` that writes makes its event through `Journal.make`; `StoreBinding.commit`
undoes and redoes the events when the store has newer versions; `JsonFiles.merge` redoes them on the newest file. All of
them run on the thread of the caller, who holds the lock of the skillbook. Nothing here locks, waits or reads a clock.

Invariants:

- `undo` restores exactly the state that the book had when the journal was created or last cleared. To that end, the
  first value that an event replaced is kept for each skill and each pair; later events do not overwrite it.
- `events` contains the events as they were applied, in order, with the ids that the skills have in this book.
- An event that cannot be applied changes nothing and is not in the journal.
- An id that the book numbered, or that a model chose, may change in `redo`; one that the caller chose never does, and
  its event is refused if another process has taken the id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

from ace.skill import SimilarityDecision, Skill, similarity_pair
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.events import NO_NUMBER, Added, Event, Imported, Kept, apply_event, touched_ids, with_ids
from ace.skillbook.state import BookState

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
        before = {id: (state.skills.get(id), state.positions.get(id)) for id in touched_ids(event)}
        decisions = {pair: state.decisions.get(pair) for pair in _pairs(event)}
        made = apply_event(state, event)
        if made is not event:
            before |= {id: (None, None) for id in touched_ids(made) if id not in before}
            decisions |= {pair: None for pair in _pairs(made) if pair not in decisions}
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
        self.clear(state)
        return events

    def redo(self, state: BookState, events: Sequence[Event]) -> tuple[dict[str, str], list[Refusal]]:
        """Reapply the events to a book that has changed.

        A new skill takes the next number of the book, since others may have used its old one.

        Returns:
            The old and new ids of skills whose id has changed, and the events that can no longer be applied.
        """
        self.clear(state)
        renamed: dict[str, str] = {}
        refused: list[Refusal] = []
        for event in events:
            try:
                made = self.make(state, _numbered_anew(with_ids(event, renamed), state))
            except EventRefusedError as error:
                refused.append((event, str(error)))
                continue
            renamed |= dict(_given_ids(event, made))
        return renamed, refused


def _numbered_anew(event: Event, state: BookState) -> Event:
    """Return the event with the next free number, if the book numbered its skill."""
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
