"""Running several pipelines side by side on one context."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .blocking import may_block_loop
from .context import StepContext
from .errors import BranchError, PipelineCancelled, PipelineConfigError
from .keywords import suggesting_keywords
from .merge import (
    BuiltInMerge,
    MergeStrategy,
    merge_function,
    merge_last_write_wins,
    merge_namespaced,
    merge_raise_on_conflict,
)
from .planned_step import PlannedStep, plan_step, returned_context
from .step import StepProtocol
from .surroundings import Surroundings, limited, placed
from .threads import threads
from .waiting import Happening

C = TypeVar("C", bound=StepContext)

# Names that code written against older engines of this family uses; nothing of ours does.
_merge_raise_on_conflict = merge_raise_on_conflict
_merge_last_write_wins = merge_last_write_wins
_merge_namespaced = merge_namespaced


@dataclass(slots=True)
class _Outcome(Generic[C]):
    """What one child left behind: a context or an error."""

    output: C | None = None
    error: BaseException | None = None


class Branch(Generic[C]):
    """A step that gives one context to several pipelines at once, and joins what they return.

    All children run to their end even if one fails or the run is cancelled. Plain children run on threads,
    asynchronous ones as tasks.

    Args:
        *pipelines: The children: pipelines, or single steps.
        merge: How their contexts are joined: a `MergeStrategy`, or a function that gets the children's contexts
            in child order and returns one.

    Raises:
        PipelineConfigError: If there is no child, a child declares an async boundary at any depth, or `merge`
            is neither a strategy nor a function.

    Example:
        >>> from ace.pipeline import Pipeline
        >>> class Count:
        ...     requires, provides = {"sample"}, {"metadata"}
        ...     def __init__(self, name, measure):
        ...         self.name, self.measure = name, measure
        ...     def __call__(self, ctx):
        ...         return ctx.replace(metadata={**ctx.metadata, self.name: self.measure(ctx.sample)})
        >>> branch = Branch(
        ...     Pipeline([Count("words", lambda text: len(text.split()))]),
        ...     Pipeline([Count("letters", len)]),
        ... )
        >>> sorted(branch(StepContext("one two")).metadata.items())
        [('letters', 7), ('words', 2)]
    """

    @suggesting_keywords
    def __init__(
        self,
        *pipelines: StepProtocol[C],
        merge: MergeStrategy | Callable[[list[C]], C] = MergeStrategy.RAISE_ON_CONFLICT,
    ) -> None:
        if not pipelines:
            raise PipelineConfigError("a branch needs at least one pipeline: Branch(Pipeline([...]), ...)")
        if isinstance(pipelines[0], (list, tuple)):
            raise PipelineConfigError("the children of a branch are arguments of their own: Branch(*pipelines)")
        self._children: tuple[PlannedStep[C], ...] = tuple(plan_step(child) for child in pipelines)
        self._placed_children: dict[Surroundings, tuple[PlannedStep[C], ...]] = {}
        for index, child in enumerate(self._children):
            if child.async_boundary or child.has_inner_boundary:
                raise PipelineConfigError(
                    f"child {index} of the branch ({child.label}) declares an async boundary; the children have "
                    f"to end before they can be merged: put the boundary on a step behind the branch"
                )
        self._strategy = merge if isinstance(merge, MergeStrategy) else None
        self._merge_fn = _merge_function(merge)
        self.requires: frozenset[str] = frozenset().union(*(child.requires for child in self._children))
        self.provides: frozenset[str] = frozenset().union(*(child.provides for child in self._children))
        self.has_async_steps: bool = any(child.is_async for child in self._children)
        self.has_async_boundary: bool = False
        self.has_hooks: bool = any(child.has_inner_hooks for child in self._children)
        self.has_lane: bool = any(child.lane is not None or child.has_inner_lane for child in self._children)
        self.max_workers: int = min(child.max_workers for child in self._children)

    @property
    def pipelines(self) -> tuple[StepProtocol[C], ...]:
        """The children, in order."""
        return tuple(child.step for child in self._children)

    def __repr__(self) -> str:
        return f"Branch({' | '.join(child.label for child in self._children)})"

    def __call__(self, ctx: C) -> C:
        """Run all children on `ctx` and return the merged context.

        Raises:
            BranchError: If children failed; it holds all their errors.
            PipelineCancelled: If all that failed were cancelled.
            MergeConflictError: If the strategy forbids what they wrote.
        """
        if self.has_async_steps:
            # asyncio costs more to import than the rest of the engine together
            from .event_loop import engine_loop

            return engine_loop.run(self.__call_async__(ctx))
        return self._run(self._children, ctx)

    async def __call_async__(self, ctx: C) -> C:
        """The asynchronous twin of calling the branch."""
        return await self._run_async(self._children, ctx)

    def call_within(self, surroundings: Surroundings, ctx: C) -> C:
        """Call the branch as a step in these surroundings, which limit its inner steps."""
        if self.has_async_steps:
            from .event_loop import engine_loop

            return engine_loop.run(self.call_async_within(surroundings, ctx))
        return self._run(self._children_within(surroundings), ctx)

    async def call_async_within(self, surroundings: Surroundings, ctx: C) -> C:
        """The asynchronous twin of `call_within`."""
        return await self._run_async(self._children_within(surroundings), ctx)

    def _children_within(self, surroundings: Surroundings) -> Sequence[PlannedStep[C]]:
        children = self._placed_children.get(surroundings)
        if children is None:
            within = surroundings.of_children
            children = tuple(limited(placed(child, within), within) for child in self._children)
            self._placed_children[surroundings] = children
        return children

    def _run(self, children: Sequence[PlannedStep[C]], ctx: C) -> C:
        with may_block_loop():
            outcomes = self._run_children(children, ctx)
        return self._join(ctx, outcomes)

    async def _run_async(self, children: Sequence[PlannedStep[C]], ctx: C) -> C:
        import asyncio

        return self._join(ctx, await asyncio.gather(*(_outcome_async(child, ctx) for child in children)))

    def _run_children(self, children: Sequence[PlannedStep[C]], ctx: C) -> list[_Outcome[C]]:
        """Run all but the first child on threads, and the first one here meanwhile."""
        first, *others = children
        outcomes: list[_Outcome[C]] = [_Outcome()] * len(children)

        def start(index: int, child: PlannedStep[C]) -> Happening:
            context = contextvars.copy_context()
            ended = Happening()

            def work() -> None:
                outcomes[index] = context.run(_outcome, child, ctx)

            _start_elsewhere(work, ended.happen)
            return ended

        others_ended = [start(index, child) for index, child in enumerate(others, 1)]
        outcomes[0] = contextvars.copy_context().run(_outcome, first, ctx)
        _wait_for(others_ended)
        return outcomes

    def _join(self, ctx: C, outcomes: Sequence[_Outcome[C]]) -> C:
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        for error in errors:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise error
        if errors and all(isinstance(error, PipelineCancelled) for error in errors):
            raise errors[0]
        if errors:
            raise BranchError(errors) from errors[0]
        outputs = [outcome.output for outcome in outcomes if outcome.output is not None]
        if self._strategy is not None:
            built_in: BuiltInMerge[C] = merge_function(self._strategy)
            return built_in(outputs, ctx)
        merged = self._merge_fn(outputs)
        return merged if merged.__class__ is ctx.__class__ else returned_context(merged, "Branch")


def _merge_function(merge: MergeStrategy | Callable[[list[C]], C]) -> Callable[[list[C]], C]:
    if isinstance(merge, MergeStrategy):
        return merge_function(merge)
    given: object = merge
    if not callable(given):
        names = ", ".join(f"MergeStrategy.{strategy.name}" for strategy in MergeStrategy)
        raise PipelineConfigError(f"merge is {given!r}; it must be one of {names}, or a function")
    return merge


def _outcome(child: PlannedStep[C], ctx: C) -> _Outcome[C]:
    try:
        return _Outcome(output=child.run(ctx))
    except BaseException as error:  # every child runs to its end; `_join` sorts out what failed
        return _Outcome(error=error)


async def _outcome_async(child: PlannedStep[C], ctx: C) -> _Outcome[C]:
    from .event_loop import call_in_thread

    try:
        if not child.is_async:
            return await call_in_thread(lambda: _outcome(child, ctx))
        return _Outcome(output=await child.run_async(ctx))
    except BaseException as error:  # as above; if the branch itself is cancelled, `gather` says so at the end
        return _Outcome(error=error)


def _start_elsewhere(work: Callable[[], None], report: Callable[[], None]) -> None:
    try:
        threads.start(work, report)
    except RuntimeError:  # the system has no thread left: one after the other is better than not at all
        work()
        report()


def _wait_for(happenings: Sequence[Happening]) -> None:
    """Wait for all. The first Ctrl-C is raised when they have happened, a second one at once."""
    try:
        for each in happenings:
            each.wait()
    except KeyboardInterrupt:
        for each in happenings:
            each.wait()
        raise
