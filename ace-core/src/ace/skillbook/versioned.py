"""What a store with history adds to a skillbook: its versions, and the way back to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ace.arguments import checked_arguments
from ace.skillbook.errors import SkillbookHistoryError
from ace.skillbook.journal import Rebase
from ace.skillbook.state import BookState
from ace.skillbook.writing import WritableSkillbook

if TYPE_CHECKING:
    from ace.skillbook.binding import StoreBinding
    from ace.skillbook.history import BlameEntry, HistoryEntry, SkillbookDiff
    from ace.skillbook.store import SkillbookStore


class VersionedSkillbook(WritableSkillbook):
    """What can be asked of the history. Without a store there is none, and the methods say so."""

    @property
    def store(self) -> SkillbookStore | None:
        """The store behind this book, or None.

        Raises:
            SkillbookStoreError: The book was closed.
        """
        return None if self._binding is None else self._binding.store

    @property
    def version(self) -> int | None:
        """The version of the store that this book stands on, or None."""
        return None if self._binding is None else self._binding.version

    def refresh(self) -> None:
        """Take over what other processes committed to the store; without one, nothing happens."""
        with self._lock:
            if self._binding is not None and self._journal is not None:
                self._binding.catch_up(self._state, self._journal, Rebase())

    @checked_arguments()
    def history(self, after: int = 0) -> list[HistoryEntry]:
        """Return the versions above `after`, oldest first.

        Versions that only set vectors of skills are not listed; `rollback` and `as_of` take their numbers too.

        Args:
            after: The version before the first one that may be listed.
        """
        return self._bound().entries(after)

    @checked_arguments()
    def as_of(self, version: int) -> Self:
        """Return the book as it was at a version, in memory; 0 is the empty beginning."""
        return self._detached(self._bound().state_at(version))

    @checked_arguments()
    def diff(self, first: int, second: int) -> SkillbookDiff:
        """Return how the second version differs from the first."""
        return self._bound().difference(first, second)

    @checked_arguments()
    def rollback(self, version: int, *, author: str = "") -> int:
        """Make the book what it was at a version. That is a new version, so it can be taken back too.

        Returns:
            The new version.
        """
        with self._lock:
            binding = self._bound()
            assert self._journal is not None
            self.commit()
            return binding.roll_back(self._state, self._journal, version, self._now(), author)

    @checked_arguments()
    def blame(self, skill_id: str) -> list[BlameEntry]:
        """Return every change that touched a skill, oldest first."""
        return self._bound().blame(skill_id)

    def _detached(self, state: BookState) -> Self:
        book = type(self)(clock=self._clock, count_tokens=self._count_tokens, ranker=self._ranker)
        book._state.become(state)
        return book

    def _bound(self) -> StoreBinding:
        if self._binding is None:
            raise SkillbookHistoryError(
                "this skillbook keeps no history; Skillbook.open('skills.db') opens one that does"
            )
        return self._binding
