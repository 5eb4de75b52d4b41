"""The rows of a store, and the state that they hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ace.skill import SimilarityDecision, Skill
from ace.skillbook.checked import decision_pair, object_value
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.events import LARGEST_COUNT
from ace.skillbook.json_read import read_entries
from ace.skillbook.json_write import skill_dict
from ace.skillbook.state import BookState
from ace.skillbook.store import Head, SkillRow


def head_of(version: int, state: BookState) -> Head:
    """Return what a store notes about a book beside its skills."""
    return Head(version, state.next_id, state.id_floor, state.next_position)


def row_of(skill: Skill, position: int) -> SkillRow:
    """Return the row of a skill at its place in the book."""
    data = json.dumps(skill_dict(skill), ensure_ascii=False, separators=(",", ":"))
    return SkillRow(skill.id, position, data, skill.embedding)


def decision_json(decision: SimilarityDecision) -> str:
    """Return the text that a store keeps of a decision; the pair stands beside it."""
    return json.dumps(decision.to_dict(), ensure_ascii=False)


def state_of(rows: Sequence[SkillRow], decisions: Sequence[tuple[str, str, str]], head: Head) -> BookState:
    """Return the book that these rows hold.

    Raises:
        SkillbookFileError: If a row is not as this store writes it; it tells which.
    """
    state = BookState()
    for row in rows:
        if not 0 <= row.position <= LARGEST_COUNT:
            raise SkillbookFileError(f"{row.position} is not a position", place=f"skills[{row.id!r}]")
        check_vector(row)
    entries = {row.id: fields for row, fields in zip(rows, _fields(rows), strict=True)}
    if len(entries) != len(rows):
        raise SkillbookFileError("an id is there twice", place="skills")
    skills = read_entries(entries)
    for row, skill in zip(rows, skills, strict=True):
        if row.embedding is not None:
            skill = skill.replace(embedding=row.embedding)
        state.put(skill, row.position)
    for first, second, data in decisions:
        place = f"similarity_decisions[{f'{first},{second}'!r}]"
        fields = object_value(_parsed(data, place), place)
        pair, decision = decision_pair(f"{first},{second}", {**fields, "skill_ids": [first, second]})
        state.decisions[pair] = decision
    state.next_id, state.id_floor, state.next_position = head.next_id, head.id_floor, head.next_position
    return state


def check_vector(row: SkillRow) -> None:
    """Refuse a vector that is not made of numbers of four bytes.

    Raises:
        SkillbookFileError: It has another length.
    """
    if row.embedding is not None and len(row.embedding) % 4:
        reason = f"a vector of {len(row.embedding)} bytes is not made of numbers of four bytes"
        raise SkillbookFileError(reason, place=f"skills[{row.id!r}].embedding")


def content_of(row: SkillRow) -> object:
    """Return the content in a row.

    Raises:
        SkillbookFileError: The row is not the JSON of an object.
    """
    place = f"skills[{row.id!r}]"
    return object_value(_parsed(row.data, place), place).get("content")


def _fields(rows: Sequence[SkillRow]) -> list[Any]:
    """Return the fields of all rows: in one go, and one by one to find what is wrong."""
    try:
        together: list[Any] = json.loads(f"[{','.join(row.data for row in rows)}]")
    except (ValueError, RecursionError):
        together = []
    # A row that holds the half of an object, or two of them, is found by the number of objects.
    return together if len(together) == len(rows) else [_parsed(row.data, f"skills[{row.id!r}]") for row in rows]


def _parsed(data: str, place: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SkillbookFileError(f"no valid JSON: {error}", place=place) from error
