"""`OpenClaw`, the runner that learns from the stored sessions of OpenClaw."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypedDict, Unpack

from ace.calls import own_twin
from ace.context import ACEStepContext
from ace.integrations import Record, checked_arguments, text_in
from ace.pipeline import PipelineCancelled
from ace.runners import (
    ACERunner,
    LearningOptions,
    LearningSettings,
    RunOptions,
    StepOptions,
    has_run,
    learning_client,
)
from ace_openclaw.found_turns import Source, found_turns
from ace_openclaw.home import state_folder
from ace_openclaw.learning_report import LearningReport
from ace_openclaw.workspace import write_skills

if TYPE_CHECKING:
    from ace.pipeline import SampleResult, StepProtocol
    from ace.protocols import LLMClientLike, ReflectorLike, SkillManagerLike
    from ace.skillbook import Skillbook

__all__ = ["RUN_ID", "OnResult", "OpenClaw"]

RUN_ID = "sessions"
"""All sessions are one run, which is resumed each time: its record in the store of the skillbook contains exactly the
turns that were learned from, and the answers of the model that would be lost in a crash."""


OnResult = Callable[["SampleResult[ACEStepContext]"], None]


class OpenClawOptions(TypedDict, total=False):
    """The keyword arguments of `OpenClaw.from_roles`, besides those of every runner."""

    state_dir: str | os.PathLike[str] | None
    workspace: str | os.PathLike[str] | None
    idle_minutes: float


_DECIDED: Final = ("once", "resume", "run_id", "wait")
"""Options of a run that this runner sets. No turn is learned twice, the one run is always resumed, and it waits for the
background work, because `report` and the files in the workspace describe the outcome."""


class OpenClaw(ACERunner):
    """Learns from each turn of OpenClaw's stored sessions once.

    `run` takes session files, folders of OpenClaw and ids of agents. If a session has grown, only its new turns are
    learned. A skillbook that is a store (`.db`) records which turns were learned; with other skillbooks, only the
    runner itself knows them. After a run, `report` describes its outcome.

    Example:
        >>> from ace import LiteLLMClient
        >>> runner = OpenClaw.from_model(ace_llm=LiteLLMClient("gpt-4o-mini"))
        >>> [type(step).__name__ for step in runner.pipeline.steps]
        ['ReflectStep', 'TagStep', 'UpdateStep', 'ApplyStep']
    """

    integration: ClassVar[str] = "openclaw"
    _workers_reflect: ClassVar[bool] = True

    report: LearningReport
    """The outcome of the last run."""
    workspace: Path | None
    """The folder to which the skills are written for OpenClaw."""
    state_dir: Path
    """The folder of OpenClaw."""
    idle_minutes: float
    """The time without an event after which a turn counts as ended, in minutes."""
    _learned: set[str]

    @classmethod
    @checked_arguments(StepOptions)
    def build_steps(
        cls,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        **options: Unpack[StepOptions],
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change.

        Args:
            reflector: Analyses a turn.
            skill_manager: Turns the analysis into changes to the skillbook.
            skillbook: The skillbook that the steps change; a runner of these steps must have the same one.
            **options: The other arguments of `from_roles`.
        """
        settings = LearningSettings(skillbook=skillbook, **options)
        return settings.tail(reflector, skill_manager, skillbook)

    @classmethod
    @checked_arguments(LearningOptions)
    def from_roles(
        cls,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        state_dir: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        idle_minutes: float = 10,
        **options: Unpack[LearningOptions],
    ) -> Self:
        """Create a runner from two roles.

        Args:
            reflector: Analyses a turn.
            skill_manager: Turns the analysis into changes to the skillbook.
            state_dir: The folder of OpenClaw; by default that of `OPENCLAW_STATE_DIR`, else `~/.openclaw`.
            workspace: The folder to which the skills are written: the top skills to a managed block of its AGENTS.md,
                and the whole skillbook to `skills/ace-skillbook`. By default they are not written.
            idle_minutes: The time without an event after which a turn without an answer counts as ended, in minutes.
                Until then, it is left to a later run.
            **options: skillbook or skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir,
                checkpoint_interval, extra_steps; see `LearningSettings`.

        Raises:
            ValueError: Two options exclude each other.
        """
        settings = LearningSettings(**options)
        skillbook = settings.book()
        runner = cls._composed(settings.tail(reflector, skill_manager, skillbook), skillbook, settings)
        runner.report = LearningReport()
        runner.workspace = None if workspace is None else Path(workspace)
        runner.state_dir = state_folder() if state_dir is None else Path(state_dir)
        runner.idle_minutes = idle_minutes
        runner._learned = set()
        return runner

    @classmethod
    @checked_arguments(LearningOptions, OpenClawOptions)
    def from_client(cls, client: LLMClientLike, **options: Any) -> Self:
        """Create a runner whose two roles use one client. The options are those of `from_roles`."""
        from ace.roles import reflector_for, skill_manager_for

        return cls.from_roles(reflector=reflector_for(client), skill_manager=skill_manager_for(client), **options)

    @classmethod
    @checked_arguments(LearningOptions, OpenClawOptions)
    def from_model(
        cls,
        *,
        ace_model: str = "gpt-4o-mini",
        ace_max_tokens: int = 2048,
        ace_llm: LLMClientLike | None = None,
        api_base: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        **options: Any,
    ) -> Self:
        """Create a runner whose two roles use one model.

        Args:
            ace_model: The model that learns.
            ace_max_tokens: The maximum length of its answers, in tokens.
            ace_llm: A client to use instead of these.
            api_base: The base URL of an OpenAI-compatible server for the model that learns.
            api_key: Its API key; by default it is read from the environment.
            temperature: Its sampling temperature; by default that of its client.
            **options: Those of `from_roles`.

        Raises:
            TypeError: An option does not exist, or configures a client although `ace_llm` is given.
        """
        client_options = {"api_base": api_base, "api_key": api_key, "temperature": temperature}
        settings = {name: value for name, value in client_options.items() if value is not None}
        client = learning_client(
            cls, ace_model=ace_model, ace_max_tokens=ace_max_tokens, ace_llm=ace_llm, settings=settings
        )
        return cls.from_client(client, **options)

    @checked_arguments(RunOptions)
    def run(
        self,
        sources: Iterable[Source] | None = None,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Learn from all new turns, and write the skills to the workspace.

        Args:
            sources: Session files, folders of OpenClaw, ids of agents, exported sessions, or `StoredSession`
                objects; by default everything in the folder of OpenClaw.
            **options: Those of every run (`ace.runners.RunOptions`) except once, resume, run_id and wait, which this
                runner sets.

        Returns:
            The results of the new turns. `report.problems` lists what could not be read or learned.

        Raises:
            TypeError: The sources are a single path instead of a list, or an option does not exist or is set here.
            ValueError: An option is outside its range.
            ManagedBlockError: The marks in AGENTS.md do not form one block; the turns were learned nevertheless.
            SkillbookError: The skillbook cannot be written; what was learned before is kept.
            OSError: A file cannot be written.
        """
        turns, arguments = self._prepared(sources, options)
        return self._ended(self._run(turns, **arguments))

    @checked_arguments(RunOptions)
    async def arun(
        self,
        sources: Iterable[Source] | None = None,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Like `run`, for asynchronous code; see `ACERunner.arun`. Sessions are read in a thread.

        Args:
            sources: Those of `run`.
            **options: Those of `run`.
        """
        import asyncio  # already loaded by the caller; importing this module must not load it

        if own_twin(self, "run") is None:  # a subclass overrides `run`
            return await self._run_in_thread(sources, **options)
        turns, arguments = await asyncio.to_thread(self._prepared, sources, options)
        results = await self._arun(turns, **arguments)
        return await asyncio.to_thread(self._ended, results)

    def _prepared(
        self, sources: Iterable[Source] | None, options: RunOptions
    ) -> tuple[list[dict[str, object]], dict[str, Any]]:
        """Read the sessions, and return their turns and the arguments of the run over them."""
        if isinstance(sources, str | bytes | os.PathLike):
            raise TypeError(f"run takes a list of sources, not one {type(sources).__name__}: run([...])")
        if decided := [name for name in _DECIDED if name in options]:
            raise TypeError(f"{type(self).__name__}.run sets {decided[0]} itself; omit it")
        self.report = LearningReport()
        listed = [self.state_dir] if sources is None else sources
        turns = self._without_known(found_turns(listed, self.state_dir, self.idle_minutes, self.report))
        callbacks = {
            "on_sample_done": _of_new_turns(options.get("on_sample_done")),
            "on_sample_end": _of_new_turns(options.get("on_sample_end")),
        }
        again = {"run_id": RUN_ID, "resume": has_run(self.skillbook, RUN_ID)}
        return turns, {"epochs": 1, **options, **callbacks, **again}

    def _ended(self, results: Sequence[SampleResult[ACEStepContext]]) -> list[SampleResult[ACEStepContext]]:
        """Count the turns, write the skills to the workspace, and return the results of the new turns."""
        new = [self._counted(result) for result in results]
        if self.workspace is not None:
            write_skills(self.workspace, self.skillbook)
        return [result for result in new if result is not None]

    def _build_context(self, item: Any, **kwargs: Any) -> ACEStepContext:
        return super()._build_context(item, **kwargs).replace(trace=item)

    def _without_known(self, turns: Sequence[dict[str, object]]) -> list[dict[str, object]]:
        """Remove the turns that this runner has already learned from, for a skillbook that does not record them."""
        new = [turn for turn in turns if text_in(turn, "trace_id") not in self._learned]
        self.report.turns_known += len(turns) - len(new)
        return new

    def _counted(self, result: SampleResult[ACEStepContext]) -> SampleResult[ACEStepContext] | None:
        """Count a turn, and return its result if it is new."""
        turn: Record = result.sample
        name = text_in(turn, "trace_id")
        if isinstance(result.error, PipelineCancelled):
            self.report.turns_unfinished += 1
        elif result.error is not None:
            self.report.problems.append(f"{name}: {result.failed_at}: {result.error}")
        elif result.output is not None and result.output.metadata.get("already_learned"):
            self.report.turns_known += 1
            return None
        else:
            self.report.turns_learned += 1
            if self.skillbook.store is None:
                self._learned.add(name)
        return result


def _of_new_turns(callback: OnResult | None) -> OnResult | None:
    """Return a callback that is not called for turns that had been learned before."""
    if callback is None or not callable(callback):
        return callback  # the run rejects it

    def ended(result: SampleResult[ACEStepContext]) -> None:
        if result.output is None or not result.output.metadata.get("already_learned"):
            callback(result)

    return ended
