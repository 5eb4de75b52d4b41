"""`DeduplicateStep`: merges duplicate skills."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ace._internal.arguments import checked_class, whole_number
from ace.calls.calling import BLOCKING, call_role, checked, finished
from ace.calls.model_calls import call_scope, current_call_scope
from ace.calls.sample_context import model_calls_for
from ace.context import ACEStepContext
from ace.protocols.errors import LLMError
from ace.protocols.observers import SkillChange, SkillsChanged, emit, is_observed
from ace.skillbook.store import AlreadyCommittedError, SampleKey

if TYPE_CHECKING:
    from ace.deduplication.consolidation import ConsolidationOperation
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.skillbook import Skillbook

__all__ = ["DeduplicateStep"]

logger = logging.getLogger(__name__)

_ROLE = "deduplication manager"


@runtime_checkable
class Consolidates(Protocol):
    """A manager that merges duplicates itself."""

    def consolidate(self, skillbook: Skillbook) -> object:
        """Merge duplicate skills, and return a report of what was done."""


@checked_class
class DeduplicateStep:
    """Merges duplicate skills, at intervals of samples and at the end of the run.

    With a manager that has no `consolidate`, its report is logged and nothing is changed.

    Args:
        manager: Finds duplicates and merges them.
        skillbook: The book to change.
        interval: The number of samples between two merges.

    Raises:
        ValueError: The interval is below 1.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, manager: DeduplicationManagerLike, skillbook: Skillbook, *, interval: int = 10) -> None:
        self.manager = manager
        self.skillbook = self.lane_key = skillbook
        self.interval = whole_number("interval", interval, of="samples")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Merge at the interval; the context is returned unchanged."""
        if ctx.global_sample_index % self.interval == 0:
            with model_calls_for(ctx, "Deduplication", only_same_text=True):  # it is about the skills in the request
                self.consolidate()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Merge once more, unless it was just done after the last sample."""
        if interrupted or last_index % self.interval == 0:
            return
        try:
            with call_scope(current_call_scope().asked_by("Deduplication", only_same_text=True)):
                self.consolidate()
        except LLMError as error:
            # Everything is learned, and the next run finds the same duplicates.
            logger.error("Duplicate skills could not be merged at the end of the run: %s", error)

    def consolidate(self) -> None:
        """Merge now. In a store, all changes are one transaction, made at most once for each sample of a run."""
        key = self._key()
        if key is not None and self.skillbook.store is not None and self.skillbook.store.committed_version(key):
            return
        manager: object = self.manager
        if isinstance(manager, Consolidates):
            report = self._asked("consolidate")
            if self.skillbook.has_uncommitted_changes and not self._commit(key):
                return
            _tell(report)
            if report:
                logger.info("Deduplication: %s", report)
        else:
            similar = self._asked("get_similarity_report")
            if similar is not None:
                checked(_ROLE, self.manager, "get_similarity_report", str, similar)
            if similar:
                logger.info("Similar skills, which are not merged: %s", similar)

    def _asked(self, method: str) -> object:
        return finished(call_role(BLOCKING, _ROLE, self.manager, method, object, {"skillbook": self.skillbook}))

    def _commit(self, key: SampleKey | None) -> bool:
        """Commit the merge; return False if another process has done so for the same sample in the meantime."""
        try:
            self.skillbook.commit(author="deduplication", key=key)
        except AlreadyCommittedError as error:
            logger.info("The merge was not committed a second time: %s", error)
            return False
        return True

    def _key(self) -> SampleKey | None:
        """Return the key of this merge in the current run, if there is one."""
        scope = current_call_scope()
        if not (scope.run_id and scope.sample):
            return None
        return SampleKey(scope.run_id, scope.epoch, f"{scope.sample}/deduplicate")


def _tell(report: object) -> None:
    """Emit what a consolidation did, if its report lists operations."""
    if not is_observed():
        return
    applied = tuple(_change(done) for done in getattr(report, "applied", ()))
    skipped = tuple(_change(left.operation, left.reason) for left in getattr(report, "skipped", ()))
    if applied or skipped:
        scope = current_call_scope()
        emit(SkillsChanged(scope.run_id, scope.trace_id, applied, skipped))


def _change(operation: ConsolidationOperation, reason: str = "") -> SkillChange:
    return SkillChange(operation.type, operation.skill_ids[0], reason)
