"""Reads operations on similar skills as a skill manager writes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ace.deduplication.operations import ConsolidationOperation, DeleteOp, KeepOp, MergeOp, UpdateOp

__all__ = ["parse_consolidation_operations"]

_logger = logging.getLogger(__name__)
_KEY = "consolidation_operations"


def parse_consolidation_operations(data: object) -> list[ConsolidationOperation]:
    """Read operations as a model writes them. What cannot be read is left out and logged.

    Args:
        data: An object with the list `consolidation_operations`, or the list alone.

    Example:
        >>> parse_consolidation_operations([{"type": "delete", "skill_id": "maths-00002"}, {"type": "?"}])
        [DeleteOp(skill_id='maths-00002', reasoning='', type='DELETE')]
    """
    items = data.get(_KEY) if isinstance(data, Mapping) else data
    if items is None:
        return []
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        _logger.warning("%s is no list but %s; nothing of it was read", _KEY, type(items).__name__)
        return []
    found = []
    for place, item in enumerate(items):
        try:
            found.append(_operation(item))
        except ValueError as error:
            _logger.warning("%s[%d] was left out: %s", _KEY, place, error)
    return found


def _operation(item: Any) -> ConsolidationOperation:
    """Read one operation.

    Raises:
        ValueError: If it cannot be read; the text names the field.
    """
    if not isinstance(item, Mapping):
        raise ValueError(f"an operation is an object with a 'type', not {item!r:.60}")
    kind = str(item.get("type", "")).strip().upper()
    reasoning = _text(item, "reasoning", needed=False)
    match kind:
        case "MERGE":
            content = _text(item, "merged_content", needed=False)
            return MergeOp(_ids(item, "source_ids"), _text(item, "keep_id"), content, reasoning)
        case "DELETE":
            return DeleteOp(_text(item, "skill_id"), reasoning)
        case "KEEP":
            return KeepOp(_ids(item, "skill_ids"), _text(item, "differentiation", needed=False), reasoning)
        case "UPDATE":
            return UpdateOp(_text(item, "skill_id"), _text(item, "new_content"), reasoning)
    raise ValueError(f"the type {item.get('type')!r:.60} is unknown; use MERGE, DELETE, KEEP or UPDATE")


def _text(item: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
    value = item.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise ValueError(f"{name!r} must be a text, not {value!r:.60}")
    return value


def _ids(item: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = item.get(name)
    if not isinstance(value, list | tuple) or not all(isinstance(id, str) for id in value):
        raise ValueError(f"{name!r} must be a list of ids, not {value!r:.60}")
    return tuple(dict.fromkeys(value))
