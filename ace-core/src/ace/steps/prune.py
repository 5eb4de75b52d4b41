"""`PruneStep`: removes harmful skills at the end of each epoch."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class, instance_of
from ace.calls.model_calls import current_call_scope
from ace.context import ACEStepContext
from ace.protocols.observers import SkillChange, SkillsChanged, emit, is_observed
from ace.skillbook.pruning import PruneRules, prune, skills_to_prune

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["PruneStep"]

logger = logging.getLogger(__name__)


@checked_class
class PruneStep:
    """Removes skills with a low net score at the end of each epoch, as one version. Pinned skills are kept.

    Removed skills can be restored.

    Args:
        skillbook: The book that learns.
        net_below: Skills are removed if their net score (the number of helpful judgements minus the number of harmful
            ones) is below this.

    Raises:
        TypeError: `net_below` is not a whole number.

    Example:
        >>> from ace import Skillbook
        >>> book = Skillbook()
        >>> for harmful in (3, 4):
        ...     _ = book.add_skill("maths", f"Guess {harmful} times.", metadata={"harmful": harmful})
        >>> PruneStep(book).end_epoch(1)
        >>> [skill.harmful for skill in book.skills()]
        [3]
    """

    requires: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(self, skillbook: Skillbook, *, net_below: int = -3) -> None:
        self.skillbook = self.lane_key = skillbook
        instance_of("net_below", net_below, int)
        self.net_below = net_below
        self.pruned: list[str] = []
        """The ids of the skills that were removed, in all epochs."""

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Return the context unchanged: there is nothing to do before the end of an epoch."""
        return ctx

    def end_epoch(self, epoch: int) -> None:
        """Remove the skills.

        Args:
            epoch: The epoch, from 1.
        """
        rules = PruneRules(harmful=False, net_below=self.net_below)
        found = skills_to_prune(self.skillbook.skills(), rules, datetime.now(UTC))
        if not found:
            return
        prune(self.skillbook, found)
        self.skillbook.commit(author=f"prune after epoch {epoch}")
        self.pruned += [entry.skill.id for entry in found]
        for entry in found:
            logger.info("Skill %s was removed after epoch %d: %s", entry.skill.id, epoch, entry.reason)
        if is_observed():
            removed = tuple(SkillChange("REMOVE", entry.skill.id) for entry in found)
            emit(SkillsChanged(current_call_scope().run_id, "", removed, ()))
