"""`ace learn`: learns from recorded traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ace.cli.console import note
from ace.cli.errors import UsageError
from ace.cli.inputs import GatheredTraces, InputProblem, TaskChoice, event_files, task_ids
from ace.cli.learning.learning_command import LearningCommand, Results, RunFlags
from ace.cli.learning.run_plan import RunPlan
from ace.cli.options import Flag, JsonFlag, ModelOptions, SkillbookOption, YesFlag, check_from_one
from ace.cli.prompt_templates import PromptTemplates
from ace.cli.settings import Settings, load_settings
from ace.cli.skillbooks.opening import SkillbookPlace
from ace.runners import RecordedTrace, TraceGroup

if TYPE_CHECKING:
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import ReflectorLike
    from ace.runners import LearningOptions, TraceAnalyser

__all__ = ["command"]

_DEFAULT_MODEL = ModelOptions()
_DEFAULT_RUN = RunFlags()
_MOST_CHANGES = 3


def command(
    path: Annotated[list[str] | None, Parameter(name="path...", negative="", allow_leading_hyphen=True)] = None,
    /,
    *,
    skillbook: SkillbookOption = None,
    model_options: ModelOptions = _DEFAULT_MODEL,
    run: RunFlags = _DEFAULT_RUN,
    group: int | None = None,
    task: Annotated[list[str] | None, Parameter(name=["--task", "--beads"], negative="")] = None,
    gate: Literal["counters", "none"] | None = None,
    max_operations: int | None = None,
    again: Annotated[bool, Flag] = False,
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
        cat trace.json | ace learn - --skillbook team.db

    Args:
        path: Files, folders or glob patterns of traces; - reads standard input. With --task, it may be omitted; then
            the trace log execution_traces.jsonl in the folder of the setting logs is read.
        skillbook: The skillbook: .db keeps a history, .json is a plain file. [env: ACE_SKILLBOOK] [default: skills.db]
        model_options: Options of the model.
        run: Options of the run.
        group: Review this many traces together, to find what shows only in several of them. Needs --reflector
            recursive.
        task: Learn only from the attempts at these tasks in a trace log; several ids are separated by commas. They are
            learned from one after the other.
        gate: What decides whether the changes from a trace are kept. counters refuses them if skills that were judged
            helpful would be lost; it needs a .db skillbook. [default: none; counters with --task]
        max_operations: Apply at most this many changes from one trace, judgements of skills not counted. [default: no
            limit; 3 with --task]
        again: Also process traces that this skillbook has already learned from. By default they are skipped, and only
            the new part of a trace that has grown is processed. (A .json skillbook does not record its traces.)
        yes: Do not ask for confirmation.
        as_json: Print the report as one JSON object.
    """
    check_from_one({"--group": group, "--max-operations": max_operations})
    if group is not None and run.reflector != "recursive":
        raise UsageError("--group is an option of --reflector recursive")
    settings = load_settings({**model_options.flags(), **run.flags(), "skillbook": skillbook}, config=run.config)
    tasks = task_ids(task or [])
    if not path and not tasks:
        raise UsageError("nothing to learn from: give files or folders of traces, or --task ID")
    gate = gate or ("counters" if tasks else "none")
    if gate != "none" and not SkillbookPlace(settings.skillbook).keeps_history:
        raise UsageError(
            f"--gate {gate} needs a skillbook with a history, and {settings.skillbook!r} has none; "
            "give a skillbook that ends in .db"
        )
    plan = RunPlan(
        command=Learn(again, group, gate, max_operations or (_MOST_CHANGES if tasks else None), TaskChoice(tasks)),
        paths=path or [str(settings.trace_log)],
        settings=settings,
        options=run,
        assume_yes=yes,
        as_json=as_json,
    )
    return plan.carry_out()


@dataclass(frozen=True)
class Learn(LearningCommand):
    """Learns from recorded traces."""

    again: bool
    group: int | None = None
    gate: Literal["counters", "none"] = "none"
    max_operations: int | None = None
    tasks: TaskChoice = field(default_factory=TaskChoice)
    name = "learn"

    @property
    def noun(self) -> str:  # type: ignore[override]  # read only, as the others are used
        """What one input is called."""
        return "trace" if self.group is None else "group"

    @property
    def run_identity(self) -> Mapping[str, object]:
        """The size of the groups and the tasks: what was learned of others cannot be resumed."""
        group = {} if self.group is None else {"group": self.group}
        return {**group, "tasks": sorted(self.tasks.ids)} if self.tasks.ids else group

    def accepts(self, trace: RecordedTrace) -> bool:
        """Return whether a trace is an attempt at one of the tasks, if some are named.

        Args:
            trace: A trace that was found.
        """
        return self.tasks.accepts(trace)

    def inputs(self, gathered: GatheredTraces) -> Sequence[object]:
        """Return the traces, in groups if requested, with a note on files that a plugin would read better."""
        self.tasks.check(is_complete=gathered.is_complete)
        files = event_files(gathered.traces)
        if files:
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            note(
                f"ace: the lines of {files[0]}{more} look like the events of one session, but each line is read as a "
                "trace of its own; a plugin for this format would read the session as a whole (`ace plugins` lists the "
                "installed ones)"
            )
        if self.group is None:
            return gathered.traces
        traces = gathered.traces
        starts = range(0, len(traces), self.group)
        return [TraceGroup(tuple(traces[start : start + self.group])) for start in starts]

    def problems(self, results: Results) -> Sequence[InputProblem]:
        """Return the traces in groups that were not learned from."""
        return [
            InputProblem(item["item"], item["error"])
            for result in results
            if result.output is not None and result.output.reflection is not None
            for item in result.output.reflection.raw.get("rr_trace", {}).get("failed_items", ())
        ]

    def learns_once(self, place: SkillbookPlace) -> bool:
        """Return whether inputs that an earlier run has learned are skipped, which requires a store."""
        return place.keeps_history and not self.again

    def why_not_once(self, place: SkillbookPlace) -> str:
        """Return a note that an existing .json skillbook does not record what it has learned from."""
        if place.keeps_history or self.again or place.file is None or not place.file.exists():
            return ""
        return (
            f"{place.name!r} does not record what it has learned from, so every trace is learned; a .db skillbook does"
        )

    def lag(self, settings: Settings) -> int | None:
        """Return the setting; by default, attempts at tasks are learned from one after the other.

        Args:
            settings: The settings of the command line.
        """
        return 0 if self.tasks.ids and settings.lag is None else settings.lag

    def runner(
        self, client: LLMClientLike, reflector: ReflectorLike, templates: PromptTemplates, options: LearningOptions
    ) -> TraceAnalyser:
        """Return a runner with a reflector, a skill manager, and an agent that proves the skills."""
        from ace.evaluation import CounterGate
        from ace.roles import agent_for, skill_manager_for
        from ace.runners import TraceAnalyser

        gate = CounterGate() if self.gate == "counters" else None
        limit = self.max_operations
        options = {**options, "proof_agent": agent_for(client, templates.agent), "gate": gate, "max_operations": limit}
        return TraceAnalyser.from_roles(
            reflector=reflector, skill_manager=skill_manager_for(client, templates.skill_manager), **options
        )
