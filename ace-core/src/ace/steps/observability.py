"""`ObservabilityStep`: logs one line for each sample."""

from __future__ import annotations

import json
import logging

from ace.calls.sample_context import needed
from ace.context import ACEStepContext

__all__ = ["ObservabilityStep"]

logger = logging.getLogger(__name__)


class ObservabilityStep:
    """Logs one line of JSON for each sample: its position in the run, and its outcome.

    It does not contain the contents of traces and answers.
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Log the line; the context is returned unchanged."""
        if not logger.isEnabledFor(logging.INFO):
            return ctx
        batch, reflection = ctx.skill_manager_output, ctx.reflection
        line = {
            "event": "sample",
            "trace_id": str(ctx.metadata.get("trace_id", "")),
            "epoch": ctx.epoch,
            "total_epochs": ctx.total_epochs,
            "sample": ctx.step_index,
            "total_samples": ctx.total_steps,
            "answered": ctx.agent_output is not None,
            "learnings": None if reflection is None else len(reflection.extracted_learnings),
            "tags": None if reflection is None else len(reflection.skill_tags),
            "operations": None if batch is None else [operation.type for operation in batch.operations],
            "skills": len(needed(ctx.skillbook, "skillbook", self)),
        }
        logger.info("%s", json.dumps(line, ensure_ascii=False))
        return ctx
