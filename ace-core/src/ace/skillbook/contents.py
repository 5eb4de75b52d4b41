"""What a file or a store holds of a book: skills in order, decisions, the counter."""

from __future__ import annotations

from dataclasses import dataclass, field

from ace.skill import SimilarityDecision, Skill
from ace.skillbook.state import BookState


@dataclass(slots=True)
class BookContents:
    """A book between its state in memory and a format."""

    skills: list[Skill] = field(default_factory=list)
    decisions: dict[tuple[str, str], SimilarityDecision] = field(default_factory=dict)
    next_id: int = 1
    ignored_fields: tuple[str, ...] = ()
    """Fields of a foreign file that have no place in a skillbook: such a file is not saved over."""


def state_from(contents: BookContents) -> BookState:
    """Return a book with these contents."""
    state = BookState()
    state.fill(contents.skills)
    state.decisions = dict(contents.decisions)
    state.next_id = state.id_floor = contents.next_id
    return state
