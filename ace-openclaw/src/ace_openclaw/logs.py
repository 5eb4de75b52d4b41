"""Reads the sessions of OpenClaw of all releases: files, databases, exports and captured turns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ace.integrations import extract_cited_skill_ids, text_in
from ace.logs import LogHead, Problem, Run, RunBuilder, Source, Tokens
from ace_openclaw.conversation import Conversation, Line, read_conversation
from ace_openclaw.messages import add_steps, is_echo, message_of
from ace_openclaw.outcome import Outcome, metrics_of, outcome_of, times_of
from ace_openclaw.reading.captured import is_captured_turn
from ace_openclaw.reading.exported import BRANCH_FILE, is_exported
from ace_openclaw.reading.session import SessionReadError, StoredSession
from ace_openclaw.reading.sources import is_sidecar, sessions_of_source

__all__ = ["OpenClawLogs", "metadata_of", "run_of_lines", "run_of_session"]

_NAMES: Final = ("openclaw", "clawdbot", "moltbot", "moldbot")
"""What OpenClaw has been called; its folders have these names with a dot before them."""
_OWN_FOLDER: Final = re.compile(rf"(?:\A|/)\.(?:{'|'.join(_NAMES)})/")


class OpenClawLogs:
    """Reads the sessions in a file, an export or a database."""

    name = "openclaw"
    title = "OpenClaw sessions"
    places = tuple(
        f"~/.{name}/agents/*/{file}" for name in _NAMES for file in ("sessions/*.jsonl*", "agent/openclaw-agent.sqlite")
    )
    side_files = (
        "sessions.json",
        "*.lock",
        "*.trajectory.jsonl",
        "*.checkpoint.*.jsonl",
        "*.sqlite-*",
        "*.sqlite.*",
    )
    note = "Only the branch that was continued last is read. A stored session has no outcome; captured turns have."

    def recognises(self, head: LogHead) -> float:
        """Return how certainly these are sessions of OpenClaw, from 0 to 1; Pi writes the same without our marks.

        Args:
            head: The beginning of the source.
        """
        if head.shape == "folder":
            return 0.9 if BRANCH_FILE in head.names else 0.0
        if head.shape == "sqlite":
            return 0.9 if "transcript_events" in head.names else 0.0
        if head.shape == "object" and {"header", "entries", "leafId"} <= head.keys:
            return 0.9
        score = max(map(_score, head.objects), default=0.0)
        is_own = _OWN_FOLDER.search(head.path.as_posix()) or any(map(_is_marked, head.objects))
        return 0.95 if score and is_own else score

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the sessions in order.

        Args:
            source: A file, a folder with an export, or a database.
        """
        try:
            sessions = sessions_of_source(source)
        except SessionReadError as error:
            yield source.problem(str(error).removeprefix(f"{source.path}: "))
            return
        for session in sessions:
            conversation = read_conversation(session)
            if any(line.event.get("type") == "message" for line in conversation.lines):
                run = run_of_session(session, conversation)
                yield run if run.outcome_from else replace(run, success=None)
            else:
                yield source.problem(f"the session {session.session_id or 'without an id'} has no message")


def _score(record: Mapping[str, object]) -> float:
    kind, message = record.get("type"), record.get("message")
    if kind == "session" and "version" in record and "cwd" in record and "sessionId" not in record:
        return 0.75
    if (
        kind == "message"
        and isinstance(message, Mapping)
        and message.get("role") in ("user", "assistant", "toolResult")
    ):
        return 0.75
    # Part of a trajectory is claimed, so that reading it says what to give instead.
    return 0.9 if is_sidecar(record) or is_captured_turn(record) or is_exported(record) else 0.0


def _is_marked(record: Mapping[str, object]) -> bool:
    """Return whether OpenClaw has left its name in a record, as it does in its working folder and its messages."""
    message = record.get("message")
    is_marked = isinstance(message, Mapping) and ("__openclaw" in message or message.get("provider") == "openclaw")
    return (
        is_marked
        or record.get("customType") == "model-snapshot"
        or _OWN_FOLDER.search(f"{text_in(record, 'cwd')}/") is not None
    )


def run_of_session(session: StoredSession, conversation: Conversation) -> Run:
    """Return the run of a whole session.

    Args:
        conversation: What was said in it.
    """
    turns = conversation.turns
    outcome = outcome_of(turns[-1].lines if turns else conversation.lines)
    task = turns[0].question if turns else ""
    metadata = {**metadata_of(session, conversation), "turns": len(turns)}
    return run_of_lines(session, conversation.lines, outcome, metadata, task=task)


def run_of_lines(
    session: StoredSession,
    lines: Sequence[Line],
    outcome: Outcome,
    metadata: Mapping[str, object],
    *,
    task: str,
    context: str = "",
) -> Run:
    """Return the run of some events of a session.

    Args:
        lines: The events.
        outcome: How they end.
        metadata: What `metadata_of` returned.
        task: What the user asked.
        context: What was said before.
    """
    builder = RunBuilder()
    for line in lines:
        add_steps(builder, line.event, line.place)
    metrics = metrics_of(lines, builder.steps)
    times = times_of(lines)
    own = [step.content for step in builder.steps if step.speaker == "agent" and step.kind in ("thought", "message")]
    return builder.run(
        id=session.session_id,
        task=task,
        context=context,
        answer=outcome.answer,
        success=outcome.success,
        reason="\n".join(outcome.problems),
        outcome_from=outcome.source,
        is_interrupted=not outcome.is_finished,
        model=text_in(metadata, "model"),
        tokens=Tokens(input=int(metrics["input_tokens"]), output=int(metrics["output_tokens"])),
        cost=metrics["cost_usd"],
        started=min(times, default=None),
        ended=max(times, default=None),
        cwd=session.workspace,
        skill_ids=tuple(extract_cited_skill_ids("\n".join(own))),
        metadata=metadata,
    )


def metadata_of(session: StoredSession, conversation: Conversation) -> dict[str, object]:
    """Return what is known about a session, and how much of it was skipped.

    Args:
        conversation: What was said in it.
    """
    found: dict[str, object] = {
        "integration": "openclaw",
        "session_id": session.session_id,
        "session_key": session.session_key,
        "agent_id": session.agent_id,
        "source": session.source,
        "workspace": session.workspace,
        "status": session.status,
        "model": _model_of(conversation.lines),
        "skipped_lines": session.skipped_lines,
        "unknown_types": dict(session.unknown_types),
        "echoes": conversation.echoes,
        "abandoned_messages": conversation.abandoned_messages,
        "compactions": sum(line.event.get("type") == "compaction" for line in conversation.lines),
    }
    return {name: value for name, value in found.items() if value not in ("", 0, {})}


def _model_of(lines: Sequence[Line]) -> str:
    """Return the model of the first answer that names one, or else the model chosen in the session."""
    own = [line.event for line in lines if not is_echo(line.event)]
    answers = [text_in(message_of(event, "assistant"), "model") for event in own]
    chosen = [text_in(event, "modelId") for event in own if event.get("type") == "model_change"]
    return next(filter(None, [*answers, *chosen]), "")
