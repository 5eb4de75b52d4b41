"""The changes that a skillbook can go through: one closed union.

An event holds every id and every time that it needs, so replaying it never asks a clock or a counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ace.skill import InsightSource, SimilarityDecision, Skill

NO_NUMBER = 0
"""The number of an id that a model chose: the counter stays, and the skill may get another id."""


@dataclass(frozen=True, slots=True)
class Added:
    """A new skill."""

    skill: Skill
    number: int | None
    """The number in its id, or None for an id that somebody chose and that must stay."""


@dataclass(frozen=True, slots=True)
class Updated:
    """New values for some fields of a skill."""

    skill_id: str
    texts: Mapping[str, str]
    """New texts by field: section, content, justification, evidence."""
    counters: Mapping[str, int]
    """What is added to the counters."""
    source: InsightSource | None
    at: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """Counters that went up."""

    skill_id: str
    counters: Mapping[str, int]
    """What is added, by tag."""
    at: str


@dataclass(frozen=True, slots=True)
class Removed:
    """A skill that was taken out, or marked invalid."""

    skill_id: str
    soft: bool
    at: str


@dataclass(frozen=True, slots=True)
class Merged:
    """Skills that became one: counters add up, sources join, the others point to it."""

    keep_id: str
    merged_ids: tuple[str, ...]
    content: str | None
    at: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A pair that was judged to be kept apart."""

    first_id: str
    second_id: str
    decision: SimilarityDecision


@dataclass(frozen=True, slots=True)
class Imported:
    """Skills that came from somewhere else, with their counters and times."""

    skills: tuple[Skill, ...]
    decisions: tuple[tuple[str, str, SimilarityDecision], ...]
    next_id: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of contents.

    A history keeps their ids only: they are made from the contents, stand beside the skills in a store,
    and would be most of its size.
    """

    vectors: tuple[tuple[str, bytes | None, int], ...]
    """Skill id, vector (None in an event of the history), and checksum of the content that it stands for."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The book as it was at an earlier version of its history."""

    version: int


Event = Added | Updated | Tagged | Removed | Merged | Kept | Imported | Embedded | RolledBack


def with_ids(event: Event, renamed: Mapping[str, str]) -> Event:
    """Return the event with the ids that its skills have now."""
    match event:
        case Updated() | Tagged() | Removed():
            return replace(event, skill_id=renamed.get(event.skill_id, event.skill_id))
        case Merged():
            return replace(
                event,
                keep_id=renamed.get(event.keep_id, event.keep_id),
                merged_ids=tuple(renamed.get(id, id) for id in event.merged_ids),
            )
        case Kept():
            return replace(
                event,
                first_id=renamed.get(event.first_id, event.first_id),
                second_id=renamed.get(event.second_id, event.second_id),
            )
        case Embedded():
            vectors = tuple((renamed.get(id, id), vector, crc) for id, vector, crc in event.vectors)
            return Embedded(vectors)
        case Added() | Imported() | RolledBack():
            return event


def touched_ids(event: Event) -> tuple[str, ...]:
    """Return the ids of the skills that the event is about."""
    match event:
        case Added():
            return (event.skill.id,)
        case Updated() | Tagged() | Removed():
            return (event.skill_id,)
        case Merged():
            return (event.keep_id, *event.merged_ids)
        case Kept():
            return (event.first_id, event.second_id)
        case Imported():
            return tuple(skill.id for skill in event.skills)
        case Embedded():
            return tuple(id for id, _, _ in event.vectors)
        case RolledBack():
            return ()
