"""Trajectories in the Agent Trajectory Interchange Format, as Harbor and Terminus write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.outcomes import is_failed_output, number_of
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["READERS", "ATIFReader"]


class ATIFReader:
    """Reads trajectories, each of which is a run."""

    name = "atif"
    title = "ATIF trajectories (Harbor, Terminus)"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "The format records no outcome, and no flag for failed calls: only their texts tell."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for the version of the schema."""
        if head.objects and all(text_of(value.get("schema_version")).startswith("ATIF") for value in head.objects):
            return 1.0
        return 0.9 if {"schema_version", "session_id", "agent", "steps"} <= head.keys else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each trajectory."""
        for record in source.records():
            if isinstance(record.value, dict):
                yield _run(record.value)


def _run(trajectory: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    steps = [step for step in trajectory.get("steps") or () if isinstance(step, dict)]
    for number, step in enumerate(steps, 1):
        builder.at(step.get("timestamp"))
        _add(builder, step, text_of(step.get("step_id") or number))
    agent, metrics = fields_of(trajectory.get("agent")), fields_of(trajectory.get("final_metrics"))
    builder.spend(metrics.get("total_prompt_tokens"), metrics.get("total_completion_tokens"))
    return builder.run(
        id=text_of(trajectory.get("session_id")),
        model=text_of(agent.get("model_name")),
        cost=number_of(metrics.get("total_cost_usd")),
    )


def _add(builder: RunBuilder, step: Mapping[str, Any], place: str) -> None:
    if step.get("source") != "agent":
        role = "user" if step.get("source") == "user" else "system"
        add_message(builder, {"role": role, "content": step.get("message")}, place)
        return
    builder.thought(text_of(step.get("reasoning_content")), place)
    builder.message("agent", text_of(step.get("message")), place)
    calls = [call for call in step.get("tool_calls") or () if isinstance(call, dict)]
    for call in calls:
        name = text_of(call.get("function_name"))
        builder.call(name, call.get("arguments"), text_of(call.get("tool_call_id")), place)
    for result in fields_of(step.get("observation")).get("results") or ():
        _add_result(builder, fields_of(result), place, has_calls=bool(calls))


def _add_result(builder: RunBuilder, result: Mapping[str, Any], place: str, *, has_calls: bool) -> None:
    content = result.get("content")
    parts = (
        [text_of(part.get("text")) for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    text = "\n".join(parts) if parts else text_of(content)
    delegated = [fields_of(reference) for reference in result.get("subagent_trajectory_ref") or ()]
    names = ", ".join(text_of(reference.get("session_id")) for reference in delegated)
    text = "\n".join(part for part in (text, f"[trajectory of a sub-agent: {names}]" if names else "") if part)
    identity = text_of(result.get("source_call_id"))
    if has_calls or identity:
        builder.result(text, identity, place, is_error=is_failed_output(text))
    else:
        builder.message("harness", text, place)


READERS: Final = (ATIFReader(),)
