"""The rows of a store, and the state that they hold."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ace.skill import SimilarityDecision, Skill
from ace.skillbook.checked import decision_pair
from ace.skillbook.errors import SkillbookFileError
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
    skills = read_entries({row.id: fields for row, fields in zip(rows, _fields(rows), strict=True)})
    for row, skill in zip(rows, skills, strict=True):
        if row.embedding is not None:
            skill = skill.replace(embedding=row.embedding)
        state.put(skill, row.position)
    for first, second, data in decisions:
        pair, decision = decision_pair("", {**json.loads(data), "skill_ids": [first, second]})
        state.decisions[pair] = decision
    state.next_id, state.id_floor, state.next_position = head.next_id, head.id_floor, head.next_position
    return state


def _fields(rows: Sequence[SkillRow]) -> list[dict[str, object]]:
    """Return the fields of all rows: in one go, and one by one to find what is wrong."""
    try:
        together: list[dict[str, object]] = json.loads(f"[{','.join(row.data for row in rows)}]")
        return together
    except json.JSONDecodeError:
        return [_field_values(row) for row in rows]


def _field_values(row: SkillRow) -> dict[str, object]:
    try:
        fields: dict[str, object] = json.loads(row.data)
    except json.JSONDecodeError as error:
        raise SkillbookFileError(f"no valid JSON: {error}", place=f"skills[{row.id!r}]") from error
    return fields
