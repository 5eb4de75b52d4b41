"""Inputs that cannot be read, and the reasons."""

from __future__ import annotations

import errno
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ace.cli.console import size_text

__all__ = ["LARGEST_INPUT", "LARGEST_RECORD", "InputProblem", "not_a_file", "problem_lines", "reason_of", "too_large"]

LARGEST_RECORD: Final = 16_000_000
"""The size of the largest record that is accepted, in bytes. A model could not read a larger one, and memory stays
bounded."""

LARGEST_INPUT: Final = 1_000_000_000
"""The size of the largest file or stream that is read, in bytes, unless the setting `max_input_mb` changes it."""

_PROBLEMS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A file or a record that cannot be learned from."""

    place: str
    """The file, or the file and the record in it, such as `logs/a.jsonl#12`."""
    reason: str
    """The reason, as text."""


def problem_lines(problems: Sequence[InputProblem]) -> str:
    """Return the lines of an error that list inputs with their reasons, each after a line break.

    Args:
        problems: What cannot be read.

    Example:
        >>> print("wrong:" + problem_lines([InputProblem("a.json", "the file is empty")]))
        wrong:
            a.json: the file is empty
    """
    lines = [f"{problem.place}: {problem.reason}" for problem in problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"... and {len(problems) - _PROBLEMS_SHOWN} more")
    return "".join(f"\n    {line}" for line in lines)


def not_a_file(mode: int) -> str:
    """Return the kind of a file that has no end, such as a pipe, or an empty text for a regular file.

    Args:
        mode: Its mode, as reported by the system.

    Example:
        >>> not_a_file(stat.S_IFIFO), not_a_file(stat.S_IFREG)
        ('a pipe, not a file', '')
    """
    kinds = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"))
    return next((f"a {kind}, not a file" for is_kind, kind in kinds if is_kind(mode)), "")


def too_large(size: int, most: int) -> str:
    """Return why a file or a stream is not read.

    Args:
        size: Its size in bytes, or the number of bytes that were read from a stream before reading stopped.
        most: The largest number of bytes that is read.

    Example:
        >>> too_large(3_000_000_000, 1_000_000_000)
        '3.00 GB; at most 1.00 GB are read of one input (the setting max_input_mb)'
    """
    return f"{size_text(size)}; at most {size_text(most)} are read of one input (the setting max_input_mb)"


def reason_of(error: OSError) -> str:
    """Return why a file cannot be read.

    Args:
        error: The error that the system raised.

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
