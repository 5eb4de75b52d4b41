"""`LearningCommand`: what differs between the commands that learn, and `RunFlags`, which they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from cyclopts import Parameter

from ace.cli.errors import UsageError, check_output_file
from ace.cli.inputs import GatheredTraces, InputProblem
from ace.cli.options import Flag, check_from_one
from ace.cli.prompt_templates import PromptTemplates
from ace.cli.settings import Settings, SettingValue
from ace.cli.skillbooks.opening import SkillbookPlace
from ace.skill import Provenance, Unproven
from ace.steps.leakage_guard import GuardedKind

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult, StepProtocol
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import ReflectorLike
    from ace.runners import ACE, LearningOptions, RecordedTrace, RunOptions, TraceAnalyser
    from ace.skillbook import Skillbook

__all__ = ["LearningCommand", "Results", "RunFlags"]

Results = Sequence["SampleResult[ACEStepContext]"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Options of the run."""

    config: Path | None = None
    """Read settings from this TOML or YAML file, which overrides your own file and that of the project; it is trusted
    like the options. The settings of the run may be in a table named learning."""
    epochs: int | None = None
    """The number of passes over the inputs. [env: ACE_EPOCHS] [default: 1]"""
    shuffle: int | None = None
    """Shuffle the inputs in each epoch, with this random seed. [env: ACE_SHUFFLE]"""
    reflection_window: int | None = None
    """Show the agent and the reflector this many of the most recent reflections. [env: ACE_REFLECTION_WINDOW]
    [default: 0]"""
    workers: int | None = None
    """The number of inputs to process concurrently. [env: ACE_WORKERS]"""
    reflections_per_call: int | None = None
    """Request the changes for up to this many reflections in one call, to save calls and tokens; at most 16.
    [env: ACE_REFLECTIONS_PER_CALL] [default: 1]"""
    lag: int | None = None
    """Start an input while at most this many earlier ones have not been learned from; 0 makes runs reproducible.
    [env: ACE_LAG]"""
    limit: int | None = None
    """Process at most this many inputs."""
    max_cost: float | None = None
    """Stop starting new inputs once the run has cost this much (USD). [env: ACE_MAX_COST]"""
    fail_fast: Annotated[bool | None, Parameter(negative="--no-fail-fast", show_default=False)] = None
    """Stop at the first input that fails. [env: ACE_FAIL_FAST]"""
    learn_without_truth: Annotated[bool | None, Parameter(negative="--no-learn-without-truth", show_default=False)] = (
        None
    )
    """Also add and change skills because of unverified answers; by default, these only lead to judgements of skills.
    [env: ACE_LEARN_WITHOUT_TRUTH]"""
    checkpoint_dir: Path | None = None
    """Write copies of the skillbook to this folder during the run. [env: ACE_CHECKPOINT_DIR]"""
    checkpoint_interval: int | None = None
    """The number of inputs between two copies. [env: ACE_CHECKPOINT_INTERVAL] [default: 10]"""
    prompts: Path | None = None
    """A folder of prompt templates to use: any of agent.md, reflector.md and skill_manager.md. [env: ACE_PROMPTS]"""
    allow: Annotated[list[GuardedKind], Parameter(negative="", show_default=False)] = field(default_factory=list)
    """Turn off a safeguard: allow personal data (or one class of it), secrets, or copies of the correct answer or of a
    prompt, which are otherwise redacted or rejected. [env: ACE_ALLOW]"""
    provenance: Annotated[Provenance | None, Parameter(show_default=False)] = None
    """What to record about the source of a skill: full, or ids, which records the name of the trace but none of its
    text, so skills have no cases. [env: ACE_PROVENANCE] [default: full]"""
    prove: Annotated[bool | None, Parameter(negative="--no-prove", show_default=False)] = None
    """Test each new skill on the correction that it was learned from before keeping it. On by default, except with
    --provenance ids."""
    unproven: Annotated[Unproven, Parameter(show_default=False)] = "keep"
    """What to do with a skill that fails this test in every wording that was tried: keep or drop.
    [default: keep]"""
    no_final_test: Annotated[bool, Flag] = False
    """Skip the final test, which repeats the corrections of this run whose skills in the prompt have changed since."""
    reflector: Annotated[Literal["single", "recursive"], Parameter(show_default=False)] = "single"
    """How a trace is reviewed: in one prompt (single), or with code that the model writes (recursive), which takes
    several calls per trace, and can search traces of any length. recursive requires the extra ace-core[rr].
    [default: single]"""
    max_iterations: int | None = None
    """The maximum number of turns of a recursive review. [default: 20]"""
    no_merge: Annotated[bool, Flag] = False
    """Do not merge duplicate skills."""
    results: Path | None = None
    """When the run has ended, write its configuration, the outcome of each epoch, the cost and the skillbook to this
    JSON file."""
    log: Path | None = None
    """Append the events of the run to this file, one JSON object per line. At 10 MB, it is renamed to NAME.1, and three
    older files are kept."""
    resume: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs: retry failed inputs and process the remaining ones, without
    repeating paid calls."""
    give_up: Annotated[bool, Flag] = False
    """Resume the unfinished run over these inputs, but do not retry failed inputs."""
    forget_answers: Annotated[bool, Flag] = False
    """Delete the recorded answers of models from the skillbook when the run is complete. Always done with --provenance
    ids."""
    dry_run: Annotated[bool, Flag] = False
    """Print the report, but write nothing."""

    def reflector_for(self, client: LLMClientLike, templates: PromptTemplates) -> ReflectorLike:
        """Return the reflector.

        Args:
            client: Its client.
            templates: The prompt templates of the run.

        Raises:
            UsageError: The folder of templates contains one for the single reflector, and `recursive` was chosen.
        """
        if self.reflector == "recursive":
            from ace.rr import RRConfig, RRStep

            if templates.reflector is not None:
                raise UsageError("prompts: --reflector recursive cannot use reflector.md; remove it from the folder")
            turns = RRConfig.max_iterations if self.max_iterations is None else self.max_iterations
            return RRStep(client, RRConfig(max_iterations=turns))
        from ace.roles import reflector_for

        return reflector_for(client, templates.reflector)

    def flags(self) -> dict[str, SettingValue]:
        """Return the values that can also be settings, by name.

        Raises:
            UsageError: Another option is out of range, or cannot be used.
        """
        check_from_one({"--limit": self.limit, "--max-iterations": self.max_iterations})
        if self.config is not None and not self.config.is_file():
            raise UsageError(f"--config: no such file: {str(self.config)!r}")
        check_output_file("--results", self.results)
        check_output_file("--log", self.log)
        if self.reflector == "recursive" and find_spec("pydantic_monty") is None:
            raise UsageError("--reflector recursive needs the sandbox: install the extra, ace-core[rr]")
        if self.reflector != "recursive" and self.max_iterations is not None:
            raise UsageError("--max-iterations requires --reflector recursive")
        return {
            "epochs": self.epochs,
            "shuffle": self.shuffle,
            "reflection_window": self.reflection_window,
            "workers": self.workers,
            "lag": self.lag,
            "max_cost": self.max_cost,
            "allow": ",".join(self.allow) or None,
            "provenance": self.provenance,
            "fail_fast": self.fail_fast,
            "learn_without_truth": self.learn_without_truth,
            "checkpoint_dir": None if self.checkpoint_dir is None else str(self.checkpoint_dir),
            "checkpoint_interval": self.checkpoint_interval,
            "prompts": None if self.prompts is None else str(self.prompts),
            "reflections_per_call": self.reflections_per_call,
        }


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

    def further_options(self, settings: Settings, place: SkillbookPlace, *, is_dry_run: bool) -> LearningOptions:
        """Return settings of learning that only this command has.

        Args:
            settings: The settings of the command line.
            place: Where the skillbook is open; in a dry run, a copy in a temporary folder.
            is_dry_run: Whether nothing is written.
        """
        return {}

    def further_steps(self, book: Skillbook, *, is_dry_run: bool) -> Sequence[StepProtocol[ACEStepContext]]:
        """Return steps that only this command has.

        Args:
            book: The skillbook that learns.
            is_dry_run: Whether nothing is written.
        """
        return []

    @property
    def is_told_by_trace(self) -> bool:
        """Whether the command prints the result of each input, so that no progress is shown."""
        return False

    @property
    def keeps_order(self) -> bool:
        """Whether a random order is one of the runner, not one in which the inputs are taken."""
        return False

    def accepts(self, trace: RecordedTrace) -> bool:
        """Return whether a trace is learned from.

        Args:
            trace: A trace that was found.
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
        return settings.workers

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

    def problems(self, results: Results) -> Sequence[InputProblem]:
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
