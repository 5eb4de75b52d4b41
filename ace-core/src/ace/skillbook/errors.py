"""What can go wrong with a skillbook, in words for people."""

from __future__ import annotations

from pathlib import Path

from ace.skillbook.locations import shown_location


class SkillbookError(Exception):
    """The base of every error of a skillbook."""


class SkillbookFileError(SkillbookError, ValueError):
    """A file that is not a skillbook, with the place where reading failed. The file is left as it is."""

    def __init__(self, reason: str, *, path: str | Path | None = None, place: str = "") -> None:
        self.reason = reason
        self.path = path
        self.place = place
        where = ", ".join(
            part for part in (shown_location(path) if path is not None else "", readable(place, 150)) if part
        )
        shown = readable(reason)
        super().__init__(f"{where}: {shown}" if where else shown)

    def at(self, path: str | Path) -> SkillbookFileError:
        """Return the same error with the name of the file."""
        return SkillbookFileError(self.reason, path=path, place=self.place)


def readable(text: object, longest: int = 300) -> str:
    """Return a text that quotes a file in a form that fits a sentence: on one line, printable, and not too long.

    Args:
        text: The text, or an error that has it.
        longest: How many characters are kept at most; more are cut in the middle.

    Example:
        >>> readable(f"two{chr(10)}lines", 20), readable("a" * 30, 20)
        ('two�lines', 'aaaaaaaaaa...aaaaaaa')
    """
    shown = "".join(sign if sign.isprintable() else "\ufffd" for sign in str(text))
    return shown if len(shown) <= longest else f"{shown[: longest - 10]}...{shown[-7:]}"


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
