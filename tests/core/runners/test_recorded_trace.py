"""Recorded traces: known again by what they say and where they stand."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from ace.runners import RecordedTrace, TraceAnalyser
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


def trace(thing: str, line: int, **fields: str) -> RecordedTrace:
    record = {"question": f"What is the secret of {thing}?", "ground_truth": f"value-of-{thing}", **fields}
    return RecordedTrace(record, f"logs/a.jsonl#{line}")


def names(traces: list[RecordedTrace]) -> list[str]:
    """Return the trace ids that runs give to these traces."""
    with ScriptedServer(secrets_world.answer) as server:
        results = TraceAnalyser.from_client(client_for(server)).run(traces)
    return [result.output.metadata["trace_id"] for result in results if result.output is not None]


def test_the_name_is_made_of_the_record_and_its_place() -> None:
    [first, second, moved] = names([trace("boat", 1), trace("sail", 2), trace("boat", 3)])
    assert len({first, second, moved}) == 3
    assert first.endswith("@logs/a.jsonl#1")
    assert first.partition("@")[0] == moved.partition("@")[0] != second.partition("@")[0]
    # Nothing but the two counts: not the traces around it, nor an id that the record claims to have.
    assert names([trace("sail", 2), trace("boat", 1)]) == [second, first]
    assert names([trace("boat", 1, id="x")])[0].endswith("@logs/a.jsonl#1")


def test_the_model_sees_the_record_and_the_skill_names_the_place() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = TraceAnalyser.from_client(client_for(server))
        [result] = runner.run([trace("boat", 7)])
        [reflection] = server.by_role("reflector")
    assert "value-of-boat" in reflection.text and "RecordedTrace" not in reflection.text
    [skill] = runner.skillbook.skills()
    assert skill.sources[0].trace_id.endswith("@logs/a.jsonl#7")
    assert skill.sources[0].sample_question == "What is the secret of boat?"
    assert result.sample == trace("boat", 7)
    assert result.output is not None and result.output.metadata["place"] == "logs/a.jsonl#7"


def test_a_failure_shows_the_record(tmp_path: Path) -> None:
    def script(request: ScriptedRequest) -> str | dict[str, Any]:
        return "no"

    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server), checkpoint_dir=tmp_path)
        runner.run([trace("boat", 7)])
    [failed] = runner.failures
    assert failed.sample.startswith('{"question": "What is the secret of boat?"')
    assert failed.trace_id.endswith("@logs/a.jsonl#7")


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        trace("boat", 1).place = "elsewhere"  # type: ignore[misc]  # that is the point
    with pytest.raises(ValueError, match=r"input 1.*'trace', which is None"):
        names([RecordedTrace(None, "a.jsonl#1")])
