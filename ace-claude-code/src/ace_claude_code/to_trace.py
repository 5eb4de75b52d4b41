"""Converts a run or a stored session of Claude Code to the standard trace."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ace.context import ACEStepContext
from ace.integrations import checked_arguments, text_in
from ace.logs import Run, RunBuilder
from ace.traces import TraceStep
from ace_claude_code.account import (
    Metrics,
    costs_of_turns,
    metrics_of,
    metrics_of_lines,
    metrics_of_steps,
    metrics_of_stream,
)
from ace_claude_code.conversation import Turn, read_conversation, read_subagents
from ace_claude_code.logs import add_lines, facts_of_session, run_of_lines, run_of_session, shown_to_prompts
from ace_claude_code.messages import Message, dialogue_of
from ace_claude_code.outcome import outcome_of_conversation, outcome_of_lines
from ace_claude_code.records import TranscriptError, TranscriptSource, read_records
from ace_claude_code.result import ClaudeCodeResult

__all__ = ["ClaudeCodeToTrace", "transcript_to_trace", "transcript_to_turn_traces"]

Trace = dict[str, object]

# The context of a turn is limited; otherwise the traces of a session would grow quadratically with its length.
_TURNS_IN_CONTEXT = 10
_LENGTH_IN_CONTEXT = 400
_LENGTH_OF_PRECEDING = 4_000


class _Said(NamedTuple):
    """The question and the answer of a turn."""

    question: str
    answer: str


@checked_arguments()
def transcript_to_trace(source: TranscriptSource | ClaudeCodeResult, *, question: str = "") -> Trace:
    """Convert one run, one stream or one stored session to one standard trace.

    Prompt snapshots, tool schemas and other records of the client are omitted; the results of tools are kept. What the
    user marked as private is omitted too: passages between `<private>` and `</private>`, which are replaced by
    `[private]`, turns whose whole prompt is such a passage, and sessions in which the user typed `<private-session>`.

    Args:
        source: A `ClaudeCodeResult`; or a transcript or the output of `claude -p --output-format stream-json`, as a
            path, a text, or parsed records.
        question: The task of a stream, which does not contain it.

    Returns:
        The standard trace dict. Its `metadata` counts what was skipped: `skipped_lines`, `unknown_types`,
        `abandoned_messages`.

    Raises:
        TranscriptError: The file does not exist or has no records of Claude Code, or the session is private.

    Example:
        >>> trace = transcript_to_trace([
        ...     {"type": "assistant", "message": {"content": [{"type": "text", "text": "Fixed by [tests-00001]."}]}},
        ...     {"type": "result", "subtype": "success", "is_error": False, "result": "Fixed by [tests-00001]."},
        ... ], question="Fix it.")
        >>> trace["question"], trace["answer"], trace["skill_ids"], trace["success"]
        ('Fix it.', 'Fixed by [tests-00001].', ['tests-00001'], True)
    """
    if isinstance(source, ClaudeCodeResult):
        return _trace_of_result(source, question)
    records = read_records(source)
    conversation = read_conversation(records)
    if conversation.is_private:
        raise TranscriptError(f"{records.name or 'the session'} is private: the user typed <private-session> in it")
    prompts = [turn.prompt for turn in conversation.turns if turn.prompt]
    asked = question or "\n\n".join(prompts)
    subagents = read_subagents(records)
    metrics = metrics_of(conversation, subagents)
    trace = _trace(run_of_session(records, conversation, subagents, metrics, task=asked), metrics)
    if not asked:
        _add_feedback(trace, "The records contain no user prompt, so the task is unknown.")
    name = f"{_digest(conversation.lines)}@{conversation.session_id or records.name or 'records'}"
    return {**trace, "dialogue": _dialogue(conversation.lines), "trace_id": name}


@checked_arguments()
def transcript_to_turn_traces(source: TranscriptSource) -> list[Trace]:
    """Convert a session to one standard trace for each prompt of the user.

    The feedback contains the next message of the user, because corrections teach the most. Earlier questions and
    answers are in the context, and the messages of earlier turns in the `dialogue`. So a correction is learned from the
    turn in which the user made it, together with what it corrects, even if the session was resumed after the previous
    turn had been learned.

    The `trace_id` of a turn is computed from its prompt and its content. If a session grows, only its new turns have
    new ids, and the copied turns of a forked session keep theirs.

    Args:
        source: A transcript or a stream, as a path, a text, or parsed records.

    Returns:
        The traces in order; an empty list if the session has no user prompt, or is private.

    Raises:
        TranscriptError: The file does not exist, or has no records of Claude Code.
    """
    records = read_records(source)
    conversation = read_conversation(records)
    if conversation.is_private:
        return []
    subagents = read_subagents(records)
    costs = costs_of_turns(conversation)
    shown = deque(shown_to_prompts(records))
    facts = facts_of_session(conversation, records)
    asked = [turn for turn in conversation.turns if turn.prompt]
    traces = []
    said: list[_Said] = []
    recent: deque[Sequence[Message]] = deque(maxlen=_TURNS_IN_CONTEXT)
    for place, turn in enumerate(asked):
        is_last = place + 1 == len(asked)
        outcome = outcome_of_conversation(conversation, turn.lines) if is_last else outcome_of_lines(turn.lines)
        if conversation.results and len(asked) == 1:
            metrics = metrics_of_stream(conversation.results, turn.lines)
        else:
            own_agents = [subagents[call] for call in _calls_of(turn.lines) if call in subagents]
            metrics = metrics_of_lines(turn.lines, [line for lines in own_agents for line in lines])
        if turn.number in costs:
            metrics["cost_usd"] = costs[turn.number]
        end = int(asked[place + 1].lines[0].place) if not is_last else None
        chosen: list[str] = []
        while shown and (end is None or shown[0][0] < end):
            chosen += shown.popleft()[1]
        builder = RunBuilder()
        add_lines(builder, turn.lines, subagents)
        run = run_of_lines(
            builder, turn.lines, outcome, metrics, facts, chosen, task=turn.prompt, context=_context(said)
        )
        trace = _trace(run, metrics)
        if not is_last:
            _add_feedback(trace, f"The user's next message: {asked[place + 1].typed}")
        recent.append(turn.lines)
        metadata = {**_object(trace["metadata"]), "turn": turn.number}
        traces.append(
            {
                **trace,
                "dialogue": _dialogue([line for lines in recent for line in lines]),
                "metadata": metadata,
                "trace_id": _turn_id(turn),
            }
        )
        said.append(_Said(turn.typed, outcome.answer))
    return traces


class ClaudeCodeToTrace:
    """A step that converts the `ClaudeCodeResult` of a run to the standard trace.

    It also accepts the other sources of `transcript_to_trace`, such as the path of a stored session.
    """

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace."""
        source = ctx.trace
        if not isinstance(source, ClaudeCodeResult | str | bytes | Iterable) and not hasattr(source, "__fspath__"):
            raise TypeError(
                f"ClaudeCodeToTrace requires a ClaudeCodeResult or a transcript, got {type(source).__name__}; "
                "put ClaudeCodeExecuteStep before it"
            )
        trace = transcript_to_trace(source)
        ground_truth = getattr(ctx.sample, "ground_truth", None)
        return ctx.replace(trace={**trace, "ground_truth": ground_truth})


def _trace_of_result(result: ClaudeCodeResult, question: str) -> Trace:
    asked = question or result.task
    try:
        trace = transcript_to_trace(result.events, question=asked)
    except TranscriptError:  # the binary printed nothing: an invalid option, or it was killed immediately
        trace = _empty(asked)
    metrics = _object(trace["metrics"])
    if "cost_usd" in metrics and result.cost_usd:
        trace = {**trace, "metrics": {**metrics, "cost_usd": result.cost_usd}}
    if result.success:
        return trace
    metadata = {**_object(trace["metadata"]), "returncode": result.returncode, "timed_out": result.timed_out}
    trace = {**trace, "success": False, "metadata": metadata}
    if result.error and result.error not in str(trace["feedback"]):
        _add_feedback(trace, result.error)
    return trace


def _calls_of(lines: Sequence[Message]) -> list[str]:
    return [call for line in lines for call in line.calls]


def _dialogue(lines: Sequence[Message]) -> list[TraceStep]:
    return dialogue_of([line for line in lines if not line.of_subagent])


def _trace(run: Run, metrics: Metrics) -> Trace:
    """Return the trace of a run with all its metrics."""
    trace: Trace = {**run.to_trace()}
    numbers = {**_object(trace["metrics"]), **metrics, **metrics_of_steps(run.steps)}
    return {**trace, "metrics": numbers}


def _empty(question: str) -> Trace:
    return {**Run(task=question, success=False).to_trace()}


def _context(before: Sequence[_Said]) -> str:
    """Return the earlier questions and answers. The last ones are longer, because the user may refer to them."""
    shown = before[-_TURNS_IN_CONTEXT:]
    omitted = len(before) - len(shown)
    parts = [f"{omitted} earlier prompts of this session are omitted."] if omitted else []
    for at, (question, answer) in enumerate(shown, 1):
        length = _LENGTH_OF_PRECEDING if at == len(shown) else _LENGTH_IN_CONTEXT
        parts.append(
            f"Earlier in this session the user asked: {_cut(question, length)}\n"
            f"The agent answered: {_cut(answer or '(nothing)', length)}"
        )
    return "\n".join(parts)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length].rstrip()} [cut]"


def _add_feedback(trace: Trace, sentence: str) -> None:
    trace["feedback"] = f"{trace['feedback']}\n{sentence}".strip()


def _turn_id(turn: Turn) -> str:
    prompt = next((text_in(line.record, "uuid") for line in turn.lines), "") or f"turn-{turn.number}"
    return f"{_digest(turn.lines)}@{prompt}"


def _digest(lines: Sequence[Message]) -> str:
    """Return a hash of the messages, without the session id and the records of the client, which differ in a fork."""
    said = [[line.record.get("type"), line.record.get("uuid"), line.record.get("message")] for line in lines]
    data = json.dumps(said, sort_keys=True, ensure_ascii=True, default=str).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
