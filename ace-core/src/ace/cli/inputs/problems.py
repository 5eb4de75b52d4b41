"""What could not be read, and why."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final

__all__ = ["LARGEST_RECORD", "InputProblem", "reason_of"]

LARGEST_RECORD: Final = 16_000_000
"""Bytes of the largest record that is taken. A model could not read a larger one, and memory stays bounded."""


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A file or a record that is not learned from."""

    place: str
    """The file, or the file and the record in it, such as `logs/a.jsonl#12`."""
    reason: str
    """Why, in words for people."""


def reason_of(error: OSError) -> str:
    """Return why a file cannot be read.

    Args:
        error: What the system said.

    Example:
        >>> reason_of(PermissionError(13, "Permission denied"))
        'no permission to read it'
    """
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if error.errno == errno.ELOOP:
        return "a symbolic link that leads to itself"
    if isinstance(error, FileNotFoundError):
        return "a symbolic link to nothing"
    return (error.strerror or str(error)).lower()
