"""Reads one skillbook for the pages: always its newest version; what is computed from a version is cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, final

from ace import Skillbook
from ace.evaluation import TrainingLog, ValidationPoint
from ace.runners import RunSummary, SkillUse, run_summaries, skill_use
from ace.skill import Skill
from ace.skillbook import (
    BookSize,
    BookSizes,
    HistoryEntry,
    SkillbookError,
    SkillTimeline,
    has_scheme,
    shown_location,
)

__all__ = ["BookReader", "BookVersion", "OpenedBook", "Training"]

_KEPT_VERSIONS: Final = 4
"""How many older versions are kept in memory, for readers who page through one."""


@final
class BookVersion:
    """The skills of a book at one version.

    Args:
        version: The version; None for a book without history.
        skills: All skills, including those that are not active, in order.
    """

    def __init__(self, version: int | None, skills: Sequence[Skill]) -> None:
        self.version = version
        self.skills = skills
        self.by_id = {skill.id: skill for skill in skills}
        self.active = [skill for skill in skills if skill.is_active]
        self.pending = [skill for skill in skills if skill.is_pending]
        self.proofs = {skill.id: skill.proof for skill in self.active}
        self.searched = {skill.id: f"{skill.id}\n{skill.section}\n{skill.content}".casefold() for skill in skills}
        """The text that a search compares, by skill id."""
        counts: dict[str, int] = {}
        for skill in self.active:
            counts[skill.section] = counts.get(skill.section, 0) + 1
        self.sections = counts
        """The number of active skills of each section, in the order of the book."""


class Training(NamedTuple):
    """A training with validation, as its log next to the book records it."""

    run_id: str
    points: Sequence[ValidationPoint]


@final
@dataclass(frozen=True)
class OpenedBook:
    """What a page shows of a book. It is valid inside the block of `BookReader.reading`."""

    reader: BookReader
    book: Skillbook
    newest: BookVersion

    @cached_property
    def timeline(self) -> SkillTimeline | None:
        """The history, read when a page first needs it; None for a book without one, or if it cannot be read."""
        return self.reader.history()

    @cached_property
    def sizes(self) -> Sequence[BookSize]:
        """The number of active skills at each version; empty for a book without history, or if it cannot be read.

        The overview needs this and the newest changes, but not the whole timeline, which takes several times as long.
        """
        return self.reader.sizes()

    def recent_changes(self, number: int) -> list[HistoryEntry]:
        """Return the newest versions that changed something, newest first.

        Args:
            number: The maximum number.
        """
        if self.book.version is None or not self.sizes:
            return []
        read = 4 * number
        while True:
            found = [entry for entry in self.book.history(max(0, self.book.version - read)) if entry.events]
            if len(found) >= number or read >= self.book.version:
                return found[: -number - 1 : -1]
            read *= 4

    @property
    def problem(self) -> str:
        """Why the history cannot be read; empty if it can, if there is none, or if the page does not need it."""
        return self.reader.problem if {"timeline", "sizes"} & self.__dict__.keys() else ""

    @property
    def name(self) -> str:
        """The name of the book in addresses and headings."""
        return self.reader.name

    @property
    def keeps_history(self) -> bool:
        """Whether the book is in a store."""
        return self.book.store is not None

    def at(self, version: int | None) -> BookVersion | None:
        """Return a version; None if there is no such version.

        Args:
            version: Its number; None for the newest one.
        """
        if version is None or version == self.newest.version:
            return self.newest
        if self.timeline is None or not 0 <= version <= self.timeline.version:
            return None
        return self.reader.older(self.timeline, version)

    def runs(self) -> list[RunSummary]:
        """Return the runs that the store knows, newest first."""
        return run_summaries(self.book)[::-1]

    def use(self, skill_id: str) -> SkillUse | None:
        """Return how often agents saw and cited a skill; None if no agent was recorded."""
        use = skill_use(self.book).get(skill_id)
        return use if use is not None and any(use) else None

    def trainings(self) -> list[Training]:
        """Return the trainings with validation that are recorded next to the book, oldest first."""
        return self.reader.trainings()


@final
class BookReader:
    """A skillbook that is read by pages, while others may write to it.

    Args:
        name: Its name in addresses and headings.
        location: Its file, or the location of a store.
        open_book: Opens it.

    Raises:
        SkillbookError: It cannot be opened.
    """

    def __init__(self, name: str, location: str, open_book: Callable[[], Skillbook]) -> None:
        self.name = name
        self.location = location
        self._open_book = open_book
        self._lock = threading.RLock()
        self._file = None if has_scheme(location) else Path(location)
        self._stamp = self._stamped()
        self._book = open_book()
        self._newest = _version_of(self._book)
        self._timeline: SkillTimeline | None = None
        self._sizes: BookSizes | None = None
        self.problem = ""
        """Why the history could not be read the last time; empty if it could."""
        self._older: OrderedDict[int, BookVersion] = OrderedDict()
        self._training_log: tuple[tuple[int, int] | None, list[Training]] = (None, [])

    @property
    def shown_location(self) -> str:
        """The location of the book, without a password."""
        return shown_location(self.location)

    @contextmanager
    def reading(self) -> Iterator[OpenedBook]:
        """Read the newest version of the book; one page at a time.

        Raises:
            SkillbookError: The book cannot be read.
            OSError: Its file was deleted.
        """
        with self._lock:
            self._catch_up()
            yield OpenedBook(self, self._book, self._newest)

    @property
    def is_ready(self) -> bool:
        """Whether the history has been read, as far as there is one."""
        return self._timeline is not None or self._book.store is None

    def prepare(self) -> None:
        """Read the history before a page needs it; that page shows what is wrong with it."""
        with self._lock:
            self.history()

    def history(self) -> SkillTimeline | None:
        """Return the history up to now; None for a book without one, or if it cannot be read."""
        self.problem = ""
        if self._book.store is None:
            return None
        if self._timeline is None:
            self._timeline = SkillTimeline(self._book.store)
        try:
            self._timeline.read_new()
        except SkillbookError as error:
            self.problem = str(error)
            return None
        return self._timeline

    def sizes(self) -> Sequence[BookSize]:
        """Return the number of active skills at each version; empty without a history, or if it cannot be read."""
        self.problem = ""
        if self._book.store is None:
            return []
        if self._sizes is None:
            self._sizes = BookSizes(self._book.store)
        try:
            return self._sizes.read_new()
        except SkillbookError as error:
            self.problem = str(error)
            return []

    def older(self, timeline: SkillTimeline, version: int) -> BookVersion:
        """Return an older version, and keep it for the next page.

        Args:
            timeline: The history of the book.
            version: The version, which exists.
        """
        found = self._older.pop(version, None)
        if found is None:
            found = BookVersion(version, timeline.skills_at(version, include_invalid=True))
        self._older[version] = found
        if len(self._older) > _KEPT_VERSIONS:
            self._older.popitem(last=False)
        return found

    def trainings(self) -> list[Training]:
        """Return the trainings with validation that are recorded next to the book, oldest first."""
        if self._file is None:
            return []
        path = self._file.with_name(f"{self._file.name}.validation.jsonl")
        try:
            status = path.stat()
        except FileNotFoundError:
            return []
        stamp = (status.st_mtime_ns, status.st_size)
        if self._training_log[0] != stamp:
            log = TrainingLog(path)
            self._training_log = (stamp, [Training(run_id, log.points_of(run_id)) for run_id in log.runs])
        return self._training_log[1]

    def close(self) -> None:
        """Close the book."""
        with self._lock:
            self._book.close()

    def _catch_up(self) -> None:
        if self._book.store is not None:
            before = self._book.version
            self._book.refresh()
            if self._book.version != before:
                self._newest = _version_of(self._book)
        elif (stamp := self._stamped()) != self._stamp:
            self._book = self._open_book()
            self._stamp = stamp
            self._newest = _version_of(self._book)

    def _stamped(self) -> tuple[int, int, int] | None:
        """Return a value that changes when a file is written; None for a store, and for a file that does not exist."""
        if self._file is None or not self._file.exists():
            return None
        status = self._file.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size


def _version_of(book: Skillbook) -> BookVersion:
    return BookVersion(book.version, book.skills(include_invalid=True))
