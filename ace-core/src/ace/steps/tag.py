"""`TagStep`: counts which skills helped and which were harmful."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class
from ace.calls.sample_context import is_learned, needed, run_of, stop_if_cancelled
from ace.context import ACEStepContext
from ace.protocols.observers import SkillChange, SkillsChanged, emit, is_observed
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["TagStep", "tags_key"]

logger = logging.getLogger(__name__)


@checked_class
class TagStep:
    """Increments the counters of the skills that the reflection judged.

    A judgement of a skill that does not exist, or with an unknown tag, is logged as a warning.

    Args:
        skillbook: The book to change.
    """

    requires = frozenset({"reflection"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(self, skillbook: Skillbook) -> None:
        self.skillbook = self.lane_key = skillbook

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Count every judgement; the context is returned unchanged."""
        if is_learned(ctx):
            return ctx
        stop_if_cancelled()
        if self._is_counted(ctx):
            return ctx
        counted: list[SkillChange] = []
        refused: list[SkillChange] = []
        for judged in needed(ctx.reflection, "reflection", self).skill_tags:
            try:
                self.skillbook.tag_skill(judged.id, judged.tag)
            except ValueError as error:
                logger.warning("The tag %r of skill %r was not counted: %s", judged.tag, judged.id, error)
                refused.append(SkillChange("TAG", judged.id, str(error)))
            else:
                counted.append(SkillChange("TAG", judged.id))
        if is_observed() and (counted or refused):
            trace_id = str(ctx.metadata.get("trace_id", ""))
            emit(SkillsChanged(run_of(ctx), trace_id, tuple(counted), tuple(refused)))
        return ctx

    def _is_counted(self, ctx: ACEStepContext) -> bool:
        """Whether the tags were counted in an earlier attempt at the sample, which failed later."""
        key, store = ctx.metadata.get("sample_key"), self.skillbook.store
        if store is None or not isinstance(key, SampleKey):
            return False
        return store.committed_version(tags_key(key)) is not None


def tags_key(key: SampleKey) -> SampleKey:
    """Return the key under which the tags of a sample are committed if it fails after the `TagStep`.

    Args:
        key: The key of the sample.
    """
    return key._replace(sample=f"{key.sample}/tags")
