"""The conversation in a stream or a transcript: its active branch, its sub-agents and its turns."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ace.integrations import Record, number_in, text_in
from ace_claude_code.messages import Message, is_spoken, mark_interrupted_calls, message_of
from ace_claude_code.records import PRIVATE, Records, TranscriptError, read_records
from ace_claude_code.typed import with_typed_messages

__all__ = ["Conversation", "SubAgents", "Turn", "read_conversation", "read_subagents"]

_PRIVATE_SESSION = "<private-session>"
_MOST_PROMPTS_OF_RETRY = 3
"""A branch with more prompts than this, which the user did not continue, is a session of its own."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Turn:
    """A prompt of the user and the messages up to the next prompt."""

    number: int
    """The number of the turn, from 1."""
    prompt: str
    """The prompt with expanded slash commands; empty if the records do not contain it."""
    typed: str
    """The prompt as typed by the user, with unexpanded slash commands."""
    lines: tuple[Message, ...]
    """The messages, including those of sub-agents in the same file."""


@dataclass(frozen=True)
class Conversation:
    """The turns of a stream or a transcript, in order."""

    session_id: str
    turns: tuple[Turn, ...]
    before: tuple[Message, ...]
    """The messages before the first prompt, if there is one."""
    forks: tuple[tuple[Message, ...], ...]
    """The long branches beside the active one, which are sessions of their own."""
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

    @property
    def lines(self) -> tuple[Message, ...]:
        """The messages of the active branch, without private turns."""
        return (*self.before, *(line for turn in self.turns for line in turn.lines))


def read_conversation(records: Records) -> Conversation:
    """Find the active branch of the conversation and divide it into turns.

    Turns whose whole prompt is private are omitted. Messages before the first prompt, such as the remains of a session
    that was compacted and forked, do not belong to a turn.
    """
    items = with_typed_messages(records.items)
    is_stream = any(_is_event(record) for record in items)
    messages = {at: message_of(record, str(records.lines[at])) for at, record in enumerate(items) if is_spoken(record)}
    said = [at for at, message in messages.items() if message.is_said]
    mark_interrupted_calls(messages[at] for at in said)
    # The separate file of a sub-agent only contains side chains; they are its active branch.
    mixed = any(not items[at].get("isSidechain") for at in said)
    for message in messages.values():
        message.of_subagent = _is_of_subagent(message.record, mixed)
    tree = _Tree(items, records.parents, mixed)
    is_one = not is_stream and tree.is_one
    chosen = _main_line(messages, tree.parents) if is_one else messages.keys()
    lines = [messages[at] for at in said if at in chosen]
    forks = _forks(messages, tree.parents, [at for at in said if at not in chosen])
    turns = list(_turns(lines, is_stream))
    begin = int(turns[0].lines[0].place) if turns else 0
    return Conversation(
        session_id=next((found for record in items if (found := text_in(record, "sessionId", "session_id"))), ""),
        turns=tuple(turn for turn in turns if turn.prompt != PRIVATE),
        before=tuple(line for line in lines if int(line.place) < begin),
        forks=tuple(tuple(messages[at] for at in fork) for fork in forks),
        is_private=any(_marks_session(line) for line in lines),
        is_stream=is_stream,
        abandoned_messages=len(said) - len(lines),
        compactions=sum(record.get("subtype") == "compact_boundary" for record in items),
        results=tuple(record for record in items if record.get("type") == "result"),
        costs=tuple(
            (number, cost)
            for number, record in zip(records.lines, items, strict=True)
            if record.get("type") == "cost-state" and (cost := number_in(record, "totalCostUSD")) is not None
        ),
    )


def _is_of_subagent(record: Record, mixed: bool) -> bool:
    return bool(text_in(record, "parent_tool_use_id")) or (mixed and bool(record.get("isSidechain")))


def _is_event(record: Record) -> bool:
    return record.get("type") == "result" or (record.get("type") == "system" and record.get("subtype") == "init")


class _Tree:
    """How the records of a session follow one another."""

    def __init__(self, items: Sequence[Record], omitted: Mapping[str, str], mixed: bool) -> None:
        self.parents: list[int | None] = []
        """The place of the record before each record; None for the first ones, and where it was lost."""
        self._roots: set[str] = set()
        self._is_whole = True
        places = {text_in(record, "uuid"): at for at, record in reversed(list(enumerate(items)))}
        for at, record in enumerate(items):
            own = text_in(record, "uuid")
            root, parent = _passed_over(text_in(record, "parentUuid", "logicalParentUuid"), omitted)
            before = places.get(parent, -1)
            self.parents.append(before if parent and before >= 0 else None)
            if own and not (mixed and record.get("isSidechain")):
                self._roots |= set() if parent else {root or own}
                self._is_whole = self._is_whole and (not parent or 0 <= before < at)

    @property
    def is_one(self) -> bool:
        """Whether all messages come from one. Otherwise records were lost or moved, and all are read in their order."""
        return self._is_whole and len(self._roots) == 1


def _passed_over(parent: str, omitted: Mapping[str, str]) -> tuple[str, str]:
    """Return the last omitted record on the way from a record to its parent, and the nearest parent that is kept."""
    last = ""
    passed: set[str] = set()
    while parent in omitted and parent not in passed:
        passed.add(parent)
        last, parent = parent, omitted[parent]
    return last, parent


def _main_line(messages: Mapping[int, Message], parents: Sequence[int | None]) -> set[int]:
    """Return the places of the records that lead to the last message, including sub-agents and parallel calls."""
    chosen: set[int] = set()
    main = (at for at in reversed([*messages]) if not messages[at].record.get("isSidechain"))
    following = next(main, None)
    while following is not None and following not in chosen:
        chosen.add(following)
        following = parents[following]
    return chosen | _beside(messages, chosen)


def _beside(messages: Mapping[int, Message], chosen: set[int]) -> set[int]:
    """Return the messages related to the chosen ones: blocks of the same answer, results of its calls, sub-agents."""
    answers = {messages[at].answer_id for at in chosen if at in messages} - {""}
    calls: set[str] = set()
    found: set[int] = set()
    for at, message in messages.items():
        if message.answer_id in answers or message.record.get("isSidechain") or not text_in(message.record, "uuid"):
            found.add(at)
        if at in chosen or at in found:
            calls.update(message.calls)
        elif not calls.isdisjoint(message.result_ids):
            found.add(at)
    return found


def _forks(messages: Mapping[int, Message], parents: Sequence[int | None], left: Sequence[int]) -> list[list[int]]:
    """Return the places of the messages on each long branch that is not the active one."""
    known = set(left)
    branches: dict[int, list[int]] = {}
    origins: dict[int, int] = {}
    for at in left:
        step, before = at, parents[at]
        while before is not None and before < step and before not in known and before not in messages:
            step, before = before, parents[before]
        origins[at] = at if before is None else origins.get(before, at)
        branches.setdefault(origins[at], []).append(at)
    return [
        branch
        for branch in branches.values()
        if sum(bool(messages[at].prompt) for at in branch) > _MOST_PROMPTS_OF_RETRY
    ]


def _turns(lines: Sequence[Message], is_stream: bool) -> Iterator[Turn]:
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
        prompt = next(line for line in own if _begins_turn(line))
        yield Turn(number, prompt.prompt, prompt.typed, own)


def _marks_session(line: Message) -> bool:
    return not line.of_subagent and _PRIVATE_SESSION in line.prompt.lower()


def _begins_turn(line: Message) -> bool:
    return bool(line.prompt) and not line.of_subagent and not line.was_typed_meanwhile


SubAgents = Mapping[str, tuple[Message, ...]]
"""The messages of sub-agents with files of their own, by the ids of the calls that started them, or by their own."""


def read_subagents(records: Records) -> SubAgents:
    """Return the sub-agents of a stored session that have files of their own.

    Args:
        records: The records of the session.
    """
    agents = dict(records.agents)
    found: dict[Path, Records] = {}
    for path in _subagent_files(records):
        try:
            found[path] = read_records(path)
        except TranscriptError as error:
            logger.warning("the sub-agent %s is skipped: %s", _agent_id(path), error)
            continue
        agents |= found[path].agents
    return {_name_of_subagent(path, own, agents): _lines_of_subagent(path, own) for path, own in found.items()}


def _name_of_subagent(path: Path, own: Records, agents: Mapping[str, str]) -> str:
    """Return the id of the call that started a sub-agent, or else that of its file."""
    agent_id = next((found for record in own.items if (found := text_in(record, "agentId"))), "")
    return agents.get(agent_id) or agents.get(_agent_id(path)) or _starting_call(path) or _agent_id(path)


def _lines_of_subagent(path: Path, own: Records) -> tuple[Message, ...]:
    return tuple(
        message_of(record, f"{path.stem}:{number}", of_subagent=True)
        for number, record in zip(own.lines, own.items, strict=True)
        if is_spoken(record)
    )


def _agent_id(path: Path) -> str:
    return path.stem.removeprefix("agent-")


def _subagent_files(records: Records) -> list[Path]:
    """Return the files of the sub-agents of a session: in a folder of the session, or beside it in older releases."""
    if records.path is None or records.path.name.startswith("agent-"):
        return []
    found = sorted((records.path.with_suffix("") / "subagents").glob("agent-*.jsonl"))
    beside = (records.path.with_name(f"agent-{agent_id}.jsonl") for agent_id in records.agents)
    return [*found, *(path for path in beside if path.is_file())]


def _starting_call(path: Path) -> str:
    """Return the id of the call that started a sub-agent, if it was recorded beside its file."""
    try:
        meta = json.loads(path.with_suffix(".meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # older releases did not write this file
        return ""
    return text_in(meta, "toolUseId") if isinstance(meta, dict) else ""
