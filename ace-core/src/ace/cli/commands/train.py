"""`ace train`: an agent answers samples, an environment scores the answers, and the skillbook learns from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from cyclopts import Parameter

from ace.cli.inputs import GatheredTraces
from ace.cli.learning.learning_command import LearningCommand, Results, RunFlags
from ace.cli.learning.run_plan import RunPlan
from ace.cli.learning.run_report import processed_by_epoch
from ace.cli.learning.sample_files import samples_in
from ace.cli.learning.validated_run import ValidationOptions, run_with_validation, validation_samples
from ace.cli.options import JsonFlag, SettingOptions, YesFlag
from ace.cli.prompt_templates import PromptTemplates
from ace.cli.settings import Settings
from ace.cli.skillbooks.opened_book import SkillbookPlace, tell_if_large
from ace.environments import Match, Sample, SimpleEnvironment

if TYPE_CHECKING:
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import ReflectorLike
    from ace.runners import ACE, LearningOptions, RunOptions, TraceAnalyser

__all__ = ["command"]


class TrainOptions(SettingOptions, command="train"):
    """The settings of `ace train`."""


_DEFAULT_OPTIONS = TrainOptions()
_DEFAULT_RUN = RunFlags()
_DEFAULT_VALIDATION = ValidationOptions()


def command(
    path: Annotated[list[str], Parameter(name="path...", negative="", allow_leading_hyphen=True)],
    /,
    *,
    options: TrainOptions = _DEFAULT_OPTIONS,
    run: RunFlags = _DEFAULT_RUN,
    validation: ValidationOptions = _DEFAULT_VALIDATION,
    gate: Annotated[bool, Parameter(negative="", show_default=False, show=False, group="Validation")] = False,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Answer samples with an agent, and learn from the results.

    A sample is a JSON object with the fields question and ground_truth (or target, expected, answer), and optionally
    context.

    For example:

        ace train samples.jsonl --epochs 3
        ace train train.jsonl --validate held-out.jsonl --gate
        ace train samples.jsonl --environment numeric --model openai/gpt-4o-mini

    Args:
        path: Files, folders or glob patterns of samples; - reads standard input.
        options: The settings.
        run: Options of the run.
        validation: Options of the validation.
        gate: Roll back what was learned since the last validation if the score fell; needs a .db skillbook.
        yes: Do not ask for confirmation.
        as_json: Print the report as one JSON object.
    """
    settings = run.settings(options)
    place = SkillbookPlace(settings.skillbook)
    checked = validation.checked(settings, place, gate=gate)
    if not as_json:
        tell_if_large(place)
    plan = RunPlan(
        command=Train(settings.environment, checked, settings.max_input_bytes, gate),
        paths=path,
        settings=settings,
        options=run,
        assume_yes=yes,
        as_json=as_json,
    )
    return plan.carry_out()


@dataclass(frozen=True)
class Train(LearningCommand):
    """Learns from answers to samples."""

    environment: Match
    validation: ValidationOptions
    max_input_bytes: int
    gate: bool = False
    name = "train"
    noun = "sample"
    activity = "training on"

    def inputs(self, gathered: GatheredTraces) -> Sequence[Sample]:
        """Return the samples. A record without a question is a problem.

        Raises:
            UsageError: A sample to validate on cannot be used, or is among them.
        """
        samples = samples_in(gathered)
        if samples and self.validation.validate:
            validation_samples(self.validation, samples, self.max_input_bytes)
        return samples

    def saves_after_each_input(self, place: SkillbookPlace) -> bool:
        """Return whether the run saves the skillbook to its file; with validation, the schedule does.

        Args:
            place: The skillbook that learns.
        """
        return super().saves_after_each_input(place) and not self.validation.validate

    def runner(
        self, client: LLMClientLike, reflector: ReflectorLike, templates: PromptTemplates, options: LearningOptions
    ) -> ACE:
        """Return a runner with all three roles."""
        from ace.roles import agent_for, skill_manager_for
        from ace.runners import ACE

        return ACE.from_roles(
            agent=agent_for(client, templates.agent),
            reflector=reflector,
            skill_manager=skill_manager_for(client, templates.skill_manager),
            environment=SimpleEnvironment(self.environment),
            **options,
        )

    def run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        settings: Settings,
        place: SkillbookPlace,
        **options: Unpack[RunOptions],
    ) -> Results:
        """Run, with validations if requested."""
        if not self.validation.validate:
            return super().run(runner, inputs, settings, place, **options)
        from ace.steps import AgentStep

        agent = next(step.agent for step in runner.pipeline.steps if isinstance(step, AgentStep))
        how = (settings, place, self.validation)
        return run_with_validation(runner, agent, inputs, *how, gate=self.gate, **options)

    def workers(self, settings: Settings) -> int:
        """Return the number of agents, 1 by default."""
        return settings.run.workers or 1

    def can_resume(self, place: SkillbookPlace) -> bool:
        """Return whether a run can be resumed, which requires the log of its validations, if it has any."""
        return place.keeps_history and (not self.validation.validate or place.validation_log is not None)

    def further_results(self, results: Results, epochs: int) -> Mapping[str, object]:
        """Return the number of correct answers in each epoch, of those that were judged or failed.

        Samples that were not processed, because the run was stopped, are not counted.
        """
        counted = []
        for epoch, part in processed_by_epoch(results, max(1, len(results) // epochs)):
            correct = [_correct(result.output.trace) for result in part if result.output is not None]
            unjudged = correct.count(None)
            right = correct.count(1.0)
            counted.append({"epoch": epoch, "right": right, "of": len(part) - unjudged, "not_judged": unjudged})
        return {"answers": counted}

    def further_lines(self, further: Mapping[str, object]) -> Sequence[str]:
        """Return one line for each epoch."""
        answers = further["answers"]
        assert isinstance(answers, list)
        return [f"epoch {answer['epoch']}: {_in_words(answer)}" for answer in answers]


def _correct(trace: object) -> float | None:
    """Return the metric `correct` of a trace; None if nothing judged its answer."""
    metrics = trace.get("metrics") if isinstance(trace, Mapping) else None
    found = metrics.get("correct") if isinstance(metrics, Mapping) else None
    return float(found) if isinstance(found, int | float) else None


def _in_words(answer: Mapping[str, int]) -> str:
    judged = f"{answer['right']} of {answer['of']} answers correct" if answer["of"] else ""
    unjudged = f"{answer['not_judged']} not judged" if answer["not_judged"] else ""
    return ", ".join(filter(None, (judged, unjudged))) or "no answers"
