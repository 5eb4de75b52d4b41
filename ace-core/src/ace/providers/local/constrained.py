"""What a small model is told and held to when it has to answer with an object of a certain shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["constraint", "described"]

# Negated classes in patterns make the server's parser fail, and cut sentences; annotations mean nothing to it.
_DROPPED = frozenset({"pattern", "format", "title", "description", "default", "examples"})
_Schema = dict[str, Any]


@lru_cache(maxsize=64)
def constraint(response_model: type[BaseModel]) -> _Schema:
    """Return the JSON schema that the server holds the model to.

    Every field of an object is required and no other is allowed: a small model omits what is optional. Patterns are
    dropped; the answer is validated afterwards anyway.

    Args:
        response_model: The class of the answer.

    Example:
        >>> from ace.outputs import SkillTag
        >>> constraint(SkillTag)["required"]
        ['id', 'tag']
    """
    schema: _Schema = _strict(response_model.model_json_schema())
    return schema


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept: _Schema = {}
    for name, value in node.items():
        if name in ("properties", "$defs"):
            kept[name] = {key: _strict(inner) for key, inner in value.items()}
        elif name not in _DROPPED:
            kept[name] = value if name in ("enum", "const", "required") else _strict(value)
    if kept.get("properties"):
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept


@lru_cache(maxsize=64)
def described(response_model: type[BaseModel]) -> str:
    """Return the instruction that names the fields of the answer, in plain words.

    Args:
        response_model: The class of the answer.

    Example:
        >>> from ace.outputs import SkillTag
        >>> print(described(SkillTag))
        Answer with one JSON object that has these fields:
        - id (text): The id of a skill, such as geography-00001.
        - tag (text): helpful, harmful or neutral.
    """
    schema = response_model.model_json_schema()
    lines = ["Answer with one JSON object that has these fields:", *_fields(schema, schema.get("$defs", {}), "")]
    return "\n".join(lines)


def _fields(schema: _Schema, definitions: Mapping[str, _Schema], indent: str) -> Iterator[str]:
    for name, given in schema.get("properties", {}).items():
        node = _resolved(given, definitions)
        description = given.get("description") or node.get("description") or ""
        yield f"{indent}- {name} ({_kind(node, definitions)})" + (f": {description}" if description else "")
        items = _resolved(node.get("items", {}), definitions)
        yield from _alternatives(items or node, definitions, f"{indent}  ")


def _alternatives(node: _Schema, definitions: Mapping[str, _Schema], indent: str) -> Iterator[str]:
    variants = [_resolved(variant, definitions) for variant in node.get("anyOf", ())]
    objects = [variant for variant in variants if "properties" in variant]
    if len(objects) < 2:
        yield from _fields(objects[0] if objects else node, definitions, indent)
        return
    for number, variant in enumerate(objects, 1):
        yield f"{indent}{'either' if number == 1 else 'or'}"
        yield from _fields(variant, definitions, f"{indent}  ")


def _resolved(node: _Schema, definitions: Mapping[str, _Schema]) -> _Schema:
    reference = node.get("$ref", "")
    return definitions.get(reference.rpartition("/")[2], {}) if reference else node


def _kind(node: _Schema, definitions: Mapping[str, _Schema]) -> str:
    if "const" in node:
        return f'always "{node["const"]}"'
    if "enum" in node:
        return " or ".join(f'"{value}"' for value in node["enum"])
    if node.get("type") == "array":
        items = _resolved(node.get("items", {}), definitions)
        return "list of texts" if items.get("type") == "string" else "list, may be empty"
    if node.get("type") == "string":
        return f"text of at most {node['maxLength']} characters" if "maxLength" in node else "text"
    type_name = str(node.get("type", "value"))
    return {"integer": "whole number", "boolean": "true or false"}.get(type_name, type_name)
