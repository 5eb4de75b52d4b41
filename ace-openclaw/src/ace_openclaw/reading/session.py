"""`StoredSession`: the events of one session and their source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ace.integrations import Record, mapping_in, text_in

__all__ = ["KNOWN_ROLES", "SessionReadError", "StoredSession", "session_of_events"]

KNOWN_TYPES = frozenset(
    {
        *("branch_summary", "compaction", "custom", "custom_message", "label", "leaf", "message", "model_change"),
        *("reset", "run", "session", "session_info", "thinking_level_change"),
    }
)
KNOWN_ROLES = frozenset({"user", "assistant", "toolResult", "bashExecution"})


class SessionReadError(ValueError):
    """The source does not contain a session that can be read."""


@dataclass(frozen=True)
class StoredSession:
    """The events of one session and their source."""

    events: tuple[Record, ...]
    """The events in their order, without the header."""
    places: tuple[str, ...]
    """The place of each event: the line of a file, or its number in a database."""
    source: str = ""
    """The file or folder of the session; empty for events in memory."""
    session_id: str = ""
    session_key: str = ""
    """Its name in OpenClaw, such as `agent:main:main`."""
    agent_id: str = ""
    workspace: str = ""
    """The folder that the agent worked in."""
    status: str = ""
    """Its status in the database: `running`, `done`, `failed`, `killed` or `timeout`."""
    leaf_id: str = ""
    """The last event of the active branch, if it is recorded separately from the events."""
    skipped_lines: int = 0
    """The number of lines or rows without an event, such as truncated ones."""
    unknown_types: Mapping[str, int] = field(default_factory=dict)
    """The number of events of each unknown type."""


def session_of_events(
    events: Iterable[object],
    *,
    places: Iterable[str] | None = None,
    skipped_lines: int = 0,
    source: str = "",
    session_id: str = "",
    session_key: str = "",
    agent_id: str = "",
    workspace: str = "",
    status: str = "",
    leaf_id: str = "",
) -> StoredSession:
    """Return the session that some events make up. Whatever is not a JSON object is counted and skipped.

    Args:
        events: The events in their order, usually with the header first.
        places: Where each of them is; by default their numbers from 1.
        skipped_lines: How many lines were skipped before.
        source: The file or folder.
        session_id: The session; by default what the header says.
        session_key: Its name.
        agent_id: The agent.
        workspace: The folder that the agent worked in; by default what the header says.
        status: What the database says of it.
        leaf_id: The event at which the conversation stands.

    Example:
        >>> session = session_of_events([{"type": "session", "id": "a"}, {"type": "hologram"}, 7])
        >>> session.session_id, dict(session.unknown_types), session.skipped_lines
        ('a', {'hologram': 1}, 1)
    """
    records = list(events)
    numbered = zip(records, places or map(str, range(1, len(records) + 1)), strict=True)
    kept = [(event, place) for event, place in numbered if isinstance(event, Mapping)]
    header = next((event for event, _ in kept if event.get("type") == "session"), {})
    body = [(event, place) for event, place in kept if event.get("type") != "session"]
    return StoredSession(
        events=tuple(event for event, _ in body),
        places=tuple(place for _, place in body),
        source=source,
        session_id=session_id or text_in(header, "id"),
        session_key=session_key,
        agent_id=agent_id,
        workspace=workspace or text_in(header, "cwd"),
        status=status,
        leaf_id=leaf_id,
        skipped_lines=skipped_lines + len(records) - len(kept),
        unknown_types=dict(sorted(Counter(filter(None, (_unknown_type(event) for event, _ in body))).items())),
    )


def _unknown_type(event: Record) -> str:
    kind = text_in(event, "type")
    if kind not in KNOWN_TYPES:
        return kind or "no type"
    role = text_in(mapping_in(event, "message"), "role")
    return f"message of {role or 'nobody'}" if kind == "message" and role not in KNOWN_ROLES else ""
