"""The recorded sessions, and databases made of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import zstandard

DATA = Path(__file__).with_name("data")
V3 = DATA / "v3-2026.7.1-tests-fixed.jsonl"
SIDECAR = DATA / "v3-2026.7.1-tests-fixed.trajectory.jsonl"
V4 = DATA / "v4-2026.9.6-corrected.jsonl"
V4_ERROR = DATA / "v4-2026.9.6-provider-error.jsonl"
CAPTURED = DATA / "captured-turns-2026.9.6.jsonl"
EXPORTED = DATA / "exported-2026.9.6"

Event = dict[str, object]

# The tables of schema 23 that hold the sessions, without their foreign keys and further columns.
SCHEMA = """
create table schema_meta (meta_key text primary key, role text, schema_version integer, agent_id text);
create table session_nodes (session_key text primary key, current_session_id text not null, status text);
create table session_windows (session_id text primary key, session_key text not null, status text, ended_at integer);
create table transcript_events (
    session_id text not null, seq integer not null, event_json text, created_at integer not null, event_zstd blob,
    event_utf8_bytes integer, navigation_json text, primary key (session_id, seq),
    check ((event_json is not null and event_zstd is null) or (event_json is null and event_zstd is not null))
);
"""


def events_of(path: Path) -> list[Event]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def said(role: str, content: object, time: int = 0, **more: object) -> Event:
    """An event with a message."""
    return {"type": "message", "message": {"role": role, "content": content, "timestamp": time, **more}}


def text(words: str) -> list[Event]:
    return [{"type": "text", "text": words}]


def metadata_of(trace: dict[str, object]) -> dict[str, object]:
    metadata = trace["metadata"]
    assert isinstance(metadata, dict)
    return metadata


def make_database(path: Path, sessions: Iterable[Sequence[Event]], *, version: int = 23) -> Path:
    """Write sessions as OpenClaw does: with a write-ahead log, and events from 1 KiB on compressed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")
        database.executescript(SCHEMA)
        database.execute(f"pragma user_version = {version}")
        database.execute("insert into schema_meta values ('primary', 'agent', ?, 'main')", (version,))
        for events in sessions:
            add_session(database, events)
        database.commit()
    return path


def add_session(database: sqlite3.Connection, events: Sequence[Event]) -> None:
    session_id = str(events[0]["id"])
    database.execute("insert into session_windows values (?, ?, null, null)", (session_id, f"agent:main:{session_id}"))
    add_events(database, session_id, events, 0)


def add_events(database: sqlite3.Connection, session_id: str, events: Sequence[Event], first: int) -> None:
    for seq, event in enumerate(events, first):
        data = json.dumps(event).encode()
        is_long = len(data) >= 1024
        row = (
            session_id,
            seq,
            None if is_long else data.decode(),
            1_795_305_711_000 + seq,
            zstandard.ZstdCompressor().compress(data) if is_long else None,
            len(data) if is_long else None,
            "{}" if is_long else None,
        )
        database.execute("insert into transcript_events values (?, ?, ?, ?, ?, ?, ?)", row)
