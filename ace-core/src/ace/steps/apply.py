"""`ApplyStep`: writes the operations into the skillbook."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ace.context import ACEStepContext
from ace.protocols.observers import SkillChange, SkillsChanged, emit, is_observed
from ace.skillbook.store import AlreadyCommittedError, SampleKey
from ace.steps.asking import run_of
from ace.steps.copy_guard import CopyGuard
from ace.steps.needed import needed
from ace.steps.stopping import is_learned
from ace.steps.used_skills import used_skills

if TYPE_CHECKING:
    from ace.skillbook import Skillbook, UpdateReport

__all__ = ["ApplyStep"]

logger = logging.getLogger(__name__)


class ApplyStep:
    """Carries out the operations. Those that cannot be carried out are logged by the skillbook and left out.

    So are those that copy the right answer or a prompt, or look as if they held personal data or a secret.

    In a store, the tags, the operations and the progress of a sample are one transaction, under the `SampleKey`
    of `metadata["sample_key"]`, which runners set. A sample that the store has already is not written twice.

    Args:
        skillbook: The book to write.
        guard: Says what is left out.
    """

    requires = frozenset({"skill_manager_output"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(self, skillbook: Skillbook, *, guard: CopyGuard | None = None) -> None:
        self.skillbook = self.lane_key = skillbook
        self.guard = CopyGuard() if guard is None else guard

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write; the context stays as it is."""
        if is_learned(ctx):
            return ctx
        batch = needed(ctx.skill_manager_output, "skill_manager_output", self)
        key = ctx.metadata.get("sample_key")
        answers = _right_answers(ctx) if any(operation.content for operation in batch.operations) else ()
        progress = {
            "trace_id": ctx.metadata.get("trace_id", ""),
            "index": ctx.global_sample_index,
            "attempt": ctx.metadata.get("attempt", 0),
            "attempts": ctx.metadata.get("attempts", {}),
            **ctx.metadata.get("content", {}),
            **used_skills(ctx),
        }
        try:
            report = self.skillbook.apply_update(
                batch,
                author=str(ctx.metadata.get("integration", "")),
                key=key if isinstance(key, SampleKey) else None,
                progress=json.dumps(progress),
                problem_with=lambda operation: self.guard.problem_with(operation, answers),
            )
        except AlreadyCommittedError as error:
            logger.info("Nothing was written again: %s", error)
        else:
            _tell(ctx, report)
        return ctx


def _right_answers(ctx: ACEStepContext) -> Sequence[str]:
    """Return the right answers that the sample and its trace name."""
    from ace.implementations.trace_reading import read_trace  # seldom needed, and slow to import

    found = [getattr(ctx.sample, "ground_truth", None), read_trace(ctx.trace)["ground_truth"]]
    return [answer for answer in found if isinstance(answer, str)]


def _tell(ctx: ACEStepContext, report: UpdateReport) -> None:
    """Tell observers what was carried out, and what was left out and why."""
    if not is_observed() or not (report.applied or report.skipped):
        return
    applied = tuple(SkillChange(done.operation.type, done.skill_id) for done in report.applied)
    skipped = tuple(
        SkillChange(str(left.operation.type), left.operation.skill_id or "", left.reason) for left in report.skipped
    )
    emit(SkillsChanged(run_of(ctx), str(ctx.metadata.get("trace_id", "")), applied, skipped))
