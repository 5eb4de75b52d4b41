"""How each event changes a book. Replay goes through here, and so does every method that writes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace

from ace.skill import INVALID, Skill, join_sources, similarity_pair
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.events import (
    Added,
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
from ace.skillbook.state import BookState

LARGEST_COUNT = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly."""


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
            skill = _existing(state, event.skill_id)
            if event.soft:
                state.put(skill.replace(status=INVALID, updated_at=event.at))
            else:
                state.remove(event.skill_id)
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


def _update(state: BookState, event: Updated) -> None:
    skill = _existing(state, event.skill_id)
    changes: dict[str, object] = {**event.texts, **_raised(skill, event.counters), "updated_at": event.at}
    if event.texts.get("content", skill.content) != skill.content:
        changes["embedding"] = None
    if event.source is not None:
        changes["sources"] = join_sources(skill.sources, (event.source,))
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
    counts = {tag: sum(skill.counts()[tag] for skill in (kept, *others)) for tag in kept.counts()}
    changes: dict[str, object] = {
        **counts,
        "sources": join_sources(kept.sources, *(skill.sources for skill in others)),
        "updated_at": event.at,
    }
    if event.content is not None and event.content != kept.content:
        changes |= {"content": event.content, "embedding": None}
    state.put(kept.replace(**changes))
    for skill in others:
        state.put(skill.replace(status=INVALID, merged_into=kept.id, updated_at=event.at))


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
