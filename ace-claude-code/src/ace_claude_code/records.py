"""Reads the JSON lines of a stream or a transcript, and skips other lines."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ace.integrations import Record, text_in

__all__ = ["Records", "TranscriptError", "TranscriptSource", "read_records"]

TranscriptSource = str | bytes | os.PathLike[str] | Iterable[Mapping[str, object]]
"""A path, the text of a file, or the parsed records."""

PRIVATE = "[private]"
"""The replacement of a passage between `<private>` and `</private>`."""
_PRIVATE_PASSAGE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)

KNOWN_TYPES = frozenset(
    {
        *("agent-name", "agent-setting", "ai-title", "api-request", "api-request-blob", "api-request-shape"),
        *("assistant", "atis-latch", "attachment", "control_request", "control_response", "cost-state"),
        *("custom-title", "file-history-snapshot", "last-prompt", "mode", "pr-link", "progress", "queue-operation"),
        *("rate_limit_event", "result", "stream_event", "summary", "system", "tag", "tool_progress"),
        *("tool_use_summary", "tools-used", "user", "worktree-state"),
    }
)


class TranscriptError(ValueError):
    """The source does not contain records of Claude Code that can be read."""


@dataclass(frozen=True)
class Records:
    """The records of one stream or transcript, and the number of skipped lines."""

    items: tuple[Record, ...]
    """The records, in order."""
    lines: tuple[int, ...]
    """The number of the line of each record, from 1."""
    name: str = ""
    """The name of the file; empty without a file."""
    skipped_lines: int = 0
    """The number of lines that are not JSON objects, such as truncated ones."""
    unknown_types: Mapping[str, int] = field(default_factory=dict)
    """The number of records of each unknown type."""

    @property
    def path(self) -> Path | None:
        """The path of the file; None without a file."""
        return Path(self.name) if self.name else None


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
        return _from_lines(source, "")
    if isinstance(source, str | os.PathLike):
        return _from_lines(_read_file(Path(source)), str(source))
    items = (source,) if isinstance(source, Mapping) else tuple(source)
    return _checked(items, tuple(range(1, len(items) + 1)), "", 0, "")


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TranscriptError(
            f"no such transcript: {str(path)!r}; transcripts are in ~/.claude/projects/*/SESSION.jsonl"
        ) from None
    except IsADirectoryError:
        raise TranscriptError(f"{str(path)!r} is a folder; give one of the .jsonl files in it") from None


def _from_lines(data: bytes, name: str) -> Records:
    items: list[Record] = []
    lines: list[int] = []
    skipped = 0
    problem = ""
    # Only a line feed ends a line of JSONL; str.splitlines would also cut at U+2028 inside a text.
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            record, problem = None, problem or f"line {number}: {error}"
        if isinstance(record, dict):
            items.append(record)
            lines.append(number)
        else:
            skipped += 1
            problem = problem or f"line {number} is not a JSON object"
    return _checked(tuple(items), tuple(lines), name, skipped, problem)


def _checked(items: tuple[Record, ...], lines: tuple[int, ...], name: str, skipped: int, problem: str) -> Records:
    types = Counter(text_in(record, "type") for record in items)
    unknown = {kind: count for kind, count in sorted(types.items()) if kind not in KNOWN_TYPES}
    if sum(unknown.values()) == len(items):
        where = f"{name}: " if name else ""
        raise TranscriptError(
            f"{where}no records of Claude Code found ({len(items)} other records, {skipped} lines without a "
            f"JSON object{'; ' + problem if problem else ''}); give a transcript of ~/.claude/projects, or the output "
            "of 'claude -p --output-format stream-json --verbose'"
        )
    return Records(tuple(_without_private(record) for record in items), lines, name, skipped, unknown)


def _without_private(record: Record) -> Record:
    """Return a record without its private passages; the same record if it has none."""
    cleaned = _cleaned(record)
    return cleaned if isinstance(cleaned, Mapping) else record


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
