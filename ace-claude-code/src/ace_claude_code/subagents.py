"""The transcripts of the sub-agents of a stored session, which are files of their own."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from ace.traces import TraceStep
from ace_claude_code.messages import called_tools, is_spoken, steps_in
from ace_claude_code.records import TranscriptError, read_records

__all__ = ["subagent_steps"]

logger = logging.getLogger(__name__)


def subagent_steps(transcript: Path | None) -> dict[str, list[TraceStep]]:
    """Return the steps of each sub-agent, by the id of the call that started it and by the sub-agent's own id.

    Args:
        transcript: The file of the session; None gives nothing.
    """
    if transcript is None:
        return {}
    found: dict[str, list[TraceStep]] = {}
    for path in sorted((transcript.with_suffix("") / "subagents").glob("agent-*.jsonl")):
        agent_id = path.stem.removeprefix("agent-")
        try:
            records = read_records(path)
        except TranscriptError as error:
            logger.warning("the sub-agent %s is passed over: %s", agent_id, error)
            continue
        spoken = [pair for pair in zip(records.lines, records.items, strict=True) if is_spoken(pair[1])]
        tools = {call: name for _, record in spoken for call, name in called_tools(record).items()}
        # The first message is the task, which the call holds already.
        steps = [
            each
            for number, record in spoken[1:]
            for each in steps_in(record, f"{path.stem}:{number}", tools, "sub-agent")
        ]
        found[agent_id] = steps
        call = _starting_call(path.with_suffix(".meta.json"))
        if call:
            found[call] = steps
    return found


def _starting_call(path: Path) -> str:
    """Return the id of the call that started a sub-agent; empty where nothing tells it."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # older releases wrote no such file; the sub-agent's own id is enough then
        return ""
    call = meta.get("toolUseId") if isinstance(meta, dict) else None
    return call if isinstance(call, str) else ""
