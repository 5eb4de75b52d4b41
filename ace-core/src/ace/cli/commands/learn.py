"""`ace learn`: learns from recorded traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from cyclopts import Parameter

from ace._internal.managed_block import ManagedBlockError
from ace.cli.console import counted, note
from ace.cli.errors import UsageError
from ace.cli.inputs import GatheredTraces, TaskChoice
from ace.cli.learning.learning_command import LearningCommand, Results, RunFlags
from ace.cli.learning.loop_journal import LoopJournal
from ace.cli.learning.loop_options import LoopChoice, LoopFlags
from ace.cli.learning.validated_run import ValidationOptions, run_with_validation
from ace.cli.options import Flag, JsonFlag, SettingOptions, YesFlag
from ace.cli.prompt_templates import PromptTemplates
from ace.cli.settings import Settings
from ace.cli.skillbooks.intake import read_start, start_from_file
from ace.cli.skillbooks.opened_book import SkillbookPlace, tell_if_large
from ace.logs import Problem, Run
from ace.loop import InsightLog, learning_turn
from ace.protocols.observers import observing
from ace.runners import TraceGroup

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import StepProtocol
    from ace.protocols.gate import GateLike
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import AgentLike, ReflectorLike
    from ace.runners import ACE, LearningOptions, RunOptions, TraceAnalyser
    from ace.skillbook import Skillbook

__all__ = ["command"]


class LearnOptions(SettingOptions, command="learn"):
    """The settings of `ace learn`: the options of `ace.cli.settings.SETTINGS` that name this command.

    They are declared in `Settings`, `LearningSettings`, `TailSettings` and `RunSettings`.
    """


_DEFAULT_OPTIONS = LearnOptions()
_DEFAULT_RUN = RunFlags()
_DEFAULT_LOOP = LoopFlags()
_DEFAULT_VALIDATION = ValidationOptions()
_PRUNED_BELOW = -3


def command(
    path: Annotated[list[str] | None, Parameter(name="path...", negative="", allow_leading_hyphen=True)] = None,
    /,
    *,
    options: LearnOptions = _DEFAULT_OPTIONS,
    run: RunFlags = _DEFAULT_RUN,
    loop: LoopFlags = _DEFAULT_LOOP,
    validation: ValidationOptions = _DEFAULT_VALIDATION,
    again: Annotated[bool, Flag] = False,
    from_proxy: Annotated[bool, Parameter(negative="", show_default=False, show=False)] = False,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Learn from recorded traces.

    Each trace is reviewed for what went well and what went wrong, and the lessons become skills. Traces can be chat
    logs in the OpenAI or Anthropic format, JSON objects with fields such as question, answer and feedback, rows of CSV
    or TSV files, or plain text; the format is detected from the content. Inputs that cannot be read are reported, and
    the others are processed.

    For example:

        ace learn logs/
        ace learn "runs/*.jsonl" --model anthropic/claude-sonnet-4-5 --max-cost 2
        ace learn runs/ --reflector recursive --group 20
        ace learn --task bd-1,bd-2
        ace learn --watch --block AGENTS.md
        cat trace.json | ace learn - --skillbook team.db

    Args:
        path: Files, folders or glob patterns of traces; - reads standard input. [default with --task, --mode or
            --watch: execution_traces.jsonl in the folder of the setting logs]
        options: The settings.
        run: Options of the run.
        loop: Options of learning from tasks.
        validation: Options of the validation.
        again: Also process traces that this skillbook has already learned from. By default, they are skipped, and only
            the new part of a trace that has grown is processed. (A .json skillbook does not record its traces.)
        from_proxy: Learn from the runs that ace proxy has recorded in the folder of the setting logs.
        yes: Do not ask for confirmation.
        as_json: Print the report as one JSON object.
    """
    settings = run.settings(options)
    if settings.group is not None and settings.reflector != "recursive":
        raise UsageError("--group requires --reflector recursive")
    if from_proxy:
        path = [*(path or []), str(_recorded_by_proxy(settings))]
    place = SkillbookPlace(settings.skillbook)
    choice = loop.checked(path or [], settings, place, run, validation)
    if not path and not choice.is_loop:
        raise UsageError("nothing to learn from: give files or folders of traces, or --task ID")
    if not path and not choice.is_watching and not settings.trace_log.exists():
        log = str(settings.trace_log)
        raise UsageError(f"no attempts are recorded in {log!r}; record one with `ace capture`, or give the file")
    if choice.block is not None and place.file is not None and not place.file.exists():
        read_start(choice.block)  # a damaged block is reported before a skillbook is created
    command = Learn(
        again=again,
        group=settings.group,
        choice=choice,
        validation=validation.checked(settings, place, gate="score" in choice.gates),
        tasks=TaskChoice(choice.tasks),
        journal=LoopJournal(quiet=as_json),
    )
    if not as_json and not choice.is_watching:
        tell_if_large(place)
    # Imported after the first line: it takes a quarter of a second until a run can begin.
    from ace.cli.learning.run_plan import RunPlan

    plan = RunPlan(
        command=command,
        paths=path or [str(settings.trace_log)],
        settings=choice.settings(settings),
        options=run,
        assume_yes=yes,
        as_json=as_json,
    )
    if not choice.is_watching:
        return plan.carry_out()
    from ace.cli.learning.watching import watch

    with observing(command.journal):
        return watch(plan, lambda book: command.journal.begin(book, None), choice.tasks)


def _recorded_by_proxy(settings: Settings) -> Path:
    """Return the folder of the runs that `ace proxy` has recorded."""
    if not settings.proxy_runs.is_dir():
        raise UsageError(f"no runs are recorded in {str(settings.proxy_runs)!r}; `ace proxy` records them")
    return settings.proxy_runs


@dataclass(kw_only=True)
class Learn(LearningCommand):
    """Learns from recorded traces."""

    again: bool = False
    group: int | None = None
    choice: LoopChoice = field(default_factory=LoopChoice)
    validation: ValidationOptions = _DEFAULT_VALIDATION
    tasks: TaskChoice = field(default_factory=TaskChoice)
    journal: LoopJournal = field(default_factory=lambda: LoopJournal(quiet=True))
    agent: AgentLike | None = None
    """The agent of the runner, which proves skills and answers validation samples."""
    name = "learn"

    @property
    def noun(self) -> str:  # type: ignore[override]  # read only, as the others are used
        """What one input is called."""
        return "trace" if self.group is None else "group"

    @property
    def run_identity(self) -> Mapping[str, object]:
        """The size of the groups, the mode and the tasks: what was learned of others cannot be resumed."""
        group = {} if self.group is None else {"group": self.group}
        mode = {"mode": "offline"} if self.choice.is_offline else {}
        return {**group, **mode, **({"tasks": sorted(self.tasks.ids)} if self.tasks.ids else {})}

    def accepts(self, run: Run) -> bool:
        """Return whether a run is an attempt at one of the tasks, if some are named.

        Args:
            run: A run that was found.
        """
        return self.tasks.accepts(run)

    @property
    def is_about_some_inputs(self) -> bool:
        """Whether tasks were named: a line of the log that cannot be read belongs to none of them."""
        return bool(self.tasks.ids)

    def inputs(self, gathered: GatheredTraces) -> Sequence[object]:
        """Return the traces, in groups if requested."""
        self.tasks.check(is_complete=gathered.is_complete)
        if self.group is None:
            is_alone = not self.choice.is_offline
            return [replace(trace, group="") for trace in gathered.traces] if is_alone else gathered.traces
        traces = gathered.traces
        starts = range(0, len(traces), self.group)
        return [TraceGroup(tuple(traces[start : start + self.group])) for start in starts]

    def problems(self, results: Results) -> Sequence[Problem]:
        """Return the traces in groups that were not learned from."""
        return [
            Problem(item["item"], None, item["error"])
            for result in results
            if result.output is not None and result.output.reflection is not None
            for item in result.output.reflection.raw.get("rr_trace", {}).get("failed_items", ())
        ]

    def learns_once(self, place: SkillbookPlace) -> bool:
        """Return whether inputs that an earlier run has learned are skipped, which requires a store.

        Offline learning consolidates what was learned from all attempts, also from those that were learned online.
        """
        return place.keeps_history and not self.again and not self.choice.is_offline

    def why_not_once(self, place: SkillbookPlace) -> str:
        """Return a note that an existing .json skillbook does not record what it has learned from."""
        if place.keeps_history or self.again or self.choice.is_offline or place.file is None or not place.file.exists():
            return ""
        return (
            f"{place.name!r} does not record what it has learned from, so every trace is learned; a .db skillbook does"
        )

    def lag(self, settings: Settings) -> int | None:
        """Return the setting; by default, attempts at tasks are learned from one after the other.

        Args:
            settings: The settings of the command line.
        """
        return 0 if self.choice.is_loop and settings.lag is None else settings.lag

    @property
    def reads_logs(self) -> bool:
        """Whether the inputs are runs of agents."""
        return True

    @property
    def is_told_by_trace(self) -> bool:
        """Whether the decision about each trace is printed."""
        return self.choice.is_loop

    @property
    def keeps_order(self) -> bool:
        """Whether the traces stay in the order of the log; in an epoch, whole tasks are shuffled."""
        return self.choice.is_loop

    def saves_after_each_input(self, place: SkillbookPlace) -> bool:
        """Return whether the run saves the skillbook to its file; with validation, the schedule does.

        Args:
            place: The skillbook that learns.
        """
        return super().saves_after_each_input(place) and not self.validation.validate

    def can_resume(self, place: SkillbookPlace) -> bool:
        """Return whether a run can be resumed, which requires the log of its validations, if it has any."""
        return place.keeps_history and (not self.validation.validate or place.validation_log is not None)

    def runner(
        self, client: LLMClientLike, reflector: ReflectorLike, templates: PromptTemplates, options: LearningOptions
    ) -> TraceAnalyser:
        """Return a runner with a reflector, a skill manager, and an agent that proves the skills."""
        from ace.roles import agent_for, skill_manager_for
        from ace.runners import TraceAnalyser

        self.agent = agent = agent_for(client, templates.agent)
        book = options["skillbook"]
        assert book is not None
        if self.choice.block is not None and (started := start_from_file(book, self.choice.block)):
            note(f"ace: the skillbook starts with {counted(started, 'skill')} of {self.choice.block}")
        options = {**options, "proof_agent": agent, "gate": self._gate(agent, book)}
        runner = TraceAnalyser.from_roles(
            reflector=reflector, skill_manager=skill_manager_for(client, templates.skill_manager), **options
        )
        _complete(runner)
        return runner

    def further_options(self, settings: Settings, place: SkillbookPlace) -> LearningOptions:
        """Return the limits of learning, and where insights and artifacts are written."""
        options: LearningOptions = {"max_operations": self.choice.max_operations}
        if not self.choice.has_insights:
            return options
        from ace.deduplication.detector import embedder_for
        from ace.protocols.deduplication import DeduplicationConfig

        log = InsightLog(settings.insights, embedder=embedder_for(DeduplicationConfig()))
        options |= {"insights": log, "min_confidence": self.choice.min_confidence}
        if place.keeps_history:
            options |= {"artifacts": settings.artifacts}
        return options

    def further_steps(self, book: Skillbook) -> Sequence[StepProtocol[ACEStepContext]]:
        """Return the steps that write the managed block and that prune after each epoch."""
        from ace.steps import PersistStep, PruneStep

        steps: list[StepProtocol[ACEStepContext]] = []
        if self.choice.is_offline:
            steps.append(PruneStep(book, net_below=_PRUNED_BELOW))
        if self.choice.block is not None:
            steps.append(PersistStep(self.choice.block, book))
        return steps

    def _gate(self, agent: AgentLike, book: Skillbook) -> GateLike | None:
        """Return the gate that judges each batch; None without one. The score is measured between traces."""
        from ace.evaluation import AllGates, CaseGate, CounterGate

        names: set[str] = set(self.choice.gates)
        if "auto" in names:
            names.add("cases" if any(skill.cases for skill in book.skills()) else "counters")
        gates: list[GateLike] = [CounterGate()] if "counters" in names else []
        if "cases" in names:
            gates.append(CaseGate(agent))
        if len(gates) > 1:
            return AllGates(gates)
        return gates[0] if gates else None

    def run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        settings: Settings,
        place: SkillbookPlace,
        **options: Unpack[RunOptions],
    ) -> Results:
        """Run, with validations if requested, and print the decision about each trace."""
        from ace.steps import InsightOutcomeStep, PersistStep, PruneStep

        self.journal.begin(runner.skillbook, len(inputs) * settings.epochs)
        options = {**options, "stop_idle": self.choice.is_offline}
        if self.choice.is_loop:
            with self._turn(settings, place, options) as is_mine, observing(self.journal):
                results = self._run(runner, inputs, settings, place, options) if is_mine else []
        else:
            results = self._run(runner, inputs, settings, place, options)
        for step in runner.pipeline.steps:
            if isinstance(step, PruneStep):
                self.journal.pruned = step.pruned
            elif isinstance(step, InsightOutcomeStep):  # the last validation may have rolled back what it noted
                step.end_run(0)
                self.journal.note_pending(step.log)
            elif isinstance(step, PersistStep):
                step.write()
        return results

    def _turn(self, settings: Settings, place: SkillbookPlace, run: RunOptions) -> AbstractContextManager[bool]:
        """Wait until no other process learns from tasks into the skillbook. A dry run has a copy of its own."""
        if place.location != settings.skillbook:
            return nullcontext(True)
        return learning_turn(
            settings.log_folder,
            place.location,
            cancel_token=run.get("cancel_token"),
            on_wait=lambda: note("ace: waiting for another process that learns from tasks into this skillbook"),
        )

    def _run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        settings: Settings,
        place: SkillbookPlace,
        options: RunOptions,
    ) -> Results:
        if not self.validation.validate:
            return super().run(runner, inputs, settings, place, **options)
        gate = "score" in self.choice.gates
        how = (settings, place, self.validation)
        assert self.agent is not None
        return run_with_validation(runner, self.agent, inputs, *how, gate=gate, **options)

    def further_results(self, results: Results, epochs: int) -> Mapping[str, object]:
        """Return the decisions about the traces of tasks, and the counts of each epoch."""
        return self.journal.as_json() if self.choice.is_loop else {}

    def further_lines(self, further: Mapping[str, object]) -> Sequence[str]:
        """Return one line for each epoch."""
        return self.journal.summary()


def _complete(runner: TraceAnalyser) -> None:
    """Write what an earlier process has not written because it was killed, and check that it can be written.

    Raises:
        UsageError: A file cannot be written.
    """
    from ace.steps import ArtifactStep, InsightOutcomeStep, PersistStep

    try:
        for step in runner.pipeline.steps:
            if isinstance(step, ArtifactStep | InsightOutcomeStep):
                step.complete()
            elif isinstance(step, PersistStep):
                step.write()
    except (ManagedBlockError, OSError) as error:
        raise UsageError(str(error)) from error
