"""Broken and foreign sessions: a clear message, the rest is read, and what was skipped is counted."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from ace_openclaw import SessionReadError, events_to_trace, events_to_turn_traces, read_session, read_sessions
from tests.openclaw.samples import (
    SIDECAR,
    V3,
    V4,
    V4_ERROR,
    add_events,
    events_of,
    make_database,
    metadata_of,
    said,
    text,
)


def test_a_cut_file_loses_its_last_line_only(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(V3.read_bytes()[:-200])
    trace = events_to_turn_traces(cut)[0]
    assert trace["question"] == "Make mean([]) return 0"
    assert metadata_of(trace)["skipped_lines"] == 1


def test_lines_without_json_and_unknown_types_are_counted() -> None:
    noise = b'not json\n[1]\n{"type": "hologram"}\n{"type": "message", "message": {"role": "ghost"}}\n'
    metadata = metadata_of(events_to_trace(V3.read_bytes() + noise))
    assert metadata["skipped_lines"] == 2
    assert metadata["unknown_types"] == {"hologram": 1, "message of ghost": 1}


def test_something_before_the_header_is_overlooked() -> None:
    session = read_session(b"/spec" + V3.read_bytes())
    assert session.session_id == "c9e1e229-ba98-43e9-97e7-abf7a076eb3c"


def test_a_session_without_a_user_says_so_and_has_no_turns() -> None:
    events = [{"type": "session", "version": 4, "id": "a", "cwd": "/"}, said("assistant", text("Hello."))]
    assert events_to_turn_traces(events) == []
    assert "contains no user message" in str(events_to_trace(events)["feedback"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"just words\n", "no events of OpenClaw found, but 0 other records and 1 lines"),
        (b'{"question": "2+2?"}\n', "no events of OpenClaw found, but 1 other records"),
        (b"\x28\xb5\x2f\xfd broken", "no events of OpenClaw found: it is an empty file"),
        (b"SQLite format 3\x00 broken", "no events of OpenClaw found: it is an SQLite database that cannot be read"),
        (b"", "no events of OpenClaw found: it is an empty file"),
        (b"\n\n", "no events of OpenClaw found: it is an empty file"),
    ],
)
def test_a_file_of_somebody_else_is_refused_with_its_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(content)
    with pytest.raises(SessionReadError, match=message) as caught:
        read_sessions(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SessionReadError, match="no such file"):
        read_sessions(tmp_path / "missing.jsonl")
    with pytest.raises(SessionReadError, match=r"is a folder without session-branch\.json"):
        read_sessions(tmp_path)


def test_a_trajectory_file_names_the_session_beside_it() -> None:
    with pytest.raises(SessionReadError, match=r"give the session itself, .*tests-fixed\.jsonl"):
        read_sessions(SIDECAR)


def test_a_deleted_session_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.deleted.2026-11-21.abc.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(V3.read_bytes()))
    assert len(events_to_turn_traces(path)) == 2


def test_a_database_is_read_with_its_compressed_rows_and_left_as_it_is(tmp_path: Path) -> None:
    path = make_database(tmp_path / "agents/main/agent/openclaw-agent.sqlite", [events_of(V4), events_of(V4_ERROR)])
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    sessions = read_sessions(path)
    assert [session.agent_id for session in sessions] == ["main", "main"]
    assert {session.session_key for session in sessions} == {f"agent:main:{session.session_id}" for session in sessions}
    corrected = next(session for session in sessions if session.session_id.startswith("36d85cc2"))
    assert str(events_to_turn_traces(corrected)[0]["answer"]).startswith("Fixed: mean([]) now returns 0")
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_a_database_is_read_while_openclaw_writes_it(tmp_path: Path) -> None:
    events = events_of(V4)
    path = make_database(tmp_path / "openclaw-agent.sqlite", [events[:6]])
    written, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(path)) as writer:
            add_events(writer, str(events[0]["id"]), events[6:12], 6)
            writer.commit()
            add_events(writer, str(events[0]["id"]), events[12:], 12)
            written.set()
            go_on.wait(60)
            writer.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert written.wait(60)
        assert len(read_session(path).events) == 11  # what is committed, without the header
    finally:
        go_on.set()
        thread.join()
    assert len(read_session(path).events) == len(events) - 1


def test_a_broken_row_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = make_database(tmp_path / "openclaw-agent.sqlite", [events_of(V4)])
    with closing(sqlite3.connect(path)) as database:
        database.execute("update transcript_events set event_json = '{' where seq = 1")
        database.execute("update transcript_events set event_json = null, event_zstd = x'00' where seq = 2")
        database.commit()
    [first, _] = events_to_turn_traces(path)
    assert metadata_of(first)["skipped_lines"] == 2


def test_a_database_of_another_shape_says_what_to_do(tmp_path: Path) -> None:
    path = make_database(tmp_path / "openclaw-agent.sqlite", [events_of(V4)], version=99)
    with closing(sqlite3.connect(path)) as database:
        database.execute("alter table transcript_events rename column event_json to body")
        database.commit()
    with pytest.raises(SessionReadError, match=r"schema 99.*export-trajectory"):
        read_sessions(path)


def test_a_locked_database_is_told_from_a_broken_one(tmp_path: Path) -> None:
    path = make_database(tmp_path / "openclaw-agent.sqlite", [events_of(V4)])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("pragma journal_mode = delete")
        other.execute("begin exclusive")
        with pytest.raises(SessionReadError, match="was locked by another program"):
            read_sessions(path)
    assert len(read_sessions(path)) == 1


def test_several_sessions_in_one_source_are_not_taken_for_one(tmp_path: Path) -> None:
    path = make_database(tmp_path / "openclaw-agent.sqlite", [events_of(V4), events_of(V4_ERROR)])
    with pytest.raises(SessionReadError, match="there are 2 sessions here"):
        events_to_trace(path)
