"""Learns from stored sessions, each turn once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from ace.protocols import LLMClientLike
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace_claude_code.json_fields import Record, mapping_in, number_in, text_in
from ace_claude_code.llm_client import ClaudeCodeLLMClient
from ace_claude_code.records import TranscriptError
from ace_claude_code.sessions.home import project_key, transcripts_folder
from ace_claude_code.sessions.learned import LearnedTurn, append_learned, read_learned
from ace_claude_code.sessions.settings import SessionSettings
from ace_claude_code.to_trace import transcript_to_turn_traces

__all__ = ["LearningReport", "SessionAnalyser", "learn_session", "learned_path", "skillbook_path"]

_SHOWN_QUESTION = 80


class SessionAnalyser(TraceAnalyser):
    """Learns from the turns of stored sessions."""

    integration: ClassVar[str] = "claude_code"


@dataclass
class LearningReport:
    """What came of it."""

    sessions: int = 0
    """How many sessions were looked at."""
    turns_learned: int = 0
    turns_known: int = 0
    """Turns that had been learned from before."""
    skipped_lines: int = 0
    """Lines that hold no record, such as one that was cut."""
    unknown_records: int = 0
    """Records of a type that is not known here."""
    problems: list[str] = field(default_factory=list)
    """What could not be learned from, each with the reason."""


def skillbook_path(state: Path, key: str) -> Path:
    """Return the file of the skills of a project.

    Args:
        state: The folder of the state.
        key: The name of the project's folder of transcripts.
    """
    return state / "projects" / key / "skillbook.db"


def learned_path(state: Path, key: str) -> Path:
    """Return the file that notes what was learned in a project.

    Args:
        state: The folder of the state.
        key: The name of the project's folder of transcripts.
    """
    return state / "projects" / key / "learned.jsonl"


def learn_session(transcript: Path, state: Path, settings: SessionSettings, report: LearningReport) -> None:
    """Learn from the turns of a session that are new. The lock of the learner must be held.

    Args:
        transcript: The file of the session.
        state: The folder of the state.
        settings: Who learns.
        report: Takes what came of it.
    """
    report.sessions += 1
    try:
        traces: list[Record] = list(transcript_to_turn_traces(transcript))
    except TranscriptError as error:
        report.problems.append(str(error))
        return
    if not traces:
        report.problems.append(f"{transcript}: there is no prompt of a user in this session")
        return
    metadata = mapping_in(traces[0], "metadata")
    report.skipped_lines += int(number_in(metadata, "skipped_lines") or 0)
    report.unknown_records += sum(
        int(count) for count in mapping_in(metadata, "unknown_types").values() if isinstance(count, int)
    )
    key = _key_of(transcript, text_in(metadata, "cwd"))
    book = Skillbook.open(skillbook_path(state, key))
    try:
        known = {turn.trace_id for turn in read_learned(learned_path(state, key))} | _sources(book)
        new = [trace for trace in traces if text_in(trace, "trace_id") not in known]
        report.turns_known += len(traces) - len(new)
        if new:
            _learn(new, book, learned_path(state, key), settings, report)
    finally:
        book.close()


def _key_of(transcript: Path, cwd: str) -> str:
    """Return the name of the project's folder of transcripts; a copy of a transcript may lie anywhere."""
    if transcript.parent.parent == transcripts_folder() or not cwd:
        return transcript.parent.name
    return project_key(Path(cwd))


def _learn(
    traces: list[Record], book: Skillbook, noted: Path, settings: SessionSettings, report: LearningReport
) -> None:
    analyser = _analyser(settings, book)
    for trace in traces:
        # One at a time: what is learned is noted before the next one begins.
        [result] = analyser.run([trace])
        if result.error is None:
            append_learned(noted, _learned_turn(trace, book))
            report.turns_learned += 1
        else:
            place = f"{text_in(mapping_in(trace, 'metadata'), 'source')}, turn {_turn_of(trace)}"
            report.problems.append(f"{place}: {result.failed_at}: {result.error}")


def _analyser(settings: SessionSettings, book: Skillbook) -> SessionAnalyser:
    if settings.model:
        if settings.api_base:
            return SessionAnalyser.from_model(settings.model, skillbook=book, api_base=settings.api_base)
        return SessionAnalyser.from_model(settings.model, skillbook=book)
    client: LLMClientLike = ClaudeCodeLLMClient(claude=settings.claude or None)
    return SessionAnalyser.from_client(client, skillbook=book)


def _learned_turn(trace: Record, book: Skillbook) -> LearnedTurn:
    trace_id = text_in(trace, "trace_id")
    return LearnedTurn(
        trace_id=trace_id,
        session_id=text_in(mapping_in(trace, "metadata"), "session_id"),
        turn=_turn_of(trace),
        question=" ".join(text_in(trace, "question").split())[:_SHOWN_QUESTION],
        skill_ids=tuple(skill.id for skill in book.source_filter(trace_id=trace_id)),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _sources(book: Skillbook) -> set[str]:
    """Return the traces that the skills come from: a crash may have kept them from being noted."""
    sources: Iterable[str] = (source.trace_id for found in book.source_map().values() for source in found)
    return set(sources)


def _turn_of(trace: Record) -> int:
    return int(number_in(mapping_in(trace, "metadata"), "turn") or 0)
