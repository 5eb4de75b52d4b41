"""What can go wrong with a skillbook, in words for people."""

from __future__ import annotations

from pathlib import Path

from ace.skillbook.stores import shown_location


class SkillbookError(Exception):
    """The base of every error of a skillbook."""


class SkillbookFileError(SkillbookError, ValueError):
    """A file that is not a skillbook, with the place where reading failed. The file is left as it is."""

    def __init__(self, reason: str, *, path: str | Path | None = None, place: str = "") -> None:
        self.reason = reason
        self.path = path
        self.place = place
        where = ", ".join(part for part in (shown_location(path) if path is not None else "", place) if part)
        super().__init__(f"{where}: {reason}" if where else reason)

    def at(self, path: str | Path) -> SkillbookFileError:
        """Return the same error with the name of the file."""
        return SkillbookFileError(self.reason, path=path, place=self.place)


class SkillbookChangedError(SkillbookError):
    """A save would lose what others wrote.

    The file changed since this skillbook read or wrote it, or holds a skillbook that this one was not loaded from.
    """


class SkillbookHistoryError(SkillbookError):
    """History was asked of a skillbook that keeps none, or of a version that does not exist."""


class SkillbookStoreError(SkillbookError):
    """A store or file that cannot be read, or that did not take a change: the disk is full, read-only, damaged."""


class EventRefusedError(SkillbookError, ValueError):
    """A change that cannot be made to the skillbook as it is."""
