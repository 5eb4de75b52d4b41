"""The pipeline: a list of steps that many samples run through."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

from .branch import Branch, MergeStrategy
from .caller import caller_var
from .cancellation import CancellationToken, cancel_token_var
from .context import SampleResult, StepContext
from .diagram import draw_mermaid, one_line
from .errors import PipelineConfigError
from .hooks import PipelineHook, relayed
from .in_flight import OnSample
from .plan import Plan
from .results import astream, collect, collect_async, stream
from .run import Runs
from .segment import Position, Segment, StepObserver, may_block_loop
from .step import ExecutionMode, StepProtocol
from .threads import threads
from .validation import (
    RunArguments,
    check_call,
    check_settings,
    check_timeout,
    listed,
    listed_hooks,
    suggesting_keywords,
)

C = TypeVar("C", bound=StepContext)


class Pipeline(Generic[C]):
    """Steps that every sample passes in order; it is a step itself, so pipelines nest.

    Up to a step that declares an async boundary, a sample is in the foreground, which `run` waits for. From that
    step on it is in the background, and the caller continues with the next sample.

    Once a pipeline has run, its steps are fixed. One pipeline can serve many runs, also at the same time.

    Args:
        steps: The steps; more can be added with `then` and `branch`.
        hooks: Observers of the foreground steps.
        background_limit: How many samples may be behind the boundary at once; the next one waits in the foreground.
        step_observer: Watches every step, in the background too.

    Raises:
        PipelineConfigError: If a step lacks a declaration, or the steps do not fit together.
        PipelineOrderError: If a step requires a field that only a later step provides.

    Example:
        >>> class Shout:
        ...     requires = provides = {"sample"}
        ...     def __call__(self, ctx):
        ...         return ctx.replace(sample=ctx.sample.upper())
        >>> pipeline = Pipeline([Shout()])
        >>> [result.output.sample for result in pipeline.run([StepContext("ready"), StepContext("go")])]
        ['READY', 'GO']
    """

    @suggesting_keywords
    def __init__(
        self,
        steps: Iterable[StepProtocol[C]] | None = None,
        hooks: Iterable[PipelineHook] | None = None,
        *,
        background_limit: int = 1000,
        step_observer: StepObserver | None = None,
    ) -> None:
        check_settings(background_limit, step_observer)
        self._steps: list[StepProtocol[C]] = []
        self._hooks = listed_hooks(hooks)
        self._background_limit = background_limit
        self._has_run = False
        self._use(Plan[C]((), step_observer))
        for step in listed(steps):
            self._extend(step, stacklevel=5)

    def then(self, step: StepProtocol[C]) -> Self:
        """Add a step to the end.

        Returns:
            This pipeline, so that calls chain.

        Raises:
            PipelineConfigError: If the step does not fit, or the pipeline has already run.
        """
        self._extend(step, stacklevel=4)
        return self

    @suggesting_keywords
    def branch(
        self,
        *pipelines: StepProtocol[C],
        merge: MergeStrategy | Callable[[list[C]], C] = MergeStrategy.RAISE_ON_CONFLICT,
    ) -> Self:
        """Add a `Branch` of these pipelines to the end.

        Args:
            *pipelines: The children, which run in parallel.
            merge: How their results are joined, see `Branch`.

        Returns:
            This pipeline, so that calls chain.

        Raises:
            PipelineConfigError: As for `then` and `Branch`.
        """
        self._extend(Branch(*pipelines, merge=merge), stacklevel=5)
        return self

    def _extend(self, step: StepProtocol[C], *, stacklevel: int) -> None:
        if self._has_run:
            raise PipelineConfigError(
                f"this pipeline has run, so {type(step).__name__} can no longer be added; "
                f"build a new one: Pipeline([*pipeline.steps, ...])"
            )
        if step is self:
            raise PipelineConfigError("a pipeline cannot be a step of itself; build another one: Pipeline([pipeline])")
        self._use(self._plan.extended(step, stacklevel=stacklevel))
        self._steps.append(step)

    def _use(self, plan: Plan[C]) -> None:
        self._plan = plan
        self._runs = Runs(plan, self._hooks, self._background_limit)

    @property
    def steps(self) -> Sequence[StepProtocol[C]]:
        """The steps, in order."""
        return tuple(self._steps)

    @property
    def hooks(self) -> Sequence[PipelineHook]:
        """The observers of the foreground steps."""
        return self._hooks

    @property
    def background_limit(self) -> int:
        """How many samples may be behind the boundary at once."""
        return self._background_limit

    @suggesting_keywords
    def run(
        self,
        contexts: Iterable[C],
        workers: int = 1,
        on_sample_done: OnSample[C] | None = None,
        cancel_token: CancellationToken | None = None,
        *,
        on_sample_end: OnSample[C] | None = None,
        max_in_flight: int | None = None,
    ) -> list[SampleResult[C]]:
        """Run all samples and return when the last foreground part has ended.

        Background work may still be running then: see `wait_for_background`. It can also be called inside a running
        event loop, which it blocks; `run_async` does not.

        Args:
            contexts: The samples; any iterable. The next one is drawn when a worker is free.
            workers: How many samples may be in the foreground at once.
            on_sample_done: Called with each result when the sample's foreground part has ended and before its
                background part begins; one call at a time. An error that it raises is logged.
            cancel_token: Cancelling it ends every sample before its next foreground step.
            on_sample_end: Called with each result when its sample has passed its last step, in the background too, has
                failed, or was cancelled; one call at a time. An error that it raises is logged.
            max_in_flight: How many samples may be between their first and their last step at once; the next context is
                drawn when there is room. With 1, a sample begins only after the one before has passed its last step.

        Returns:
            One result for each context, in input order.

        Raises:
            KeyboardInterrupt, SystemExit: If one was raised in the foreground. The background is drained first.
        """
        options = RunArguments(workers, on_sample_done, on_sample_end, max_in_flight, cancel_token)
        check_call(contexts, options, asynchronous=False)
        self._has_run = True
        with self._runs.one(options) as run, may_block_loop():
            return collect(run, contexts, workers)

    @suggesting_keywords
    async def run_async(
        self,
        contexts: Iterable[C] | AsyncIterable[C],
        workers: int = 1,
        on_sample_done: OnSample[C] | None = None,
        cancel_token: CancellationToken | None = None,
        *,
        on_sample_end: OnSample[C] | None = None,
        max_in_flight: int | None = None,
    ) -> list[SampleResult[C]]:
        """Like `run`, for asynchronous code; the loop is never blocked.

        Asynchronous foreground steps are awaited on the caller's loop; those in the background on the engine's,
        because they may outlive the caller's. `contexts` may be an async iterable.

        Raises:
            asyncio.CancelledError: If the task was cancelled. Its samples have ended then.
        """
        options = RunArguments(workers, on_sample_done, on_sample_end, max_in_flight, cancel_token)
        check_call(contexts, options, asynchronous=True)
        self._has_run = True
        async with self._runs.one_async(options) as run:
            return await collect_async(run, contexts, workers)

    @suggesting_keywords
    def stream(
        self,
        contexts: Iterable[C],
        workers: int = 1,
        on_sample_done: OnSample[C] | None = None,
        cancel_token: CancellationToken | None = None,
        *,
        on_sample_end: OnSample[C] | None = None,
        max_in_flight: int | None = None,
    ) -> Generator[SampleResult[C], None, None]:
        """Yield results as the foregrounds finish, in bounded memory however long the input is.

        Work begins when the first result is requested. At most `2 * workers` samples are drawn ahead of the results
        taken. After the iterator is closed, no more samples are drawn, and `close` waits for those in a step, unless a
        step or a callback of the stream itself calls it. Arguments and errors are those of `run`.
        """
        options = RunArguments(workers, on_sample_done, on_sample_end, max_in_flight, cancel_token)
        check_call(contexts, options, asynchronous=False)
        self._has_run = True
        return stream(self._runs, contexts, options)

    @suggesting_keywords
    def astream(
        self,
        contexts: Iterable[C] | AsyncIterable[C],
        workers: int = 1,
        on_sample_done: OnSample[C] | None = None,
        cancel_token: CancellationToken | None = None,
        *,
        on_sample_end: OnSample[C] | None = None,
        max_in_flight: int | None = None,
    ) -> AsyncGenerator[SampleResult[C]]:
        """Like `stream`, for asynchronous code. Arguments are those of `run_async`."""
        options = RunArguments(workers, on_sample_done, on_sample_end, max_in_flight, cancel_token)
        check_call(contexts, options, asynchronous=True)
        self._has_run = True
        return astream(self._runs, contexts, options)

    def wait_for_background(self, timeout: float | None = None) -> None:
        """Block until no sample is in the background. A background step must not call it: it would wait for itself.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: If samples are still in the background then; the message says how many.
            TypeError: If the timeout is not a number.
        """
        check_timeout(timeout)
        with may_block_loop():
            self._runs.background.wait(timeout)

    def background_stats(self) -> dict[str, int]:
        """Count the samples that have entered the background since the pipeline was built.

        Returns:
            `active` (inside a step), `queued` (waiting for one), `completed` (ended, with or without an error) and
            `failed` (how many of the completed failed).
        """
        return self._runs.background.stats()

    def close(self) -> None:
        """Wait for the background and release the threads. The pipeline can be used again."""
        self.wait_for_background()
        threads.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # The members that make a pipeline a step of another one.

    @property
    def requires(self) -> frozenset[str]:
        """The fields that a context must have from the start: those that no earlier step provides."""
        return self._plan.requires

    @property
    def provides(self) -> frozenset[str]:
        """The fields that the steps write."""
        return self._plan.provides

    @property
    def max_workers(self) -> int:
        """How many samples may be inside at once when this pipeline is a background step of another one."""
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
        return self.call_at(ctx, Position())

    def call_at(self, ctx: C, position: Position) -> C:
        """Call the pipeline; where a step raises, the position has its name."""
        if self._plan.has_async_steps:
            from .event_loop import engine_loop

            return engine_loop.run(self._call_async_at(ctx, position))
        self._plan.inputs.check(ctx, position)
        return self._pass_through(self._plan.through, ctx, ExecutionMode.ALONE, position)

    async def __call_async__(self, ctx: C) -> C:
        """The asynchronous twin of calling the pipeline."""
        return await self._call_async_at(ctx, Position())

    async def _call_async_at(self, ctx: C, position: Position) -> C:
        self._plan.inputs.check(ctx, position)
        return await self._pass_through_async(self._plan.through, ctx, ExecutionMode.ALONE, position)

    def call_within(self, mode: ExecutionMode, ctx: C) -> C:
        """Call the pipeline as a step of another one; the mode says how its steps are limited and cancelled."""
        calls_hooks_here = self.has_hooks and mode.is_foreground
        if self._plan.has_async_steps and not calls_hooks_here:
            from .event_loop import engine_loop

            return engine_loop.run(self.call_async_within(mode, ctx))
        return self._pass_through(self._plan.through_within(mode), ctx, mode, Position())

    async def call_async_within(self, mode: ExecutionMode, ctx: C) -> C:
        """The asynchronous twin of `call_within`."""
        return await self._pass_through_async(self._plan.through_within(mode), ctx, mode, Position())

    def _pass_through(self, segments: Sequence[Segment[C]], ctx: C, mode: ExecutionMode, position: Position) -> C:
        self._has_run = True
        token, hooks = _token_within(mode), self._hooks_within(mode)
        for segment in segments:
            ctx = segment.run(ctx, position, token, hooks)
        return ctx

    async def _pass_through_async(
        self, segments: Sequence[Segment[C]], ctx: C, mode: ExecutionMode, position: Position
    ) -> C:
        from .event_loop import call_in_thread

        self._has_run = True
        token, hooks = _token_within(mode), self._hooks_within(mode)
        for segment in segments:
            if segment.is_async:
                ctx = await segment.run_async(ctx, position, token, hooks)
            else:
                ctx = await call_in_thread(partial(segment.run, ctx, position, token, hooks))
        return ctx

    def _hooks_within(self, mode: ExecutionMode) -> tuple[PipelineHook, ...]:
        if not self._hooks or not mode.is_foreground:
            return self._hooks
        return relayed(self._hooks, caller_var.get())


def _token_within(mode: ExecutionMode) -> CancellationToken | None:
    """Return the token that is checked before each step; None where the steps must not be interrupted."""
    return cancel_token_var.get() if mode is ExecutionMode.FOREGROUND else None
