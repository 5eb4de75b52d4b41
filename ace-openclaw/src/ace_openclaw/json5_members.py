"""Finds the members of objects in a JSON5 text, so that one can be inserted or removed without changing the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Json5Error", "Member", "member_path", "members_at", "object_start", "text_at"]

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|\ufeff)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_PLAIN = re.compile(r"[^\s,:{}\[\]\"'/]+")


class Json5Error(ValueError):
    """A text is not a JSON5 object."""


@dataclass(frozen=True)
class Member:
    """One member of an object."""

    key: str
    start: int
    """The index at which its key begins."""
    value: int
    """The index at which its value begins."""
    end: int
    """The index at which its value ends."""


def object_start(text: str) -> int:
    """Return the index of the brace of the object in a text.

    Raises:
        Json5Error: The text is not an object.
    """
    at = _after_blank(text, 0)
    if text[at : at + 1] != "{":
        raise Json5Error("it is not an object")
    return at


def members_at(text: str, start: int) -> Iterator[Member]:
    """Yield the members of an object.

    Args:
        text: The whole text.
        start: The index of the object's brace.

    Raises:
        Json5Error: The object is broken.

    Example:
        >>> text = "{a: 1, /* b: 2, */ 'c': {d: [3]},}"
        >>> [(member.key, text[member.value : member.end]) for member in members_at(text, 0)]
        [('a', '1'), ('c', '{d: [3]}')]
    """
    at = _after_blank(text, start + 1)
    while text[at : at + 1] != "}":
        key, key_end = _key(text, at)
        colon = _after_blank(text, key_end)
        if text[colon : colon + 1] != ":":
            raise Json5Error(f"expected a colon after {key!r}")
        value = _after_blank(text, colon + 1)
        end = _value_end(text, value)
        yield Member(key, at, value, end)
        at = _after_blank(text, end)
        if text[at : at + 1] == ",":
            at = _after_blank(text, at + 1)
        elif text[at : at + 1] != "}":
            raise Json5Error(f"expected a comma after the value of {key!r}")


def member_path(text: str, path: tuple[str, ...]) -> list[Member]:
    """Return the members along a path, as far as they exist.

    Args:
        text: The text of an object.
        path: The keys, from the outside in.

    Raises:
        Json5Error: The text is not an object, or is broken.
    """
    start = object_start(text)
    found: list[Member] = []
    for name in path:
        member = next((each for each in members_at(text, start) if each.key == name), None)
        if member is None:
            break
        found.append(member)
        start = member.value
        if text[start] != "{":
            break
    return found


def text_at(text: str, path: tuple[str, ...]) -> str:
    """Return the string at a path; empty if there is none.

    Args:
        text: The text of an object.
        path: The keys, from the outside in.

    Raises:
        Json5Error: The text is not an object, or is broken.

    Example:
        >>> text_at("// mine\\n{agents: {defaults: {workspace: '~/claws'}}}", ("agents", "defaults", "workspace"))
        '~/claws'
    """
    found = member_path(text, path)
    value = text[found[-1].value : found[-1].end] if len(found) == len(path) else ""
    if value.startswith('"'):
        parsed: object = json.loads(value)
        return str(parsed)
    return value[1:-1] if value.startswith("'") else ""


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _key(text: str, at: int) -> tuple[str, int]:
    match = _STRING.match(text, at) or _PLAIN.match(text, at)
    if match is None:
        raise Json5Error(f"expected a key at {text[at : at + 20]!r}")
    return match.group().strip("\"'"), match.end()


def _value_end(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        match = _STRING.match(text, at) or _PLAIN.match(text, at)
        if match is not None:
            at = match.end()
        elif text[at] in "{[":
            depth, at = depth + 1, at + 1
        elif text[at] in "}]":
            depth, at = depth - 1, at + 1
        elif depth and text[at] in ",:":
            at += 1
            continue
        elif (after := _after_blank(text, at)) > at and depth:
            at = after
            continue
        else:
            break
        if depth == 0:
            return at
    raise Json5Error("a value does not end")
