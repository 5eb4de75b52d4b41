"""Inputs that nobody would write on purpose: each costs at most itself, and what it teaches is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ace.environments import Sample
from ace.runners import ACE, RecordedTrace, TraceAnalyser
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

QUESTION = "What is the secret of boat?"
RECORD = {"question": QUESTION, "ground_truth": "value-of-boat"}
LEARNED = ["The secret of boat is value-of-boat.", "The secret of sail is value-of-sail."]


class RaisingAttributes:
    """Raises KeyError for what it lacks, as wrappers around a dict do."""

    def __init__(self) -> None:
        self.question = QUESTION
        self.ground_truth = "value-of-boat"

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


def nested(levels: int) -> Any:
    inside: Any = "bottom"
    for _ in range(levels):
        inside = {"inside": [inside]}
    return inside


TRACES: dict[str, object] = {
    "array": {**RECORD, "vector": np.arange(100)},
    "huge number": {**RECORD, "number": 10**6000},
    "raising attributes": RaisingAttributes(),
    "raising attributes inside": {**RECORD, "object": RaisingAttributes()},
    "nested 10,000 levels": {**RECORD, "tree": nested(5_000)},
    "half a character in the name": {**RECORD, "trace_id": "a\ud800"},
    "half a character in the place": RecordedTrace(RECORD, "logs/\udcff.jsonl#1"),
    "half a character in the question": {**RECORD, "question": f"\ud800 {QUESTION}"},
    "NUL": {**RECORD, "trace_id": "a\x00b", "note": "\x00"},
    "20 million characters": {**RECORD, "log": "x" * 20_000_000},
}


@pytest.mark.parametrize("suffix", [".db", ".json"])
@pytest.mark.parametrize("name", TRACES)
def test_a_hostile_trace_is_learned_and_so_is_the_next(name: str, suffix: str, tmp_path: Path) -> None:
    book = learned_from([TRACES[name], secrets_world.sample_of("sail")], tmp_path / f"skills{suffix}")
    assert [skill.content for skill in book.skills()] == LEARNED


SAMPLES = {
    "question": Sample(f"\ud800 {QUESTION}", ground_truth="value-of-boat"),
    "context": Sample(QUESTION, context="\ud800", ground_truth="value-of-boat"),
    "name": Sample(QUESTION, ground_truth="value-of-boat", id="\ud800"),
    "metadata": Sample(QUESTION, ground_truth="value-of-boat", metadata={"\ud800": "\ud800"}),
}


@pytest.mark.parametrize("suffix", [".db", ".json"])
@pytest.mark.parametrize("name", SAMPLES)
def test_half_a_character_in_a_sample_stays_visible(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"skills{suffix}"
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(client_for(server), prove=False, skillbook_path=path)
        runner.run([SAMPLES[name], secrets_world.sample_of("sail")])
    assert runner.failures == []
    assert [skill.content for skill in Skillbook.load_from_file(path).skills()] == LEARNED


def test_half_a_character_in_an_answer_costs_no_skill(tmp_path: Path) -> None:
    def script(request: ScriptedRequest) -> str:
        found = secrets_world.answer(request)
        if request.role == "reflector":
            found["error_identification"] = "\ud800"
        else:
            found["operations"][0]["evidence"] = "\ud800"
        return json.dumps(found)

    path = tmp_path / "skills.db"
    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        runner.run([RECORD])
    [skill] = Skillbook.load_from_file(path).skills()
    assert (skill.evidence, skill.sources[0].error_identification) == ("\\ud800", "\\ud800")


def test_a_trace_that_cannot_be_reflected_on_is_named_with_what_can_be_read_of_it(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: "no answer") as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, checkpoint_dir=tmp_path)
        runner.run([RaisingAttributes()])
    assert [failed.sample for failed in runner.failures] == [QUESTION]


def learned_from(traces: list[object], path: Path) -> Skillbook:
    with ScriptedServer(secrets_world.answer) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        runner.run(traces)
    assert runner.failures == []
    return Skillbook.load_from_file(path)
