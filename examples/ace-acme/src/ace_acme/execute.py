"""`AcmeExecuteStep`, which runs a task with an Acme agent and the skills in its briefing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ace import extract_cited_skill_ids, wrap_skillbook_for_external_agent
from ace.context import ACESample, ACEStepContext
from ace.pipeline import PipelineCancelled
from ace_acme.result import AcmeResult, Deed

if TYPE_CHECKING:
    from acme_agent import AcmeAgent

__all__ = ["AcmeExecuteStep"]


class AcmeExecuteStep:
    """Runs the task of the sample with an Acme agent, and sets `trace` to an `AcmeResult`.

    Args:
        agent: The agent. Concurrent runs may share it, because each has its own log.
        timeout: The time limit of a run, in seconds.
        skill_budget_tokens: The maximum size of the skills, in tokens; None includes all skills.
    """

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"trace"})

    def __init__(
        self, agent: AcmeAgent, *, timeout: float | None = None, skill_budget_tokens: int | None = None
    ) -> None:
        self.agent = agent
        self.timeout = timeout
        self.skill_budget_tokens = skill_budget_tokens

    async def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Run the task and set `trace` to the result."""
        from acme_agent import RunLog

        if ctx.skillbook is None:
            raise ValueError("AcmeExecuteStep needs ctx.skillbook; run it in a runner")
        task = ctx.sample.question if isinstance(ctx.sample, ACESample) else str(ctx.sample)
        log, output, error = RunLog(task), "", None
        try:
            briefing = wrap_skillbook_for_external_agent(ctx.skillbook, self.skill_budget_tokens)
            async with asyncio.timeout(self.timeout):
                output = await self.agent.work(task, log, briefing=briefing)
        except PipelineCancelled:  # unlike asyncio.CancelledError, it is an Exception
            raise
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        deeds = tuple(Deed(entry.kind, entry.name, entry.text) for entry in log.entries)
        cited = tuple(extract_cited_skill_ids(output))
        return ctx.replace(trace=AcmeResult(task, error is None, output, error, deeds, cited))
