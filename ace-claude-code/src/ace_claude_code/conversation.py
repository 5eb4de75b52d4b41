"""The conversation in a stream or a transcript: its active branch, its sub-agents and its turns."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ace.integrations import Record, mapping_in, number_in, text_in
from ace.traces import TraceStep
from ace_claude_code.messages import (
    called_tools,
    is_said,
    is_spoken,
    prompt_in,
    steps_in,
    tool_results,
    typed_in,
    was_typed_meanwhile,
    with_typed_messages,
)
from ace_claude_code.records import PRIVATE, Records, TranscriptError, read_records

__all__ = ["Conversation", "Line", "Turn", "read_conversation"]

_PRIVATE_SESSION = "<private-session>"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line:
    """A message and its place."""

    place: str
    """The number of its line, from 1."""
    record: Record
    of_subagent: bool = False
    """Whether it is a message of a sub-agent, or a tool result for one."""


@dataclass(frozen=True)
class Turn:
    """A prompt of the user and the messages up to the next prompt."""

    number: int
    """The number of the turn, from 1."""
    prompt: str
    """The prompt with expanded slash commands; empty if the records do not contain it."""
    typed: str
    """The prompt as typed by the user, with unexpanded slash commands."""
    lines: tuple[Line, ...]
    """The messages, including those of sub-agents in the same file."""


@dataclass(frozen=True)
class Conversation:
    """The turns of a stream or a transcript, in order."""

    session_id: str
    turns: tuple[Turn, ...]
    is_stream: bool
    """Whether these are the events of a running `claude`; a stream does not repeat the prompt."""
    abandoned_messages: int
    """The number of messages that the user abandoned by continuing from an earlier one."""
    compactions: int
    """The number of times that the conversation was compacted."""
    results: tuple[Record, ...]
    """The `result` events of a stream."""
    costs: tuple[tuple[int, float], ...] = ()
    """The cost of the session so far, in US dollars, with the lines at which it is recorded in a stored session."""
    is_private: bool = False
    """Whether the user typed `<private-session>`, so that nothing in it may be learned."""
    duplicate_records: int = 0
    """The number of records that were written more than once; the first of each is used."""


def read_conversation(records: Records) -> Conversation:
    """Find the active branch of the conversation and divide it into turns.

    Abandoned messages, and turns whose whole prompt is private, are omitted. Lines before the first prompt, such as the
    remains of a session that was compacted and forked, do not belong to a turn.
    """
    repeated = _repeated(records.items)
    items = with_typed_messages([{} if at in repeated else item for at, item in enumerate(records.items)])
    is_stream = any(_is_event(record) for record in items)
    chosen = set(range(len(items))) if is_stream else _main_line(items)
    said = [at for at, record in enumerate(items) if is_said(record)]
    # The separate file of a sub-agent only contains side chains; they are its active branch.
    mixed = any(not items[at].get("isSidechain") for at in said)
    lines = [Line(str(records.lines[at]), items[at], _is_of_subagent(items[at], mixed)) for at in said if at in chosen]
    return Conversation(
        session_id=next((found for record in items if (found := text_in(record, "sessionId", "session_id"))), ""),
        turns=tuple(turn for turn in _turns(lines, is_stream) if turn.prompt != PRIVATE),
        is_private=any(_marks_session(line) for line in lines),
        is_stream=is_stream,
        abandoned_messages=len(said) - len(lines),
        compactions=sum(record.get("subtype") == "compact_boundary" for record in items),
        results=tuple(record for record in items if record.get("type") == "result"),
        costs=tuple(
            (line, cost)
            for line, record in zip(records.lines, items, strict=True)
            if record.get("type") == "cost-state" and (cost := number_in(record, "totalCostUSD")) is not None
        ),
        duplicate_records=len(repeated),
    )


def _repeated(items: Sequence[Record]) -> set[int]:
    """Return the places of the records that have the id of an earlier one."""
    known: set[str] = set()
    found: set[int] = set()
    for at, record in enumerate(items):
        uuid = text_in(record, "uuid")
        if uuid and uuid in known:
            found.add(at)
        known.add(uuid)
    return found


def _is_of_subagent(record: Record, mixed: bool) -> bool:
    return bool(text_in(record, "parent_tool_use_id")) or (mixed and bool(record.get("isSidechain")))


def _is_event(record: Record) -> bool:
    return record.get("type") == "result" or (record.get("type") == "system" and record.get("subtype") == "init")


def _main_line(items: Sequence[Record]) -> set[int]:
    """Return the places of the messages that lead to the last one, including sub-agents and parallel calls."""
    places: dict[str, int] = {}
    for at, record in enumerate(items):
        places.setdefault(text_in(record, "uuid"), at)
    chosen: set[int] = set()
    following = next((at for at in reversed(range(len(items))) if _is_main(items[at])), None)
    while following is not None and following not in chosen:
        chosen.add(following)
        following = _before(items, following, places)
    return chosen | _beside(items, chosen)


def _before(items: Sequence[Record], at: int, places: dict[str, int]) -> int | None:
    """Return the place of the previous record or, if that record was lost, of the nearest earlier message."""
    parent = text_in(items[at], "parentUuid", "logicalParentUuid")
    if not parent:
        return None
    if parent in places:
        return places[parent]
    return next((earlier for earlier in reversed(range(at)) if _is_main(items[earlier])), None)


def _beside(items: Sequence[Record], chosen: set[int]) -> set[int]:
    """Return the records related to the chosen ones: blocks of the same answer, results of its calls, sub-agents."""
    answers = {_answer_id(items[at]) for at in chosen} - {""}
    calls: set[str] = set()
    found: set[int] = set()
    for at, record in enumerate(items):
        if not is_spoken(record):
            continue
        if _answer_id(record) in answers or record.get("isSidechain") or not text_in(record, "uuid"):
            found.add(at)
        if at in chosen or at in found:
            calls |= set(called_tools(record))
        elif calls & set(tool_results(record)):
            found.add(at)
    return found


def _answer_id(record: Record) -> str:
    return text_in(mapping_in(record, "message"), "id") if record.get("type") == "assistant" else ""


def _is_main(record: Record) -> bool:
    return is_spoken(record) and not record.get("isSidechain")


def _turns(lines: Sequence[Line], is_stream: bool) -> Iterator[Turn]:
    starts = [at for at, line in enumerate(lines) if _begins_turn(line)]
    if not starts:
        if lines:
            yield Turn(1, "", "", tuple(lines))
        return
    # Messages of a stream before a prompt belong to that prompt, which may be repeated late.
    if is_stream:
        starts[0] = 0
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True), 1):
        own = tuple(lines[start:end])
        prompt = next(line.record for line in own if _begins_turn(line))
        yield Turn(number, prompt_in(prompt), typed_in(prompt), own)


def _marks_session(line: Line) -> bool:
    return not line.of_subagent and _PRIVATE_SESSION in prompt_in(line.record).lower()


def _begins_turn(line: Line) -> bool:
    return bool(prompt_in(line.record)) and not line.of_subagent and not was_typed_meanwhile(line.record)


@dataclass(frozen=True)
class SubAgent:
    """The transcript of a sub-agent."""

    steps: tuple[TraceStep, ...]
    lines: tuple[Line, ...]
    """Its messages."""


def read_subagents(transcript: Path | None) -> dict[str, SubAgent]:
    """Return the sub-agents of a stored session by the id of the call that started them, or else by their own.

    Args:
        transcript: The file of the session; None returns an empty dict.
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
        # The first message is the task, which the call already contains.
        steps = [
            step
            for number, record in spoken[1:]
            for step in steps_in(record, f"{path.stem}:{number}", tools, "sub-agent")
        ]
        lines = [Line(f"{path.stem}:{number}", record, of_subagent=True) for number, record in spoken]
        call = _starting_call(path.with_suffix(".meta.json"))
        found[call or agent_id] = SubAgent(tuple(steps), tuple(lines))
    return found


def _starting_call(path: Path) -> str:
    """Return the id of the call that started a sub-agent; empty if it was not recorded."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # older releases did not write this file
        return ""
    call = meta.get("toolUseId") if isinstance(meta, dict) else None
    return call if isinstance(call, str) else ""
