"""`SkillSearch`: the skills in a store that fit a question, without reading those that do not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Final, final

from ace._internal.atomic_file import own_file, replace_file
from ace.retrieval.frozen_index import FrozenIndex
from ace.skill import Skill
from ace.skillbook.book import Skillbook
from ace.skillbook.journal import state_of
from ace.skillbook.sqlite_store import SqliteStore
from ace.skillbook.store import Head

__all__ = ["SkillSearch"]

_logger = logging.getLogger(__name__)
_SUFFIX: Final = ".search"


@final
class SkillSearch:
    """Finds skills in an SQLite store, for a process that asks one question and ends.

    Such a process would spend most of its time on reading skills that it does not show. What the search compares is
    therefore kept in a file beside the store, `skills.db.search`, which holds no text. It is only used if the store
    has the same version and its files have the same sizes and times as when it was made; otherwise it is rebuilt, for
    which the unchanged skills take no time.

    Args:
        path: The store.

    Raises:
        SkillbookError: The store cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "skills.db")
        ...     with Skillbook.open(path) as book:
        ...         _ = book.add_skill("pay", "Employees are paid on the last Friday of the month.")
        ...     search = SkillSearch(path)
        ...     [skill.id for skill in search.best("On which day do I receive my pay?", limit=3)]
        ['pay-00001']
    """

    def __init__(self, path: str | Path) -> None:
        self._store = SqliteStore(path)
        self._file = own_file(self._store.path.with_name(self._store.path.name + _SUFFIX))
        self._index = self._current()

    def best(self, query: str, limit: int, besides: Set[str] = frozenset()) -> list[Skill]:
        """Return the active skills that fit a question, as `MeaningRanker` finds them; pinned ones are not searched.

        Args:
            query: The question.
            limit: The maximum number to return; there are fewer if fewer fit.
            besides: The ids of skills that are not searched.
        """
        return self._skills(self._index.best(query, limit, besides | self._index.pinned))

    def pinned(self, besides: Set[str] = frozenset()) -> list[Skill]:
        """Return the active skills that are pinned, in the order of the skillbook.

        Args:
            besides: The ids of skills that are not returned.
        """
        wanted = self._index.pinned - besides
        return self._skills([id for id in self._index.ids if id in wanted] if wanted else [])

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _skills(self, ids: Iterable[str]) -> list[Skill]:
        rows = self._store.rows(ids)
        found = {skill.id: skill for skill in state_of(rows, (), Head(0, 1, 1, 0)).active_skills()}
        return [found[row.id] for row in rows if row.id in found]  # another process may have removed one just now

    def _current(self) -> FrozenIndex:
        # The files come first: if another process writes between the two, the next search makes the index again.
        stamp = [*_stamps(self._store.path), self._store.version()]
        earlier = None
        try:
            head, _, data = self._file.read_bytes().partition(b"\n")
            earlier = FrozenIndex.from_bytes(data)
            if json.loads(head) == stamp:
                return earlier
        except (OSError, ValueError):  # there is none, or it is damaged or of another version: it is built again
            pass
        with Skillbook.open(self._store.path) as book:
            index = FrozenIndex.of(book.skills(), earlier)
            stamp[-1] = book.version
        try:
            replace_file(self._file, json.dumps(stamp).encode() + b"\n" + index.to_bytes())
        except OSError as error:  # the next search takes as long as this one
            _logger.warning("%s cannot be written, so each search reads the whole skillbook: %s", self._file, error)
        return index


def _stamps(path: Path) -> Sequence[object]:
    """Return what tells the files of a store from a copy, and from the same files after a change.

    Versions alone do not: a backup that was restored, or a row that was edited with another program, may have the same.
    """
    stamps: list[object] = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        if status.st_size:  # readers, too, create an empty log
            stamps.append([status.st_ino, status.st_size, status.st_mtime_ns])
    return stamps
