"""Trains a skillbook on samples, and keeps the state that validation found best."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, final

from ace.arguments import checked_arguments, checked_class
from ace.context import ACEStepContext
from ace.evaluation.splits import check_disjoint
from ace.evaluation.validation_course import TrainingLog, ValidationCourse, ValidationPoint, ValidationSettings
from ace.pipeline import CancellationToken, SampleResult, cancel_token_var
from ace.protocols.observers import observing
from ace.runners import ACE, LearningOptions, LearningSettings, RunOptions
from ace.runners.run_record import recorded_runs
from ace.runners.settings import recomposed
from ace.skillbook import Skillbook
from ace.skillbook.stores import find_store

if TYPE_CHECKING:
    from ace.context import ACESample
    from ace.evaluation.evaluator import Evaluator
    from ace.protocols.roles import ReflectorLike, SkillManagerLike

__all__ = ["Trainer", "TrainingResult", "ValidateStep", "run_validated"]


@checked_class
class ValidateStep:
    """Validates at intervals of samples, and at the end of the run. It comes last in a learning pipeline.

    It is in the lane of the steps that write, so nothing is learned while it validates. When the course is
    exhausted, it cancels the run.

    Args:
        course: The validations of the run.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, course: ValidationCourse) -> None:
        self.course = course
        self.lane_key = course.skillbook

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Validate if it is time; the context stays as it is."""
        token = cancel_token_var.get()
        is_going = token is None or not token.is_cancelled
        if ctx.global_sample_index % self.course.settings.interval == 0 and is_going:
            self._validate(ctx.global_sample_index, token)
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Validate once more, so that an incomplete interval is validated too, and restore the best state.

        A run that is interrupted after this is complete: nothing of it remains to be done.
        """
        if not interrupted:
            self._validate(last_index, None)
            self.course.finish()

    def _validate(self, samples: int, token: CancellationToken | None) -> None:
        self.course.validate(samples, cancel_token=token)
        if self.course.is_exhausted and token is not None:
            token.cancel("early_stopping")


def run_validated(
    runner: ACE,
    course: ValidationCourse,
    samples: Sequence[ACESample],
    epochs: int = 1,
    **options: Unpack[RunOptions],
) -> list[SampleResult[ACEStepContext]]:
    """Validate the book as it is, run, and validate in between and at the end.

    Args:
        runner: Learns; for this run it gets one more step, which validates.
        course: The validations. An interrupted course is resumed.
        samples: What is learned from.
        epochs: The number of passes over the samples.
        **options: The options of the runner's `run`. The `cancel_token` stops the run, and its reason tells afterwards
            what did: `early_stopping` and `max_cost` too. `max_cost` includes the validations.

    Returns:
        What became of the samples; nothing if the run was over before the first of them.

    Raises:
        UnfinishedEvaluationError: It was stopped before the book was validated once.
    """
    given = options.get("cancel_token")
    token = CancellationToken() if given is None else given
    max_cost = options.get("max_cost")
    paid = course.start(max_cost=max_cost, cancel_token=token)
    left = None if max_cost is None else max_cost - paid
    if left is not None and left <= 0:
        token.cancel("max_cost")
    elif course.is_exhausted:
        token.cancel("early_stopping")
    if token.is_cancelled:
        return []
    run: RunOptions = {**options, "max_cost": left, "cancel_token": token}
    own = runner.pipeline
    runner.pipeline = recomposed(own, [*own.steps, ValidateStep(course)])
    try:
        with observing(course.learning_costs):
            return runner.run(samples, epochs, **run)
    finally:
        runner.pipeline = own


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What became of a training."""

    skillbook: Skillbook
    """The state that validation found best."""
    points: tuple[ValidationPoint, ...]
    """All validations; the first one is of the book before it learned."""
    best: ValidationPoint
    """The one of the best state."""
    results: tuple[SampleResult[ACEStepContext], ...]
    """What became of the training samples, in all epochs."""
    stopped_by: str
    """What ended it before all samples were learned: `early_stopping`, `max_cost`, `fail_fast` or `cancelled`; else
    empty."""


@checked_class
@final
class Trainer:
    """Trains skillbooks: agent and environment of an evaluator, and the two roles that learn.

    Args:
        evaluator: Who answers and judges, in training and in validation.
        reflector: Who finds out what a trace teaches.
        skill_manager: Who turns that into operations.
        settings: When to validate, and what follows from it.
        log_path: A file that keeps the validations, so that a training can be resumed.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        settings: ValidationSettings | None = None,
        log_path: str | Path | None = None,
    ) -> None:
        self.evaluator = evaluator
        self.reflector = reflector
        self.skill_manager = skill_manager
        self.settings = ValidationSettings() if settings is None else settings
        self.log_path = log_path

    @checked_arguments(LearningOptions)
    def train(
        self,
        samples: Sequence[ACESample],
        validation: Sequence[ACESample],
        *,
        epochs: int = 1,
        order: int | None = None,
        lag: int | None = None,
        workers: int = 1,
        max_cost: float | None = None,
        fail_fast: bool = False,
        run_id: str | None = None,
        resume: bool = False,
        on_point: Callable[[ValidationPoint], None] | None = None,
        cancel_token: CancellationToken | None = None,
        **options: Unpack[LearningOptions],
    ) -> TrainingResult:
        """Learn from samples, validate in between and at the end, and return the best state.

        A book in a store is gone back to the best state when this returns; a `skillbook_path` to a JSON file holds the
        best state at any time; any other skillbook is not changed, and the result contains a copy.

        Args:
            samples: What is learned from.
            validation: What is validated on; none of `samples` may be among them.
            epochs: The number of passes over the samples.
            order: A seed for the order of the samples, which is another one in every epoch; by default they keep
                their order.
            lag: How many earlier samples may not be learned yet when an agent starts; see `ACE.run`.
            workers: How many agents run at once.
            max_cost: US dollars, validation included. Once this much is spent, no further sample is started.
            fail_fast: Whether the first failed sample stops the training.
            run_id: The name of the run.
            resume: Whether to resume an interrupted training: the one named, by default the last one in the log. It
                needs a skillbook in a store, and a `log_path`.
            on_point: Called with each new validation.
            cancel_token: Stops the training.
            **options: skillbook or skillbook_path, and the other settings of learning; see `LearningSettings`.

        Raises:
            ValueError: An argument is invalid, or a validation sample is a training sample too.
            UnfinishedEvaluationError: It was stopped before the first validation.
        """
        check_disjoint(samples, validation)
        if resume and self.log_path is None:
            raise ValueError("a training is resumed from its log; pass the log_path of the first call to the trainer")
        log = TrainingLog(self.log_path)
        name = run_id or (log.last_run if resume else None) or uuid.uuid4().hex
        path = options.get("skillbook_path")
        is_file = path is not None and find_store(path) is None
        settings = LearningSettings(**options)
        book = settings.book()
        token = CancellationToken() if cancel_token is None else cancel_token
        course = ValidationCourse(
            self.evaluator,
            validation,
            book,
            self.settings,
            run_id=name,
            log=log,
            save_path=path if is_file else None,
            on_point=on_point,
        )
        results = run_validated(
            self._runner(settings, book, options),
            course,
            samples,
            epochs,
            shuffle=order,
            lag=lag,
            workers=workers,
            max_cost=max_cost,
            fail_fast=fail_fast,
            cancel_token=token,
            run_id=name,
            resume=resume and _is_begun(book, name),
        )
        best = course.best
        assert best is not None
        return TrainingResult(course.finish(), course.points, best, tuple(results), token.reason)

    def _runner(self, settings: LearningSettings, book: Skillbook, options: LearningOptions) -> ACE:
        # A JSON file is saved by the course, which knows the best state.
        own: LearningOptions = {**options, "skillbook": book, "skillbook_path": None}
        own["failures_path"] = settings.failures_file()
        return ACE.from_roles(
            agent=self.evaluator.agent,
            reflector=self.reflector,
            skill_manager=self.skill_manager,
            environment=self.evaluator.environment,
            retrieval=self.evaluator.retrieval,
            **own,
        )


def _is_begun(book: Skillbook, run_id: str) -> bool:
    """Whether the store knows the run; one that was killed in its first validation is not begun."""
    return book.store is None or run_id in recorded_runs(book.store)
