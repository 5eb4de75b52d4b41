"""The metrics of a run: calls, tokens, duration and cost."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from ace.integrations import Record, mapping_in, number_in, text_in
from ace.logs import Step
from ace_claude_code.conversation import Conversation, SubAgents
from ace_claude_code.messages import Message

__all__ = [
    "Metrics",
    "costs_of_turns",
    "metrics_of",
    "metrics_of_lines",
    "metrics_of_result",
    "metrics_of_session",
    "metrics_of_steps",
    "metrics_of_stream",
]

Metrics = dict[str, float]

_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_INPUT_OF_MODEL = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")


def metrics_of_result(result: Record) -> Metrics:
    """Return the metrics of a `result` event. For a resumed session, recent releases report its total cost."""
    found = {
        "turns": number_in(result, "num_turns"),
        "cost_usd": number_in(result, "total_cost_usd"),
        "duration_ms": number_in(result, "duration_ms"),
    }
    return {
        **_tokens(mapping_in(result, "usage")),
        **{name: value for name, value in found.items() if value is not None},
    }


def metrics_of_stream(results: Sequence[Record], lines: Sequence[Message]) -> Metrics:
    """Return the metrics of a run: those of its results, and of its sub-agents, which are not part of the results.

    Args:
        results: The `result` events; each counts what came after the previous one, but the cost of everything.
        lines: The messages of the run.
    """
    metrics = metrics_of_result(results[-1])
    for result in results[:-1]:
        earlier = metrics_of_result(result)
        for name in metrics.keys() & earlier.keys() - {"cost_usd"}:
            metrics[name] += earlier[name]
    models = [usage for usage in mapping_in(results[-1], "modelUsage").values() if isinstance(usage, Mapping)]
    # The messages of a stream do not contain the whole usage of a sub-agent, but the usage by model does. In a resumed
    # session, that includes earlier runs, so it is only used if the results are not sufficient.
    if models and any(line.of_subagent for line in lines):
        metrics["input_tokens"] = sum(number_in(model, name) or 0 for model in models for name in _INPUT_OF_MODEL)
        metrics["output_tokens"] = sum(number_in(model, "outputTokens") or 0 for model in models)
    return metrics


def metrics_of(conversation: Conversation, subagents: SubAgents) -> Metrics:
    """Return the metrics of a whole session or stream.

    Args:
        conversation: What was said in it.
        subagents: The sub-agents with files of their own.
    """
    if conversation.results:
        return metrics_of_stream(conversation.results, conversation.lines)
    return metrics_of_session(conversation, [line for own in subagents.values() for line in own])


def metrics_of_lines(lines: Sequence[Message], of_subagents: Sequence[Message] = ()) -> Metrics:
    """Return the metrics of a stored turn.

    Args:
        lines: The messages of the turn.
        of_subagents: The messages of the turn's sub-agents, if they are stored in separate files.
    """
    everything = [*lines, *of_subagents]
    usages = _usages(everything)
    tokens = [_tokens(usage) for usage in usages]
    metrics: Metrics = {
        "model_calls": len(usages),
        **{name: sum(token.get(name, 0) for token in tokens) for name in ("input_tokens", "output_tokens")},
    }
    if (duration := _duration(lines)) is not None:
        metrics["duration_ms"] = duration
    return metrics


def _duration(lines: Sequence[Message]) -> int | None:
    times = [line.time for line in lines if line.time is not None]
    return round((max(times) - min(times)).total_seconds() * 1000) if len(times) > 1 else None


def metrics_of_session(conversation: Conversation, of_subagents: Sequence[Message]) -> Metrics:
    """Return the metrics of a stored session. The time that the user took between turns is not counted.

    Args:
        conversation: The session.
        of_subagents: The messages of its sub-agents, if they are stored in separate files.
    """
    metrics = metrics_of_lines(conversation.lines, of_subagents)
    if "duration_ms" in metrics:
        metrics["duration_ms"] = sum(_duration(turn.lines) or 0 for turn in conversation.turns)
    if conversation.costs:
        metrics["cost_usd"] = conversation.costs[-1][1]
    return metrics


def costs_of_turns(conversation: Conversation) -> dict[int, float]:
    """Return the costs of turns in US dollars, by their numbers, if the cost before and after a turn is recorded.

    Args:
        conversation: A stored session. Claude Code records its total cost at the end of each run.
    """
    found: dict[int, float] = {}
    waiting: list[int] = []
    turns = deque(conversation.turns)
    before = 0.0
    for line, total in conversation.costs:
        while turns and int(turns[0].lines[0].place) <= line:
            waiting.append(turns.popleft().number)
        if len(waiting) == 1 and total >= before:
            found[waiting[0]] = total - before
        waiting, before = [], total
    return found


def metrics_of_steps(steps: Sequence[Step]) -> Metrics:
    """Return the numbers of all tool calls, and of those that failed or were denied.

    Args:
        steps: The steps of the run.
    """
    return {
        "tool_calls": sum(step.kind == "call" for step in steps),
        "failed_tool_calls": sum(step.kind == "result" and step.is_error for step in steps),
    }


def _usages(lines: Sequence[Message]) -> list[Record]:
    # Each block of an answer repeats the usage of the whole answer.
    answers = [mapping_in(line.record, "message") for line in lines if line.is_of_model]
    return list({text_in(answer, "id"): mapping_in(answer, "usage") for answer in answers}.values())


def _tokens(usage: Record) -> Metrics:
    if not usage:
        return {}
    return {
        "input_tokens": sum(number_in(usage, name) or 0 for name in _INPUT),
        "output_tokens": number_in(usage, "output_tokens") or 0,
    }


def earlier_cost(session_id: str, config_folder: Path) -> float:
    """Return the cost of a stored session in US dollars; 0 if it is not recorded, as in older releases.

    Args:
        session_id: The id of the session.
        config_folder: The folder of Claude Code.
    """
    for folder in (config_folder / "projects").glob("*"):
        try:
            lines = (folder / f"{session_id}.jsonl").read_bytes().split(b"\n")
        except OSError:  # it is a session of another project
            continue
        for line in reversed(lines):
            if b'"cost-state"' in line and (cost := _cost_in(line)) is not None:
                return cost
    return 0.0


def _cost_in(line: bytes) -> float | None:
    try:
        record = json.loads(line)
    except ValueError:  # a truncated line
        return None
    if not isinstance(record, dict) or record.get("type") != "cost-state":
        return None
    return number_in(record, "totalCostUSD")
