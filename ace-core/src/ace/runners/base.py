"""`ACERunner`, which runs inputs through a learning pipeline, epoch by epoch."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from ace._internal.arguments import check_keywords, checked_arguments, instance_of, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished, own_twin
from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import CancellationToken, Pipeline, SampleResult, StepProtocol
from ace.protocols.observers import is_observed
from ace.runners.failures import FailedSample, FailureLog
from ace.runners.learning_settings import check_books, rebound_steps, recomposed, with_save_path
from ace.runners.open_runs import OpenRuns, RunnerBackground
from ace.runners.run_keywords import RunOptions
from ace.runners.run_options import RunSettings
from ace.runners.run_session import RunSession, StepEvents, Tell
from ace.runners.samples import check_items, inputs_digest, orders_of_epochs
from ace.skillbook.book import Skillbook
from ace.skillbook.errors import SkillbookError
from ace.skillbook.stores import find_store
from ace.steps.known import KnownStep
from ace.steps.reflect import ReflectStep
from ace.steps.update import UpdateStep

if TYPE_CHECKING:
    from ace.runners.learning_settings import LearningSettings

__all__ = ["ACERunner"]

T = TypeVar("T")

_token_of_task: ContextVar[CancellationToken | None] = ContextVar("ace_token_of_task", default=None)
"""Stops a run that a task waits for in a thread."""


class ACERunner:
    """Runs inputs through a learning pipeline, epoch by epoch.

    It can be used directly with steps of your own. A runner for other inputs is a subclass with two methods: `run`, its
    public signature, which calls `_run`, and `_build_context`, which makes the context of one input. Give it an `arun`
    that calls `_arun` in the same way; without one, `arun` calls `run` in a thread. Its `from_roles` may end in
    `_composed`.

    Runs of one runner may overlap, in threads and in tasks; only changes of the skillbook are serial.

    Args:
        pipeline: The steps, usually ending in `learning_tail`.
        skillbook: The book that the steps change.
        failures_path: A file to which failed samples are added, one JSON line each; `failures` has them in any case.

    Raises:
        TypeError: `pipeline` is not a pipeline, or `skillbook` is not a skillbook.
        ValueError: A step has another skillbook, or a step learns and no step changes this one.
    """

    integration: ClassVar[str] = ""
    """The `InsightSource.integration` of the skills learned; by default the name of the class."""

    _inputs_grow: ClassVar[bool] = False
    """Whether the inputs are recorded traces; `once=True` learns only what is new in them."""

    _workers_reflect: ClassVar[bool] = False
    """Whether `workers` limits the reflect and update steps; true for runners without a foreground step."""

    @checked_arguments(advice="create a runner with from_roles, from_client or from_model")
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
        is_observed()  # plugins are loaded now, and not while the first sample is processed

    @classmethod
    def _composed(
        cls, steps: Sequence[StepProtocol[ACEStepContext]], skillbook: Skillbook, settings: LearningSettings
    ) -> Self:
        """Return a runner for these steps; for `from_roles` of subclasses."""
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
        **kwargs: Any,  # what its `run` passes on
    ) -> ACEStepContext:
        """Make the context of one input. A subclass puts the input into the field that its first step reads.

        Args:
            item: One input.
            epoch: The epoch, from 1.
            total_epochs: The number of epochs of the run.
            index: The position of the input in its epoch, from 1.
            total: The number of inputs; None if it is not known.
            global_sample_index: The position in the run, over all epochs, from 1.
            **kwargs: What `run` passed on to `_run`.
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
        """Run all inputs through the pipeline: `run(items, epochs=1, **options)`.

        With it, steps of your own before `learning_tail` need no subclass; they read the input from `ctx.sample`.

        Args:
            items: The inputs; a sequence if there are several epochs.
            *args: `epochs`, the number of passes over the inputs; 1 by default.
            **options: `epochs`, and those of every run, see `RunOptions`.

        Returns:
            The results of all epochs, in input order. A failed sample has `error`; see also `failures`.

        Raises:
            TypeError: `items` is not an iterable of inputs, or an option is unknown.
            ValueError: An option is outside its range, or an input lacks what the first step needs.
        """
        return self._run(items, **_plain_arguments(*args, **options))

    async def arun(
        self,
        *args: Any,  # those of the subclass's `run`
        **options: Any,
    ) -> list[SampleResult[ACEStepContext]]:
        """Like `run`, for asynchronous code; the loop is never blocked.

        Asynchronous roles and steps in the foreground are awaited on the caller's loop, and callbacks are called there
        as long as it runs. Roles in the background are awaited on a loop of the engine. Cancelling the task stops the
        run like a cancelled token; the task ends when the samples that are in a step have finished it.

        Args:
            *args: Those of `run`: the inputs and `epochs`.
            **options: Those of `run`.
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
        """Run all inputs through the pipeline, in every epoch. The background is drained between epochs.

        Args:
            items: The inputs; a sequence if there are several epochs.
            epochs: The number of passes over the inputs.
            **kwargs: The options of the run, see `RunOptions`; everything else is passed to `_build_context`. With
                `wait=False`, the run is finished in the background; `wait_for_background` waits for it, and so does
                the interpreter when it exits.

        Returns:
            The results of all epochs, in input order.

        Raises:
            TypeError: `items` is not an iterable of inputs.
            ValueError: An option is outside its range, or an input lacks what the first step needs.
        """
        return finished(self._taken(BLOCKING, _call_here, items, epochs, kwargs))

    async def _arun(self, items: Iterable[Any], *, epochs: int, **kwargs: Any) -> list[SampleResult[ACEStepContext]]:
        """The asynchronous twin of `_run`, for the `arun` of a subclass."""
        return await self._taken(ON_LOOP, self._background.teller(), items, epochs, kwargs)

    async def _taken(
        self, calling: Calling, tell: Tell, items: Iterable[Any], epochs: int, kwargs: dict[str, Any]
    ) -> list[SampleResult[ACEStepContext]]:
        """Run the pipeline, from synchronous code (`BLOCKING`) or asynchronous code (`ON_LOOP`)."""
        check_items(items, epochs)
        options, extra = RunSettings.taken_from(kwargs)
        if options.cancel_token is None:
            options = replace(options, cancel_token=_token_of_task.get())
        await _taken_or_returned(calling, self._open_runs.enter, lambda _: self._open_runs.leave())
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
        orders = orders_of_epochs(items, options.shuffle)
        pipeline = self._open_runs.use(lambda used: self._pipeline_for(options, used))
        caller = threading.get_ident()
        try:
            self._background.use(pipeline)
            session = await _taken_or_returned(
                calling,
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
                    caller=caller,
                    epochs=epochs,
                    total=len(items) if isinstance(items, Sequence) else None,
                    inputs_grow=self._inputs_grow,
                    inputs=inputs_digest(items) if options.resume == "auto" else "",
                ),
                RunSession.abandon,
            )
        except BaseException:
            self._open_runs.release(pipeline)
            raise

        def wait() -> None:
            session.wait_for_samples(is_alone=self._open_runs.is_alone(pipeline))

        def finish(interrupted: bool = False) -> None:
            try:
                if not (interrupted or options.wait) and session.has_work_after_epochs:
                    wait()
                    session.end_epoch(epochs)
                session.finish(interrupted=interrupted, is_alone=self._open_runs.is_alone(pipeline))
            finally:
                self._open_runs.release(pipeline)

        results: list[SampleResult[ACEStepContext]] = []
        try:
            for epoch in range(1, epochs + 1):
                results += await session.run_epoch(calling, next(orders), epoch, extra)
                if epoch < epochs or (options.wait and session.has_work_after_epochs):
                    await _stoppable(calling, wait, session.cancel)
                    await calling.function(partial(session.end_epoch, epoch))
                if session.is_idle:
                    break
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

    def _pipeline_for(self, options: RunSettings, used: Collection[object]) -> Pipeline[ACEStepContext]:
        """Return the pipeline of one run, while open runs use some."""
        if options.workers is None or not self._workers_reflect:
            return self.pipeline
        return self._with_reflect_limit(options.workers, used)

    def _with_reflect_limit(self, workers: int, used: Collection[object]) -> Pipeline[ACEStepContext]:
        """Return the pipeline with another limit on the steps that look up traces, reflect and propose skills.

        The limit is that of one run, so a pipeline that an open run uses is not used again until that has ended.
        """
        whole_number("workers", workers)
        idle = (pipeline for pipeline in self._background if pipeline not in used)
        known = next((pipeline for pipeline in idle if _is_limited(pipeline, self.pipeline, workers)), None)
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
                step.shares_limit_with = next((other for other in steps if isinstance(other, ReflectStep)), None)
        return recomposed(self.pipeline, steps)

    def _foreground_workers(self, options: RunSettings) -> int:
        """Return how many samples of one run may be in the foreground at once."""
        return 1 if options.workers is None or self._workers_reflect else options.workers

    def _default_in_flight(self, options: RunSettings) -> int | None:
        """Return the default of `max_in_flight`; None leaves it to the engine."""
        return None

    @property
    def failures(self) -> list[FailedSample]:
        """The samples that have failed so far, in all runs, with the raw answers of the model."""
        return list(self._failure_log.failed)

    @property
    def learning_stats(self) -> dict[str, int]:
        """Counts of samples in the background, over all runs: active, queued, completed and, of these, failed."""
        return self._background.stats

    def get_strategies(self) -> str:
        """Return the skills as text for the prompt of an agent; empty without skills."""
        from ace.roles.prompts import wrap_skillbook_for_external_agent

        return wrap_skillbook_for_external_agent(SkillbookView(self.skillbook))

    @checked_arguments()
    def wait_for_background(self, timeout: float | None = None) -> None:
        """Wait until everything is learned, and saved where the runner saves.

        Args:
            timeout: The maximum wait, in seconds; None waits indefinitely.

        Raises:
            TimeoutError: It is not done by then; the message says how many samples are left.
            Exception: What prevented a run with `wait=False` from being finished, such as a full disk.
        """
        self._background.wait(timeout)

    @checked_arguments()
    def save(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Save the skillbook as it is now; see `Skillbook.save_to_file`.

        If it cannot be saved there, a new file beside it gets what was learned, and the error says which.

        Args:
            path: A JSON file, or a new store (`.db`).
            merge: Add to what others have written into the file.
            overwrite: Replace the file even if it contains another skillbook.

        Raises:
            SkillbookChangedError: The file has changed since it was read or saved here, or contains a skillbook that
                this one was not loaded from.
            SkillbookFileError: The file exists and is not a skillbook.
        """
        save_without_loss(self.skillbook, path, merge=merge, overwrite=overwrite)

    @checked_arguments()
    def load(self, path: str | Path) -> None:
        """Continue with the skillbook of a file. It first waits for all runs, which still learn into the old one.

        Every step that changed the old book changes the new one. A runner that saved to a JSON file saves to this one.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: The file does not exist.
            SkillbookFileError: The file is not a skillbook; the runner keeps its current one.
            RuntimeError: This is called inside a run of this runner, such as in a callback.
            Exception: What prevented a run with `wait=False` from being finished; the runner keeps its book.
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


async def _taken_or_returned(calling: Calling, take: Callable[[], T], give_back: Callable[[T], None]) -> T:
    """Call a plain function that acquires something, possibly after a wait.

    If the task is cancelled, it ends at once, and what the function acquires is released: here, or later on the thread
    that is still waiting for it.
    """
    lock = threading.Lock()
    is_awaited = True
    taken: list[T] = []

    def work() -> T:
        found = take()
        with lock:
            taken.append(found)
            is_wanted = is_awaited
        if not is_wanted:
            give_back(found)
        return found

    try:
        return await calling.function(work)
    except BaseException:
        with lock:
            is_awaited = False
            left = tuple(taken)
        for unit in left:
            give_back(unit)
        raise


async def _stoppable(calling: Calling, function: Callable[[], T], stop: Callable[[], None]) -> T:
    """Call a plain function that ends soon after `stop`, which is called if the task is cancelled."""
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
    """Whether a pipeline was derived from the original with this limit: all other steps are the same objects."""
    if pipeline is original or len(pipeline.steps) != len(original.steps):
        return False
    return all(
        getattr(step, "max_workers", 1) == workers if _is_limitable(step) else step is other
        for step, other in zip(pipeline.steps, original.steps, strict=True)
    )


def _is_limitable(step: StepProtocol[ACEStepContext]) -> bool:
    """Whether `workers` is the limit of a step in a runner without foreground steps."""
    return getattr(step, "async_boundary", False) or isinstance(step, KnownStep | ReflectStep | UpdateStep)


def save_without_loss(book: Skillbook, path: str | Path, *, merge: bool, overwrite: bool) -> None:
    """Save a skillbook, or save it to a new file beside the path and raise the error with a note that says so.

    A program usually saves at its end, when everything has been paid for and is only in memory.

    Args:
        book: The skillbook.
        path: Where to save it.
        merge: As for `Skillbook.save_to_file`.
        overwrite: As for `Skillbook.save_to_file`.

    Raises:
        Exception: As `Skillbook.save_to_file` does.
    """
    try:
        book.save_to_file(path, merge=merge, overwrite=overwrite)
    except (SkillbookError, FileExistsError, ValueError) as error:
        if book.store is None and len(book):
            with suppress(OSError, SkillbookError):  # the reason may hold for the whole folder
                error.add_note(f"The skillbook was saved to {str(_saved_beside(book, Path(path)))!r} instead.")
        raise


def _saved_beside(book: Skillbook, path: Path) -> Path:
    """Save a copy of a skillbook, which keeps its own file, to the first name that is free."""
    numbers = itertools.count(2)
    while (beside := path.with_name(f"{path.stem}-{next(numbers)}.json")).exists():
        pass
    Skillbook.loads(book.dumps()).save_to_file(beside)
    return beside
