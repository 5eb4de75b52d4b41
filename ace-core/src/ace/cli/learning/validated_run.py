"""A training that is validated in between, and ends with the best state of the skillbook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from cyclopts import Parameter

from ace.cli.console import counted, note
from ace.cli.errors import UsageError
from ace.cli.model_choice import answers_depend_on
from ace.cli.skillbooks.opened_book import SkillbookPlace
from ace.environments import Sample, SimpleEnvironment
from ace.skillbook import shown_location

if TYPE_CHECKING:
    from ace.cli.settings import Settings
    from ace.context import ACEStepContext
    from ace.evaluation import ValidationPoint
    from ace.pipeline import SampleResult
    from ace.protocols.roles import AgentLike
    from ace.runners import ACE, RunOptions, TraceAnalyser

__all__ = ["ValidationOptions", "run_with_validation", "validation_samples"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ValidationOptions:
    """Options of the validation."""

    validate: Annotated[list[str], Parameter(negative="", show_default=False, group="Validation")] = field(
        default_factory=list
    )
    """Held-out samples; the skillbook is left in the state that scored best on them."""

    def checked(self, settings: Settings, skillbook: SkillbookPlace, *, gate: bool = False) -> ValidationOptions:
        """Return the options, or say what is wrong with them.

        Args:
            settings: The settings of the command line.
            skillbook: The skillbook that learns.
            gate: Whether what made the score fall is rolled back.

        Raises:
            UsageError: They do not fit together, or not to the skillbook.
        """
        if not self.validate and (gate or settings.origins["patience"].startswith("flag")):
            raise UsageError("the options --gate and --patience need samples to validate on: give --validate FILE")
        if gate and not skillbook.keeps_history:
            raise UsageError(
                f"--gate needs a skillbook with a history, and {shown_location(skillbook.location)!r} has none; "
                "give a skillbook that ends in .db"
            )
        return self


def validation_samples(options: ValidationOptions, inputs: Sequence[Any], max_bytes: int) -> list[Sample]:
    """Return the samples to validate on.

    Args:
        options: The options that name their files.
        inputs: The inputs to learn from.
        max_bytes: The maximum size of a file, in bytes.

    Raises:
        UsageError: A validation sample cannot be used, or is among the inputs.
    """
    from ace.cli.inputs import RunFilter  # not imported before the first line
    from ace.cli.learning.sample_files import all_samples  # not imported before the first line
    from ace.evaluation.splits import check_disjoint

    samples = all_samples(options.validate, wanted=RunFilter(max_bytes=max_bytes))
    try:
        check_disjoint(inputs, samples)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return samples


def run_with_validation(
    runner: ACE | TraceAnalyser,
    agent: AgentLike,
    inputs: Sequence[Any],
    settings: Settings,
    place: SkillbookPlace,
    options: ValidationOptions,
    *,
    gate: bool,
    **run: Unpack[RunOptions],
) -> Sequence[SampleResult[ACEStepContext]]:
    """Run with validations between the samples, and leave the skillbook in the state that scored best.

    If the run is stopped before the first validation is complete, nothing is learned, a message says so, and no results
    are returned.

    Args:
        agent: Answers the validation samples.
        inputs: The inputs to learn from.
        settings: The settings of the command line.
        place: Where the skillbook is open.
        options: When to validate, and what follows.
        gate: Whether what made the score fall is rolled back.
        **run: The options of the runner's `run`, with the name of the run.

    Raises:
        UsageError: A validation sample cannot be used.
    """
    from ace.evaluation import Evaluator, TrainingLog, UnfinishedEvaluationError, ValidationSchedule, ValidationSettings
    from ace.evaluation.trainer import run_validated
    from ace.runners import ACE

    run_id = run.get("run_id")
    assert run_id is not None, "a command names its runs"
    samples = validation_samples(options, _samples_in(inputs), settings.max_input_bytes)
    evaluator = Evaluator(
        agent,
        SimpleEnvironment(settings.environment),
        workers=settings.run.workers or 1,
        answers_path=None if settings.learning.provenance == "ids" else place.validation_answers,
        label=answers_depend_on(settings, settings.environment),
    )
    schedule = ValidationSchedule(
        evaluator,
        samples,
        runner.skillbook,
        ValidationSettings(settings.validation_interval, gate, settings.patience),
        run_id=run_id,
        log=TrainingLog(place.validation_log),
        save_path=None if place.keeps_history else place.location,
        on_point=partial(_tell, "sample" if isinstance(runner, ACE) else "trace"),
    )
    try:
        results = run_validated(runner, schedule, inputs, settings.epochs, **run)
    except UnfinishedEvaluationError:
        note("ace: stopped during the first validation, so nothing was learned")
        return []
    schedule.finish()
    answers = place.validation_answers
    if run.get("forget_answers") and answers is not None and all(result.error is None for result in results):
        answers.unlink(missing_ok=True)
    return results


def _samples_in(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs that are samples; recorded traces are not."""
    return [sample for sample in inputs if isinstance(sample, Sample)]


def _tell(noun: str, point: ValidationPoint) -> None:
    verdict = "" if point.is_kept else f", rolled back by the gate (it was {point.score_before:.1%})"
    note(f"ace: validation after {counted(point.samples, noun)}: {point.score.value:.1%}{verdict}")
