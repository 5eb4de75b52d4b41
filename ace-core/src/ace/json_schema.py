"""Validates JSON values against JSON Schema, without a dependency.

It knows the keywords of draft 2020-12 that describe the shape of answers. Others are rejected when the schema is read,
so no part of a schema is silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any, Final, final

__all__ = ["JsonSchema"]

_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "deprecated", "description", "examples", "format", "title"}
)
"""Keywords that do not restrict the value. `format` is one of them by default, according to the specification."""
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")

_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_whole(value),
    "number": lambda value: _is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_Problems = Iterator[tuple[str, str]]
"""The places and texts of problems."""


@final
class JsonSchema:
    """A JSON schema.

    Supported are the keywords `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`,
    `minProperties`, `maxProperties`, `items`, `minItems`, `maxItems`, `uniqueItems`, `minLength`, `maxLength`,
    `pattern` (with the syntax of Python), `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`,
    `allOf`, `anyOf`, `oneOf`, `not` and `$ref` to a part of the same schema, such as `#/$defs/address`.

    Args:
        schema: The schema, as JSON has it.

    Raises:
        ValueError: It is not a schema, or uses a keyword that is not supported.

    Example:
        >>> schema = JsonSchema({"type": "object", "required": ["total"]})
        >>> schema.problem({"total": 3}), schema.problem({})
        ('', "'total' is required")
        >>> JsonSchema({"if": {"type": "string"}})
        Traceback (most recent call last):
        ...
        ValueError: the JSON schema uses 'if', which is not supported
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._check(schema, "")

    def problem(self, value: object) -> str:
        """Return the first problem of a value, with its place, such as `lines.0.price: must be at least 0`.

        Args:
            value: The value, as `json.loads` returns it.

        Returns:
            The problem; empty if the value is valid.
        """
        for place, text in self._problems(self._root, value, ""):
            return f"{place}: {text}" if place else text
        return ""

    # Reading the schema

    def _check(self, schema: object, place: str) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, Mapping):
            raise ValueError(f"the JSON schema{_at(place)} must be an object or a boolean, got {schema!r}")
        for keyword, argument in schema.items():
            if keyword in _ANNOTATIONS:
                continue
            if keyword not in _ARGUMENTS:
                raise ValueError(f"the JSON schema{_at(place)} uses {keyword!r}, which is not supported")
            needed, is_right = _ARGUMENTS[keyword]
            if not is_right(argument):
                raise ValueError(f"{keyword!r} of the JSON schema{_at(place)} must be {needed}, got {argument!r}")
        for below, inner in _parts_of(schema):
            self._check(inner, f"{place}/{below}")
        self._check_references(schema, place, ())

    def _check_references(self, schema: object, place: str, seen: tuple[str, ...]) -> None:
        """Follow what applies to the same value: it must not lead back to itself, which would never end."""
        if not isinstance(schema, Mapping):
            return
        if "$ref" in schema:
            reference = str(schema["$ref"])
            if reference in seen:
                raise ValueError(f"the reference {reference!r} of the JSON schema leads back to itself")
            self._check_references(self._referred(reference), place, (*seen, reference))
        for keyword in _IN_PLACE:
            for inner in schema.get(keyword, ()):
                self._check_references(inner, place, seen)
        self._check_references(schema.get("not"), place, seen)

    def _referred(self, reference: str) -> object:
        """Return the part of the schema that a reference names."""
        found: object = self._root
        names = reference.removeprefix("#").removeprefix("/").split("/") if reference != "#" else []
        for name in names:
            key = name.replace("~1", "/").replace("~0", "~")
            if not reference.startswith("#/") or not isinstance(found, Mapping) or key not in found:
                raise ValueError(
                    f"the JSON schema refers to {reference!r}, which it does not contain; only references such as "
                    "'#/$defs/address' are supported"
                )
            found = found[key]
        return found

    # Checking a value

    def _problems(self, schema: object, value: object, place: str) -> _Problems:
        if schema is True or schema is None:
            return
        if not isinstance(schema, Mapping):
            yield place, "is not allowed"
            return
        if "$ref" in schema:
            yield from self._problems(self._referred(str(schema["$ref"])), value, place)
        yield from ((place, text) for text in _own_problems(schema, value))
        yield from self._problems_of_parts(schema, value, place)
        yield from self._problems_of_alternatives(schema, value, place)

    def _problems_of_parts(self, schema: Mapping[str, Any], value: object, place: str) -> _Problems:
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            for name, inner in value.items():
                known = properties[name] if name in properties else schema.get("additionalProperties")
                yield from self._problems(known, inner, _below(place, name))
        if isinstance(value, list):
            for index, inner in enumerate(value):
                yield from self._problems(schema.get("items"), inner, _below(place, str(index)))

    def _problems_of_alternatives(self, schema: Mapping[str, Any], value: object, place: str) -> _Problems:
        for inner in schema.get("allOf", ()):
            yield from self._problems(inner, value, place)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                matches = sum(self._accepts(inner, value) for inner in schema[keyword])
                if not matches or (keyword == "oneOf" and matches > 1):
                    wanted = "one" if keyword == "anyOf" else "exactly one"
                    yield place, f"must match {wanted} of {len(schema[keyword])} alternatives, matches {matches}"
        if "not" in schema and self._accepts(schema["not"], value):
            yield place, "matches what is excluded"

    def _accepts(self, schema: object, value: object) -> bool:
        return next(self._problems(schema, value, ""), None) is None


def _own_problems(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Return the problems of a value apart from its parts."""
    if "type" in schema:
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_TYPES[each](value) for each in types):
            yield f"must be of type {' or '.join(types)}"
    if "enum" in schema and not any(_is_same(value, each) for each in schema["enum"]):
        yield f"must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and not _is_same(value, schema["const"]):
        yield f"must be {schema['const']!r}"
    if _is_number(value):
        yield from _problems_of_number(schema, value)
    if isinstance(value, str):
        yield from _problems_of_size(schema, len(value), "Length", "characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"must match {schema['pattern']!r}"
    if isinstance(value, list):
        yield from _problems_of_size(schema, len(value), "Items", "items")
        if schema.get("uniqueItems") and any(_is_same(a, b) for at, a in enumerate(value) for b in value[:at]):
            yield "must not contain an item twice"
    if isinstance(value, dict):
        yield from _problems_of_size(schema, len(value), "Properties", "properties")
        yield from (f"{name!r} is required" for name in schema.get("required", ()) if name not in value)


def _problems_of_number(schema: Mapping[str, Any], value: float) -> Iterator[str]:
    if "minimum" in schema and value < schema["minimum"]:
        yield f"must be at least {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"must be at most {schema['maximum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"must be greater than {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"must be less than {schema['exclusiveMaximum']}"
    if "multipleOf" in schema and not _is_multiple(value, schema["multipleOf"]):
        yield f"must be a multiple of {schema['multipleOf']}"


def _is_multiple(value: float, divisor: float) -> bool:
    """Divide decimal numbers exactly: 0.3 is a multiple of 0.1. JSON has no infinity, but Python reads 1e999 as one."""
    return (isinstance(value, int) or isfinite(value)) and _exactly(value) % _exactly(divisor) == 0


def _exactly(number: float) -> Fraction:
    return Fraction(number if isinstance(number, int) else str(number))


def _problems_of_size(schema: Mapping[str, Any], size: int, what: str, unit: str) -> Iterator[str]:
    if size < schema.get(f"min{what}", 0):
        yield f"must have at least {schema[f'min{what}']} {unit}"
    if size > schema.get(f"max{what}", size):
        yield f"must have at most {schema[f'max{what}']} {unit}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_same(one: object, other: object) -> bool:
    """Compare JSON values: 1 and 1.0 are the same, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    return one == other


def _parts_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Return the schemas inside a schema, with their places."""
    for keyword in ("additionalProperties", "items", "not"):
        if keyword in schema:
            yield keyword, schema[keyword]
    for keyword in ("$defs", "properties"):
        yield from ((f"{keyword}/{name}", inner) for name, inner in schema.get(keyword, {}).items())
    for keyword in _IN_PLACE:
        yield from ((f"{keyword}/{index}", inner) for index, inner in enumerate(schema.get(keyword, ())))


def _at(place: str) -> str:
    return f" at {place}" if place else ""


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _is_list(argument: object) -> bool:
    return isinstance(argument, Sequence) and not isinstance(argument, str)


def _is_pattern(argument: object) -> bool:
    try:
        re.compile(argument) if isinstance(argument, str) else None
    except re.error:
        return False
    return isinstance(argument, str)


def _is_type(argument: object) -> bool:
    if isinstance(argument, str):
        return argument in _TYPES
    return isinstance(argument, list | tuple) and bool(argument) and all(each in _TYPES for each in argument)


def _is_size(argument: Any) -> bool:
    return _is_whole(argument) and argument >= 0


_Argument = tuple[str, Callable[[Any], bool]]
_SCHEMA: Final[_Argument] = ("a schema", lambda argument: isinstance(argument, Mapping | bool))
_SCHEMAS: Final[_Argument] = ("a list of schemas", lambda argument: _is_list(argument) and bool(argument))
_NUMBER: Final[_Argument] = ("a number", _is_number)
_SIZE: Final[_Argument] = ("a whole number of at least 0", _is_size)

_ARGUMENTS: Final[Mapping[str, _Argument]] = {
    "$ref": ("a text", lambda argument: isinstance(argument, str)),
    "additionalProperties": _SCHEMA,
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "const": ("a value", lambda argument: True),
    "enum": ("a list", _is_list),
    "exclusiveMaximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "items": _SCHEMA,
    "maxItems": _SIZE,
    "maxLength": _SIZE,
    "maxProperties": _SIZE,
    "maximum": _NUMBER,
    "minItems": _SIZE,
    "minLength": _SIZE,
    "minProperties": _SIZE,
    "minimum": _NUMBER,
    "multipleOf": ("a number greater than 0", lambda argument: _is_number(argument) and argument > 0),
    "not": _SCHEMA,
    "oneOf": _SCHEMAS,
    "pattern": ("a regular expression of Python", _is_pattern),
    "properties": ("an object", lambda argument: isinstance(argument, Mapping)),
    "required": (
        "a list of texts",
        lambda argument: _is_list(argument) and all(isinstance(each, str) for each in argument),
    ),
    "type": (f"one of {', '.join(_TYPES)}, or a list of them", _is_type),
    "uniqueItems": ("a boolean", lambda argument: isinstance(argument, bool)),
}
"""What each keyword takes: in words, and as a test."""
