"""Converts a run or a stored session of Claude Code to the standard trace."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ace.context import ACEStepContext
from ace.integrations import (
    Record,
    checked_arguments,
    corrections_in,
    extract_cited_skill_ids,
    list_in,
    mapping_in,
    text_in,
)
from ace.traces import TraceCorrection, TraceStep, failed_steps, steps_as_text
from ace_claude_code.account import (
    costs_of_turns,
    metrics_of_lines,
    metrics_of_session,
    metrics_of_steps,
    metrics_of_stream,
)
from ace_claude_code.conversation import Conversation, Line, SubAgent, Turn, read_conversation, read_subagents
from ace_claude_code.messages import (
    DENIED_MARK,
    called_tools,
    dialogue_of,
    prompt_in,
    rejections,
    steps_in,
    unknown_blocks,
    was_typed_meanwhile,
)
from ace_claude_code.outcome import Outcome, outcome_of_lines, outcome_of_result
from ace_claude_code.records import Records, TranscriptError, TranscriptSource, read_records
from ace_claude_code.result import ClaudeCodeResult

__all__ = ["ClaudeCodeToTrace", "transcript_to_trace", "transcript_to_turn_traces"]

Trace = dict[str, object]

# The context of a turn is limited; otherwise the traces of a session would grow quadratically with its length.
_TURNS_IN_CONTEXT = 10
_LENGTH_IN_CONTEXT = 400
_LENGTH_OF_PRECEDING = 4_000
_HOOK = "hook_additional_context"
_PROMPT_HOOK = "UserPromptSubmit"


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
    lines = [line for turn in conversation.turns for line in turn.lines]
    prompts = [turn.prompt for turn in conversation.turns if turn.prompt]
    asked = question or "\n\n".join(prompts)
    outcome = _outcome(conversation, lines)
    subagents = read_subagents(records.path)
    steps = _steps(lines, subagents)
    if conversation.results:
        metrics = metrics_of_stream(conversation.results, lines)
    else:
        metrics = metrics_of_session(conversation, [line for subagent in subagents.values() for line in subagent.lines])
    shown = [skill_id for line in _shown_to_prompts(records) for skill_id in line[1]]
    facts = _with_model(_session_facts(conversation, records), lines, shown)
    trace = {**_trace(asked, "", outcome, steps, lines, metrics, facts), "corrections": _corrections(lines)}
    if not asked:
        _add_feedback(trace, "The records contain no user prompt, so the task is unknown.")
    return {**trace, "trace_id": f"{_digest(lines)}@{conversation.session_id or records.name or 'records'}"}


@checked_arguments()
def transcript_to_turn_traces(source: TranscriptSource) -> list[Trace]:
    """Convert a session to one standard trace for each prompt of the user.

    The feedback contains the next message of the user, because corrections teach the most. Earlier questions and
    answers are in the context, and a correction is in the `corrections` of the turn in which the user made it. So it is
    learned together with what it corrects, even if the session was resumed after the previous turn had been learned.

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
    subagents = read_subagents(records.path)
    costs = costs_of_turns(conversation)
    shown = deque(_shown_to_prompts(records))
    facts = _session_facts(conversation, records)
    asked = [turn for turn in conversation.turns if turn.prompt]
    corrections: dict[str, list[TraceCorrection]] = {}
    for correction in _corrections([line for turn in conversation.turns for line in turn.lines]):
        corrections.setdefault(correction["place"], []).append(correction)
    traces = []
    said: list[_Said] = []
    for place, turn in enumerate(asked):
        is_last = place + 1 == len(asked)
        outcome = _outcome(conversation, turn.lines) if is_last else outcome_of_lines(turn.lines)
        steps = _steps(turn.lines, subagents)
        if conversation.results and len(asked) == 1:
            metrics = metrics_of_stream(conversation.results, turn.lines)
        else:
            own_agents = [subagents[call] for call in _calls_of(turn.lines) if call in subagents]
            metrics = metrics_of_lines(turn.lines, [line for agent in own_agents for line in agent.lines])
        if turn.number in costs:
            metrics["cost_usd"] = costs[turn.number]
        end = int(asked[place + 1].lines[0].place) if not is_last else None
        chosen: list[str] = []
        while shown and (end is None or shown[0][0] < end):
            chosen += shown.popleft()[1]
        own_facts = _with_model(facts, turn.lines, chosen)
        trace = _trace(turn.prompt, _context(said), outcome, steps, turn.lines, metrics, own_facts)
        if not is_last:
            _add_feedback(trace, f"The user's next message: {asked[place + 1].typed}")
        places = dict.fromkeys(line.place for line in turn.lines)
        own = [correction for name in places for correction in corrections.get(name, ())]
        metadata = {**_object(trace["metadata"]), "turn": turn.number}
        traces.append({**trace, "corrections": own, "metadata": metadata, "trace_id": _turn_id(turn)})
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


def _outcome(conversation: Conversation, lines: Sequence[Line]) -> Outcome:
    # A stream with background sub-agents has several results; the last one is the result of the whole run.
    if conversation.results:
        return outcome_of_result(conversation.results[-1], lines)
    return outcome_of_lines(lines)


def _calls_of(lines: Sequence[Line]) -> list[str]:
    return [call for line in lines for call in called_tools(line.record)]


def _steps(lines: Sequence[Line], subagents: dict[str, SubAgent]) -> list[TraceStep]:
    tools = {call: name for line in lines for call, name in called_tools(line.record).items()}
    steps: list[TraceStep] = []
    for line in lines:
        steps += steps_in(line.record, line.place, tools, "sub-agent" if line.of_subagent else "")
        for call in called_tools(line.record):
            if call in subagents:
                steps += subagents[call].steps
    return steps


def _corrections(lines: Sequence[Line]) -> list[TraceCorrection]:
    said = [line for line in lines if not line.of_subagent]
    return corrections_in(dialogue_of([(line.place, line.record) for line in said]))


def _trace(
    question: str,
    context: str,
    outcome: Outcome,
    steps: list[TraceStep],
    lines: Sequence[Line],
    metrics: dict[str, float],
    facts: dict[str, object],
) -> Trace:
    own = [step for step in steps if step["kind"] in ("thought", "message") and step["name"] != "user"]
    words = "\n".join(record["content"] for record in own)
    # The outcome already reports denied calls; `reasons` adds why they were denied.
    failed = [step for step in steps if not step["content"].startswith(DENIED_MARK)]
    said = [line.record for line in lines if not line.of_subagent]
    reasons = [f"The user rejected a call: {reason}" for record in said for reason in rejections(record).values()]
    typed = [prompt_in(line.record) for line in lines if was_typed_meanwhile(line.record) and not line.of_subagent]
    objected = [f"While the agent worked, the user said: {text}" for text in typed if text]
    return {
        "schema": 1,
        "question": question,
        "context": context,
        "reasoning": steps_as_text(steps),
        "answer": outcome.answer,
        "skill_ids": extract_cited_skill_ids(words),
        "feedback": "\n".join(dict.fromkeys([*outcome.problems, *failed_steps(failed), *reasons, *objected])),
        "ground_truth": None,
        "success": outcome.success,
        "steps": steps,
        "metrics": {**metrics, **metrics_of_steps(steps)},
        "metadata": facts,
    }


def _empty(question: str) -> Trace:
    blank: Trace = {"schema": 1, "question": question, "context": "", "reasoning": "", "answer": "", "skill_ids": []}
    judged: Trace = {"feedback": "", "ground_truth": None, "success": False}
    return {**blank, **judged, "steps": [], "corrections": [], "metrics": {}, "metadata": {}}


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


def _session_facts(conversation: Conversation, records: Records) -> dict[str, object]:
    """Return the metadata that all turns of a session share. Called once, because it reads all records."""
    attachments = [mapping_in(record, "attachment") for record in records.items if record.get("type") == "attachment"]
    hooks = [
        attachment
        for attachment in attachments
        if attachment.get("type") == _HOOK and attachment.get("hookEvent") != _PROMPT_HOOK
    ]
    instructions = [
        file
        for attachment in attachments
        if attachment.get("type") == "instructions"
        for file in list_in(attachment, "files")
        if isinstance(file, dict)
    ]
    texts = [text_in(file, "content") for file in instructions] + [_hook_text(hook) for hook in hooks]
    return {
        "integration": "claude_code",
        "session_id": conversation.session_id,
        "source": records.name,
        "cwd": _first(records.items, "cwd"),
        "version": _first(records.items, "version", "claude_code_version"),
        "instruction_files": list(dict.fromkeys(text_in(file, "path") for file in instructions)),
        "shown_skill_ids": _listed_skills(texts),
        "skipped_lines": records.skipped_lines,
        "unknown_types": dict(records.unknown_types),
        "abandoned_messages": conversation.abandoned_messages,
        "duplicate_records": conversation.duplicate_records,
        "compactions": conversation.compactions,
    }


def _with_model(facts: dict[str, object], lines: Sequence[Line], shown: Sequence[str]) -> dict[str, object]:
    """Return the metadata of a part of a session, with the skills that were chosen for its prompts."""
    shown_first = facts["shown_skill_ids"]
    known = shown_first if isinstance(shown_first, list) else []
    found = {
        **facts,
        "model": next((model for line in lines if (model := _model(line.record))), ""),
        "shown_skill_ids": list(dict.fromkeys([*known, *shown])),
        "unknown_blocks": dict(Counter(kind for line in lines for kind in unknown_blocks(line.record))),
    }
    return {name: value for name, value in found.items() if value not in ("", 0, [], {})}


def _shown_to_prompts(records: Records) -> list[tuple[int, list[str]]]:
    """Return the skills that a hook added to prompts, each with the line where that is noted."""
    found = []
    for number, record in zip(records.lines, records.items, strict=True):
        attachment = mapping_in(record, "attachment")
        if attachment.get("type") == _HOOK and attachment.get("hookEvent") == _PROMPT_HOOK:
            found.append((number, _listed_skills([_hook_text(attachment)])))
    return found


def _hook_text(attachment: Record) -> str:
    content = attachment.get("content")
    return content if isinstance(content, str) else "\n".join(map(str, list_in(attachment, "content")))


def _listed_skills(texts: Iterable[str]) -> list[str]:
    """Return the ids of the skills in lists of them; a skill may name another one, which is not shown by that."""
    entries = [line.strip() for text in texts for line in text.splitlines()]
    heads = [entry.partition("]")[0] for entry in entries if entry.startswith("- [")]
    return extract_cited_skill_ids("\n".join(heads))


def _model(record: Record) -> str:
    model = text_in(mapping_in(record, "message"), "model")
    return "" if model == "<synthetic>" else model


def _first(items: Sequence[Record], *names: str) -> str:
    return next((found for record in items if (found := text_in(record, *names))), "")


def _add_feedback(trace: Trace, sentence: str) -> None:
    trace["feedback"] = f"{trace['feedback']}\n{sentence}".strip()


def _turn_id(turn: Turn) -> str:
    prompt = next((text_in(line.record, "uuid") for line in turn.lines), "") or f"turn-{turn.number}"
    return f"{_digest(turn.lines)}@{prompt}"


def _digest(lines: Sequence[Line]) -> str:
    """Return a hash of the messages, without the session id and the records of the client, which differ in a fork."""
    said = [[line.record.get("type"), line.record.get("uuid"), line.record.get("message")] for line in lines]
    data = json.dumps(said, sort_keys=True, ensure_ascii=True, default=str).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
