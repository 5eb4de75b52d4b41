"""What makes a pipeline a step of another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar

from .caller import caller_var
from .cancellation import CancellationToken, cancel_token_var
from .context import StepContext
from .diagram import draw_mermaid, one_line
from .hooks import PipelineHook, relayed
from .plan import Plan
from .segment import Position, Segment
from .surroundings import Surroundings

C = TypeVar("C", bound=StepContext)


class PipelineAsStep(Generic[C]):
    """A planned list of steps that can be asked what it needs, drawn, and called with one context.

    `Pipeline` adds how it is built and how many samples run through it.
    """

    _plan: Plan[C]
    _hooks: tuple[PipelineHook, ...]
    _has_run: bool

    @property
    def requires(self) -> frozenset[str]:
        """The fields that a context must have from the start, because no step provides them before they are wanted."""
        return self._plan.requires

    @property
    def provides(self) -> frozenset[str]:
        """The fields that the steps write."""
        return self._plan.provides

    @property
    def max_workers(self) -> int:
        """How many samples may be inside at once where this pipeline is a background step of another one."""
        return min((step.max_workers for step in self._plan.steps), default=1)

    @property
    def has_async_steps(self) -> bool:
        """Whether a step, at any depth, is asynchronous."""
        return self._plan.has_async_steps

    @property
    def has_async_boundary(self) -> bool:
        """Whether a step, at any depth, declares an async boundary."""
        return any(step.async_boundary or step.has_inner_boundary for step in self._plan.steps)

    @property
    def has_lane(self) -> bool:
        """Whether a step, at any depth, names a lane."""
        return any(step.lane is not None or step.has_inner_lane for step in self._plan.steps)

    @property
    def has_hooks(self) -> bool:
        """Whether this pipeline, or a nested one at any depth, has hooks."""
        return bool(self._hooks) or self._plan.has_inner_hooks

    def __repr__(self) -> str:
        return one_line(self._plan.steps)

    def to_mermaid(self) -> str:
        """Draw the pipeline as a Mermaid flowchart: steps, fields on the arrows, the boundary, the lanes.

        Example:
            >>> from ace.pipeline import Pipeline
            >>> class Load:
            ...     requires, provides = {"sample"}, {"page"}
            ...     def __call__(self, ctx):
            ...         return ctx
            >>> print(Pipeline([Load()]).to_mermaid())
            flowchart LR
                start([start])
                s1["Load"]
                finish([end])
                start -->|sample| s1
                s1 -->|page| finish
        """
        return draw_mermaid(self._plan.steps, self.requires)

    def __call__(self, ctx: C) -> C:
        """Run one context through all steps, in the foreground, and return what the last one returned.

        Raises:
            PipelineError: If the context lacks a field.
            BaseException: What a step raises.
        """
        if self._plan.has_async_steps:
            from .event_loop import engine_loop

            return engine_loop.run(self.__call_async__(ctx))
        self._plan.inputs.check(ctx, Position())
        return self._pass_through(self._plan.through, ctx, Surroundings.ALONE)

    async def __call_async__(self, ctx: C) -> C:
        """The asynchronous twin of calling the pipeline."""
        self._plan.inputs.check(ctx, Position())
        return await self._pass_through_async(self._plan.through, ctx, Surroundings.ALONE)

    def call_within(self, surroundings: Surroundings, ctx: C) -> C:
        """Call the pipeline as a step of another one in these surroundings, which limit or cancel its steps."""
        calls_hooks_here = self.has_hooks and surroundings.is_foreground
        if self._plan.has_async_steps and not calls_hooks_here:
            from .event_loop import engine_loop

            return engine_loop.run(self.call_async_within(surroundings, ctx))
        return self._pass_through(self._plan.through_within(surroundings), ctx, surroundings)

    async def call_async_within(self, surroundings: Surroundings, ctx: C) -> C:
        """The asynchronous twin of `call_within`."""
        return await self._pass_through_async(self._plan.through_within(surroundings), ctx, surroundings)

    def _pass_through(self, segments: Sequence[Segment[C]], ctx: C, surroundings: Surroundings) -> C:
        self._has_run = True
        position, token, hooks = Position(), _token_within(surroundings), self._hooks_within(surroundings)
        for segment in segments:
            ctx = segment.run(ctx, position, token, hooks)
        return ctx

    async def _pass_through_async(self, segments: Sequence[Segment[C]], ctx: C, surroundings: Surroundings) -> C:
        from .event_loop import call_in_thread

        self._has_run = True
        position, token, hooks = Position(), _token_within(surroundings), self._hooks_within(surroundings)
        for segment in segments:
            if segment.is_async:
                ctx = await segment.run_async(ctx, position, token, hooks)
            else:
                ctx = await call_in_thread(partial(segment.run, ctx, position, token, hooks))
        return ctx

    def _hooks_within(self, surroundings: Surroundings) -> tuple[PipelineHook, ...]:
        if not self._hooks or not surroundings.is_foreground:
            return self._hooks
        return relayed(self._hooks, caller_var.get())


def _token_within(surroundings: Surroundings) -> CancellationToken | None:
    """The token that is looked at before each step; None where the steps are not to be interrupted."""
    return cancel_token_var.get() if surroundings is Surroundings.FOREGROUND else None
