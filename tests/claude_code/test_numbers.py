"""The numbers and the metadata of traces: tokens, costs, time, the skills that were shown, and what was skipped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ace_claude_code import transcript_to_trace, transcript_to_turn_traces
from tests.claude_code.samples import RELEASES, STREAMS, TRANSCRIPTS, assistant, lines, user

NEWEST = TRANSCRIPTS / "2.1.329"
SHOWN = (
    "The strategies below were learned, such as [other-00009].\n\n## checks\n- [checks-00001] Run it with [x-00002]."
)


def metrics(source: Any) -> dict[str, float]:
    found: dict[str, Any] = transcript_to_trace(source)
    return dict(found["metrics"])


def at(seconds: int) -> str:
    return f"2026-11-22T10:{seconds // 60:02}:{seconds % 60:02}.000Z"


def context(text: str, event: str, uuid: str, parent: str | None = None) -> dict[str, Any]:
    attachment = {"type": "hook_additional_context", "content": [text], "hookEvent": event}
    return {"type": "attachment", "uuid": uuid, "parentUuid": parent, "attachment": attachment}


def test_a_stored_session_has_the_cost_that_claude_code_noted() -> None:
    assert metrics(NEWEST / "resumed-and-compacted.jsonl")["cost_usd"] == pytest.approx(0.035)
    assert "cost_usd" not in metrics(TRANSCRIPTS / "2.1.197" / "resumed-and-compacted.jsonl")


def test_a_turn_has_its_cost_where_it_was_noted_on_its_own() -> None:
    turns: list[dict[str, Any]] = transcript_to_turn_traces(NEWEST / "resumed-and-compacted.jsonl")
    assert [turn["metrics"]["cost_usd"] for turn in turns] == pytest.approx([0.01, 0.01, 0.005])
    records = [user("One.", "u1"), assistant("1", "a1", "u1"), user("Two.", "u2", "a1"), assistant("2", "a2", "u2")]
    together: list[dict[str, Any]] = transcript_to_turn_traces([*records, {"type": "cost-state", "totalCostUSD": 0.5}])
    assert ["cost_usd" in turn["metrics"] for turn in together] == [False, False]
    assert metrics([*records, {"type": "cost-state", "totalCostUSD": 0.5}])["cost_usd"] == 0.5


@pytest.mark.parametrize("release", RELEASES)
def test_the_tokens_of_sub_agents_are_counted(release: str) -> None:
    stored = metrics(TRANSCRIPTS / release / "sub-agent.jsonl")
    assert (stored["input_tokens"], stored["output_tokens"], stored["model_calls"]) == (4000, 200, 4)
    [turn] = transcript_to_turn_traces(TRANSCRIPTS / release / "sub-agent.jsonl")
    assert turn["metrics"] == stored
    streamed = metrics(STREAMS / release / "sub-agent.jsonl")
    assert (streamed["input_tokens"], streamed["output_tokens"]) == (4000, 200)


def test_the_tokens_of_all_results_of_a_stream_are_counted() -> None:
    found = metrics(STREAMS / "subagent-two-results.jsonl")
    assert (found["input_tokens"], found["output_tokens"], found["cost_usd"]) == (5000, 250, 0.025)


@pytest.mark.parametrize("release", RELEASES)
def test_a_resumed_stream_does_not_count_what_went_before(release: str) -> None:
    found = metrics(STREAMS / release / "resumed.jsonl")
    assert (found["input_tokens"], found["output_tokens"]) == (2000, 100)


def test_the_time_between_two_turns_is_not_counted() -> None:
    records = [
        user("One.", "u1", timestamp=at(0)),
        assistant("1", "a1", "u1", timestamp=at(10)),
        user("Two.", "u2", "a1", timestamp=at(1800)),
        assistant("2", "a2", "u2", timestamp=at(1805)),
    ]
    assert metrics(records)["duration_ms"] == 15_000


def test_a_record_that_was_written_twice_counts_once() -> None:
    records = lines(TRANSCRIPTS / "tests-fixed.jsonl")
    once, twice = transcript_to_trace(records), transcript_to_trace([*records, *records])
    assert twice["steps"] == once["steps"]
    assert twice["metrics"] == once["metrics"]
    found: Any = twice["metadata"]
    assert found["duplicate_records"] == sum("uuid" in record for record in records)


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_skills_that_a_hook_has_shown_are_known(event: str) -> None:
    records = [user("Check it.", "u1"), context(SHOWN, event, "h1", "u1"), assistant("Done.", "a1", "h1")]
    found: Any = transcript_to_trace(records)["metadata"]
    assert found["shown_skill_ids"] == ["checks-00001"]


def test_skills_that_were_chosen_for_a_prompt_were_shown_in_its_turn() -> None:
    records = [
        context("- [all-00001] Be quick.", "SessionStart", "h0"),
        user("One.", "u1", "h0"),
        context("- [one-00001] Count.", "UserPromptSubmit", "h1", "u1"),
        assistant("1", "a1", "h1"),
        user("Two.", "u2", "a1"),
        context("- [two-00001] Count on.", "UserPromptSubmit", "h2", "u2"),
        assistant("2", "a2", "h2"),
    ]
    turns: list[dict[str, Any]] = transcript_to_turn_traces(records)
    shown = [turn["metadata"]["shown_skill_ids"] for turn in turns]
    assert shown == [["all-00001", "one-00001"], ["all-00001", "two-00001"]]


def test_unknown_blocks_are_counted_and_an_image_is_a_prompt() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}
    prompt = {"type": "user", "uuid": "u1", "message": {"content": [image]}}
    answer = {"id": "m1", "content": [{"type": "hologram"}, {"type": "hologram"}, {"type": "text", "text": "A cat."}]}
    records = [prompt, {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": answer}]
    [turn] = transcript_to_turn_traces(records)
    found: Any = turn["metadata"]
    assert (turn["question"], turn["answer"]) == ("[image]", "A cat.")
    assert found["unknown_blocks"] == {"hologram": 2}


def test_a_sub_agent_s_file_without_usage_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    shutil.copy(NEWEST / "sub-agent.jsonl", path)
    folder = tmp_path / "s" / "subagents"
    folder.mkdir(parents=True)
    record = {"type": "assistant", "message": {"id": "m", "content": []}}
    (folder / "agent-a1.jsonl").write_text(f"{json.dumps(record)}\n", encoding="utf-8")
    assert metrics(path)["input_tokens"] == 2000
