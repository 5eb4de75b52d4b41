"""Reads files that get a line of JSON whenever something is finished, by a process that may be killed in the middle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["read_kept_lines"]

T = TypeVar("T")


def read_kept_lines(
    path: Path, first: str, read: Callable[[str, dict[str, Any]], T], *, what: str, instead: str
) -> list[T]:
    """Read the records of a file; without the file there are none.

    A line that was cut off when its process was killed is skipped. It may be anywhere, since another process may have
    continued the file.

    Args:
        path: The file.
        first: The name of the field that each record begins with.
        read: Makes a record from the value of that field and from the other fields.
        what: What a record is, for the error.
        instead: What to do about a file that holds something else.

    Raises:
        ValueError: A line is not such a record; the text names it.
    """
    if not path.exists():
        return []
    found: list[T] = []
    beginning = f'{{"{first}"'
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            data = json.loads(line)
            found.append(read(str(data.pop(first)), data))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            text = line.strip()
            if isinstance(error, json.JSONDecodeError) and text.startswith(beginning[: len(text)]):
                continue
            raise ValueError(f"{path}, line {number}: this is not a {what} ({error}); {instead}") from error
    return found
