"""The interface of log readers: every format of logs has one, those of plugins and of this library alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from ace.logs.head import LogHead
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["LogReader"]


@runtime_checkable
class LogReader(Protocol):
    """Reads one format of logs, or one family of formats.

    A reader is found by its name among those of `ace.logs.readers()`; plugins provide theirs with the hook
    `ace_log_readers`. Its attributes are the row of the format in the reference.
    """

    name: str
    """The unique name, such as `codex`, for `--format`."""
    title: str
    """What people call the format, such as `Codex CLI sessions`."""
    places: Sequence[str]
    """Where such logs are by default, as paths beginning with `~` or `$VARIABLE`, or glob patterns."""
    side_files: Sequence[str]
    """Patterns, as of `fnmatch`, of further files that the tool keeps beside its logs and that are not runs. They are
    skipped where the reader recognises a log in the same folder or above it."""
    note: str
    """What is not read or not certain, for the reference; empty if nothing is known."""

    def recognises(self, head: LogHead) -> float:
        """Return how certainly this is the format, from 0 (another) to 1.

        0.5 to 0.7 is for keys that other tools may use too, 0.8 to 1 for unmistakable ones.

        Args:
            head: The beginning of the source.
        """
        ...

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the runs in order, and problems, none of which ends the reading. It must not keep earlier runs.

        Args:
            source: The source, which `recognises` has claimed.
        """
        ...
