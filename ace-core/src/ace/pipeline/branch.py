"""Running several pipelines in parallel on one context, and joining what they return."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

from .context import StepContext
from .errors import BranchError, MergeConflictError, PipelineCancelled, PipelineConfigError, value_text
from .limiter import limited
from .segment import may_block_loop
from .step import ExecutionMode, PlannedStep, StepProtocol, placed, plan_step, returned_context
from .threads import Event, threads
from .validation import suggesting_keywords

C = TypeVar("C", bound=StepContext)

Resolve = Callable[[str, "list[tuple[int, object]]"], object]
"""Chooses the value of a field from (child index, value) of the children that wrote it."""


class MergeStrategy(Enum):
    """How a branch joins the contexts of its children."""

    RAISE_ON_CONFLICT = "raise_on_conflict"
    """Raise an error that names the field and the children if two children wrote different values to one field."""

    LAST_WRITE_WINS = "last_write_wins"
    """Take the value of the last child that wrote the field."""

    NAMESPACED = "namespaced"
    """Keep the input's fields, and put child i's context under `metadata["branch_i"]`."""


class _Missing(Enum):
    MISSING = "missing"


_MISSING: Final = _Missing.MISSING


def merge_raise_on_conflict(outputs: Sequence[C], base: C | None = None) -> C:
    """Join what the children wrote; two different values for one field are an error.

    Args:
        outputs: The children's contexts, in child order.
        base: The context that went into the branch. Without it, a field counts as written if its value is not the
            default of the field.

    Raises:
        MergeConflictError: If two children wrote different values to one field or metadata key.
    """
    return _merge(outputs, base, _only_value)


def merge_last_write_wins(outputs: Sequence[C], base: C | None = None) -> C:
    """Join what the children wrote; of several values for one field the last child's wins.

    Args:
        outputs: The children's contexts, in child order.
        base: As for `merge_raise_on_conflict`.
    """
    return _merge(outputs, base, _last_value)


def merge_namespaced(outputs: Sequence[C], base: C | None = None) -> C:
    """Keep the input's fields, and put child i's context under `metadata["branch_i"]`.

    Args:
        outputs: The children's contexts, in child order.
        base: The context that went into the branch; without it, the first output is used in its place.
    """
    start = outputs[0] if base is None else base
    children = {f"branch_{index}": output for index, output in enumerate(outputs)}
    return start.replace(metadata=MappingProxyType({**start.metadata, **children}))


class BuiltInMerge(Protocol[C]):
    """A merge function that also takes the context that went into the branch."""

    def __call__(self, outputs: Sequence[C], base: C | None = None) -> C:
        """Return the joined context."""
        ...


def merge_function(strategy: MergeStrategy) -> BuiltInMerge[C]:
    """Return the function behind a strategy."""
    match strategy:
        case MergeStrategy.RAISE_ON_CONFLICT:
            return merge_raise_on_conflict
        case MergeStrategy.LAST_WRITE_WINS:
            return merge_last_write_wins
        case MergeStrategy.NAMESPACED:
            return merge_namespaced


def _only_value(place: str, written: list[tuple[int, object]]) -> object:
    first_child, value = written[0]
    for child, other in written[1:]:
        if not _same(value, other):
            raise MergeConflictError(
                f"children {first_child} and {child} of the branch wrote different values to {place}: "
                f"{value_text(value)} and {value_text(other)}; let only one child write it, or pass "
                f"merge=MergeStrategy.LAST_WRITE_WINS or a function of your own"
            )
    return value


def _last_value(place: str, written: list[tuple[int, object]]) -> object:
    return written[-1][1]


def _merge(outputs: Sequence[C], base: C | None, resolve: Resolve) -> C:
    if base is not None and all(output is base for output in outputs):
        return base
    start = outputs[0] if base is None else base
    _check_classes(outputs, start)
    changes: dict[str, Any] = {}  # the types are those of the fields, which only the context class knows
    for name, default in _field_defaults(type(start)).items():
        before = default if base is None else getattr(base, name)
        values = [getattr(output, name) for output in outputs]
        if name == "metadata":
            changes[name] = _merge_metadata(values, before, resolve)
            continue
        written = [(child, value) for child, value in enumerate(values) if value is not before]
        if base is None:
            written = [(child, value) for child, value in written if not _same(value, before)]
        if written:
            changes[name] = resolve(f"field {name!r} of {type(start).__name__}", written)
    return start.replace(**changes)


def _check_classes(outputs: Sequence[C], start: C) -> None:
    for child, output in enumerate(outputs):
        if type(output) is not type(start):
            raise MergeConflictError(
                f"child {child} of the branch returned a {type(output).__name__} instead of a {type(start).__name__}, "
                f"so fields would be lost; return ctx.replace(...) from every child, or pass a function of your own as "
                f"merge"
            )


def _merge_metadata(values: Sequence[object], before: object, resolve: Resolve) -> MappingProxyType[str, object]:
    old: Mapping[str, object] = before if isinstance(before, Mapping) else {}
    maps: list[Mapping[str, object]] = [value if isinstance(value, Mapping) else {} for value in values]
    if all(mapping is old for mapping in maps) and isinstance(old, MappingProxyType):
        return old
    merged = dict(old)
    for key in dict.fromkeys(key for mapping in (old, *maps) for key in mapping):
        was = old.get(key, _MISSING)
        written: list[tuple[int, object]] = []
        for child, mapping in enumerate(maps):
            value = mapping.get(key, _MISSING)
            if value is not was:
                written.append((child, value))
        if not written:
            continue
        winner = resolve(f"metadata[{key!r}]", written)
        if winner is _MISSING:
            del merged[key]
        else:
            merged[key] = winner
    return MappingProxyType(merged)


_defaults_by_class: dict[type[StepContext], dict[str, object]] = {}


def _field_defaults(cls: type[StepContext]) -> dict[str, object]:
    known = _defaults_by_class.get(cls)
    if known is None:
        known = _defaults_by_class[cls] = {
            field.name: _MISSING if field.default is dataclasses.MISSING else field.default
            for field in dataclasses.fields(cls)
        }
    return known


def _same(one: object, other: object) -> bool:
    """Whether two values are equal. Values that cannot be compared, such as arrays, count as different."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # an object's own comparison may raise anything
        return False


# Names for code written against older engines of this family; our own code does not use them.
_merge_raise_on_conflict = merge_raise_on_conflict
_merge_last_write_wins = merge_last_write_wins
_merge_namespaced = merge_namespaced


@dataclass(slots=True)
class _Outcome(Generic[C]):
    """What one child returned or raised."""

    output: C | None = None
    error: BaseException | None = None


class Branch(Generic[C]):
    """A step that gives one context to several pipelines at once, and joins what they return.

    All children run to their end even if one fails or the run is cancelled. Plain children run on threads,
    asynchronous ones as tasks.

    Args:
        *pipelines: The children: pipelines, or single steps.
        merge: How their contexts are joined: a `MergeStrategy`, or a function that takes the list of the children's
            contexts, in child order, and returns one.

    Raises:
        PipelineConfigError: If no child is given, a child declares an async boundary at any depth, or `merge` is
            neither a strategy nor a function.

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
            raise PipelineConfigError("pass the children of a branch as separate arguments: Branch(*pipelines)")
        self._children: tuple[PlannedStep[C], ...] = tuple(plan_step(child) for child in pipelines)
        self._placed_children: dict[ExecutionMode, tuple[PlannedStep[C], ...]] = {}
        for index, child in enumerate(self._children):
            if child.async_boundary or child.has_inner_boundary:
                raise PipelineConfigError(
                    f"child {index} of the branch ({child.label}) declares an async boundary, but the children have to "
                    f"end before they are merged; put the boundary on a step after the branch"
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
            BranchError: If children failed; it contains all their errors.
            PipelineCancelled: If all failures are cancellations.
            MergeConflictError: If children wrote different values to one field and the strategy does not allow it.
        """
        if self.has_async_steps:
            # asyncio takes longer to import than the rest of the engine together
            from .event_loop import engine_loop

            return engine_loop.run(self.__call_async__(ctx))
        return self._run(self._children, ctx)

    async def __call_async__(self, ctx: C) -> C:
        """The asynchronous twin of calling the branch."""
        return await self._run_async(self._children, ctx)

    def call_within(self, mode: ExecutionMode, ctx: C) -> C:
        """Call the branch as a step in this mode, which says how its inner steps are limited."""
        if self.has_async_steps:
            from .event_loop import engine_loop

            return engine_loop.run(self.call_async_within(mode, ctx))
        return self._run(self._children_within(mode), ctx)

    async def call_async_within(self, mode: ExecutionMode, ctx: C) -> C:
        """The asynchronous twin of `call_within`."""
        return await self._run_async(self._children_within(mode), ctx)

    def _children_within(self, mode: ExecutionMode) -> Sequence[PlannedStep[C]]:
        children = self._placed_children.get(mode)
        if children is None:
            within = mode.of_children
            children = tuple(limited(placed(child, within), within) for child in self._children)
            self._placed_children[mode] = children
        return children

    def _run(self, children: Sequence[PlannedStep[C]], ctx: C) -> C:
        with may_block_loop():
            outcomes = self._run_children(children, ctx)
        return self._join(ctx, outcomes)

    async def _run_async(self, children: Sequence[PlannedStep[C]], ctx: C) -> C:
        import asyncio

        return self._join(ctx, await asyncio.gather(*(_outcome_async(child, ctx) for child in children)))

    def _run_children(self, children: Sequence[PlannedStep[C]], ctx: C) -> list[_Outcome[C]]:
        """Run the first child on this thread and the others on threads of their own."""
        first, *others = children
        outcomes: list[_Outcome[C]] = [_Outcome()] * len(children)

        def start(index: int, child: PlannedStep[C]) -> Event:
            context = contextvars.copy_context()
            ended = Event()

            def work() -> None:
                outcomes[index] = context.run(_outcome, child, ctx)

            _start_elsewhere(work, ended.set)
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
    except BaseException as error:  # every child runs to its end; `_join` decides which errors to raise
        return _Outcome(error=error)


async def _outcome_async(child: PlannedStep[C], ctx: C) -> _Outcome[C]:
    from .event_loop import call_in_thread

    try:
        if not child.is_async:
            return await call_in_thread(lambda: _outcome(child, ctx))
        return _Outcome(output=await child.run_async(ctx))
    except BaseException as error:  # as above; if the branch itself is cancelled, `gather` raises that at the end
        return _Outcome(error=error)


def _start_elsewhere(work: Callable[[], None], report: Callable[[], None]) -> None:
    try:
        threads.start(work, report)
    except RuntimeError:  # no thread can be started: run the child on this one
        work()
        report()


def _wait_for(events: Sequence[Event]) -> None:
    """Wait for all events. The first Ctrl-C is raised when they have happened, the second one at once."""
    try:
        for event in events:
            event.wait()
    except KeyboardInterrupt:
        for event in events:
            event.wait()
        raise
