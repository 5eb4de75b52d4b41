"""Values from a file, checked one by one, with the place in every refusal."""

from __future__ import annotations

import math
from typing import Any

from ace.skill import SimilarityDecision, similarity_pair
from ace.skillbook.errors import SkillbookFileError


def text_value(value: Any, place: str) -> str:
    """Return the value, which must be a text."""
    if not isinstance(value, str):
        raise SkillbookFileError(f"this must be a text, not {shown(value)}", place=place)
    return value


def optional_text(value: Any, place: str) -> str | None:
    """Return the value, which must be a text or null."""
    return None if value is None else text_value(value, place)


def whole_number(value: Any, place: str, *, largest: int) -> int:
    """Return the value, which must be a whole number from 0 to the largest."""
    if type(value) is not int:
        raise SkillbookFileError(f"this must be a whole number, not {shown(value)}", place=place)
    if not 0 <= value <= largest:
        raise SkillbookFileError(f"this must be from 0 to {largest}, not {shown(value)}", place=place)
    return value


def member_list(value: Any, place: str) -> list[str]:
    """Return the value, which must be a list of ids."""
    if not isinstance(value, list):
        raise SkillbookFileError(f"this must be a list of ids, not {shown(value)}", place=place)
    return [text_value(item, f"{place}[{index}]") for index, item in enumerate(value)]


def object_value(value: Any, place: str) -> dict[str, Any]:
    """Return the value, which must be an object."""
    if not isinstance(value, dict):
        raise SkillbookFileError(f"this must be an object, not {shown(value)}", place=place)
    return value


def decision_pair(key: str, value: Any) -> tuple[tuple[str, str], SimilarityDecision]:
    """Return a pair of ids and what was decided about it."""
    place = f"similarity_decisions[{key!r}]"
    fields = object_value(value, place)
    ids = member_list(fields.get("skill_ids", key.split(",")), place)
    if len(ids) != 2:
        raise SkillbookFileError("the key must be two ids with a comma between", place=place)
    if unknown := fields.keys() - {"skill_ids", *SimilarityDecision.__dataclass_fields__}:
        raise SkillbookFileError("this field is unknown", place=f"{place}.{min(unknown)}")
    similarity = fields.get("similarity_at_decision", 0.0)
    if isinstance(similarity, bool) or not isinstance(similarity, int | float) or not math.isfinite(similarity):
        raise SkillbookFileError("this must be a number", place=f"{place}.similarity_at_decision")
    decision = SimilarityDecision(
        decision=text_value(fields.get("decision", "KEEP"), f"{place}.decision"),
        reasoning=text_value(fields.get("reasoning", ""), f"{place}.reasoning"),
        decided_at=text_value(fields.get("decided_at", ""), f"{place}.decided_at"),
        similarity_at_decision=float(similarity),
    )
    return similarity_pair(ids[0], ids[1]), decision


def shown(value: Any) -> str:
    """Return the value for an error text, cut to a readable length."""
    text = str(len(str(value))) + " digits" if type(value) is int and abs(value) > 10**30 else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
