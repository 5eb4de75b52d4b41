"""Adds a member to an object in a configuration file of another program, and removes it again.

Every other character stays as it is: comments, order, indentation and line endings. The texts are JSON, JSON with
comments, or JSON5. Nothing is written here; write the text with `ace._internal.atomic_file`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn

__all__ = ["InsertedMember", "JsonTextError", "check_json", "insert_member", "remove_member", "string_at", "value_at"]

_SPACE = " \t\r\n"
_BLANK = re.compile(r"(?:\s|//[^\r\n]*|/\*.*?\*/|\ufeff)*", re.DOTALL)
_OPEN_COMMENT = re.compile(r"(?:[\s,]|//[^\r\n]*[\r\n]|/\*.*?\*/)*//[^\r\n]*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_PLAIN = re.compile(r"[^\s,:{}\[\]\"'/]+")
_JSON_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_JSON_STRING}|(?P<blank>//[^\r\n]*|/\*.*?\*/)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_JSON_STRING}|(?P<blank>,)(?=\s*[}}\]])", re.DOTALL)
_CONSTANT = re.compile(rf"{_JSON_STRING}|(?P<blank>-?Infinity|NaN)", re.DOTALL)


class JsonTextError(ValueError):
    """A text is not the JSON that it should be.

    Args:
        problem: What is wrong.
        text: The whole text.
        at: The index in it.

    Example:
        >>> str(JsonTextError("expected a colon", "{\\n  a 1}", 6))
        'line 2, column 5: expected a colon'
    """

    def __init__(self, problem: str, text: str, at: int) -> None:
        self.line = text.count("\n", 0, at) + 1
        """The number of the line, from 1."""
        self.column = at - text.rfind("\n", 0, at)
        """The number of the character in the line, from 1."""
        super().__init__(f"line {self.line}, column {self.column}: {problem}")


@dataclass(frozen=True, slots=True)
class InsertedMember:
    """What was inserted into a text. It can be stored; `remove_member` needs it."""

    text: str
    """The member, with the enclosing objects that were missing, and the whitespace around it."""
    made: int
    """The number of enclosing objects that were missing."""
    after: Literal["brace", "value", "comma"] = "brace"
    """What was before it: the brace of an empty object, a member (which got a comma), or a trailing comma."""

    @property
    def value(self) -> object:
        """The value of the member."""
        found = json.loads(f"{{{self.text.strip().removesuffix(',')}}}")
        for _ in range(self.made + 1):
            [found] = found.values()
        return found


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of an object: its key, and the indices of its key, of its value and of its end."""

    key: str
    start: int
    value: int
    end: int


def check_json(text: str, *, comments: bool = False) -> None:
    """Check that a text is one JSON object.

    Args:
        text: The text. It may begin with a byte order mark.
        comments: Whether comments and trailing commas are allowed, as in the configuration of VS Code.

    Raises:
        JsonTextError: It is not.

    Example:
        >>> check_json('{"a": [1,], /* one */}', comments=True)
        >>> check_json('{"a": 1}} ')
        Traceback (most recent call last):
        ...
        ace._internal.json_edit.JsonTextError: line 1, column 9: Extra data
    """
    plain = text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text
    if comments:
        plain = _blanked(_TRAILING_COMMA, _blanked(_COMMENT, plain))

    def refuse_constant(name: str) -> NoReturn:
        at = next(found.start() for found in _CONSTANT.finditer(plain) if found["blank"])
        raise JsonTextError(f"{name} is not a JSON value", text, at)

    try:
        # The values do not matter. A number that stays a string has no limit to its length.
        found = json.loads(plain, parse_constant=refuse_constant, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise JsonTextError(error.msg, text, error.pos) from None
    except RecursionError:
        raise JsonTextError("it is nested too deeply", text, 0) from None
    if not isinstance(found, dict):
        raise JsonTextError("expected an object", text, _after_blank(text, 0))


def value_at(text: str, path: tuple[str, ...]) -> str | None:
    """Return the value at a path, as it is written.

    Args:
        text: The text of an object.
        path: The keys, from the outside in. Of duplicate keys, the last one counts.

    Returns:
        The value; None if there is none.

    Raises:
        JsonTextError: The text is not an object, or is broken.

    Example:
        >>> value_at("{a: {b: [1, 2]}} // mine", ("a", "b"))
        '[1, 2]'
    """
    found = _member_path(text, path)
    return text[found[-1].value : found[-1].end] if len(found) == len(path) else None


def string_at(text: str, path: tuple[str, ...]) -> str:
    """Return the string at a path; empty if there is none.

    Args:
        text: The text of an object.
        path: The keys, from the outside in.

    Raises:
        JsonTextError: The text is not an object, or is broken.

    Example:
        >>> string_at("// mine\\n{agents: {defaults: {workspace: '~/claws'}}}", ("agents", "defaults", "workspace"))
        '~/claws'
    """
    value = value_at(text, path) or ""
    return _unquoted(value) if value[:1] in ('"', "'") else ""


def insert_member(text: str, path: tuple[str, ...], value: object) -> tuple[str, InsertedMember]:
    r"""Return a text with a new member, which follows the members that its object has.

    Args:
        text: The text of an object.
        path: The keys of the new member, from the outside in. Objects that are missing are inserted, too.
        value: Its value, of JSON types.

    Returns:
        The new text, and what `remove_member` needs.

    Raises:
        JsonTextError: The text is not an object, or is broken; the path leads through another value; or there is a
            member at the path.

    Example:
        >>> changed, inserted = insert_member('{\n  "a": 1 // one\n}', ("b", "c"), 2)
        >>> print(changed)
        {
          "a": 1, // one
          "b": {
            "c": 2
          }
        }
        >>> remove_member(changed, ("b", "c"), inserted)
        '{\n  "a": 1 // one\n}'
    """
    found = _member_path(text, path)
    if len(found) == len(path):
        raise JsonTextError(f"there is an entry {'.'.join(path)!r} already", text, found[-1].start)
    start = found[-1].value if found else _object_start(text)
    if text[start] != "{":
        raise JsonTextError(f"{'.'.join(path[: len(found)])!r} is not an object", text, start)
    missing = path[len(found) :]
    for name in reversed(missing[1:]):
        value = {name: value}
    close = _value_end(text, start) - 1
    at = len(text[:close].rstrip(_SPACE))
    members = list(_members_at(text, start))
    prefix, suffix, indent = _layout(text, start, close, members)
    body = json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", prefix)
    added = f"{prefix}{json.dumps(missing[0], ensure_ascii=False)}: {body}{suffix}"
    after: Literal["brace", "value", "comma"] = "brace"
    comma = ""
    if members:
        comma_at = _after_blank(text, members[-1].end)
        after, comma = ("comma", "") if text[comma_at] == "," else ("value", ",")
    end = members[-1].end if members else at
    changed = text[:end] + comma + text[end:at] + added + text[at:]
    return changed, InsertedMember(added, len(missing) - 1, after)


def remove_member(text: str, path: tuple[str, ...], inserted: InsertedMember) -> str:
    """Return a text without a member that was inserted. If nothing else was changed, it is the text of before.

    The text may have been edited or written anew since then. Enclosing objects that were inserted with the member are
    removed with it, unless they contain something else by now.

    Args:
        text: The text of an object.
        path: The keys of the member, from the outside in.
        inserted: What `insert_member` returned.

    Raises:
        JsonTextError: The text is not an object, or is broken.
    """
    found = _member_path(text, path)
    if len(found) < len(path):
        return text
    depth = len(path)
    while depth > len(path) - inserted.made and _holds_nothing_else(text, found[depth - 2], found[depth - 1]):
        depth -= 1
    is_whole = depth == len(path) - inserted.made
    around = (_object_start(text) if depth == 1 else found[depth - 2].value) + 1
    before = [member.end for member in _members_at(text, around - 1) if member.end <= found[depth - 1].start]
    start, end = _span(text, max(before, default=around), found[depth - 1], inserted.text if is_whole else "")
    head, tail = text[:start], text[end:]
    following = _after_blank(tail, 0)
    if tail[following : following + 1] == ",":
        return head + tail[:following] + tail[following + 1 :]
    if before and not (is_whole and inserted.after == "comma"):
        comma = _after_blank(head, before[-1])
        head = head[:comma] + head[comma + 1 :]
    return head + tail


def _layout(text: str, start: int, close: int, members: list[_Member]) -> tuple[str, str, str | None]:
    """Return the whitespace before and after a new member, and the indentation inside it; None to keep to one line."""
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    root = _object_start(text)
    outer = next(_members_at(text, root), None)
    inside = text[start:close]
    if "\n" not in inside and (members or (outer is not None and "\n" not in text[root:].rstrip(_SPACE))):
        return (" " if members else ""), "", None
    step = (_line_indent(text, outer.start) if outer is not None else "") or "  "
    base = _line_indent(text, close)
    indent = _line_indent(text, members[-1].start) if members else base + step
    has_line_end = "\n" in text[len(text[:close].rstrip(_SPACE)) : close]
    return newline + indent, "" if members or has_line_end else newline + base, step


def _line_indent(text: str, at: int) -> str:
    """Return the whitespace with which the line of a character begins."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _holds_nothing_else(text: str, around: _Member, member: _Member) -> bool:
    rest = text[around.value + 1 : member.start] + text[member.end : around.end - 1]
    return not rest.strip(f"{_SPACE},")


def _span(text: str, begin: int, member: _Member, inserted: str) -> tuple[int, int]:
    """Return where a member begins and ends, with the whitespace that belongs to it.

    Args:
        text: The whole text.
        begin: The end of the member before it, or of the brace.
        inserted: The inserted text; empty if only a part of it is removed.
    """
    prefix = inserted[: len(inserted) - len(inserted.lstrip(_SPACE))]
    suffix = inserted[len(inserted.rstrip(_SPACE)) :]
    start, end = member.start - len(prefix), member.end + len(suffix)
    is_as_inserted = inserted and text.endswith(prefix, 0, member.start) and text.startswith(suffix, member.end)
    if not is_as_inserted:
        start, end = len(text[: member.start].rstrip(_SPACE)), member.end
    after = text[end:].lstrip(" \t").removeprefix(",").lstrip(" \t")
    if _OPEN_COMMENT.fullmatch(text, begin, start) and not after.startswith(("\n", "\r")):
        return (start, member.end) if suffix and is_as_inserted else (member.start, member.end)
    return start, end


def _object_start(text: str) -> int:
    at = _after_blank(text, 0)
    if text[at : at + 1] != "{":
        raise JsonTextError("expected an object", text, at)
    end = _after_blank(text, _value_end(text, at))
    if end < len(text):
        raise JsonTextError("unexpected text after the object", text, end)
    return at


def _members_at(text: str, start: int) -> Iterator[_Member]:
    """Yield the members of the object whose brace is at an index."""
    at = _after_blank(text, start + 1)
    while text[at : at + 1] != "}":
        match = _STRING.match(text, at) or _PLAIN.match(text, at)
        if match is None:
            raise JsonTextError("expected a key", text, at)
        colon = _after_blank(text, match.end())
        if text[colon : colon + 1] != ":":
            raise JsonTextError(f"expected a colon after {match.group()}", text, colon)
        value = _after_blank(text, colon + 1)
        end = _value_end(text, value)
        yield _Member(_unquoted(match.group()), at, value, end)
        at = _after_blank(text, end)
        if text[at : at + 1] == ",":
            at = _after_blank(text, at + 1)
        elif text[at : at + 1] != "}":
            raise JsonTextError(f"expected a comma after the value of {match.group()}", text, at)


def _member_path(text: str, path: tuple[str, ...]) -> list[_Member]:
    """Return the members along a path, as far as they exist. Of duplicate keys, the last one counts."""
    start = _object_start(text)
    found: list[_Member] = []
    for name in path:
        members = [member for member in _members_at(text, start) if member.key == name]
        if not members:
            break
        found.append(members[-1])
        start = members[-1].value
        if text[start] != "{":
            break
    return found


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _unquoted(written: str) -> str:
    if written.startswith('"'):
        try:
            return str(json.loads(written, strict=False))
        except ValueError:  # an escape of JSON5
            return written[1:-1]
    return written[1:-1] if written.startswith("'") else written


def _value_end(text: str, at: int) -> int:
    begin, depth = at, 0
    while at < len(text):
        match = _STRING.match(text, at) or _PLAIN.match(text, at)
        if match is not None:
            at = match.end()
        elif text[at] in "{[":
            depth, at = depth + 1, at + 1
        elif text[at] in "}]" and depth:
            depth, at = depth - 1, at + 1
        elif depth and text[at] in ",:":
            at += 1
            continue
        elif depth and (after := _after_blank(text, at)) > at:
            at = after
            continue
        else:
            raise JsonTextError("expected a value", text, at)
        if depth == 0:
            return at
    raise JsonTextError("a value does not end", text, begin)


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with what a pattern finds outside strings replaced by as many spaces."""
    return pattern.sub(lambda found: re.sub(r"[^\r\n]", " ", found["blank"]) if found["blank"] else found[0], text)
