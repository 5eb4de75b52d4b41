"""What is broken is skipped and counted; what is whole is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ace_claude_code import TranscriptError, transcript_to_trace, transcript_to_turn_traces
from tests.claude_code.samples import STREAMS, TRANSCRIPTS, assistant, user

WHOLE = (TRANSCRIPTS / "tests-fixed.jsonl").read_bytes()


def metadata(trace: dict[str, object]) -> dict[str, Any]:
    found = trace["metadata"]
    assert isinstance(found, dict)
    return found


def test_a_file_that_was_cut_loses_its_last_line_only() -> None:
    rest, last = WHOLE.rstrip(b"\n").rsplit(b"\n", 1)
    trace = transcript_to_trace(rest + b"\n" + last[: len(last) // 2])
    assert metadata(trace)["skipped_lines"] == 1
    assert trace["answer"] == transcript_to_trace(WHOLE)["answer"]


@pytest.mark.parametrize("bad", [b"no JSON", b"[1, 2]", b"null", b'{"type": "user"', b"\xff\xfe\x00", b"[" * 100_000])
def test_a_line_that_is_no_record_is_counted(bad: bytes) -> None:
    half = WHOLE.index(b"\n", len(WHOLE) // 2) + 1
    trace = transcript_to_trace(WHOLE[:half] + bad + b"\n" + WHOLE[half:])
    assert metadata(trace)["skipped_lines"] >= 1  # bytes that are not UTF-8 are counted, too
    assert len(str(trace["reasoning"])) == len(str(transcript_to_trace(WHOLE)["reasoning"]))


def test_an_unknown_type_is_counted() -> None:
    records = [user("Fix it.", "u1"), {"type": "hologram"}, {"type": "hologram"}, assistant("Done.", "a1", "u1")]
    trace = transcript_to_trace(records)
    assert trace["answer"] == "Done."
    assert metadata(trace)["unknown_types"] == {"hologram": 2}


def test_a_session_without_a_message_of_the_user_says_so_and_has_no_turns() -> None:
    records = [assistant("Hello.", "a1")]
    trace = transcript_to_trace(records)
    assert trace["answer"] == "Hello."
    assert "contain no user prompt" in str(trace["feedback"])
    assert transcript_to_turn_traces(records) == []


@pytest.mark.parametrize("content", [None, 7, "", [], ["text"], [None], [{"type": "hologram"}], {"text": "x"}])
def test_strange_content_breaks_nothing(content: object) -> None:
    strange = {"type": "assistant", "uuid": "a0", "parentUuid": "u1", "message": {"content": content}}
    trace = transcript_to_trace([user("Fix it.", "u1"), strange, assistant("Done.", "a1", "a0")])
    assert trace["answer"] == "Done."


def test_parents_that_go_in_circles_come_to_an_end() -> None:
    records = [user("Fix it.", "u1", "a1"), assistant("Done.", "a1", "u1")]
    assert transcript_to_trace(records)["question"] == "Fix it."


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello\nworld\n", b'{"question": "2+2?"}\n', b"[]"])
def test_what_is_not_of_claude_code_is_refused_with_the_mend(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(data)
    with pytest.raises(TranscriptError, match=r"other\.jsonl: no records of Claude Code found .*; give a trans"):
        transcript_to_trace(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match=r"no such transcript: '.*gone\.jsonl'"):
        transcript_to_trace(tmp_path / "gone.jsonl")
    with pytest.raises(TranscriptError, match="is a folder"):
        transcript_to_trace(str(tmp_path))


def test_texts_bytes_paths_and_records_are_the_same(tmp_path: Path) -> None:
    text = WHOLE.decode("utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    traces = [transcript_to_trace(source) for source in (text, WHOLE, records)]
    assert traces[0] == traces[1] == traces[2]
    assert transcript_to_trace(TRANSCRIPTS / "tests-fixed.jsonl")["steps"] == traces[0]["steps"]


def test_a_line_separator_inside_a_text_ends_no_line() -> None:
    record = json.dumps(assistant("one\u2028two", "a1"), ensure_ascii=False)
    assert transcript_to_trace(record + "\n")["answer"] == "one\u2028two"


def test_a_stream_that_was_cut_is_a_failed_run_with_what_it_has() -> None:
    whole = (STREAMS / "success.jsonl").read_bytes().splitlines(keepends=True)
    trace = transcript_to_trace(b"".join(whole[:8]) + whole[8][:40], question="Fix it.")
    assert trace["success"] is False
    assert metadata(trace)["skipped_lines"] == 1
    assert "ZeroDivisionError" in str(trace["reasoning"])
