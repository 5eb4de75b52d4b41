"""Converts a session of OpenClaw to the standard trace, as a whole or turn by turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from ace.context import ACEStepContext
from ace.integrations import checked_arguments
from ace.logs import Run, RunBuilder
from ace.traces import TraceStep
from ace_openclaw.conversation import Line, Turn, read_conversation
from ace_openclaw.logs import metadata_of, run_of_lines, run_of_session
from ace_openclaw.messages import add_steps
from ace_openclaw.outcome import ended_at, metrics_of, outcome_of
from ace_openclaw.reading.session import StoredSession
from ace_openclaw.reading.sources import SessionSource, read_session

__all__ = ["OpenClawToTrace", "OpenClawToTraceStep", "events_to_trace", "events_to_turn_traces"]

_TURNS_IN_DIALOGUE = 10
"""How many turns before it the dialogue of a turn has."""

Trace = dict[str, object]


@checked_arguments()
def events_to_trace(events: SessionSource) -> Trace:
    """Convert a whole session to one standard trace.

    Args:
        events: The events of a session; or a `StoredSession`, an exported session, captured turns, or the path or
            content of a file with one of these.

    Returns:
        The standard trace dict. Its `metadata` counts what was skipped: `skipped_lines`, `unknown_types`,
        `echoes`, `abandoned_messages`.

    Raises:
        SessionReadError: It contains no session, or several.

    Example:
        >>> trace = events_to_trace([
        ...     {"type": "message", "message": {"role": "user", "content": "Fix it."}},
        ...     {"type": "message", "message": {"role": "assistant", "stopReason": "stop",
        ...                                     "content": [{"type": "text", "text": "Fixed by [tests-00001]."}]}},
        ... ])
        >>> trace["question"], trace["answer"], trace["skill_ids"]
        ('Fix it.', 'Fixed by [tests-00001].', ['tests-00001'])
    """
    session = read_session(events)
    conversation = read_conversation(session)
    turns = conversation.turns
    run = run_of_session(session, conversation)
    trace = _trace(run, conversation.lines)
    if not turns:
        _add_feedback(trace, "The session contains no user message, so the task is unknown.")
    for turn in turns[1:]:
        _add_feedback(trace, f"The user's next message was: {turn.question}")
    trace_id = f"{_digest(conversation.lines)}@{session.session_id or 'events'}"
    return {**trace, "dialogue": _dialogue(turns), "trace_id": trace_id}


@checked_arguments()
def events_to_turn_traces(events: SessionSource) -> list[Trace]:
    """Convert a session to one standard trace for each question of the user.

    The next message of the user becomes the feedback, because corrections teach the most. Earlier questions and
    answers become the context, and the messages of the last turns the `dialogue`, so that a correction is learned from
    the turn in which the user made it.

    The `trace_id` consists of the session id and the turn. It does not depend on where OpenClaw stores the turn, and
    does not change when the session grows. If the session has no id, a hash of the turn takes its place.

    Args:
        events: A session in any form that `events_to_trace` takes.

    Returns:
        The traces in order; an empty list if the session has no user message.

    Raises:
        SessionReadError: It contains no session, or several.
    """
    session = read_session(events)
    conversation = read_conversation(session)
    common = metadata_of(session, conversation)
    traces = []
    for at, turn in enumerate(conversation.turns):
        following = next(iter(conversation.turns[at + 1 :]), None)
        outcome = outcome_of(turn.lines)
        own = {
            "turn": turn.number,
            "ended_at": ended_at(turn.lines),
            "is_finished": outcome.is_finished or following is not None,
        }
        context = _context(conversation.turns[: at + 1])
        run = run_of_lines(session, turn.lines, outcome, {**common, **own}, task=turn.question, context=context)
        trace = _trace(run, turn.lines)
        if following is not None:
            _add_feedback(trace, f"The user's next message was: {following.question}")
        trace["dialogue"] = _dialogue(conversation.turns[max(0, at - _TURNS_IN_DIALOGUE) : at + 1])
        traces.append({**trace, "trace_id": f"{session.session_id or _digest(turn.lines)}#{turn.name}"})
    return traces


class OpenClawToTrace:
    """A step that converts a session of OpenClaw to the standard trace.

    It accepts the events that `LoadTracesStep` reads from a session file, and all other sources of `events_to_trace`.
    """

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace.

        Raises:
            TypeError: `trace` is not a source of a session.
            SessionReadError: It contains no session, or several.
        """
        source = ctx.trace
        if not isinstance(source, StoredSession | str | bytes | Iterable) and not hasattr(source, "__fspath__"):
            raise TypeError(
                f"OpenClawToTrace requires the events of a session, got {type(source).__name__}; "
                "put LoadTracesStep before it"
            )
        trace = events_to_trace(source)
        skipped = ctx.metadata.get("skipped_lines")
        if isinstance(skipped, int) and skipped:  # lines that LoadTracesStep skipped
            metadata = trace["metadata"]
            known = metadata if isinstance(metadata, Mapping) else {}
            trace = {**trace, "metadata": {**known, "skipped_lines": skipped + int(known.get("skipped_lines", 0))}}
        return ctx.replace(trace={**trace, "ground_truth": getattr(ctx.sample, "ground_truth", None)})


OpenClawToTraceStep = OpenClawToTrace
"""Another name of `OpenClawToTrace`."""


def _dialogue(turns: Sequence[Turn]) -> list[TraceStep]:
    """Return the messages of user and agent, and where the history was reset: what follows is no reply."""
    builder = RunBuilder()
    for turn in turns:
        if turn.starts_afresh:
            builder.message("harness", "The history was reset.", "")
        for line in turn.lines:
            add_steps(builder, line.event, line.place)
    return [step for step in builder.run().to_trace()["steps"] if step["kind"] == "message"]


def _trace(run: Run, lines: Sequence[Line]) -> Trace:
    """Return the trace of a run with all its metrics."""
    trace: Trace = {**run.to_trace()}
    return {**trace, "metrics": metrics_of(lines, run.steps)}


def _add_feedback(trace: Trace, sentence: str) -> None:
    trace["feedback"] = f"{trace['feedback']}\n{sentence}".strip()


def _context(turns: Sequence[Turn]) -> str:
    """Return the questions and answers before the last of these turns, back to the latest reset of the history."""
    start = max((at for at, turn in enumerate(turns) if turn.starts_afresh), default=0)
    parts = []
    for turn in turns[start:-1]:
        answer = outcome_of(turn.lines).answer or "(nothing)"
        parts.append(f"Earlier in this session the user asked: {turn.question}\nThe agent answered: {answer}")
    return "\n".join(parts)


def _digest(lines: Sequence[Line]) -> str:
    said = [line.event.get("message") for line in lines if line.event.get("type") == "message"]
    data = json.dumps(said, sort_keys=True, ensure_ascii=True, default=str).encode()
    return hashlib.sha256(data).hexdigest()[:16]
