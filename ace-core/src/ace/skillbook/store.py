"""The protocol of a store with history, which plugins can implement.

A store contains strings; it does not need to know what an event or a skill is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from ace.skillbook.errors import SkillbookError


class SampleKey(NamedTuple):
    """Identifies the sample and the run that a commit belongs to. A store accepts each key once."""

    run: str
    epoch: int
    sample: str


class SkillRow(NamedTuple):
    """A skill as stored."""

    id: str
    position: int
    data: str
    """All fields as JSON, with the sources and cases. A store does not interpret it."""
    embedding: bytes | None = None


class Head(NamedTuple):
    """The newest state of a book in a store."""

    version: int
    next_id: int
    id_floor: int
    next_position: int


class StoredBook(NamedTuple):
    """Everything that is needed to open a book."""

    head: Head
    skills: Sequence[SkillRow]
    decisions: Sequence[tuple[str, str, str]]
    """First id, second id, and the decision as JSON."""


class Commit(NamedTuple):
    """One batch, to be written as one transaction."""

    expected_version: int
    """The version that the batch is based on."""
    at: str
    author: str
    operations: str
    """The events as JSON."""
    head: Head
    """The head after the batch; its version is the expected version plus one."""
    changed: Sequence[SkillRow] = ()
    """Skills that are new or changed, with their vectors."""
    removed: Sequence[str] = ()
    decisions: Sequence[tuple[str, str, str | None]] = ()
    """Changed decisions; None for a deleted one."""
    skipped: str = "[]"
    """The skipped operations with their reasons, as JSON."""
    key: SampleKey | None = None
    progress: str | None = None
    """The progress of the run on the sample, if any."""
    replaces_all: bool = False
    """Whether to delete the previous contents first, as in a rollback."""
    vectors: Sequence[tuple[str, bytes | None]] = ()
    """Vectors by skill id, of skills without other changes."""


class StoredEvent(NamedTuple):
    """One committed batch as stored."""

    version: int
    at: str
    author: str
    operations: str
    skipped: str
    key: SampleKey | None


class ProgressRow(NamedTuple):
    """The progress of a run on a sample."""

    key: SampleKey
    at: str
    note: str
    version: int | None = None
    """The version that the sample was committed as, if any."""


class VersionConflictError(SkillbookError):
    """Another process committed first: read its events, reapply the changes, and try again."""


class AlreadyCommittedError(SkillbookError):
    """The sample has been committed already."""

    def __init__(self, key: SampleKey, version: int) -> None:
        self.key = key
        self.version = version
        super().__init__(f"sample {key.sample!r} of epoch {key.epoch} in run {key.run!r} is version {version} already")


@runtime_checkable
class LocksRuns(Protocol):
    """An optional capability of a store: a lock that prevents two processes from working on the same run."""

    def run_lock(self, run: str) -> AbstractContextManager[bool]:
        """Return a lock on a run that only one process can hold at a time.

        Entering it does not wait: it yields whether the lock was acquired. It is released at the end of the block,
        and when the process ends for any reason.

        Args:
            run: The name of the run.
        """


@runtime_checkable
class ForgetsAnswers(Protocol):
    """An optional capability of a store: deleting the recorded model answers of runs.

    A run with `forget_answers=True` or `provenance="ids"` uses it when it has ended without failures, and so does
    `ace skillbook forget --answers`.
    """

    def forget_answers(self, *runs: str) -> int:
        """Delete the recorded answers of runs, so that their texts are no longer anywhere in the store.

        Their keys are JSON lists that start with the name of the run.

        Args:
            *runs: The names of the runs.

        Returns:
            The number of deleted answers.
        """


@runtime_checkable
class SkillbookStore(Protocol):
    """A store with history. Methods may be called from any thread."""

    def load(self) -> StoredBook:
        """Return the newest state, read in a single transaction."""

    def rows(self, ids: Iterable[str]) -> Sequence[SkillRow]:
        """Return the rows of the skills that exist in the newest state."""

    def version(self) -> int:
        """Return the newest version; 0 if nothing has been committed."""

    def append(self, commit: Commit) -> None:
        """Write the batch in one transaction, which is on disk when this returns.

        Raises:
            VersionConflictError: If the newest version is not the expected one.
            AlreadyCommittedError: If there is a batch with this key.
        """

    def events(self, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        """Yield the batches with versions after `after` and up to `until`, in order."""

    def committed_version(self, key: SampleKey) -> int | None:
        """Return the version of the batch with this key, or None."""

    def note_progress(self, key: SampleKey, note: str, at: str) -> None:
        """Record progress on a sample; a later call replaces it."""

    def progress(self, run: str) -> Sequence[ProgressRow]:
        """Return the progress of a run, in the order in which samples were first recorded."""

    def record_answer(self, key: str, answer: str, at: str, details: Mapping[str, str] | None = None) -> str:
        """Record an answer of a model durably before it is used.

        Returns:
            The first answer that was recorded under the key.
        """

    def recorded_answer(self, key: str) -> str | None:
        """Return the answer recorded under the key, or None."""

    def recorded_answers(self) -> Iterable[tuple[str, str]]:
        """Yield all recorded answers with their keys."""

    def close(self) -> None:
        """Release the store. It can be called twice."""
