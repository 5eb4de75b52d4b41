"""The errors of skillbooks."""

from __future__ import annotations

from pathlib import Path

from ace.skillbook.locations import shown_location


class SkillbookError(Exception):
    """The base class of all errors of skillbooks."""


class SkillbookFileError(SkillbookError, ValueError):
    """A file is not a valid skillbook. The error says where reading failed; the file is not changed."""

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
        """Return the same error with the path of the file."""
        return SkillbookFileError(self.reason, path=path, place=self.place)


def readable(text: object, longest: int = 300) -> str:
    """Return a text from a file as one printable line of limited length, to be quoted in an error.

    Args:
        text: The text, or an error with this message.
        longest: The maximum number of characters; a longer text is truncated in the middle.

    Example:
        >>> readable(f"two{chr(10)}lines", 20), readable("a" * 30, 20)
        ('two�lines', 'aaaaaaaaaa...aaaaaaa')
    """
    shown = "".join(sign if sign.isprintable() else "\ufffd" for sign in str(text))
    return shown if len(shown) <= longest else f"{shown[: longest - 10]}...{shown[-7:]}"


class SkillbookChangedError(SkillbookError):
    """A save would overwrite the changes of others.

    The file has changed since this skillbook read or wrote it, or contains a skillbook that it was not loaded from.
    """


class SkillbookHistoryError(SkillbookError):
    """The skillbook has no history, or a version does not exist."""


class SkillbookStoreError(SkillbookError):
    """A store or file cannot be read or written: the disk is full, read-only or damaged."""


class EventRefusedError(SkillbookError, ValueError):
    """A change is invalid or conflicts with the current state of the skillbook."""
