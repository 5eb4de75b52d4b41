"""Parses JSON texts in attributes of spans, which the exporting program may have cut off."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Final

__all__ = ["completed_json"]

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*\\?\Z|[\[\]{},]', re.DOTALL)
"""A string, possibly cut off, or a structural character outside strings."""
_LONGEST_REPR: Final = 100_000


def completed_json(text: str) -> tuple[object, bool]:
    """Parse an object or a list in JSON that may have been cut off at its end, or in the notation of Python.

    Returns:
        The value, without what is missing, and whether the text was cut; None and False if it is neither.

    Example:
        >>> completed_json('[{"role": "user", "content": "What is the ti')
        ([{'role': 'user', 'content': 'What is the ti'}], True)
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None, False
    value = _loaded(text)
    if value is None:
        value = _literal(text)
    if value is not None:
        return value, False
    for ended in _endings(text):
        value = _loaded(ended)
        if value is not None:
            return value, True
    return None, False


def _loaded(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _literal(text: str) -> object:
    """Return the value of a Python literal, as some tools write the arguments of tools."""
    if "'" not in text or len(text) > _LONGEST_REPR:
        return None
    try:
        value = ast.literal_eval(text.strip())
        return json.loads(json.dumps(value)) if isinstance(value, dict | list) else None
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _endings(text: str) -> Iterator[str]:
    """Yield a JSON text that was cut with its brackets closed: where it was cut, then after its last whole element."""
    closing: list[str] = []
    whole, string = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("{", "["):
            closing.append("}" if mark == "{" else "]")
        elif mark in ("}", "]") and closing:
            closing.pop()
        elif mark.startswith('"'):
            string = mark if token.end() == len(text) else ""
            continue
        whole = token.start() if mark == "," else token.end()
    if not closing:
        return  # it was not cut, and is not JSON
    rest = "".join(reversed(closing))
    if string and not (len(string) > 1 and _loaded(string) is not None):
        # The cut may be inside of an escape such as \n or \u00e9.
        for end in range(len(text), len(text) - 6, -1):
            yield f'{text[:end]}"{rest}'
    yield text + rest
    yield text[:whole] + rest
