"""The schema that a server is asked to hold a model to while it writes its answer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["accepted_schema"]

_LEFT_OUT = frozenset({"pattern", "format"})
"""Servers read some of these wrongly or not at all. The answer is validated afterwards anyway."""
_NAMES_OF_FIELDS = frozenset({"properties", "$defs"})


@lru_cache(maxsize=64)
def accepted_schema(response_model: type[BaseModel]) -> dict[str, Any]:
    """Return the setting `response_format` of a chat request.

    Args:
        response_model: The class of the answer.

    Example:
        >>> from ace.outputs import SkillTag
        >>> accepted_schema(SkillTag)["json_schema"]["name"]
        'SkillTag'
    """
    schema = _accepted(response_model.model_json_schema())
    return {"type": "json_schema", "json_schema": {"name": response_model.__name__, "schema": schema}}


def _accepted(node: Any) -> Any:
    if isinstance(node, list):
        return [_accepted(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        name: {field: _accepted(inner) for field, inner in value.items()}
        if name in _NAMES_OF_FIELDS
        else _accepted(value)
        for name, value in node.items()
        if name not in _LEFT_OUT
    }
