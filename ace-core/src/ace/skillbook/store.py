"""What a store with history must offer, so that others than SQLite can come as plugins.

A store keeps texts; it need not know what an event or a skill is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from ace.skillbook.errors import SkillbookError


class SampleKey(NamedTuple):
    """Which sample of which run a commit belongs to. A store takes each key once."""

    run: str
    epoch: int
    sample: str


class SkillRow(NamedTuple):
    """A skill as a store keeps it."""

    id: str
    position: int
    data: str
    """All fields as JSON, with the sources and cases. A store keeps it as it is."""
    embedding: bytes | None = None


class Head(NamedTuple):
    """The newest state of a book in a store."""

    version: int
    next_id: int
    id_floor: int
    next_position: int


class StoredBook(NamedTuple):
    """Everything that is needed to continue a book."""

    head: Head
    skills: Sequence[SkillRow]
    decisions: Sequence[tuple[str, str, str]]
    """First id, second id, and the decision as JSON."""


class Commit(NamedTuple):
    """One batch, to be written as one transaction."""

    expected_version: int
    """The version that the batch was made on."""
    at: str
    author: str
    operations: str
    """The events as JSON."""
    head: Head
    """The counters after the batch; its version is one above the expected."""
    changed: Sequence[SkillRow] = ()
    """Skills that are new or changed, with their vectors."""
    removed: Sequence[str] = ()
    decisions: Sequence[tuple[str, str, str | None]] = ()
    """Changed decisions; None where one went away."""
    skipped: str = "[]"
    """What was left out and why, as JSON."""
    key: SampleKey | None = None
    progress: str | None = None
    """What the run notes about the sample, if it notes something."""
    replaces_all: bool = False
    """Whether everything that the head held goes first, as in a rollback."""
    vectors: Sequence[tuple[str, bytes | None]] = ()
    """Vectors by skill id, of skills of which nothing else has changed."""


class StoredEvent(NamedTuple):
    """One committed batch as the store keeps it."""

    version: int
    at: str
    author: str
    operations: str
    skipped: str
    key: SampleKey | None


class ProgressRow(NamedTuple):
    """What a run noted about a sample."""

    key: SampleKey
    at: str
    note: str
    version: int | None = None
    """The version that the sample was committed as, if it was."""


class VersionConflictError(SkillbookError):
    """Somebody else committed first; read their events, make the changes again, try again."""


class AlreadyCommittedError(SkillbookError):
    """The sample has been committed already."""

    def __init__(self, key: SampleKey, version: int) -> None:
        self.key = key
        self.version = version
        super().__init__(f"sample {key.sample!r} of epoch {key.epoch} in run {key.run!r} is version {version} already")


@runtime_checkable
class LocksRuns(Protocol):
    """What a store may offer beside `SkillbookStore`: a lock, so that two processes never work on one run at once."""

    def run_lock(self, run: str) -> AbstractContextManager[bool]:
        """Return a lock on a run that one process at a time can hold.

        Entering it does not wait: it yields whether the lock is held. The lock ends with the block, and with the
        process, however that ends.

        Args:
            run: The name of the run.
        """


@runtime_checkable
class ForgetsAnswers(Protocol):
    """What a store may offer beside `SkillbookStore`: to delete what models answered in a run.

    A run with `provenance="ids"` asks for it when it has ended and nothing of it failed.
    """

    def forget_answers(self, run: str) -> int:
        """Delete the recorded answers of a run, so that their texts are nowhere in the store any more.

        Their keys are JSON lists that begin with the name of the run.

        Args:
            run: The name of the run.

        Returns:
            How many answers there were.
        """


@runtime_checkable
class SkillbookStore(Protocol):
    """A store with history. Methods may be called from any thread."""

    def load(self) -> StoredBook:
        """Return the newest state, read in one go."""

    def rows(self, ids: Iterable[str]) -> Sequence[SkillRow]:
        """Return those of the skills that the newest state has."""

    def version(self) -> int:
        """Return the newest version; 0 if nothing has been committed."""

    def append(self, commit: Commit) -> None:
        """Write the batch in one transaction, on the disk when this returns.

        Raises:
            VersionConflictError: If the newest version is not the expected one.
            AlreadyCommittedError: If there is a batch with this key.
        """

    def events(self, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        """Yield the batches with a version above `after` and up to `until`, in order."""

    def committed_version(self, key: SampleKey) -> int | None:
        """Return the version of the batch with this key, or None."""

    def note_progress(self, key: SampleKey, note: str, at: str) -> None:
        """Keep a note about a sample; a later one replaces it."""

    def progress(self, run: str) -> Sequence[ProgressRow]:
        """Return the notes of a run, in the order in which they were made first."""

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Keep what a model answered, durably, before it is used.

        Returns:
            The answer that counts: the first one recorded under the key.
        """

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""

    def recorded_answers(self) -> Iterable[tuple[str, str]]:
        """Yield all recorded answers with their keys."""

    def close(self) -> None:
        """Release the store. It can be called twice."""
