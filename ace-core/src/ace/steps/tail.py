"""`learning_tail`: the steps with which every runner ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ace.arguments import checked_arguments
from ace.context import ACEStepContext
from ace.protocols.deduplication import AsksSkillManagerLike
from ace.steps.apply import MAX_ADDS, ApplyStep
from ace.steps.checkpoint import CheckpointStep
from ace.steps.deduplicate import DeduplicateStep
from ace.steps.reflect import ReflectStep
from ace.steps.tag import TagStep
from ace.steps.update import UpdateStep

if TYPE_CHECKING:
    from ace.pipeline import StepProtocol
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.protocols.reflector import ReflectorLike
    from ace.protocols.skill_manager import SkillManagerLike
    from ace.skill import Provenance
    from ace.skillbook import Skillbook
    from ace.steps.copy_guard import CopyGuard

__all__ = ["learning_tail"]


@checked_arguments()
def learning_tail(
    reflector: ReflectorLike,
    skill_manager: SkillManagerLike,
    skillbook: Skillbook,
    *,
    dedup_manager: DeduplicationManagerLike | None = None,
    dedup_interval: int = 10,
    checkpoint_dir: str | Path | None = None,
    checkpoint_interval: int = 10,
    guard: CopyGuard | None = None,
    max_adds: int | None = MAX_ADDS,
    provenance: Provenance = "full",
) -> list[StepProtocol[ACEStepContext]]:
    """Return the standard steps that learn from a trace.

    Args:
        reflector: Who finds out what a trace teaches.
        skill_manager: Who turns that into operations.
        skillbook: The book that learns.
        dedup_manager: Merges similar skills. One that has no skill manager of its own, and can be given one
            (`with_skill_manager`), asks `skill_manager` about doubtful pairs.
        dedup_interval: After how many samples.
        checkpoint_dir: Where copies of the book go, if anywhere.
        checkpoint_interval: After how many samples.
        guard: Says which operations are left out; by default those that copy the right answer or a prompt, or hold
            personal data or secrets.
        max_adds: How many skills one answer may add; None sets no limit.
        provenance: What is kept of a trace beside the skills; see `UpdateStep`.

    Returns:
        Reflect, Tag, Update, Apply, then Deduplicate and Checkpoint where asked for.
    """
    allow = () if guard is None else guard.allow
    steps: list[StepProtocol[ACEStepContext]] = [
        ReflectStep(reflector, allow=allow),
        TagStep(skillbook),
        UpdateStep(skill_manager, allow=allow, provenance=provenance),
        ApplyStep(skillbook, guard=guard, max_adds=max_adds),
    ]
    if dedup_manager is not None:
        if isinstance(dedup_manager, AsksSkillManagerLike):
            dedup_manager = dedup_manager.with_skill_manager(skill_manager)
        steps.append(DeduplicateStep(dedup_manager, skillbook, interval=dedup_interval))
    if checkpoint_dir is not None:
        steps.append(CheckpointStep(checkpoint_dir, skillbook, interval=checkpoint_interval))
    return steps
