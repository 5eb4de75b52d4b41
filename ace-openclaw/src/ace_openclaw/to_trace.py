"""From a session of OpenClaw to the standard trace, as a whole or turn by turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ace.context import ACEStepContext
from ace.integrations import checked_arguments, corrections_in, extract_cited_skill_ids
from ace.json_fields import text_in
from ace.traces import TraceCorrection, TraceStep, failed_steps, steps_as_text
from ace_openclaw.account import ended_at, metrics_of
from ace_openclaw.conversation import Conversation, Line, Turn, read_conversation
from ace_openclaw.messages import is_echo, message_of, steps_in
from ace_openclaw.outcome import Outcome, outcome_of
from ace_openclaw.reading.session import StoredSession
from ace_openclaw.reading.sources import SessionSource, read_session

__all__ = ["OpenClawToTrace", "OpenClawToTraceStep", "events_to_trace", "events_to_turn_traces"]

Trace = dict[str, object]


@checked_arguments()
def events_to_trace(events: SessionSource) -> Trace:
    """Turn a whole session into one standard trace.

    Args:
        events: The events of a session; or a `StoredSession`, an exported session, captured turns, or the path or
            content of a file that holds one of them.

    Returns:
        The standard trace dict. Its `metadata` counts what was skipped: `skipped_lines`, `unknown_types`,
        `echoes`, `abandoned_messages`.

    Raises:
        SessionReadError: There is no session in it, or there are several.

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
    steps = _steps(conversation.lines)
    outcome = outcome_of(turns[-1].lines if turns else conversation.lines)
    if not turns:
        silent = "The session holds no message of a user, so the task is not known."
        outcome = Outcome(outcome.success, outcome.answer, (*outcome.problems, silent), outcome.is_finished)
    next_words = [f"The user's next message was: {turn.question}" for turn in turns[1:]]
    trace = _trace(turns[0].question if turns else "", "", outcome, steps, conversation.lines, next_words)
    trace["corrections"] = _corrections(turns)
    metadata = {**_metadata(session, conversation), "turns": len(turns)}
    trace_id = f"{_digest(conversation.lines)}@{session.session_id or 'events'}"
    return {**trace, "metadata": metadata, "trace_id": trace_id}


@checked_arguments()
def events_to_turn_traces(events: SessionSource) -> list[Trace]:
    """Turn a session into one standard trace for each question of the user.

    What the user said next becomes the feedback: corrections teach the most. Earlier questions and answers become the
    context, so that a correction of an older turn can be learned from too; `corrections` has it in the turn in which it
    was said.

    The `trace_id` names session and turn. It is the same wherever OpenClaw keeps the turn, though the bytes differ
    there, and it stays when the session grows. Of a session without an id, it is a hash of the turn.

    Args:
        events: A session in any form that `events_to_trace` takes.

    Returns:
        The traces in order; an empty list if the session has no message of a user.

    Raises:
        SessionReadError: There is no session in it, or there are several.
    """
    session = read_session(events)
    conversation = read_conversation(session)
    common = _metadata(session, conversation)
    corrections = _corrections(conversation.turns)
    traces = []
    for at, turn in enumerate(conversation.turns):
        following = next(iter(conversation.turns[at + 1 :]), None)
        outcome = outcome_of(turn.lines)
        next_words = [] if following is None else [f"The user's next message was: {following.question}"]
        context = _context(conversation.turns[: at + 1])
        trace = _trace(turn.question, context, outcome, _steps(turn.lines), turn.lines, next_words)
        places = {line.place for line in turn.lines}
        trace["corrections"] = [each for each in corrections if each["place"] in places]
        own = {
            "turn": turn.number,
            "ended_at": ended_at(turn.lines),
            "is_finished": outcome.is_finished or following is not None,
        }
        trace_id = f"{session.session_id or _digest(turn.lines)}#{turn.name}"
        traces.append({**trace, "metadata": {**common, **own}, "trace_id": trace_id})
    return traces


class OpenClawToTrace:
    """The step that turns a session of OpenClaw into the standard trace.

    It takes what `LoadTracesStep` reads from a session file, and everything else that `events_to_trace` takes.
    """

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the standard trace on the context.

        Raises:
            TypeError: What is on the trace cannot hold a session.
            SessionReadError: There is no session in it, or there are several.
        """
        source = ctx.trace
        if not isinstance(source, StoredSession | str | bytes | Iterable) and not hasattr(source, "__fspath__"):
            raise TypeError(
                f"OpenClawToTrace takes the events of a session, not a {type(source).__name__}; "
                "put LoadTracesStep before it"
            )
        trace = events_to_trace(source)
        skipped = ctx.metadata.get("skipped_lines")
        if isinstance(skipped, int) and skipped:  # LoadTracesStep has passed them over
            metadata = trace["metadata"]
            known = metadata if isinstance(metadata, Mapping) else {}
            trace = {**trace, "metadata": {**known, "skipped_lines": skipped + int(known.get("skipped_lines", 0))}}
        return ctx.replace(trace={**trace, "ground_truth": getattr(ctx.sample, "ground_truth", None)})


OpenClawToTraceStep = OpenClawToTrace
"""The old name of `OpenClawToTrace`."""


def _steps(lines: Sequence[Line]) -> list[TraceStep]:
    return [each for line in lines for each in steps_in(line.event, line.place)]


def _corrections(turns: Sequence[Turn]) -> list[TraceCorrection]:
    """Return where the user corrects the agent. After a reset, the user speaks of something else."""
    found: list[TraceCorrection] = []
    cuts = [0, *(at for at, turn in enumerate(turns) if at and turn.starts_afresh), len(turns)]
    for start, end in pairwise(cuts):
        found += corrections_in([step for turn in turns[start:end] for step in _steps(turn.lines)])
    return found


def _trace(
    question: str,
    context: str,
    outcome: Outcome,
    steps: list[TraceStep],
    lines: Sequence[Line],
    next_words: Sequence[str],
) -> Trace:
    own = [each["content"] for each in steps if each["kind"] in ("thought", "message") and each["name"] == "assistant"]
    return {
        "schema": 1,
        "question": question,
        "context": context,
        "reasoning": steps_as_text(steps),
        "answer": outcome.answer,
        "skill_ids": extract_cited_skill_ids("\n".join(own)),
        "feedback": "\n".join([*outcome.problems, *failed_steps(steps), *next_words]),
        "ground_truth": None,
        "success": outcome.success,
        "steps": steps,
        "metrics": metrics_of(lines, steps),
    }


def _context(turns: Sequence[Turn]) -> str:
    """Return what was asked and answered before the last of these turns, back to where the history was reset."""
    start = max((at for at, turn in enumerate(turns) if turn.starts_afresh), default=0)
    parts = []
    for turn in turns[start:-1]:
        answer = outcome_of(turn.lines).answer or "(nothing)"
        parts.append(f"Earlier in this session the user asked: {turn.question}\nThe agent answered: {answer}")
    return "\n".join(parts)


def _metadata(session: StoredSession, conversation: Conversation) -> dict[str, object]:
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
    """Return the model of the first answer that names one; of reduced messages, the one that the session chose."""
    own = [line.event for line in lines if not is_echo(line.event)]
    answers = [text_in(message_of(event, "assistant"), "model") for event in own]
    chosen = [text_in(event, "modelId") for event in own if event.get("type") == "model_change"]
    return next(filter(None, [*answers, *chosen]), "")


def _digest(lines: Sequence[Line]) -> str:
    said = [line.event.get("message") for line in lines if line.event.get("type") == "message"]
    data = json.dumps(said, sort_keys=True, ensure_ascii=True, default=str).encode()
    return hashlib.sha256(data).hexdigest()[:16]
