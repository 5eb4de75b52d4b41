"""The transcripts of the sub-agents of a stored session, which are files of their own."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from ace.traces import TraceStep
from ace_claude_code.conversation import Line
from ace_claude_code.messages import called_tools, is_spoken, steps_in
from ace_claude_code.records import TranscriptError, read_records

__all__ = ["SubAgent", "read_subagents"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SubAgent:
    """What a sub-agent did."""

    steps: tuple[TraceStep, ...]
    lines: tuple[Line, ...]
    """Its messages."""


def read_subagents(transcript: Path | None) -> dict[str, SubAgent]:
    """Return the sub-agents by the ids of the calls that started them; by their own ids where nothing tells the call.

    Args:
        transcript: The file of the session; None gives nothing.
    """
    if transcript is None:
        return {}
    found: dict[str, SubAgent] = {}
    for path in sorted((transcript.with_suffix("") / "subagents").glob("agent-*.jsonl")):
        agent_id = path.stem.removeprefix("agent-")
        try:
            records = read_records(path)
        except TranscriptError as error:
            logger.warning("the sub-agent %s is skipped: %s", agent_id, error)
            continue
        spoken = [pair for pair in zip(records.lines, records.items, strict=True) if is_spoken(pair[1])]
        tools = {call: name for _, record in spoken for call, name in called_tools(record).items()}
        # The first message is the task, which the call holds already.
        steps = [
            each
            for number, record in spoken[1:]
            for each in steps_in(record, f"{path.stem}:{number}", tools, "sub-agent")
        ]
        lines = [Line(f"{path.stem}:{number}", record, of_subagent=True) for number, record in spoken]
        call = _starting_call(path.with_suffix(".meta.json"))
        found[call or agent_id] = SubAgent(tuple(steps), tuple(lines))
    return found


def _starting_call(path: Path) -> str:
    """Return the id of the call that started a sub-agent; empty where nothing tells it."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # older releases wrote no such file; the sub-agent's own id is enough then
        return ""
    call = meta.get("toolUseId") if isinstance(meta, dict) else None
    return call if isinstance(call, str) else ""
