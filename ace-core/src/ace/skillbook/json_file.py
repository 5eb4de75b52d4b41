"""Books in JSON files: what was read from where, and whether somebody else has written since."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple, final

from ace.durable_file import folder_lock, real_path, write_durably
from ace.skillbook.contents import BookContents, state_from
from ace.skillbook.errors import SkillbookChangedError, SkillbookError, SkillbookFileError
from ace.skillbook.events import Event, Imported
from ace.skillbook.journal import Journal, Refusal
from ace.skillbook.json_read import read_bytes
from ace.skillbook.json_write import book_json
from ace.skillbook.state import BookState


class Fingerprint(NamedTuple):
    """What a file was when it was read or written."""

    inode: int
    size: int
    changed_at: int
    checksum: int

    @classmethod
    def of(cls, path: Path, data: bytes) -> Fingerprint:
        """Return the fingerprint of a file that holds the data."""
        status = path.stat()
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, zlib.crc32(data))

    def still_holds(self, path: Path) -> bool:
        """Return whether the file has the same content: by its dates, and if they differ by the content."""
        status = path.stat()
        if (status.st_ino, status.st_size, status.st_mtime_ns) == (self.inode, self.size, self.changed_at):
            return True
        return zlib.crc32(path.read_bytes()) == self.checksum


@final
class JsonFiles:
    """The JSON files that one book was read from or written to."""

    def __init__(self) -> None:
        self.home: Path | None = None
        """The file that the journal of the book refers to."""
        self._known: dict[Path, Fingerprint] = {}
        self._not_ours: dict[Path, tuple[str, ...]] = {}

    def read(self, path: Path) -> BookContents:
        """Read a file and make it the home of the book.

        Raises:
            FileNotFoundError: If there is none.
            SkillbookFileError: If it is no skillbook; the error names file, place and reason.
        """
        data = whole_file(path)
        contents = _contents(path, data)
        self.home = real_path(path)
        self._known[self.home] = Fingerprint.of(path, data)
        if contents.ignored_fields:
            self._not_ours[self.home] = contents.ignored_fields
        return contents

    def write(self, path: Path, state: BookState) -> None:
        """Write the book, unless that would lose what somebody else wrote.

        Raises:
            SkillbookChangedError: If the file changed since this book read or wrote it.
            SkillbookFileError: If there is a file that is no skillbook.
            OSError: If it cannot be written; the old file stays.
        """
        with folder_lock(path):
            target = real_path(path)
            self._refuse_to_lose(path, target)
            self._write(target, state)

    def merge(self, path: Path, state: BookState, journal: Journal) -> tuple[BookState, list[Refusal]]:
        """Make the changes of the journal on the newest file, and write that.

        A file that is not the home of the book gets the skills of the book that it lacks beside its own.

        Returns:
            The book as it was written, and the changes that could not be made any more.
        """
        with folder_lock(path):
            target = real_path(path)
            self._refuse_foreign(path, target)
            if not target.exists() or self._unchanged(target):
                self._write(target, state)
                return state, []
            newest = state_from(_contents(path, whole_file(path)))
            events = journal.events if target == self.home else _missing_in(newest, state)
            _, refused = Journal(newest).redo(newest, events)
            self._write(target, newest)
            return newest, refused

    def _write(self, target: Path, state: BookState) -> None:
        data = book_json(state).encode("utf-8")
        write_durably(target, data)
        self._known[target] = Fingerprint.of(target, data)
        if self.home is None:
            self.home = target

    def _unchanged(self, target: Path) -> bool:
        known = self._known.get(target)
        return known is not None and known.still_holds(target)

    def _refuse_foreign(self, path: Path, target: Path) -> None:
        if fields := self._not_ours.get(target):
            raise SkillbookError(
                f"{path}: this file has fields that a skillbook cannot keep ({', '.join(fields)}); save to another path"
            )

    def _refuse_to_lose(self, path: Path, target: Path) -> None:
        self._refuse_foreign(path, target)
        if not target.exists():
            return
        if target not in self._known:
            _contents(path, whole_file(path))  # a file that is no skillbook is never overwritten
            return
        if not self._unchanged(target):
            raise SkillbookChangedError(
                f"{path}: somebody else changed this file since it was read or saved here; "
                f"save with merge=True to add your changes to theirs, or to another path"
            )


def whole_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        FileNotFoundError: If there is none.
        SkillbookFileError: If it is a folder, or a device or pipe, which might never end.
    """
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise SkillbookFileError(f"this is {what}; a skillbook is a file", path=path)
    return path.read_bytes()


def _contents(path: Path, data: bytes) -> BookContents:
    try:
        return read_bytes(data)
    except SkillbookFileError as error:
        raise error.at(path) from error.__cause__


def _missing_in(other: BookState, state: BookState) -> list[Event]:
    """Return the event that adds the skills whose text the other book has not."""
    known = {(skill.section, skill.content) for skill in other.skills.values()}
    everything = state.ordered_skills().values()
    skills = tuple(skill for skill in everything if (skill.section, skill.content) not in known)
    decisions = tuple((*pair, state.decisions[pair]) for pair in sorted(state.decisions))
    return [Imported(skills, decisions, state.next_id)]
