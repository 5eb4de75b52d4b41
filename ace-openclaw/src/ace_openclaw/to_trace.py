"""Converts a session of OpenClaw to the standard trace, as a whole or turn by turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from ace.context import ACEStepContext
from ace.integrations import checked_arguments, corrections_in, extract_cited_skill_ids, mapping_in, number_in, text_in
from ace.traces import TraceCorrection, TraceStep, failed_steps, steps_as_text
from ace_openclaw.conversation import Conversation, Line, Turn, read_conversation
from ace_openclaw.messages import calls_tools, is_echo, message_of, own_words, problem_of, steps_in
from ace_openclaw.reading.session import StoredSession
from ace_openclaw.reading.sources import SessionSource, read_session

__all__ = ["OpenClawToTrace", "OpenClawToTraceStep", "events_to_trace", "events_to_turn_traces"]

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
    steps = _steps(conversation.lines)
    outcome = outcome_of(turns[-1].lines if turns else conversation.lines)
    if not turns:
        silent = "The session contains no user message, so the task is unknown."
        outcome = Outcome(outcome.success, outcome.answer, (*outcome.problems, silent), outcome.is_finished)
    next_words = [f"The user's next message was: {turn.question}" for turn in turns[1:]]
    trace = _trace(turns[0].question if turns else "", "", outcome, steps, conversation.lines, next_words)
    trace["corrections"] = _corrections(turns)
    metadata = {**_metadata(session, conversation), "turns": len(turns)}
    trace_id = f"{_digest(conversation.lines)}@{session.session_id or 'events'}"
    return {**trace, "metadata": metadata, "trace_id": trace_id}


@checked_arguments()
def events_to_turn_traces(events: SessionSource) -> list[Trace]:
    """Convert a session to one standard trace for each question of the user.

    The next message of the user becomes the feedback, because corrections teach the most. Earlier questions and
    answers become the context, so that a correction of an earlier turn can be learned from too; it is in the
    `corrections` of the turn in which the user made it.

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
        trace["corrections"] = [correction for correction in corrections if correction["place"] in places]
        own = {
            "turn": turn.number,
            "ended_at": ended_at(turn.lines),
            "is_finished": outcome.is_finished or following is not None,
        }
        trace_id = f"{session.session_id or _digest(turn.lines)}#{turn.name}"
        traces.append({**trace, "metadata": {**common, **own}, "trace_id": trace_id})
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


def _steps(lines: Sequence[Line]) -> list[TraceStep]:
    return [step for line in lines for step in steps_in(line.event, line.place)]


def _corrections(turns: Sequence[Turn]) -> list[TraceCorrection]:
    """Return the corrections by the user. They are searched separately before and after each reset of the history."""
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
    own = [step["content"] for step in steps if step["kind"] in ("thought", "message") and step["name"] == "assistant"]
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
    """Return the questions and answers before the last of these turns, back to the latest reset of the history."""
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
    """Return the model of the first answer that names one, or else the model chosen in the session."""
    own = [line.event for line in lines if not is_echo(line.event)]
    answers = [text_in(message_of(event, "assistant"), "model") for event in own]
    chosen = [text_in(event, "modelId") for event in own if event.get("type") == "model_change"]
    return next(filter(None, [*answers, *chosen]), "")


def _digest(lines: Sequence[Line]) -> str:
    said = [line.event.get("message") for line in lines if line.event.get("type") == "message"]
    data = json.dumps(said, sort_keys=True, ensure_ascii=True, default=str).encode()
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a turn."""

    success: bool | None
    """Whether the turn succeeded; None if it is not known, because a stored session does not contain this."""
    answer: str
    """The last text of the model."""
    problems: tuple[str, ...]
    """The problems, one sentence each."""
    is_finished: bool
    """Whether the model answered or failed."""


def outcome_of(lines: Sequence[Line]) -> Outcome:
    """Determine the outcome of a turn, or of a session by its last turn.

    An error from which the model recovered is not a failure, and neither is a failed command.

    Args:
        lines: The events.
    """
    spoken = [line.event for line in lines if line.event.get("type") == "message" and not is_echo(line.event)]
    answers = [event for event in spoken if message_of(event, "assistant")]
    answer = next((words for event in reversed(answers) if (words := own_words(event))), "")
    run = next((line.event for line in reversed(lines) if line.event.get("type") == "run"), None)
    problem = problem_of(answers[-1]) if answers else ""
    has_answered = bool(answers) and spoken[-1] is answers[-1] and not calls_tools(answers[-1])
    # A run is reported as successful even if its model failed, so failures of the model are checked first.
    if problem:
        return Outcome(False, answer, (problem,), is_finished=True)
    if run is not None and isinstance(run.get("success"), bool):
        failures = () if run["success"] else (f"The run failed: {text_in(run, 'error') or 'no reason given'}",)
        return Outcome(not failures, answer, failures, is_finished=True)
    if has_answered:
        return Outcome(None, answer, (), is_finished=True)
    return Outcome(False, answer, ("The turn ended without a final answer.",), is_finished=False)


def metrics_of(lines: Sequence[Line], steps: Sequence[TraceStep]) -> dict[str, float]:
    """Return the metrics of a turn or of a session.

    Every model call gets the whole conversation again, so `input_tokens` counts it each time.

    Args:
        lines: The events.
        steps: The steps that the events were converted to.
    """
    answers = [
        message for line in lines if not is_echo(line.event) and (message := message_of(line.event, "assistant"))
    ]
    usages = [mapping_in(message, "usage") for message in answers]
    sums = {
        "input_tokens": [number_in(usage, name) for usage in usages for name in ("input", "cacheRead", "cacheWrite")],
        "output_tokens": [number_in(usage, "output") for usage in usages],
        "cost_usd": [number_in(mapping_in(usage, "cost"), "total") for usage in usages],
    }
    metrics: dict[str, float] = {"model_calls": len(answers)}
    for name, numbers in sums.items():
        metrics[name] = round(sum(number or 0 for number in numbers), 10)
    times = [time for line in lines if (time := _time(line)) is not None]
    if len(times) > 1:
        metrics["duration_seconds"] = round((max(times) - min(times)).total_seconds(), 3)
    metrics["tool_calls"] = sum(step["kind"] == "call" for step in steps)
    metrics["failed_tool_calls"] = sum(step["kind"] == "result" and step["is_error"] for step in steps)
    return metrics


def ended_at(lines: Sequence[Line]) -> str:
    """Return the time of the last event as ISO time; empty if no event has one.

    Args:
        lines: The events.
    """
    last = max((time for line in lines if (time := _time(line)) is not None), default=None)
    return "" if last is None else last.astimezone(UTC).isoformat(timespec="seconds")


def _time(line: Line) -> datetime | None:
    try:
        time = datetime.fromisoformat(text_in(line.event, "timestamp"))
        if time.tzinfo is not None:
            return time
    except ValueError:  # captured messages only have a number
        pass
    milliseconds = number_in(mapping_in(line.event, "message"), "timestamp")
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
