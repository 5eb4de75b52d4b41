"""`OpenClaw`: learns from the stored sessions of OpenClaw."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from ace.context import ACEStepContext
from ace.runners import ACERunner, LearningOptions, LearningSettings
from ace.skillbook import has_scheme
from ace_openclaw.home import session_files, state_folder
from ace_openclaw.json_fields import mapping_in, text_in
from ace_openclaw.learned import LearnedTurns, NoteLearnedStep
from ace_openclaw.reading.database import schema_note
from ace_openclaw.reading.session import SessionReadError, StoredSession
from ace_openclaw.reading.sources import read_sessions
from ace_openclaw.to_trace import events_to_turn_traces
from ace_openclaw.workspace import write_skills

if TYPE_CHECKING:
    from ace.pipeline import CancellationToken, SampleResult, StepProtocol
    from ace.protocols import LLMClientLike, ReflectorLike, SkillManagerLike

__all__ = ["LEARNED_FILE", "LearningReport", "OpenClaw"]

LEARNED_FILE = "openclaw-learned.jsonl"
"""The file that notes what was learned from, beside the skillbook."""


@dataclass
class LearningReport:
    """What came of a run."""

    sessions: int = 0
    """How many sessions were looked at."""
    turns_learned: int = 0
    turns_known: int = 0
    """Turns that had been learned from before."""
    turns_unfinished: int = 0
    """Turns that are still under way; the next run looks at them again."""
    skipped_lines: int = 0
    """Lines or rows that hold no event, such as one that was cut."""
    unknown_events: int = 0
    """Events of a type that is not known here."""
    problems: list[str] = field(default_factory=list)
    """What could not be learned from, each with the reason."""


class OpenClaw(ACERunner):
    """Learns from the stored sessions of OpenClaw, from each turn once.

    `run` takes session files, folders of OpenClaw and ids of agents. What was learned from is noted beside the
    skillbook, so a session that has grown is new only in its new turns. After a run, `report` tells what came of it.

    Example:
        >>> from ace import LiteLLMClient
        >>> runner = OpenClaw.from_model(ace_llm=LiteLLMClient("gpt-4o-mini"))
        >>> [type(step).__name__ for step in runner.pipeline.steps]
        ['ReflectStep', 'TagStep', 'UpdateStep', 'ApplyStep', 'NoteLearnedStep']
    """

    integration: ClassVar[str] = "openclaw"

    learned: LearnedTurns
    """What was learned from."""
    report: LearningReport
    """What came of the last run."""
    workspace: Path | None
    """The folder in which the skills are left for OpenClaw."""
    state_dir: Path
    """The folder of OpenClaw."""
    idle_minutes: float
    """After how long without an event a turn counts as ended."""

    @classmethod
    def build_steps(
        cls,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        learned_path: str | os.PathLike[str] | None = None,
        **options: Unpack[LearningOptions],
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change."""
        settings = _settings(options)
        tail = settings.tail(reflector, skill_manager, settings.book())
        return [*tail, NoteLearnedStep(LearnedTurns(_learned_path(learned_path, settings)))]

    @classmethod
    def from_roles(
        cls,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        state_dir: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        learned_path: str | os.PathLike[str] | None = None,
        idle_minutes: float = 10,
        **options: Unpack[LearningOptions],
    ) -> Self:
        """Make a runner of two roles.

        Args:
            reflector: Who finds out what a turn teaches.
            skill_manager: Who turns that into operations.
            state_dir: The folder of OpenClaw; by default that of `OPENCLAW_STATE_DIR`, else `~/.openclaw`.
            workspace: The folder in which the skills are left: the top skills in a marked block of its AGENTS.md, the
                whole book in `skills/ace-skillbook`; by default nowhere.
            learned_path: The file that notes what was learned from; by default `openclaw-learned.jsonl` beside
                the file of skillbook_path. Without both, the runner remembers it as long as it lives.
            idle_minutes: After how long without an event a turn without an answer counts as ended. Until then it is
                left to a later run.
            **options: skillbook or skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir,
                checkpoint_interval, extra_steps; see `LearningSettings`.

        Raises:
            ValueError: Two options exclude each other.
        """
        settings = _settings(options)
        skillbook = settings.book()
        learned = LearnedTurns(_learned_path(learned_path, settings))
        steps = [*settings.tail(reflector, skill_manager, skillbook), NoteLearnedStep(learned)]
        runner = cls._composed(steps, skillbook, settings)
        runner.learned = learned
        runner.report = LearningReport()
        runner.workspace = None if workspace is None else Path(workspace)
        runner.state_dir = state_folder() if state_dir is None else Path(state_dir)
        runner.idle_minutes = idle_minutes
        return runner

    @classmethod
    def from_model(
        cls,
        *,
        ace_model: str = "gpt-4o-mini",
        ace_max_tokens: int = 2048,
        ace_llm: LLMClientLike | None = None,
        **options: Any,
    ) -> Self:
        """Make a runner whose two roles use one model.

        Args:
            ace_model: The model that learns.
            ace_max_tokens: Its longest answer, in tokens.
            ace_llm: A client that is taken instead of them.
            **options: Those of `from_roles`.
        """
        from ace.implementations import Reflector, SkillManager
        from ace.providers import LiteLLMClient

        client = LiteLLMClient(ace_model, max_tokens=ace_max_tokens) if ace_llm is None else ace_llm
        return cls.from_roles(reflector=Reflector(client), skill_manager=SkillManager(client), **options)

    def run(
        self,
        sources: Iterable[str | os.PathLike[str] | StoredSession] | None = None,
        *,
        lag: int | None = None,
        cancel_token: CancellationToken | None = None,
        max_cost: float | None = None,
    ) -> list[SampleResult[ACEStepContext]]:
        """Learn from all turns that are new, and leave the skills in the workspace.

        Args:
            sources: Session files, folders of OpenClaw, ids of agents, exported sessions, or sessions that were read;
                by default everything in the folder of OpenClaw.
            lag: How many earlier turns may not be learned yet when one begins; 0 is strictly online.
            cancel_token: Stops the run; what is left is learned from by the next one.
            max_cost: US dollars. When the model calls have cost so much, no further turn begins.

        Returns:
            The results of the new turns. What could not be read or learned stands in `report.problems`.

        Raises:
            TypeError: The sources are one path, and no list of them.
            MarkedBlockError: The marks in AGENTS.md do not make one block; everything was learned nevertheless.
            OSError: A file cannot be written.
        """
        if isinstance(sources, str | bytes | os.PathLike):
            raise TypeError(f"run takes a list of sources, not one {type(sources).__name__}: run([...])")
        self.report = LearningReport()
        given = [self.state_dir] if sources is None else list(sources)
        new = self._new_traces(given)
        results = self._run(new, epochs=1, wait=True, most_under_way=lag, cancel_token=cancel_token, max_cost=max_cost)
        for trace, result in zip(new, results, strict=True):
            if result.error is None:
                self.report.turns_learned += 1
            else:
                place = text_in(mapping_in(trace, "metadata"), "place")
                self.report.problems.append(f"{place}: {result.failed_at}: {result.error}")
        if self.workspace is not None:
            write_skills(self.workspace, self.skillbook)
        return results

    def _build_context(self, item: Any, **kwargs: Any) -> ACEStepContext:
        return super()._build_context(item, **kwargs).replace(trace=item)

    def _new_traces(self, sources: Iterable[str | os.PathLike[str] | StoredSession]) -> list[dict[str, object]]:
        found: dict[str, dict[str, object]] = {}
        for session in self._sessions(sources):
            self.report.sessions += 1
            self.report.skipped_lines += session.skipped_lines
            self.report.unknown_events += sum(session.unknown_types.values())
            traces = events_to_turn_traces(session)
            if not traces:
                where = session.session_id or "a session without an id"
                self.report.problems.append(f"{session.source}: {where}: there is no message of a user in it")
            for trace in traces:
                place = text_in(mapping_in(trace, "metadata"), "place")
                if place in self.learned or place in found:
                    self.report.turns_known += 1
                elif self._is_under_way(trace):
                    self.report.turns_unfinished += 1
                else:
                    found[place] = trace
        return list(found.values())

    def _sessions(self, sources: Iterable[str | os.PathLike[str] | StoredSession]) -> Iterator[StoredSession]:
        for source in sources:
            if isinstance(source, StoredSession):
                yield source
                continue
            try:
                files = session_files(source, self.state_dir)
            except SessionReadError as error:
                self.report.problems.append(str(error))
                continue
            for file in files:
                try:
                    sessions = read_sessions(file)
                except SessionReadError as error:
                    self.report.problems.append(str(error))
                    continue
                if file.suffix == ".sqlite" and (note := schema_note(file)):
                    self.report.problems.append(note)
                yield from sessions

    def _is_under_way(self, trace: dict[str, object]) -> bool:
        metadata = mapping_in(trace, "metadata")
        ended = text_in(metadata, "ended_at")
        if metadata.get("is_finished") or not ended:
            return False
        return datetime.now(UTC) - datetime.fromisoformat(ended) < timedelta(minutes=self.idle_minutes)


def _settings(options: LearningOptions) -> LearningSettings:
    # A turn is noted as learned at once, so a JSON skillbook has to be saved at once, too.
    with_default: LearningOptions = {"checkpoint_interval": 1, **options}
    return LearningSettings(**with_default)


def _learned_path(named: str | os.PathLike[str] | None, settings: LearningSettings) -> Path | None:
    if named is not None:
        return Path(named)
    if settings.skillbook_path is None or has_scheme(settings.skillbook_path):
        return None
    return Path(settings.skillbook_path).with_name(LEARNED_FILE)
