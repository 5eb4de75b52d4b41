"""The records of a stream or a transcript, without those that say nothing."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ace.integrations import Record, list_in, mapping_in, text_in
from ace.logs import Problem, Source, file_source, live_source, text_source

__all__ = ["PRIVATE", "Records", "TranscriptError", "TranscriptSource", "events_in", "read_records"]

TranscriptSource = str | bytes | os.PathLike[str] | Iterable[Mapping[str, object]]
"""A path, the text of a file, or the parsed records."""

PRIVATE = "[private]"
"""The replacement of a passage between `<private>` and `</private>`."""
_WHAT_TO_GIVE = (
    "give a transcript of ~/.claude/projects, or the output of 'claude -p --output-format stream-json --verbose'"
)
_PRIVATE_PASSAGE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)

_FIELDS_WITH_TEXT = ("message", "attachment", "content", "result")
KNOWN_TYPES = frozenset(
    {
        *("agent-name", "agent-setting", "ai-title", "api-request", "api-request-blob", "api-request-shape"),
        *("assistant", "atis-latch", "attachment", "bridge-session", "control_request", "control_response"),
        *("cost-state", "custom-title", "file-history-delta", "file-history-snapshot", "init", "last-prompt", "mode"),
        *("permission-mode", "pr-link", "progress", "queue-operation", "rate_limit_event", "result", "stream_event"),
        *("summary", "system", "tag", "tool_progress", "tool_use_summary", "tools-used", "turn_end", "user"),
        "worktree-state",
    }
)
_KEPT_TYPES = frozenset({"user", "assistant", "system", "result", "cost-state"})
_KEPT_ATTACHMENTS = frozenset({"hook_additional_context", "instructions", "queued_command"})
"""The attachments that say something; the others, such as snapshots of prompts, are most of a session."""


class TranscriptError(ValueError):
    """The source does not contain records of Claude Code that can be read."""


@dataclass
class Records:
    """The records of one session or stream, without those that say nothing."""

    name: str = ""
    """The name of the file; empty without a file."""
    items: list[Record] = field(default_factory=list)
    """The records, in order."""
    lines: list[int] = field(default_factory=list)
    """The number of the line of each record, from 1."""
    parents: dict[str, str] = field(default_factory=dict)
    """The ids of the records that say nothing, each with that of its parent: others may refer to them."""
    agents: dict[str, str] = field(default_factory=dict)
    """The ids of sub-agents, each with that of the call that started it, as far as the records contain it."""
    duplicates: int = 0
    """The number of records that were written more than once; the first of each is used."""
    skipped_lines: int = 0
    """The number of lines that are not JSON objects, such as truncated ones."""
    unknown_types: Counter[str] = field(default_factory=Counter)
    """The number of records of each unknown type."""
    _seen: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.path = Path(self.name) if self.name else None

    def add(self, record: Record, line: int) -> None:
        """Add a record, unless it repeats an earlier one or says nothing.

        Args:
            line: The number of its line.
        """
        kind = record.get("type")
        uuid = text_in(record, "uuid")
        if self._is_repeated(record, kind, uuid):
            self.duplicates += 1
        elif kind in _KEPT_TYPES or _is_telling(record, kind):
            if kind == "user":
                self._find_agent(record)
            self.items.append(_without_private(record))
            self.lines.append(line)
        else:
            if uuid:
                self.parents[uuid] = text_in(record, "parentUuid")
            if kind == "progress":
                data = mapping_in(record, "data")
                self.agents.setdefault(text_in(data, "agentId"), text_in(record, "parentToolUseID"))
            elif kind not in KNOWN_TYPES:
                self.unknown_types[text_in(record, "type")] += 1

    def _is_repeated(self, record: Record, kind: object, uuid: str) -> bool:
        """Return whether a record was written before, also under another id, as a resumed session repeats answers."""
        keys: list[object] = [uuid] if uuid else []
        message = record.get("message")
        if kind == "assistant" and isinstance(message, Mapping) and text_in(message, "id"):
            keys.append(hash(f"{message['id']} {message.get('content')}"))
        found = any(key in self._seen for key in keys)
        self._seen.update(keys)
        return found

    def _find_agent(self, record: Record) -> None:
        result = record.get("toolUseResult")
        agent = text_in(result, "agentId") if isinstance(result, Mapping) else ""
        if agent:
            parts = [part for part in list_in(mapping_in(record, "message"), "content") if isinstance(part, Mapping)]
            self.agents[agent] = next((call for part in parts if (call := text_in(part, "tool_use_id"))), "")


def _is_telling(record: Record, kind: object) -> bool:
    return kind == "attachment" and mapping_in(record, "attachment").get("type") in _KEPT_ATTACHMENTS


def read_records(source: TranscriptSource) -> Records:
    """Read the records of a stream or a transcript.

    Args:
        source: A path, the text of a file, or the parsed records.

    Returns:
        The records without private passages, and the number of skipped lines.

    Raises:
        TranscriptError: The file does not exist, or does not contain records of Claude Code.

    Example:
        >>> read = read_records(b'{"type": "user"}\\n{"type": "assis')
        >>> len(read.items), read.skipped_lines
        (1, 1)
    """
    if isinstance(source, str) and (not source.strip() or "\n" in source or source.lstrip().startswith("{")):
        source = source.encode("utf-8", "surrogatepass")
    if isinstance(source, bytes):
        return _collected(text_source(source), "")
    if isinstance(source, str | os.PathLike):
        return _collected(_file(Path(source)), str(source))
    return _collected(live_source([source] if isinstance(source, Mapping) else list(source)), "")


def _file(path: Path) -> Source:
    try:
        return file_source(path)
    except FileNotFoundError:
        raise TranscriptError(
            f"no such transcript: {str(path)!r}; transcripts are in ~/.claude/projects/*/SESSION.jsonl"
        ) from None
    except ValueError as error:
        raise TranscriptError(f"{path}: no records of Claude Code found ({error}); {_WHAT_TO_GIVE}") from None


def events_in(data: bytes) -> tuple[tuple[Record, ...], int]:
    """Return all events of a stream without private passages, and the number of lines that are not events.

    Args:
        data: What the binary printed.
    """
    source = text_source(data)
    values = [value for value, _ in source.records()]
    events = tuple(_without_private(value) for value in values if isinstance(value, dict))
    return events, len(values) - len(events) + _count(source.problems)


def _collected(source: Source, name: str) -> Records:
    if source.shape == "folder":
        raise TranscriptError(f"{name!r} is a folder; give one of the .jsonl files in it")
    records = Records(name)
    number = 0
    for value, line in source.records():
        if isinstance(value, Mapping):
            records.add(value, line)
            number += 1
        else:
            records.skipped_lines += 1
    records.skipped_lines += _count(source.problems)
    if records.unknown_types.total() == number:
        where = f"{name}: " if name else ""
        problem = f"; {source.problems[0]}" if source.problems else ""
        raise TranscriptError(
            f"{where}no records of Claude Code found ({number} other records, {records.skipped_lines} lines without a "
            f"JSON object{problem}); {_WHAT_TO_GIVE}"
        )
    return records


def _count(problems: Sequence[Problem]) -> int:
    return sum(problem.count for problem in problems)


def _without_private(record: Record) -> Record:
    """Return a record without its private passages; the same record if it has none."""
    if not _has_private(record):
        return record
    cleaned = _cleaned(record)
    return cleaned if isinstance(cleaned, Mapping) else record


def _has_private(record: Record) -> bool:
    """Return whether a text in a record begins a private passage. Called for each record, so it makes nothing new."""
    values = [record.get(name) for name in _FIELDS_WITH_TEXT]
    while values:
        value = values.pop()
        if isinstance(value, str):
            if "<" in value and "<private>" in value.lower():
                return True
        elif isinstance(value, list):
            values += value
        elif isinstance(value, (dict, Mapping)):
            values += value.values()
    return False


def _cleaned(value: object) -> object:
    """Return a value without private passages, in new objects only where something was removed."""
    if isinstance(value, str):
        return _PRIVATE_PASSAGE.sub(PRIVATE, value) if "<" in value else value
    if isinstance(value, list):
        items = [_cleaned(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, Mapping):
        fields = {name: _cleaned(content) for name, content in value.items()}
        return fields if any(fields[name] is not content for name, content in value.items()) else value
    return value
