"""How a skillbook changes: every change is an event, goes through one method, and is committed to the store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ace.skillbook.changes import apply_event
from ace.skillbook.events import Event
from ace.skillbook.journal import Journal, Rebase
from ace.skillbook.reading import ReadableSkillbook

if TYPE_CHECKING:
    from ace.skillbook.binding import StoreBinding
    from ace.skillbook.store import SampleKey

_NOTHING_MOVED = Rebase()


class CommittingSkillbook(ReadableSkillbook):
    """What changes a skillbook goes through here, and to its store, if it has one."""

    _journal: Journal | None = None
    _binding: StoreBinding | None = None
    _deferring = 0
    """How many `deferred_commits` blocks are open; runs that overlap may end in any order."""

    @contextlib.contextmanager
    def deferred_commits(self) -> Iterator[None]:
        """Collect changes in memory, so that the tags and operations of one sample are committed together.

        `commit`, or an `apply_update` with a key, writes them as one transaction. Nothing in the store is
        locked meanwhile. What is left when the last block ends is committed.
        """
        with self._lock:
            self._deferring += 1
        try:
            yield
        finally:
            with self._lock:
                self._deferring -= 1
                if not self._deferring:
                    self.commit()

    @property
    def has_uncommitted_changes(self) -> bool:
        """Whether changes wait in memory for a commit to the store; never so without a store."""
        return self._binding is not None and self._journal is not None and bool(self._journal.events)

    def commit(self, *, author: str = "", key: SampleKey | None = None, progress: str | None = None) -> None:
        """Write the collected changes as one transaction. Without a store or changes, nothing happens.

        Raises:
            AlreadyCommittedError: If the store has this sample already; the changes are taken back.
        """
        with self._lock:
            if self._binding is not None:
                self._commit(self._now(), author, key, progress)

    def _make(self, event: Event) -> Event:
        """Change the book, and note the change where something will be saved."""
        if self._journal is None:
            return apply_event(self._state, event)
        if self._binding is not None:
            self._binding.check_open()
        return self._journal.make(self._state, event)

    def _committed(self, at: str) -> Rebase:
        """Commit at once, unless commits are deferred or there is no store."""
        if self._binding is None or self._deferring:
            return _NOTHING_MOVED
        return self._commit(at)

    def _commit(
        self,
        at: str,
        author: str = "",
        key: SampleKey | None = None,
        progress: str | None = None,
        skipped: Sequence[dict[str, object]] = (),
    ) -> Rebase:
        from ace.skillbook.binding import CommitNote  # loaded already: there is a binding

        assert self._binding is not None
        assert self._journal is not None
        note = CommitNote(at, author, key, progress, skipped)
        return self._binding.commit(self._state, self._journal, note)
