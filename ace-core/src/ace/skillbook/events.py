"""What can happen to a skillbook, as one closed union of events, and how each of them changes the book.

An event holds every id and every time that it needs, so replaying it never asks a clock or a counter. Replay goes
through `apply_event`, and so does every method that writes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ace.skill import (
    INVALID,
    MAX_CASES,
    CaseResult,
    InsightSource,
    SimilarityDecision,
    Skill,
    SkillCase,
    join_cases,
    join_sources,
    similarity_pair,
)
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.state import BookState

NO_NUMBER = 0
"""The number of an id that a model chose: the counter stays, and the skill may get another id."""
LARGEST_COUNT = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly."""


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
    pinned: bool | None = None
    """Whether the skill is pinned from now on; None changes nothing."""


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


def apply_event(state: BookState, event: Event) -> Event:
    """Change the book as the event says.

    Args:
        state: The book.
        event: The change.

    Returns:
        The event as it was made: a new skill may have got another id.

    Raises:
        EventRefusedError: If the book does not allow it; nothing is changed then.
    """
    match event:
        case Added():
            return _add(state, event)
        case Removed():
            _remove(state, event)
        case Updated():
            _update(state, event)
        case Tagged():
            skill = _existing(state, event.skill_id)
            state.put(skill.replace(**_raised(skill, event.counters), updated_at=event.at))
        case Merged():
            _merge(state, event)
        case Kept():
            _existing(state, event.first_id)
            _existing(state, event.second_id)
            state.decisions[similarity_pair(event.first_id, event.second_id)] = event.decision
        case Imported():
            return _import(state, event)
        case Embedded():
            _embed(state, event)
        case CasesChanged():
            _change_cases(state, event)
        case RolledBack():
            raise EventRefusedError("a rollback is replayed from a history, not applied to a book")
    return event


def content_checksum(content: str) -> int:
    """Return the number that ties a vector to the text it was made from."""
    return zlib.crc32(content.encode("utf-8"))


def _existing(state: BookState, skill_id: str) -> Skill:
    skill = state.skills.get(skill_id)
    if skill is None:
        raise EventRefusedError(f"there is no skill {skill_id!r}")
    return skill


def _add(state: BookState, event: Added) -> Added:
    if event.skill.id in state.skills:
        if event.number is None:
            raise EventRefusedError(f"there is a skill {event.skill.id!r} already; leave the id out to get a free one")
        new_id, number = state.free_id(event.skill.section)
        event = Added(event.skill.replace(id=new_id), number)
    state.put(event.skill)
    if event.number is not None:
        state.take_number(event.number)
    return event


def _remove(state: BookState, event: Removed) -> None:
    skill = _existing(state, event.skill_id)
    if skill.pinned and skill.is_active:
        raise EventRefusedError(f"the skill {skill.id!r} is pinned; unpin it before it is removed")
    if event.soft:
        state.put(skill.replace(status=INVALID, updated_at=event.at))
    else:
        state.remove(event.skill_id)


def _update(state: BookState, event: Updated) -> None:
    skill = _existing(state, event.skill_id)
    changes: dict[str, object] = {**event.texts, **_raised(skill, event.counters), "updated_at": event.at}
    if event.texts.get("content", skill.content) != skill.content:
        changes |= {"embedding": None, "cases": _not_run(skill.cases)}
    if event.cases:
        changes["cases"] = _joined(_not_run(skill.cases) if "cases" in changes else skill.cases, event.cases)
    if event.source is not None:
        changes["sources"] = join_sources(skill.sources, (event.source,))
    if event.pinned is not None:
        changes["pinned"] = event.pinned
    state.put(skill.replace(**changes))


def _raised(skill: Skill, increments: Mapping[str, int]) -> dict[str, int]:
    """Return the counters after the increments."""
    counts = skill.counts()
    raised = {}
    for tag, increment in increments.items():
        raised[tag] = counts[tag] + increment
        if raised[tag] > LARGEST_COUNT:
            raise EventRefusedError(f"{tag} of {skill.id!r} would pass {LARGEST_COUNT}")
    return raised


def _merge(state: BookState, event: Merged) -> None:
    kept = _existing(state, event.keep_id)
    others = [_existing(state, id) for id in event.merged_ids]
    for skill in others:
        if skill.pinned:
            raise EventRefusedError(f"the skill {skill.id!r} is pinned; unpin it before it is merged into another one")
    counts = {tag: sum(skill.counts()[tag] for skill in (kept, *others)) for tag in kept.counts()}
    changes: dict[str, object] = {
        **counts,
        "sources": join_sources(kept.sources, *(skill.sources for skill in others)),
        "updated_at": event.at,
    }
    if event.content is not None and event.content != kept.content:
        changes |= {"content": event.content, "embedding": None}
    cases = _merged_cases(kept, others, event)
    if cases != kept.cases:
        changes["cases"] = cases
    state.put(kept.replace(**changes))
    for skill in others:
        state.put(skill.replace(status=INVALID, merged_into=kept.id, updated_at=event.at))


def _merged_cases(kept: Skill, others: Sequence[Skill], event: Merged) -> tuple[SkillCase, ...]:
    """Return the cases of all, those of the skill that stays first. What was answered with another text counts no more.

    There is no limit to them: a merged skill says what all of them said, so it has to prove all of it.
    """
    content = kept.content if event.content is None else event.content
    groups = (
        skill.cases if skill.content == content else _not_run(skill.cases)
        for skill in (*reversed(others), kept)  # of two cases with one id, the one of the skill that stays counts
    )
    by_id = {case.id: case for case in join_cases(*groups)}
    return tuple(by_id[id] for id in dict.fromkeys(case.id for skill in (kept, *others) for case in skill.cases))


def _not_run(cases: Sequence[SkillCase]) -> tuple[SkillCase, ...]:
    """Return the cases without results: they are those of another text."""
    return tuple(
        case
        if case.last_result == "not_run"
        else replace(case, last_result="not_run", last_run_at="", model="", answer="")
        for case in cases
    )


def _joined(cases: Sequence[SkillCase], further: Sequence[SkillCase]) -> tuple[SkillCase, ...]:
    """Return the cases with those that learning found; one that was not run does not replace the one that is there."""
    known = {case.id for case in cases}
    news = [case for case in further if case.id not in known or case.last_result != "not_run"]
    return join_cases(cases, news)[: max(MAX_CASES, len(cases))]


def _change_cases(state: BookState, event: CasesChanged) -> None:
    for id, change in event.changes.items():
        if change.put:
            _existing(state, id)
    for id, change in event.changes.items():
        skill = state.skills.get(id)
        if skill is None:  # somebody else removed it, and its cases with it
            continue
        cases = _changed_cases(skill, change)
        if cases == skill.cases:
            continue
        # A result is not a change of the skill, as a vector is none.
        at = event.at if change.put or change.removed else skill.updated_at
        state.put(skill.replace(cases=cases, updated_at=at))


def _changed_cases(skill: Skill, change: CaseChange) -> tuple[SkillCase, ...]:
    runs = {run.case_id: run for run in change.results}
    kept = [
        replace(case, last_result=run.result, last_run_at=run.at, model=run.model, answer=run.answer)
        if (run := runs.get(case.id)) is not None
        else case
        for case in skill.cases
        if case.id not in change.removed
    ]
    return join_cases(kept, change.put)


def _import(state: BookState, event: Imported) -> Imported:
    """Add all skills; one whose id is taken gets a new one, and its pairs follow it."""
    state.next_id = max(state.next_id, event.next_id)
    state.id_floor = max(state.id_floor, state.next_id)
    renamed: dict[str, str] = {}
    skills = []
    for skill in event.skills:
        if skill.id in state.skills:
            new_id, number = state.free_id(skill.section)
            renamed[skill.id] = new_id
            state.take_number(number)
            skill = skill.replace(id=new_id)
        state.put(skill)
        skills.append(skill)
    decisions = []
    for first, second, decision in event.decisions:
        pair = similarity_pair(renamed.get(first, first), renamed.get(second, second))
        state.decisions[pair] = decision
        decisions.append((*pair, decision))
    return replace(event, skills=tuple(skills), decisions=tuple(decisions), next_id=state.next_id)


def _embed(state: BookState, event: Embedded) -> None:
    """Set the vectors that are known; one whose text has changed meanwhile is left out."""
    for id, vector, checksum in event.vectors:
        skill = state.skills.get(id)
        if skill is not None and vector is not None and content_checksum(skill.content) == checksum:
            state.put_vector(id, vector)
