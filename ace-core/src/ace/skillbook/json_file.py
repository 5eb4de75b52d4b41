"""Skillbooks in JSON files: detects whether others have changed a file since it was read."""

from __future__ import annotations

import logging
import os
import time
import zlib
from pathlib import Path
from typing import Final, NamedTuple, final

from ace._internal.atomic_file import check_can_write, folder_lock, own_file, real_path, write_durably
from ace.skill import missing_cases
from ace.skillbook.errors import SkillbookChangedError, SkillbookError, SkillbookFileError
from ace.skillbook.events import CaseChange, CasesChanged, Event, Imported
from ace.skillbook.journal import Journal, Refusal
from ace.skillbook.json_read import read_bytes
from ace.skillbook.json_write import book_json
from ace.skillbook.state import BookContents, BookState, state_from

logger = logging.getLogger(__name__)
_COARSEST_TICK: Final = 2_000_000_000
"""In nanoseconds: FAT stores times in steps of two seconds."""


class Fingerprint(NamedTuple):
    """The identity of the content of a file when it was read or written.

    It is computed from the status of the open file, before its content is read or after it was written. The status of
    the path could be that of a file which another process has put there in between, whose content would then be
    considered known.
    """

    inode: int
    size: int
    changed_at: int
    is_distinct: bool
    """Whether no other content can have the same inode, size and time."""
    checksum: int

    @classmethod
    def of_read(cls, status: os.stat_result, data: bytes) -> Fingerprint:
        """Return the fingerprint of a file from its status before the data were read."""
        # Changes within one tick of the file system's clock get the same time.
        is_distinct = time.time_ns() - status.st_mtime_ns > _COARSEST_TICK
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, is_distinct, zlib.crc32(data))

    @classmethod
    def of_written(cls, status: os.stat_result, data: bytes) -> Fingerprint:
        """Return the fingerprint of a file from what `write_durably` returned."""
        keeps_fine_times = status.st_mtime_ns % 1_000_000 != 0
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, keeps_fine_times, zlib.crc32(data))

    def still_holds(self, path: Path) -> bool:
        """Return whether the file has the same content: by its status if that is conclusive, else by the content."""
        status = path.stat()
        is_same = (status.st_ino, status.st_size, status.st_mtime_ns) == (self.inode, self.size, self.changed_at)
        return (is_same and self.is_distinct) or zlib.crc32(path.read_bytes()) == self.checksum


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
            SkillbookFileError: If it is not a skillbook; the error contains the file, the place and the reason.
        """
        data, status = _whole_file(path)
        contents = _contents(path, data)
        self.home = real_path(path)
        self._known[self.home] = Fingerprint.of_read(status, data)
        if contents.ignored_fields:
            self._not_ours[self.home] = contents.ignored_fields
        return contents

    def write(self, path: Path, state: BookState, *, overwrite: bool = False) -> None:
        """Write the book, unless that would overwrite the changes of others.

        Args:
            path: The file.
            state: The book.
            overwrite: Whether to replace a skillbook in the file regardless of its contents.

        Raises:
            SkillbookChangedError: If the file changed since this book read or wrote it, or this book has done neither.
            SkillbookFileError: If there is a file that is not a skillbook.
            OSError: If it cannot be written; the old file is preserved.
        """
        with folder_lock(path):
            target = own_file(path)
            self._refuse_to_lose(path, target, overwrite=overwrite)
            self._write(target, state)

    def merge(self, path: Path, state: BookState, journal: Journal) -> tuple[BookState, list[Refusal]]:
        """Reapply the changes of the journal to the current file, and write it.

        If the file is not the one that the book was loaded from, the skills that it lacks are added.

        Returns:
            The book as it was written, and the changes that could not be reapplied.

        Raises:
            SkillbookFileError: If there is a file that is not a skillbook.
            OSError: If it cannot be written; the old file is preserved.
        """
        with folder_lock(path):
            target = own_file(path)
            newest = self._newest(path, target)
            if newest is None:
                self._write(target, state)
                return state, []
            events = journal.events if target == self.home else _missing_in(newest, state)
            _, refused = Journal(newest).redo(newest, events)
            self._write(target, newest)
            return newest, refused

    def check(self, path: Path, *, merge: bool, overwrite: bool) -> None:
        """Raise the error that `write` or `merge` would raise, without writing.

        Args:
            path: The file.
            merge: Whether to check `merge` rather than `write`.
            overwrite: As for `write`.

        Raises:
            SkillbookError: As they would.
            OSError: If the file cannot be written.
        """
        target = own_file(path)
        check_can_write(target)
        if merge:
            self._newest(path, target)
        else:
            self._refuse_to_lose(path, target, overwrite=overwrite)

    def _write(self, target: Path, state: BookState) -> None:
        if target in self._known and not target.exists():
            logger.warning("%s was deleted while it was in use; all skills are written to a new file", target)
        data = book_json(state).encode("utf-8")
        self._known[target] = Fingerprint.of_written(write_durably(target, data), data)
        self._not_ours.pop(target, None)
        if self.home is None:
            self.home = target

    def _unchanged(self, target: Path) -> bool:
        known = self._known.get(target)
        return known is not None and known.still_holds(target)

    def _newest(self, path: Path, target: Path) -> BookState | None:
        """Return the state in the file if others have written it; otherwise None."""
        if fields := self._not_ours.get(target):
            raise _has_foreign_fields(path, fields)
        if not target.exists() or self._unchanged(target):
            return None
        contents = _contents(path, whole_file(path))
        if contents.ignored_fields:
            raise _has_foreign_fields(path, contents.ignored_fields)
        return state_from(contents)

    def _refuse_to_lose(self, path: Path, target: Path, *, overwrite: bool) -> None:
        if not target.exists():
            return
        is_known = target in self._known
        if overwrite or not is_known:
            _contents(path, whole_file(path))  # a file that is not a skillbook is never overwritten
            if overwrite:
                return
            raise SkillbookChangedError(
                f"{path}: this file already contains a skillbook that this one was not loaded from; load it first, or "
                "save with merge=True to add to it, with overwrite=True to replace it, or to another path"
            )
        if fields := self._not_ours.get(target):
            raise _has_foreign_fields(path, fields)
        if not self._unchanged(target):
            raise SkillbookChangedError(
                f"{path}: this file was changed by another writer since it was read or saved here; save with "
                "merge=True to add your changes to theirs, with overwrite=True to replace theirs, or to another path"
            )


def whole_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        FileNotFoundError: If there is none.
        SkillbookFileError: If it is a folder, a device or a pipe.
    """
    return _whole_file(path)[0]


def _whole_file(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the content of a file, and its status before it was read."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise SkillbookFileError(f"this is {what}; a skillbook is a file", path=path)
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        return file.read(), status


def _has_foreign_fields(path: Path, fields: tuple[str, ...]) -> SkillbookError:
    return SkillbookError(
        f"{path}: this file has fields that a skillbook cannot keep ({', '.join(fields)}); save to another path, or "
        f"with overwrite=True to replace it"
    )


def _contents(path: Path, data: bytes) -> BookContents:
    try:
        return read_bytes(data)
    except SkillbookFileError as error:
        raise error.at(path) from error.__cause__


def _missing_in(other: BookState, state: BookState) -> list[Event]:
    """Return the events that add the skills that the other book lacks, and the cases of those that it has."""
    known = {(skill.section, skill.content): skill for skill in other.skills.values()}
    everything = state.ordered_skills().values()
    skills = tuple(skill for skill in everything if (skill.section, skill.content) not in known)
    decisions = tuple((*pair, state.decisions[pair]) for pair in sorted(state.decisions))
    changes: dict[str, CaseChange] = {}
    for skill in everything:
        theirs = known.get((skill.section, skill.content))
        if theirs is not None and (put := missing_cases(theirs, skill)):
            changes[theirs.id] = CaseChange(put=put)
    imported = Imported(skills, decisions, state.next_id)
    return [imported, CasesChanged(changes, max(skill.updated_at for skill in everything))] if changes else [imported]
