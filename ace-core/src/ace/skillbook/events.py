"""The events of a skillbook, as a closed union: how each of them changes the state, and its form in a store.

An event contains all ids and times that it needs, so a replay uses neither a clock nor a counter. Both replays and the
methods that write use `apply_event`. A store keeps events as JSON, which `encode_events` writes and `decode_events`
reads.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

from ace._internal.decoding import LARGEST_COUNT, NO_OTHER_FIELDS, Count, Exactly, Truth, shown
from ace.skill import (
    INVALID,
    MAX_CASES,
    TAGS,
    CaseResult,
    InsightSource,
    SimilarityDecision,
    Skill,
    SkillCase,
    Status,
    join_cases,
    join_sources,
    similarity_pair,
)
from ace.skillbook.errors import EventRefusedError, SkillbookFileError
from ace.skillbook.json_read import checked, decision_pair, object_value, read_cases, read_skill
from ace.skillbook.state import BookState

NO_NUMBER = 0
"""The number of an id chosen by a model: the counter does not change, and the skill may get another id."""

_TextName = Annotated[str, Exactly(type="literal", expected=["section", "content", "justification", "evidence"])]
_Tag = Annotated[str, Exactly(type="literal", expected=list(TAGS))]


@dataclass(frozen=True, slots=True)
class Added:
    """A new skill."""

    skill: Skill
    number: Count | None
    """The number in its id, or None for an id that the caller chose and that must not change."""


@dataclass(frozen=True, slots=True)
class Updated:
    """New values for some fields of a skill."""

    skill_id: str
    texts: Mapping[_TextName, str]
    """New texts by field: section, content, justification, evidence."""
    counters: Mapping[_Tag, Count]
    """The increments of the counters."""
    source: InsightSource | None
    at: str
    cases: tuple[SkillCase, ...] = ()
    """Cases to add to the skill."""
    pinned: Truth | None = None
    """Whether to pin or unpin the skill; None changes nothing."""
    further_sources: tuple[InsightSource, ...] = ()
    """Further sources, if the skill was learned from several traces."""
    status: Status | None = None
    """The new status, such as that of a pending skill that was accepted or rejected; None leaves it unchanged."""
    reason: str = ""
    """The reason for the new status."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """Counters of a skill were incremented."""

    skill_id: str
    counters: Mapping[_Tag, Count]
    """The increments, by tag."""
    at: str


@dataclass(frozen=True, slots=True)
class Removed:
    """A skill was removed, or marked as invalid."""

    skill_id: str
    soft: Truth
    at: str


@dataclass(frozen=True, slots=True)
class Merged:
    """Skills were merged: counters are added, sources and cases are combined, the others refer to the merged one."""

    keep_id: str
    merged_ids: tuple[str, ...]
    content: str | None
    at: str


@dataclass(frozen=True, slots=True)
class Kept:
    """It was decided to keep both skills of a similar pair."""

    first_id: str
    second_id: str
    decision: SimilarityDecision


@dataclass(frozen=True, slots=True)
class Imported:
    """Skills were imported, with their counters and times."""

    skills: tuple[Skill, ...]
    decisions: tuple[tuple[str, str, SimilarityDecision], ...]
    next_id: Count


@dataclass(frozen=True, slots=True)
class Embedded:
    """Embeddings were stored.

    The history only contains their ids: they can be recomputed from the contents, are stored with the skills, and
    would make up most of the size of the history.
    """

    vectors: tuple[tuple[str, bytes | None, int], ...]
    """Skill id, vector (None in an event of the history), and checksum of the embedded content."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """An earlier version was restored."""

    version: Count


class CaseRun(NamedTuple):
    """The result of running a case."""

    case_id: str
    result: CaseResult
    at: str
    model: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class CaseChange:
    """The changes to the cases of one skill."""

    __pydantic_config__ = NO_OTHER_FIELDS

    put: tuple[SkillCase, ...] = ()
    """Cases to add, or to replace by id."""
    removed: tuple[str, ...] = ()
    """The ids of cases to remove."""
    results: tuple[CaseRun, ...] = ()
    """Results of cases; those of cases that no longer exist are ignored."""
    checksum: Count | None = None
    """Checksum of the content with which the cases were run; if the skill's content differs, results are ignored."""


@dataclass(frozen=True, slots=True)
class CasesChanged:
    """Cases of skills were added, replaced, removed or run."""

    changes: Mapping[str, CaseChange]
    """The changes by skill id."""
    at: str


Event = Added | Updated | Tagged | Removed | Merged | Kept | Imported | Embedded | RolledBack | CasesChanged


def with_ids(event: Event, renamed: Mapping[str, str]) -> Event:
    """Return the event with the current ids of its skills."""
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
    """Return the ids of the skills that the event affects."""
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


def rewritten_ids(event: Event) -> tuple[str, ...]:
    """Return the ids of the skills that the event adds or removes, or whose text or section it may change."""
    match event:
        case Tagged() | Kept() | Embedded() | CasesChanged():
            return ()
        case Updated():
            is_rewritten = event.status is not None or {"section", "content"} & event.texts.keys()
            return (event.skill_id,) if is_rewritten else ()
        case Merged():
            return event.merged_ids if event.content is None else (event.keep_id, *event.merged_ids)
        case _:
            return touched_ids(event)


def apply_event(state: BookState, event: Event) -> Event:
    """Apply an event to the state of a skillbook.

    Args:
        state: The state, which is changed.

    Returns:
        The event as it was applied: a new skill may have received another id.

    Raises:
        EventRefusedError: If the event is not possible in this state; nothing is changed.
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
            raise EventRefusedError("a rollback can only be replayed from a history, not applied to a skillbook")
    return event


def content_checksum(content: str) -> int:
    """Return the checksum that links a vector to the text that was embedded."""
    return zlib.crc32(content.encode("utf-8"))


def _existing(state: BookState, skill_id: str) -> Skill:
    skill = state.skills.get(skill_id)
    if skill is None:
        raise EventRefusedError(f"no such skill: {skill_id!r}")
    return skill


def _add(state: BookState, event: Added) -> Added:
    if event.skill.id in state.skills:
        if event.number is None:
            raise EventRefusedError(f"there is already a skill {event.skill.id!r}; omit the id to get a new one")
        new_id, number = state.free_id(event.skill.section)
        event = Added(event.skill.replace(id=new_id), number)
    state.put(event.skill)
    if event.number is not None:
        state.take_number(event.number)
    return event


def _remove(state: BookState, event: Removed) -> None:
    skill = _existing(state, event.skill_id)
    if skill.pinned and skill.is_active:
        raise EventRefusedError(f"the skill {skill.id!r} is pinned; unpin it before removing it")
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
        changes["sources"] = join_sources(skill.sources, (event.source, *event.further_sources))
    if event.pinned is not None:
        changes["pinned"] = event.pinned
    if event.status is not None:
        changes |= {"status": event.status, "reason": event.reason}
    state.put(skill.replace(**changes))


def _raised(skill: Skill, increments: Mapping[str, int]) -> dict[str, int]:
    """Return the incremented counters."""
    if not increments:
        return {}
    counts = skill.counts()
    raised = {}
    for tag, increment in increments.items():
        raised[tag] = counts[tag] + increment
        if raised[tag] > LARGEST_COUNT:
            raise EventRefusedError(f"{tag} of {skill.id!r} would exceed {LARGEST_COUNT}")
    return raised


def _merge(state: BookState, event: Merged) -> None:
    kept = _existing(state, event.keep_id)
    others = [_existing(state, id) for id in event.merged_ids]
    for skill in others:
        if skill.pinned:
            raise EventRefusedError(f"the skill {skill.id!r} is pinned; unpin it before merging it into another one")
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
    """Return the cases of all skills, those of the remaining one first. Results for another text are reset.

    Their number is not limited: a merged skill replaces all of them, so it has to pass all of their cases.
    """
    content = kept.content if event.content is None else event.content
    groups = (
        skill.cases if skill.content == content else _not_run(skill.cases)
        for skill in (*reversed(others), kept)  # of two cases with the same id, that of the remaining skill is kept
    )
    by_id = {case.id: case for case in join_cases(*groups)}
    return tuple(by_id[id] for id in dict.fromkeys(case.id for skill in (kept, *others) for case in skill.cases))


def _not_run(cases: Sequence[SkillCase]) -> tuple[SkillCase, ...]:
    """Return the cases without their results, which were obtained with another text."""
    return tuple(
        case
        if case.last_result == "not_run"
        else replace(case, last_result="not_run", last_run_at="", model="", answer="")
        for case in cases
    )


def _joined(cases: Sequence[SkillCase], further: Sequence[SkillCase]) -> tuple[SkillCase, ...]:
    """Return the cases with those that learning added; a case without a result does not replace an existing one."""
    known = {case.id for case in cases}
    news = [case for case in further if case.id not in known or case.last_result != "not_run"]
    return join_cases(cases, news)[: max(MAX_CASES, len(cases))]


def _change_cases(state: BookState, event: CasesChanged) -> None:
    for id, change in event.changes.items():
        if change.put:
            _existing(state, id)
    for id, change in event.changes.items():
        skill = state.skills.get(id)
        if skill is None:  # another process removed it with its cases
            continue
        cases = _changed_cases(skill, change)
        if cases == skill.cases:
            continue
        # A result does not change the skill, and neither does a vector.
        at = event.at if change.put or change.removed else skill.updated_at
        state.put(skill.replace(cases=cases, updated_at=at))


def _changed_cases(skill: Skill, change: CaseChange) -> tuple[SkillCase, ...]:
    is_same_text = change.checksum is None or change.checksum == content_checksum(skill.content)
    runs = {run.case_id: run for run in change.results} if is_same_text else {}
    kept = [
        replace(case, last_result=run.result, last_run_at=run.at, model=run.model, answer=run.answer)
        if (run := runs.get(case.id)) is not None
        else case
        for case in skill.cases
        if case.id not in change.removed
    ]
    return join_cases(kept, change.put)


def _import(state: BookState, event: Imported) -> Imported:
    """Add all skills; one whose id is taken gets a new id, which also replaces the old one in its decisions."""
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
    """Set the vectors, except those of skills whose text has changed in the meantime."""
    for id, vector, checksum in event.vectors:
        skill = state.skills.get(id)
        if skill is not None and vector is not None and content_checksum(skill.content) == checksum:
            state.put_vector(id, vector)


# `json.dumps` with options makes an encoder for each call, which takes a quarter of the time for a short text.
encode_compactly = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Serializes an object of a store as one line of JSON."""

_AS_FIELDS: Mapping[str, type[Event]] = {
    "update": Updated,
    "tag": Tagged,
    "remove": Removed,
    "merge": Merged,
    "rollback": RolledBack,
}
"""The events whose JSON has the fields of the class."""


def encode_events(events: Sequence[Event]) -> str:
    """Return the events as one compact JSON text."""
    return encode_compactly([event_dict(event) for event in events])


def decode_events(text: str) -> tuple[Event, ...]:
    """Return the events of a text that `encode_events` wrote.

    Raises:
        ValueError: If it is not a valid list of events.
        KeyError: If a field is missing.
        RecursionError: If it is nested too deeply.
    """
    events = json.loads(text)
    if not isinstance(events, list):
        raise SkillbookFileError(f"must be a list of events, got {shown(events)}")
    return tuple(_event(object_value(fields, f"event {place}")) for place, fields in enumerate(events))


def event_dict(event: Event) -> dict[str, Any]:
    """Return the event as a dict; `kind` is its type."""
    match event:
        case Added():
            return {"kind": "add", "skill": event.skill.to_dict(), "number": event.number}
        case Updated():
            cases = {"cases": [case.to_dict() for case in event.cases]} if event.cases else {}
            pinned = {} if event.pinned is None else {"pinned": event.pinned}
            further = [source.to_dict() for source in event.further_sources]
            return {
                "kind": "update",
                "skill_id": event.skill_id,
                "texts": dict(event.texts),
                "counters": dict(event.counters),
                "source": None if event.source is None else event.source.to_dict(),
                "at": event.at,
                **cases,
                **pinned,
                **({"further_sources": further} if further else {}),
                **({} if event.status is None else {"status": event.status, "reason": event.reason}),
            }
        case Tagged():
            counters = dict(event.counters)
            return {"kind": "tag", "skill_id": event.skill_id, "counters": counters, "at": event.at}
        case Removed():
            return {"kind": "remove", "skill_id": event.skill_id, "soft": event.soft, "at": event.at}
        case Merged():
            return {
                "kind": "merge",
                "keep_id": event.keep_id,
                "merged_ids": list(event.merged_ids),
                "content": event.content,
                "at": event.at,
            }
        case Kept():
            return {
                "kind": "keep",
                "skill_ids": [event.first_id, event.second_id],
                **event.decision.to_dict(),
            }
        case Imported():
            return {
                "kind": "import",
                "skills": [skill.to_dict() for skill in event.skills],
                "decisions": [{"skill_ids": [a, b], **decision.to_dict()} for a, b, decision in event.decisions],
                "next_id": event.next_id,
            }
        case Embedded():
            return {"kind": "embed", "skills": [[id, checksum] for id, _, checksum in event.vectors]}
        case RolledBack():
            return {"kind": "rollback", "version": event.version}
        case CasesChanged():
            changes = {id: _change_dict(change) for id, change in event.changes.items()}
            return {"kind": "cases", "skills": changes, "at": event.at}


def _change_dict(change: CaseChange) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "put": [case.to_dict() for case in change.put],
        "removed": list(change.removed),
        "results": [list(run) for run in change.results],
    }
    if change.checksum is not None:
        fields["checksum"] = change.checksum
    return {name: value for name, value in fields.items() if value != []}


def _event(fields: dict[str, Any]) -> Event:
    match fields["kind"]:
        case "update" | "tag" | "remove" | "merge" | "rollback" as kind:
            event = checked(_AS_FIELDS[kind], fields, "")
            if isinstance(event, Updated) and event.cases:
                read_cases(fields["cases"], "cases")
            return event
        case "add":
            return checked(Added, {**fields, "skill": _skill(fields["skill"])}, "")
        case "keep":
            (first, second), decision = _pair(fields)
            return Kept(first, second, decision)
        case "import":
            skills = map(_skill, checked(list[Any], fields["skills"], "skills"))
            pairs = map(_pair, checked(list[Any], fields["decisions"], "decisions"))
            decisions = [(*pair, decision) for pair, decision in pairs]
            return checked(Imported, {**fields, "skills": list(skills), "decisions": decisions}, "")
        case "embed":
            vectors = checked(list[tuple[str, Count]], fields["skills"], "skills")
            return Embedded(tuple((id, None, checksum) for id, checksum in vectors))
        case "cases":
            changes = object_value(fields["skills"], "skills")
            return CasesChanged(
                {id: _change(change, f"skills[{id!r}]") for id, change in changes.items()},
                checked(str, fields["at"], "at"),
            )
        case kind:
            raise ValueError(f"unknown kind of event {kind!r}, written by a newer version of ace")


def _change(fields: Any, place: str) -> CaseChange:
    change = checked(CaseChange, fields, place)
    if change.put:
        read_cases(fields["put"], f"{place}.put")
    return change


def _pair(fields: object) -> tuple[tuple[str, str], SimilarityDecision]:
    rest = {name: value for name, value in object_value(fields, "decision").items() if name != "kind"}
    return decision_pair(",".join(sorted(checked(list[str], rest["skill_ids"], "skill_ids"))), rest)


def _skill(fields: object) -> Skill:
    values = object_value(fields, "skill")
    return read_skill(checked(str, values["id"], "id"), values)
