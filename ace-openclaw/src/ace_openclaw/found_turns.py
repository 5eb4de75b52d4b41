"""Finds the turns in the sources of a run, and reports sources that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ace.integrations import Record, mapping_in, text_in
from ace_openclaw.home import session_files
from ace_openclaw.learning_report import LearningReport
from ace_openclaw.reading.database import schema_note
from ace_openclaw.reading.session import SessionReadError, StoredSession
from ace_openclaw.reading.sources import read_sessions
from ace_openclaw.to_trace import events_to_turn_traces

__all__ = ["Source", "found_turns"]

Source = str | os.PathLike[str] | StoredSession
"""A session file, a folder of OpenClaw, the id of an agent, an exported session, or a session that was read."""


def found_turns(
    sources: Iterable[Source], state: Path, idle_minutes: float, report: LearningReport
) -> list[dict[str, object]]:
    """Return the traces of all turns that have ended, without duplicates.

    Args:
        sources: The sources of the sessions.
        state: The folder of OpenClaw, for ids of agents.
        idle_minutes: The time without an event after which a turn without an answer counts as ended, in minutes.
        report: The report to which the numbers and problems are added.
    """
    found: dict[str, dict[str, object]] = {}
    named: set[str] = set()  # a session may be in several sources, such as a database and captured turns
    for session in _sessions(sources, state, report):
        report.sessions += session.session_id not in named
        named |= {session.session_id} - {""}
        report.skipped_lines += session.skipped_lines
        report.unknown_events += sum(session.unknown_types.values())
        traces = events_to_turn_traces(session)
        if not traces:
            where = session.session_id or "a session without an id"
            report.problems.append(f"{session.source}: {where}: no message of a user in it")
        for trace in traces:
            name = text_in(trace, "trace_id")
            if name in found:
                continue
            if _is_under_way(trace, idle_minutes):
                report.turns_unfinished += 1
            else:
                found[name] = trace
    return list(found.values())


def _sessions(sources: Iterable[Source], state: Path, report: LearningReport) -> Iterator[StoredSession]:
    for source in sources:
        if isinstance(source, StoredSession):
            yield source
            continue
        try:
            files = session_files(source, state)
        except SessionReadError as error:
            report.problems.append(str(error))
            continue
        for file in files:
            try:
                sessions = read_sessions(file)
            except SessionReadError as error:
                report.problems.append(str(error))
                continue
            if file.suffix == ".sqlite" and (note := schema_note(file)):
                report.problems.append(note)
            yield from sessions


def _is_under_way(trace: Record, idle_minutes: float) -> bool:
    metadata = mapping_in(trace, "metadata")
    ended = text_in(metadata, "ended_at")
    if metadata.get("is_finished") or not ended:
        return False
    return datetime.now(UTC) - datetime.fromisoformat(ended) < timedelta(minutes=idle_minutes)
