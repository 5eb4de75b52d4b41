"""`ACERunner`: takes inputs through a learning pipeline, epoch by epoch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ace.arguments import checked_arguments, instance_of
from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import Pipeline, SampleResult, StepProtocol
from ace.runners.failures import FailedSample, FailureLog
from ace.runners.inputs import check_items, in_order_of_epoch
from ace.runners.rebinding import check_books, rebound_steps, recomposed, with_save_path
from ace.runners.run_options import RunSettings
from ace.runners.run_session import RunSession
from ace.runners.runner_background import RunnerBackground
from ace.runners.step_events import StepEvents
from ace.skillbook.book import Skillbook
from ace.skillbook.stores import find_store

if TYPE_CHECKING:
    from ace.runners.settings import LearningSettings

__all__ = ["ACERunner"]


class ACERunner:
    """Takes inputs through a learning pipeline, epoch by epoch. It composes a pipeline; it is none.

    A runner for other inputs is a subclass with two methods: `run`, its public signature, which calls `_run`,
    and `_build_context`, which makes a context of one input. Its `from_roles` may end in `_composed`.

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
        self._running = threading.RLock()

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

    def _run(
        self,
        items: Iterable[Any],
        *,
        epochs: int,
        pipeline: Pipeline[ACEStepContext] | None = None,
        **kwargs: Any,  # `RunOptions`, and what is for `_build_context`
    ) -> list[SampleResult[ACEStepContext]]:
        """Take all inputs through the pipeline, in every epoch. The background is drained between epochs.

        Args:
            items: The inputs; a sequence if there are several epochs.
            epochs: How often.
            pipeline: Another pipeline than the runner's own, for this run.
            **kwargs: The options of the run, see `RunOptions`; everything else is passed to `_build_context`. With
                `wait=False`, the run is finished in the background: the interpreter waits for it when it exits,
                and `wait_for_background` does.

        Returns:
            The results of all epochs, in input order.

        Raises:
            TypeError: The items are not an iterable of inputs.
            ValueError: An option is outside its range, or an input lacks what the first step needs.
        """
        check_items(items, epochs)
        options, extra = RunSettings.taken_from(kwargs)
        used = self.pipeline if pipeline is None else pipeline
        with self._running:
            self._background.use(used)
            session = RunSession(
                used,
                self.skillbook,
                self._failure_log,
                runner=self.integration or type(self).__name__,
                build_context=self._build_context,
                options=options,
                most_under_way=self._most_under_way(options),
                epochs=epochs,
                total=len(items) if isinstance(items, Sequence) else None,
                inputs_grow=self._inputs_grow,
            )
            results: list[SampleResult[ACEStepContext]] = []
            try:
                for epoch in range(1, epochs + 1):
                    if epoch > 1:
                        used.wait_for_background()
                    results += session.run_epoch(in_order_of_epoch(items, options.shuffle, epoch), epoch, extra)
            except BaseException:
                session.finish(interrupted=True)
                raise
            if options.wait:
                session.finish()
            else:
                session.leave_to_background()
                self._background.finish(session.finish)
            return results

    def _most_under_way(self, options: RunSettings) -> int | None:
        """Return how many earlier samples may be unlearned when one starts; None leaves it to the engine."""
        return options.lag

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

    def wait_for_background(self, timeout: float | None = None) -> None:
        """Wait until everything is learned, and saved where the runner saves.

        Args:
            timeout: Seconds to wait at most; None waits for ever.

        Raises:
            TimeoutError: It is not done by then; the text says how many samples are left.
            Exception: What kept a run with `wait=False` from being finished, such as a full disk.
        """
        self._background.wait(timeout)

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

    def load(self, path: str | Path) -> None:
        """Go on with the skillbook of a file. What is in the background is learned into the old one first.

        Every step that wrote the old book writes the new one. A runner that saved its JSON file saves to this one.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: There is no such file.
            SkillbookFileError: It is no skillbook; the runner keeps the one it has.
        """
        with self._running:
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
