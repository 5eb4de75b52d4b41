"""`ACERunner`: takes inputs through a learning pipeline, epoch by epoch."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from ace.arguments import check_keywords, checked_arguments, instance_of, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished, own_twin
from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import CancellationToken, Pipeline, SampleResult, StepProtocol
from ace.runners.failures import FailedSample, FailureLog
from ace.runners.open_runs import OpenRuns, RunnerBackground
from ace.runners.run_options import RunOptions, RunSettings
from ace.runners.run_session import RunSession, Tell
from ace.runners.samples import check_items, in_order_of_epoch, inputs_digest
from ace.runners.settings import StepEvents, check_books, rebound_steps, recomposed, with_save_path
from ace.skillbook.book import Skillbook
from ace.skillbook.stores import find_store
from ace.steps.known import KnownStep
from ace.steps.reflect import ReflectStep

if TYPE_CHECKING:
    from ace.runners.settings import LearningSettings

__all__ = ["ACERunner"]

T = TypeVar("T")

_token_of_task: ContextVar[CancellationToken | None] = ContextVar("ace_token_of_task", default=None)
"""Stops a run that a task waits for in a thread."""


class ACERunner:
    """Takes inputs through a learning pipeline, epoch by epoch. It composes a pipeline; it is not one itself.

    It can be used as it is, over steps of your own. A runner for other inputs is a subclass with two methods: `run`,
    its public signature, which calls `_run`, and `_build_context`, which makes a context of one input. Give it `arun`
    the same way, with `_arun`; without, `arun` calls `run` in a thread. Its `from_roles` may end in `_composed`.

    Runs of one runner may overlap, in threads and in tasks; only the writing of the skillbook is serial.

    Args:
        pipeline: The steps, usually ending in `learning_tail`.
        skillbook: The book that they write.
        failures_path: A file that takes failed samples, one JSON line each; they are in `failures` in any case.

    Raises:
        TypeError: These are not a pipeline and a skillbook.
        ValueError: A step holds another skillbook, or a step learns and no step writes this one.
    """

    integration: ClassVar[str] = ""
    """What `InsightSource.integration` says of the skills learned; by default the name of the class."""

    _inputs_grow: ClassVar[bool] = False
    """Whether the inputs are recorded traces, of which `once=True` learns only what is new."""

    _workers_reflect: ClassVar[bool] = False
    """Whether there is no foreground step, so that `workers` is the limit of the reflect step."""

    @checked_arguments(advice="make a runner of roles or a model with from_roles, from_client or from_model")
    def __init__(
        self,
        pipeline: Pipeline[ACEStepContext],
        skillbook: Skillbook,
        *,
        failures_path: str | Path | None = None,
    ) -> None:
        advice = f"make the runner of roles or a model with {type(self).__name__}.from_roles(...) and its like"
        instance_of("pipeline", pipeline, Pipeline, advice=advice)
        instance_of("skillbook", skillbook, Skillbook, advice=advice)
        check_books(pipeline, skillbook, type(self).__name__)
        self.pipeline = pipeline
        self.skillbook = skillbook
        self._failure_log = FailureLog(None if failures_path is None else Path(failures_path))
        self._background = RunnerBackground(pipeline)
        self._open_runs = OpenRuns()

    @classmethod
    def _composed(
        cls, steps: Sequence[StepProtocol[ACEStepContext]], skillbook: Skillbook, settings: LearningSettings
    ) -> Self:
        """Return a runner over these steps; for `from_roles` of subclasses."""
        return cls(
            Pipeline[ACEStepContext](
                steps, hooks=settings.hooks, background_limit=settings.background_limit, step_observer=StepEvents()
            ),
            skillbook,
            failures_path=settings.failures_file(),
        )

    def _build_context(
        self,
        item: Any,  # what a subclass takes
        *,
        epoch: int,
        total_epochs: int,
        index: int,
        total: int | None,
        global_sample_index: int,
        **kwargs: Any,  # what its `run` hands on
    ) -> ACEStepContext:
        """Make the context of one input. A subclass puts the input where its first step looks for it.

        Args:
            item: One input.
            epoch: From 1.
            total_epochs: How many epochs the run has.
            index: The place of the input in its epoch, from 1.
            total: How many inputs there are; None where that is not known.
            global_sample_index: The place in the run, over all epochs, from 1.
            **kwargs: What `run` handed on to `_run`.
        """
        return ACEStepContext(
            sample=item,
            skillbook=SkillbookView(self.skillbook),
            epoch=epoch,
            total_epochs=total_epochs,
            step_index=index,
            total_steps=total,
            global_sample_index=global_sample_index,
        )

    def run(
        self,
        items: Iterable[Any],
        /,
        *args: Any,  # a subclass may take other arguments
        **options: Any,
    ) -> list[SampleResult[ACEStepContext]]:
        """Take all inputs through the pipeline: `run(items, epochs=1, **options)`.

        So steps of your own before `learning_tail` need no subclass; they read the input from `ctx.sample`.

        Args:
            items: The inputs; a sequence if there are several epochs.
            *args: `epochs`: how often; once by default.
            **options: `epochs`, and those of every run, see `RunOptions`.

        Returns:
            The results of all epochs, in input order. A failed sample has `error`; see also `failures`.

        Raises:
            TypeError: The items are not an iterable of inputs, or there is no such option.
            ValueError: An option is outside its range, or an input lacks what the first step needs.
        """
        return self._run(items, **_plain_arguments(*args, **options))

    async def arun(
        self,
        *args: Any,  # those of the subclass's `run`
        **options: Any,
    ) -> list[SampleResult[ACEStepContext]]:
        """Like `run`, for asynchronous code; the loop is never blocked.

        Asynchronous roles and steps in the foreground are awaited on the caller's loop, where the callbacks are called
        too. What is learned in the background is awaited on a loop of the engine. A cancelled task stops the run like
        a cancelled token; it ends when what is inside a step has finished.

        Args:
            *args: Those of `run`: the inputs, and how often.
            **options: Those of `run`.

        Returns:
            What `run` returns.
        """
        if own_twin(self, "run") is None:
            return await self._run_in_thread(*args, **options)
        items, *more = args
        return await self._arun(items, **_plain_arguments(*more, **options))

    def _run(
        self,
        items: Iterable[Any],
        *,
        epochs: int,
        **kwargs: Any,  # `RunOptions`, and what is for `_build_context`
    ) -> list[SampleResult[ACEStepContext]]:
        """Take all inputs through the pipeline, in every epoch. The background is drained between epochs.

        Args:
            items: The inputs; a sequence if there are several epochs.
            epochs: How often.
            **kwargs: The options of the run, see `RunOptions`; everything else is passed to `_build_context`. With
                `wait=False`, the run is finished in the background: the interpreter waits for it when it exits,
                and `wait_for_background` does.

        Returns:
            The results of all epochs, in input order.

        Raises:
            TypeError: The items are not an iterable of inputs.
            ValueError: An option is outside its range, or an input lacks what the first step needs.
        """
        return finished(self._taken(BLOCKING, _call_here, items, epochs, kwargs))

    async def _arun(self, items: Iterable[Any], *, epochs: int, **kwargs: Any) -> list[SampleResult[ACEStepContext]]:
        """Like `_run`, for the `arun` of a subclass."""
        import asyncio

        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def tell(call: Callable[[], None]) -> None:
            if threading.get_ident() == thread:
                call()
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed: with `wait=False`, its owner may have left
                loop.call_soon_threadsafe(call)

        return await self._taken(ON_LOOP, tell, items, epochs, kwargs)

    async def _taken(
        self, calling: Calling, tell: Tell, items: Iterable[Any], epochs: int, kwargs: dict[str, Any]
    ) -> list[SampleResult[ACEStepContext]]:
        """Do a run, from plain code (`BLOCKING`) or asynchronous code (`ON_LOOP`)."""
        check_items(items, epochs)
        options, extra = RunSettings.taken_from(kwargs)
        if options.cancel_token is None:
            options = replace(options, cancel_token=_token_of_task.get())
        await calling.function(self._open_runs.enter)
        try:
            with self._open_runs.inside():
                return await self._epochs(calling, tell, items, epochs, options, extra)
        finally:
            self._open_runs.leave()

    async def _epochs(
        self,
        calling: Calling,
        tell: Tell,
        items: Iterable[Any],
        epochs: int,
        options: RunSettings,
        extra: dict[str, Any],
    ) -> list[SampleResult[ACEStepContext]]:
        pipeline = self._pipeline_for(options)
        self._background.use(pipeline)
        session = await calling.function(
            lambda: RunSession(
                pipeline,
                self.skillbook,
                self._failure_log,
                runner=self.integration or type(self).__name__,
                build_context=self._build_context,
                options=options,
                workers=self._foreground_workers(options),
                max_in_flight=options.in_flight(self._default_in_flight(options)),
                tell=tell,
                epochs=epochs,
                total=len(items) if isinstance(items, Sequence) else None,
                inputs_grow=self._inputs_grow,
                inputs=inputs_digest(items) if options.resume == "auto" else "",
            )
        )
        self._open_runs.use(pipeline)

        def wait() -> None:
            session.wait_for_samples(is_alone=self._open_runs.is_alone(pipeline))

        def finish(interrupted: bool = False) -> None:
            try:
                session.finish(interrupted=interrupted, is_alone=self._open_runs.is_alone(pipeline))
            finally:
                self._open_runs.release(pipeline)

        results: list[SampleResult[ACEStepContext]] = []
        try:
            for epoch in range(1, epochs + 1):
                if epoch > 1:
                    await _stoppable(calling, wait, session.cancel)
                ordered = in_order_of_epoch(items, options.shuffle, epoch)
                results += await session.run_epoch(calling, ordered, epoch, extra)
        except BaseException:
            await calling.function(lambda: finish(interrupted=True))
            raise
        if options.wait:
            await _stoppable(calling, finish, session.cancel)
        else:
            session.leave_to_background()
            self._background.finish(finish)
        return results

    async def _run_in_thread(self, *args: Any, **options: Any) -> list[SampleResult[ACEStepContext]]:
        """Call the `run` of a subclass that has no `arun` of its own. A cancelled task cancels it."""
        token = CancellationToken()
        variable = _token_of_task.set(token)
        try:
            results: list[SampleResult[ACEStepContext]] = await _stoppable(
                ON_LOOP, partial(self.run, *args, **options), lambda: token.cancel("interrupted")
            )
        finally:
            _token_of_task.reset(variable)
        return results

    def _pipeline_for(self, options: RunSettings) -> Pipeline[ACEStepContext]:
        """Return the pipeline of one run."""
        if options.workers is None or not self._workers_reflect:
            return self.pipeline
        return self._with_reflect_limit(options.workers)

    def _with_reflect_limit(self, workers: int) -> Pipeline[ACEStepContext]:
        """Return the pipeline with another limit on the steps that look a trace up and reflect on it."""
        whole_number("workers", workers)
        known = next((each for each in self._background if _is_limited(each, self.pipeline, workers)), None)
        if known is not None:
            return known
        steps = list(self.pipeline.steps)
        for place, step in enumerate(steps):
            if _is_limitable(step):
                limited: Any = copy.copy(step)
                limited.max_workers = workers
                steps[place] = limited
        for step in steps:
            if isinstance(step, KnownStep):
                step.shares_limit_with = next(each for each in steps if isinstance(each, ReflectStep))
        return recomposed(self.pipeline, steps)

    def _foreground_workers(self, options: RunSettings) -> int:
        """Return how many samples of one run may be in the foreground at once."""
        return 1 if options.workers is None or self._workers_reflect else options.workers

    def _default_in_flight(self, options: RunSettings) -> int | None:
        """Return `max_in_flight` of a run whose caller has not said it; None leaves it to the engine."""
        return None

    @property
    def failures(self) -> list[FailedSample]:
        """The samples that failed so far, in all runs, with the raw answers of the model."""
        return list(self._failure_log.failed)

    @property
    def learning_stats(self) -> dict[str, int]:
        """Samples in the background, over all runs: active, queued, completed and, of these, failed."""
        return self._background.stats

    def get_strategies(self) -> str:
        """Return the skills as text for the prompt of an agent; empty if there are none."""
        from ace.implementations.prompts import wrap_skillbook_for_external_agent

        return wrap_skillbook_for_external_agent(SkillbookView(self.skillbook))

    @checked_arguments()
    def wait_for_background(self, timeout: float | None = None) -> None:
        """Wait until everything is learned, and saved where the runner saves.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: It is not done by then; the text says how many samples are left.
            Exception: What kept a run with `wait=False` from being finished, such as a full disk.
        """
        self._background.wait(timeout)

    @checked_arguments()
    def save(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Save the skillbook as it is now; see `Skillbook.save_to_file`.

        Args:
            path: A JSON file, or a new store (`.db`).
            merge: Add to what others have written into the file.
            overwrite: Replace the skillbook in the file, whatever it holds.

        Raises:
            SkillbookChangedError: The file changed since it was read or saved here, or holds a skillbook that this one
                was not loaded from.
            SkillbookFileError: The file exists and is not a skillbook.
        """
        self.skillbook.save_to_file(path, merge=merge, overwrite=overwrite)

    @checked_arguments()
    def load(self, path: str | Path) -> None:
        """Continue with the skillbook of a file. It waits for runs that overlap: they learn into the old one.

        Every step that wrote the old book writes the new one. A runner that saved its JSON file saves to this one.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: There is no such file.
            SkillbookFileError: It is not a skillbook; the runner keeps the one it has.
            RuntimeError: This is called inside a run of this runner, such as in a callback.
        """
        with self._open_runs.exclusive("load()"):
            new = Skillbook.load_from_file(path)
            self.wait_for_background()
            home = None if find_store(path) is not None else Path(path)
            steps = with_save_path(rebound_steps(self.pipeline.steps, self.skillbook, new), home)
            self.pipeline = recomposed(self.pipeline, steps)
            self.skillbook = new
            self._background.use(self.pipeline)

    save_skillbook = save
    load_skillbook = load
    wait_for_learning = wait_for_background


def _plain_arguments(epochs: int = 1, **options: Any) -> dict[str, Any]:
    check_keywords("run", options, RunOptions.__annotations__)
    return {"epochs": epochs, **options}


def _call_here(call: Callable[[], None]) -> None:
    call()


async def _stoppable(calling: Calling, function: Callable[[], T], stop: Callable[[], None]) -> T:
    """Call a plain function that ends soon after `stop`. A task that is cancelled meanwhile stops it."""
    if calling is BLOCKING:
        return function()
    import asyncio

    from ace.pipeline.event_loop import wait_through_cancellation

    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    work = asyncio.ensure_future(calling.function(function))
    work.add_done_callback(lambda _: ended.set_result(None))
    await wait_through_cancellation(ended, on_cancel=stop)
    return work.result()


def _is_limited(pipeline: Pipeline[ACEStepContext], original: Pipeline[ACEStepContext], workers: int) -> bool:
    """Whether a pipeline was made of the original one with this limit: all other steps are the same objects."""
    if pipeline is original or len(pipeline.steps) != len(original.steps):
        return False
    return all(
        getattr(step, "max_workers", 1) == workers if _is_limitable(step) else step is other
        for step, other in zip(pipeline.steps, original.steps, strict=True)
    )


def _is_limitable(step: StepProtocol[ACEStepContext]) -> bool:
    """Tell whether `workers` is the limit of a step in a runner without a foreground."""
    return getattr(step, "async_boundary", False) or isinstance(step, ReflectStep)
