"""Reads the turns that were written by the capture plugin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ace.integrations import Record, list_in, mapping_in, number_in, text_in
from ace_openclaw.reading.session import StoredSession, session_of_events

__all__ = ["is_captured_turn", "sessions_of_captured_turns"]


def is_captured_turn(record: Record) -> bool:
    """Return whether a record is a turn written by the capture plugin."""
    return isinstance(record.get("messages"), list) and "sessionId" in record and "success" in record


def sessions_of_captured_turns(
    turns: Sequence[Record], *, source: str = "", places: Sequence[str] = (), skipped_lines: int = 0
) -> list[StoredSession]:
    """Reassemble sessions from turns. Each turn repeats the part of the session that is still in the model's prompt.

    Args:
        turns: The captured turns, in order.
        source: Their file.
        places: Where each of them is.
        skipped_lines: How many lines were skipped before; they are counted for the first session.
    """
    by_session: dict[str, list[tuple[Record, str]]] = {}
    for number, turn in enumerate(turns):
        place = places[number] if places else str(number + 1)
        by_session.setdefault(text_in(turn, "sessionId"), []).append((turn, place))
    sessions = []
    for at, (session_id, own) in enumerate(by_session.items()):
        events, spots = _events_of(own)
        first = own[0][0]
        sessions.append(
            session_of_events(
                events,
                places=spots,
                skipped_lines=skipped_lines if at == 0 else 0,
                source=source,
                session_id=session_id,
                session_key=text_in(first, "sessionKey"),
                agent_id=text_in(first, "agentId"),
                workspace=text_in(first, "workspaceDir"),
            )
        )
    return sessions


def _events_of(turns: Sequence[tuple[Record, str]]) -> tuple[list[Record], list[str]]:
    events: list[tuple[Record, str]] = []
    seen: set[str] = set()
    for turn, place in turns:
        run = f"run {text_in(turn, 'runId')}"
        if run in seen:
            continue
        if run != "run ":
            seen.add(run)
        events += _new_messages(turn, place, seen)
        events.append((_run_event(turn), place))
    return [event for event, _ in events], [place for _, place in events]


def _new_messages(turn: Record, place: str, seen: set[str]) -> list[tuple[Record, str]]:
    """Return the messages that are not in earlier turns.

    A message of the user is identified by the message after it, because OpenClaw changes its time when it repeats it.
    """
    found: list[tuple[Record, str]] = []
    asked: list[tuple[Record, str]] = []
    for number, message in enumerate(list_in(turn, "messages"), 1):
        if not isinstance(message, dict):
            continue
        line: tuple[Record, str] = ({"type": "message", "message": message}, f"{place}.{number}")
        if message.get("role") == "user":
            asked.append(line)
            continue
        name = _name_of(message)
        if name not in seen:
            seen.add(name)
            found += [*asked, line]
        asked = []
    return [*found, *asked]


def _run_event(turn: Record) -> Record:
    return {
        "type": "run",
        "runId": text_in(turn, "runId"),
        "success": turn.get("success"),
        "error": text_in(turn, "error") or text_in(mapping_in(turn, "error"), "message"),
        "durationMs": number_in(turn, "durationMs"),
    }


def _name_of(message: Record) -> str:
    """Return what tells a message from all others of its session. Repeated calls lose some characters of their ids."""
    call = "".join(filter(str.isalnum, text_in(message, "toolCallId")))
    if number_in(message, "timestamp") is not None:
        return json.dumps([message.get("role"), message.get("timestamp"), call], default=str)
    return hashlib.sha256(json.dumps(message, sort_keys=True, default=str).encode()).hexdigest()
