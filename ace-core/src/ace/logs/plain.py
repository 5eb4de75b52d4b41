"""Convert any object to dicts, lists and scalars, mark what is lost, and render these as text."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import types
import uuid
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from ace.calls.secrets import HIDDEN, is_secret_name
from ace.protocols.errors import attribute_of, encodable

__all__ = ["EMPTY", "Plain", "as_text", "decoded", "parsed_json", "to_plain"]

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

_DEEPEST = 60
_MOST_NODES = 1_000_000
_WITH_EMPTY = (bool, int, float, str, bytes, list, tuple, dict)
_LONGEST_NUMBER = 10_000
"""In bits. Python refuses to convert larger numbers to decimal."""
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_AS_TEXT = (*_OPAQUE, os.PathLike, uuid.UUID)
"""Types that are converted with `str`: the fields of a path or an id contain no further information."""
_MISSING = object()


def to_plain(value: object) -> Plain:
    """Convert any object to dicts, lists and scalars.

    Dataclasses, pydantic models, named tuples and objects with attributes become dicts; other objects become text.
    Fields whose name suggests a key are redacted. Cycles and nesting deeper than 60 levels are cut, with a mark.

    Args:
        value: Any object.

    Example:
        >>> from types import SimpleNamespace
        >>> to_plain(SimpleNamespace(task="add", parts=(1, 2), api_key="sk-1"))
        {'task': 'add', 'parts': [1, 2], 'api_key': '[hidden]'}
    """
    return _Conversion().convert(value)


def decoded(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark; invalid bytes become escapes such as `\\xff`.

    Example:
        >>> decoded(b"caf\\xc3\\xa9 \\xff")
        'café \\\\xff'
    """
    # UTF-16 text contains NUL bytes, such as those of its spaces and line breaks.
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\x00" in data:
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            # The first bytes were not a byte order mark.
            return data.decode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace").removeprefix("\ufeff")


class _Conversion:
    """One conversion, with the objects that enclose the current one and the number of objects so far."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._nodes = 0

    def convert(self, value: object) -> Plain:
        self._nodes += 1
        try:
            return self._converted(value)
        except Exception as error:
            # Objects of other packages may raise anything on access; the rest of the trace must not be lost.
            return f"[{type(value).__name__} that cannot be looked into: {type(error).__name__}] {_text(value)}"

    def _converted(self, value: object) -> Plain:
        if value is None or isinstance(value, bool | int | float | str):
            return _scalar(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return decoded(bytes(value))
        if isinstance(value, enum.Enum):
            return self.convert(value.value)
        if id(value) in self._open:
            return "[cut: this object contains itself]"
        if self._nodes > _MOST_NODES:
            return f"[cut: more than {_MOST_NODES} objects]"
        if len(self._open) >= _DEEPEST:
            return f"[nested deeper than {_DEEPEST} levels] {_text(value)}"
        self._open.add(id(value))
        try:
            return self._container(value)
        finally:
            self._open.discard(id(value))

    def _container(self, value: object) -> Plain:
        if isinstance(value, Mapping):
            return self._fields(value.items())
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._fields(zip(value._fields, value, strict=True))
        if isinstance(value, Set):
            return [self.convert(item) for item in sorted(value, key=repr)]
        if isinstance(value, Sequence) or type(value).__name__ == "deque":
            return [self.convert(item) for item in value]  # type: ignore[attr-defined]  # a deque is iterable
        if isinstance(value, BaseException):
            return self._exception(value)
        if isinstance(value, _AS_TEXT) or attribute_of(value, "get_secret_value") is not None:
            return _text(value)
        attributes = _attributes(value)
        return self._fields(attributes) if attributes else self._listed(value)

    def _fields(self, items: Iterable[tuple[object, object]]) -> dict[str, Plain]:
        fields: dict[str, Plain] = {}
        for key, item in items:
            name = encodable(key) if isinstance(key, str) else _text(key)
            # 1 and "1" are different keys; neither must replace the other.
            while name in fields:
                name = f"{name} "
            is_hidden = is_secret_name(name) and not _holds_nothing(item)
            fields[name] = HIDDEN if is_hidden else self.convert(item)
        return fields

    def _exception(self, error: BaseException) -> dict[str, Plain]:
        fields = self._fields(vars(error).items())
        cause = error.__cause__ or error.__context__
        if cause is not None:
            fields["cause"] = self.convert(cause)
        return {"error": type(error).__name__, "message": _text(error), **fields}

    def _listed(self, value: object) -> Plain:
        """Convert arrays with `tolist`, such as those of numpy."""
        to_list = attribute_of(value, "tolist")
        return self.convert(to_list()) if callable(to_list) else _text(value)


def _scalar(value: bool | int | float | str | enum.Enum | None) -> Plain:
    if isinstance(value, str):
        return encodable(str(value))
    if isinstance(value, enum.Enum):
        return _scalar(value.value)
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:
        return hex(value)
    return value


def _holds_nothing(item: object) -> bool:
    return item is None or (type(item) in _WITH_EMPTY and not item)  # the truth value of other objects may raise


def _attributes(value: object) -> list[tuple[str, object]]:
    """Return the attributes of an object: slots, fields and all entries of its `__dict__`, including private ones."""
    found: dict[str, object] = {}
    for base in reversed(type(value).__mro__):
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            content = attribute_of(value, name, _MISSING)
            if not name.startswith("__") and content is not _MISSING:
                found[name] = content
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found.update({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    for store in ("__dict__", "__pydantic_extra__", "__pydantic_private__"):
        content = attribute_of(value, store)
        found.update(content if isinstance(content, dict) else {})
    return [(name, item) for name, item in found.items() if not name.startswith("__")]


def _text(value: object) -> str:
    try:
        return encodable(str(value))
    except Exception as error:
        # An object whose __str__ raises must not lose the rest of the trace.
        return f"[{type(value).__name__} that has no text: {type(error).__name__}]"


EMPTY: Final[tuple[Plain, ...]] = (None, "", [], {})
"""The values that count as empty; zero and false do not."""


class _RepeatedKeyError(ValueError):
    pass


def as_text(value: Plain) -> str:
    """Return a text unchanged, None as an empty text, and everything else as JSON.

    Example:
        >>> as_text("Paris"), as_text(None), as_text([1, 2])
        ('Paris', '', '[1, 2]')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=None if _is_flat(value) else 1)


def parsed_json(text: str) -> object | None:
    """Parse a text as a JSON object or list, or as JSON Lines; return None if it is neither."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        return _loaded(stripped)
    except (ValueError, RecursionError):
        return _lines_of_json(stripped)


def _lines_of_json(text: str) -> object | None:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return None
    try:
        return [_loaded(line) for line in lines]
    except (ValueError, RecursionError):
        return None


def _loaded(text: str) -> object:
    return json.loads(text, object_pairs_hook=_without_repeated_keys)


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Reject duplicate keys, of which a dict would drop the first; the unparsed text keeps both."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _RepeatedKeyError
    return fields


def _is_flat(value: Plain) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(item, dict | list) and item for item in items)
