"""`LearningCommand`: what differs between the commands that learn, and `RunFlags`, which they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from cyclopts import Parameter

from ace.cli.errors import UsageError, check_output_file, near_file
from ace.cli.inputs import GatheredTraces
from ace.cli.options import SettingOptions
from ace.cli.prompt_templates import PromptTemplates
from ace.cli.settings import Settings, load_settings
from ace.cli.skillbooks.opened_book import SkillbookPlace

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.logs import Problem, Run
    from ace.pipeline import SampleResult, StepProtocol
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import ReflectorLike
    from ace.runners import ACE, LearningOptions, RunOptions, TraceAnalyser
    from ace.skillbook import Skillbook

__all__ = ["LearningCommand", "Results", "RunFlags", "reflector_from_settings"]

Results = Sequence["SampleResult[ACEStepContext]"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Options of the run that are not settings."""

    assign: Annotated[list[str], Parameter(name="--set", negative="", group="Settings")] = field(default_factory=list)
    """Set any setting of this command, as NAME=VALUE; repeat the option for several. `ace config` lists the names."""
    config: Annotated[Path | None, Parameter(group="Settings")] = None
    """Read settings from this TOML or YAML file, which overrides your own file and that of the project; it is trusted
    like the options. The settings of the run may be in a table named learning."""
    results: Annotated[Path | None, Parameter(show=False)] = None
    """When the run has ended, write its configuration, the outcome of each epoch, the cost and the skillbook to this
    JSON file."""
    log: Annotated[Path | None, Parameter(show=False)] = None
    """Append the events of the run to this file, one JSON object per line. At 10 MB, it is renamed to NAME.1, and three
    older files are kept."""
    resume: Annotated[bool, Parameter(negative="", show_default=False, group="Run")] = False
    """Resume the unfinished run over these inputs: retry failed inputs and process the remaining ones, without
    repeating paid calls."""
    give_up: Annotated[bool, Parameter(negative="", show_default=False, show=False, group="Run")] = False
    """Resume the unfinished run over these inputs, but do not retry failed inputs."""
    dry_run: Annotated[bool, Parameter(negative="", show_default=False, group="Run")] = False
    """Write nothing. Learning from logs also calls no model then: what was found and the estimated cost are shown."""

    def settings(self, options: SettingOptions) -> Settings:
        """Return the settings of the command.

        Args:
            options: The settings that are options of the command.

        Raises:
            UsageError: A setting or another option is out of range, or cannot be used.
        """
        if self.config is not None and not self.config.is_file():
            raise UsageError(f"--config: no such file: {str(self.config)!r}{near_file(self.config)}")
        check_output_file("--results", self.results)
        check_output_file("--log", self.log)
        found = load_settings(options.flags(), assigned=self.assign, command=options.command, config=self.config)
        if found.reflector == "recursive" and find_spec("pydantic_monty") is None:
            raise UsageError("--reflector recursive needs the sandbox: install the extra, ace-core[rr]")
        if found.reflector == "recursive" and found.max_trace_tokens is not None:
            raise UsageError("--max-trace-tokens requires --reflector single; a recursive review reads whole traces")
        if found.reflector != "recursive" and found.origins["max_iterations"].startswith("flag"):
            raise UsageError("--max-iterations requires --reflector recursive")
        return found


def reflector_from_settings(settings: Settings, client: LLMClientLike, templates: PromptTemplates) -> ReflectorLike:
    """Return the reflector.

    Args:
        client: Its client.
        templates: The prompt templates of the run.

    Raises:
        UsageError: The folder of templates contains one for the single reflector, and `recursive` was chosen.
    """
    if settings.reflector == "recursive":
        from ace.rr import RRConfig, RRStep

        if templates.reflector is not None:
            raise UsageError("prompts: --reflector recursive cannot use reflector.md; remove it from the folder")
        return RRStep(client, RRConfig(max_iterations=settings.max_iterations))
    from ace.roles import reflector_for

    return reflector_for(client, templates.reflector, max_trace_tokens=settings.max_trace_tokens)


class LearningCommand(ABC):
    """What differs between the commands that learn."""

    name = ""
    """The name of the command."""
    noun = "trace"
    """What one input is called."""
    activity = "learning from"
    """What is done with the inputs, for the first line."""

    @property
    def run_identity(self) -> Mapping[str, object]:
        """The options that make it another run, beside those of all commands."""
        return {}

    def further_options(self, settings: Settings, place: SkillbookPlace) -> LearningOptions:
        """Return settings of learning that only this command has.

        Args:
            settings: The settings of the command line.
            place: Where the skillbook is open.
        """
        return {}

    def further_steps(self, book: Skillbook) -> Sequence[StepProtocol[ACEStepContext]]:
        """Return steps that only this command has.

        Args:
            book: The skillbook that learns.
        """
        return []

    @property
    def reads_logs(self) -> bool:
        """Whether the inputs are runs of agents, which are shown before they are paid for, and not samples."""
        return False

    @property
    def is_told_by_trace(self) -> bool:
        """Whether the command prints the result of each input, so that no progress is shown."""
        return False

    @property
    def keeps_order(self) -> bool:
        """Whether a random order is one of the runner, not one in which the inputs are taken."""
        return False

    def accepts(self, run: Run) -> bool:
        """Return whether a run is learned from.

        Args:
            run: A run that was found.
        """
        return True

    @property
    def is_about_some_inputs(self) -> bool:
        """Whether only some of the inputs were asked for, so that one which cannot be read is not a failure."""
        return False

    def inputs(self, gathered: GatheredTraces) -> Sequence[object]:
        """Return what the runner takes. What turns out not to be an input is added to the problems.

        Args:
            gathered: What was found.
        """
        return gathered.traces

    def learns_once(self, place: SkillbookPlace) -> bool:
        """Tell whether what any earlier run has learned is skipped.

        Args:
            place: The skillbook that learns.
        """
        return False

    def why_not_once(self, place: SkillbookPlace) -> str:
        """Return why all inputs are learned although the user may expect otherwise; empty if there is no reason to.

        Args:
            place: The skillbook that learns.
        """
        return ""

    def saves_after_each_input(self, place: SkillbookPlace) -> bool:
        """Return whether the run saves the skillbook to its file; a store commits every change itself.

        Args:
            place: The skillbook that learns.
        """
        return not place.keeps_history

    @abstractmethod
    def runner(
        self, client: LLMClientLike, reflector: ReflectorLike, templates: PromptTemplates, options: LearningOptions
    ) -> ACE | TraceAnalyser:
        """Return the runner.

        Args:
            client: The client of its other roles.
            reflector: Its reflector.
            templates: The prompt templates of the run.
            options: The settings of learning.
        """

    def run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        settings: Settings,
        place: SkillbookPlace,
        **options: Unpack[RunOptions],
    ) -> Results:
        """Run.

        Args:
            runner: What `runner` returned.
            inputs: What `inputs` returned.
            settings: The settings of the command line.
            place: Where the skillbook is open.
            **options: The options of the runner's `run`.
        """
        return runner.run(inputs, settings.epochs, **options)

    def workers(self, settings: Settings) -> int | None:
        """Return how many inputs are processed at once; None leaves it to the runner.

        Args:
            settings: The settings of the command line.
        """
        return settings.run.workers

    def lag(self, settings: Settings) -> int | None:
        """Return how many earlier inputs may not yet be learned from when one starts; None leaves it to the runner.

        Args:
            settings: The settings of the command line.
        """
        return settings.lag

    def can_resume(self, place: SkillbookPlace) -> bool:
        """Return whether an interrupted run can be resumed.

        Args:
            place: The skillbook that learns.
        """
        return place.keeps_history

    def problems(self, results: Results) -> Sequence[Problem]:
        """Return the parts of inputs that were not learned from, although their inputs were.

        Args:
            results: What `run` returned.
        """
        return []

    def further_results(self, results: Results, epochs: int) -> Mapping[str, object]:
        """Return what this command adds to the report, as JSON values.

        Args:
            results: What `run` returned.
            epochs: The number of passes over the inputs.
        """
        return {}

    def further_lines(self, further: Mapping[str, object]) -> Sequence[str]:
        """Return the same as lines for people.

        Args:
            further: What `further_results` returned.
        """
        return []
