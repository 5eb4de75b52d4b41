"""The changes that a skillbook can go through: one closed union.

An event holds every id and every time that it needs, so replaying it never asks a clock or a counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ace.skill import CaseResult, InsightSource, SimilarityDecision, Skill, SkillCase

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
    cases: tuple[SkillCase, ...] = ()
    """Cases that join those of the skill."""


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
    """Skills that became one: counters add up, sources and cases join, the others point to it."""

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


class CaseRun(NamedTuple):
    """What became of a case when it was asked."""

    case_id: str
    result: CaseResult
    at: str
    model: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class CaseChange:
    """What changed about the cases of one skill."""

    put: tuple[SkillCase, ...] = ()
    """Cases that are added, or replace the one with their id."""
    removed: tuple[str, ...] = ()
    """The ids of cases that are removed."""
    results: tuple[CaseRun, ...] = ()
    """Results of cases; one that the skill does not have any more is ignored."""


@dataclass(frozen=True, slots=True)
class CasesChanged:
    """Cases of skills that were added, replaced, removed or asked again."""

    changes: Mapping[str, CaseChange]
    """The changes by skill id."""
    at: str


Event = Added | Updated | Tagged | Removed | Merged | Kept | Imported | Embedded | RolledBack | CasesChanged


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
        case CasesChanged():
            changes = {renamed.get(id, id): change for id, change in event.changes.items()}
            return replace(event, changes=changes)
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
        case CasesChanged():
            return tuple(event.changes)
        case RolledBack():
            return ()
