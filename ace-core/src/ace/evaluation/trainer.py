"""Training of a skillbook on samples; the state with the best validation is kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast, final

from ace._internal.arguments import checked_arguments, checked_class
from ace.context import ACEStepContext
from ace.evaluation.splits import check_disjoint
from ace.evaluation.validation_schedule import TrainingLog, ValidationPoint, ValidationSchedule, ValidationSettings
from ace.pipeline import CancellationToken, SampleResult, cancel_token_var
from ace.protocols.observers import observing
from ace.runners import ACE, ACERunner, LearningOptions, LearningSettings, RunOptions
from ace.runners.learning_settings import recomposed
from ace.runners.run_record import recorded_runs
from ace.skillbook import Skillbook
from ace.skillbook.stores import find_store

if TYPE_CHECKING:
    from ace.context import ACESample
    from ace.evaluation.evaluator import Evaluator
    from ace.protocols.roles import ReflectorLike, SkillManagerLike

__all__ = ["Trainer", "TrainingOptions", "TrainingResult", "ValidateStep", "run_validated"]


class TrainingOptions(RunOptions, LearningOptions, total=False):
    """The keyword arguments of `Trainer.train`: the settings of learning and those of the run."""


@checked_class
class ValidateStep:
    """Validates at intervals of samples, and at the end of the run. It comes last in a learning pipeline.

    It is in the lane of the steps that write, so nothing is learned while it validates. When the schedule is
    exhausted, it cancels the run.

    Args:
        schedule: The validations of the run.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, schedule: ValidationSchedule) -> None:
        self.schedule = schedule
        self.lane_key = schedule.skillbook

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Validate if it is time; the context does not change."""
        token = cancel_token_var.get()
        is_going = token is None or not token.is_cancelled
        if ctx.global_sample_index % self.schedule.settings.interval == 0 and is_going:
            self._validate(ctx.global_sample_index, token)
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Validate once more, so that an incomplete interval is validated too, and restore the best state.

        A run that is interrupted after this is complete.
        """
        if not interrupted:
            self._validate(last_index, None)
            self.schedule.finish()

    def _validate(self, samples: int, token: CancellationToken | None) -> None:
        self.schedule.validate(samples, cancel_token=token)
        if self.schedule.is_exhausted and token is not None:
            token.cancel("early_stopping")


def run_validated(
    runner: ACERunner,
    schedule: ValidationSchedule,
    samples: Sequence[Any],
    epochs: int = 1,
    **options: Unpack[RunOptions],
) -> list[SampleResult[ACEStepContext]]:
    """Validate the book as it is, run, and validate in between and at the end.

    Args:
        runner: The runner, which learns from samples or recorded traces. A step that validates is added for this run.
        schedule: The validations. An interrupted schedule is resumed.
        samples: The inputs of the runner to learn from.
        epochs: The number of passes over them.
        **options: The options of the runner's `run`. The `cancel_token` stops the run; afterwards its reason says what
            stopped it, including `early_stopping` and `max_cost`. `max_cost` includes the validations.

    Returns:
        The results of the samples; empty if the run ended before the first sample.

    Raises:
        UnfinishedEvaluationError: The run was stopped before the first validation was complete.
    """
    own_token = options.get("cancel_token")
    token = CancellationToken() if own_token is None else own_token
    max_cost = options.get("max_cost")
    paid = schedule.start(max_cost=max_cost, cancel_token=token)
    left = None if max_cost is None else max_cost - paid
    if left is not None and left <= 0:
        token.cancel("max_cost")
    elif schedule.is_exhausted:
        token.cancel("early_stopping")
    if token.is_cancelled:
        return []
    run: RunOptions = {**options, "max_cost": left, "cancel_token": token}
    own = runner.pipeline
    runner.pipeline = recomposed(own, [*own.steps, ValidateStep(schedule)])
    try:
        with observing(schedule.learning_costs):
            return runner.run(samples, epochs, **run)
    finally:
        runner.pipeline = own


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a training."""

    skillbook: Skillbook
    """The state with the best validation."""
    points: tuple[ValidationPoint, ...]
    """All validations; the first one is that of the book before it learned."""
    best: ValidationPoint
    """The validation of the best state."""
    results: tuple[SampleResult[ACEStepContext], ...]
    """The results of the training samples, in all epochs."""
    stopped_by: str
    """What stopped the training before all samples were learned: `early_stopping`, `max_cost`, `fail_fast` or
    `cancelled`; else empty."""


@checked_class
@final
class Trainer:
    """Trains skillbooks, with the agent and the environment of an evaluator and the two roles that learn.

    Args:
        evaluator: Answers and judges, in training and in validation.
        reflector: Determines what can be learned from a trace.
        skill_manager: Converts that to operations on the skillbook.
        settings: When to validate, and the consequences.
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

    @checked_arguments(RunOptions, LearningOptions)
    def train(
        self,
        samples: Sequence[ACESample],
        validation: Sequence[ACESample],
        *,
        epochs: int = 1,
        on_point: Callable[[ValidationPoint], None] | None = None,
        **options: Unpack[TrainingOptions],
    ) -> TrainingResult:
        """Learn from samples, validate in between and at the end, and return the best state.

        When this returns, a book in a store has been rolled back to its best state. A JSON file given as
        `skillbook_path` always contains the best state so far. Any other skillbook does not change, and the result
        contains a copy.

        Args:
            samples: The samples to learn from.
            validation: The samples to validate on; none of them may be in `samples`.
            epochs: The number of passes over the samples.
            on_point: Called with each new validation.
            **options: skillbook or skillbook_path, and the other settings of learning, see `LearningSettings`; and
                those of every run, see `RunOptions`. `max_cost` includes the validations. `resume` continues an
                interrupted training, the one named by `run_id` or else the last one in the log; it needs a skillbook
                in a store, and a `log_path`. `wait` must be True, because the last validation needs what was learned.

        Raises:
            ValueError: An argument is invalid, or a validation sample is also a training sample.
            UnfinishedEvaluationError: The training was stopped before the first validation.
        """
        check_disjoint(samples, validation)
        run, learning = _divided(options)
        if not run.get("wait", True):
            raise ValueError("wait must be True for a training, because its last validation needs what was learned")
        resume = run.get("resume", False)
        if resume and self.log_path is None:
            raise ValueError("a training is resumed from its log; pass the log_path of the first call to the trainer")
        log = TrainingLog(self.log_path)
        name = run.get("run_id") or (log.last_run if resume else None) or uuid.uuid4().hex
        path = learning.get("skillbook_path")
        is_file = path is not None and find_store(path) is None
        settings = LearningSettings(**learning)
        book = settings.book()
        own_token = run.get("cancel_token")
        token = CancellationToken() if own_token is None else own_token
        run["cancel_token"] = token
        run["run_id"] = name
        run["resume"] = bool(resume) and _is_begun(book, name)
        schedule = ValidationSchedule(
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
            self._runner(settings, book, learning),
            schedule,
            samples,
            epochs,
            **run,
        )
        best = schedule.best
        assert best is not None
        return TrainingResult(schedule.finish(), schedule.points, best, tuple(results), token.reason)

    def _runner(self, settings: LearningSettings, book: Skillbook, options: LearningOptions) -> ACE:
        # A JSON file is saved by the schedule, which knows the best state.
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


def _divided(options: TrainingOptions) -> tuple[RunOptions, LearningOptions]:
    """Return the options of the run, and the settings of learning."""
    run = {name: value for name, value in options.items() if name in RunOptions.__annotations__}
    learning = {name: value for name, value in options.items() if name not in run}
    return cast(RunOptions, run), cast(LearningOptions, learning)


def _is_begun(book: Skillbook, run_id: str) -> bool:
    """Whether the store has the run. It does not if the run was killed in its first validation."""
    return book.store is None or run_id in recorded_runs(book.store)
