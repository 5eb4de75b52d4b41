"""Reflection across traces: what is visible only in several traces together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ace.outputs import AgentOutput, ReflectorOutput
from ace.rr import ReflectionLimitError, RRConfig, RRStep
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.reflection_script import LOOK, REFLECTION, Explorer, Turn, python
from tests.support.scripted_server import ScriptedServer

pytest.importorskip("pydantic_monty")

CAUSES = ["node-7", "08:15", "build 41"]


def traces(count: int = 40) -> dict[str, Any]:
    """Return traces that each show only a symptom: the cause is what those with the same symptom have in common."""
    found = {}
    for number in range(count):
        own = [f"node-{number + 10}", f"{number % 24:02d}:{number + 16}", f"build {number + 100}"]
        own[number % 3] = CAUSES[number % 3]
        steps = [
            {"kind": "result", "name": "info", "content": ", ".join(own), "is_error": False, "place": "1"},
            {"kind": "result", "name": "run", "content": "exit code 1", "is_error": True, "place": "2"},
        ]
        found[f"run-{number:02d}"] = {"question": "Run the tests.", "steps": steps}
    return found


def explore(server: ScriptedServer, trace: object, **config: Any) -> ReflectorOutput:
    step = RRStep(client_for(server), RRConfig(**config))
    return step.reflect("", AgentOutput(reasoning="", final_answer=""), Skillbook(), trace=trace)


SURVEY = python(
    """\
seen = collections.defaultdict(list)
for item_id in item_ids:
    for fact in batch_items[item_id]['steps'][0]['content'].split(', '):
        seen[fact].append(item_id)
common = {fact: ids for fact, ids in seen.items() if len(ids) > 5}
print('FINDING', sorted(common))""".replace("seen = ", "import collections\nseen = ", 1)
)
SUBMIT = python(
    """\
FINAL({
    'reasoning': 'Compared all records.', 'correct_approach': 'Avoid the causes.', 'key_insight': 'Three causes.',
    'extracted_learnings': [
        {'learning': 'Avoid ' + fact, 'evidence': 'ids: ' + ', '.join(ids)} for fact, ids in sorted(common.items())
    ],
})"""
)


@pytest.mark.parametrize("shape", ["items", "traces", "list", "list in a dict"])
def test_causes_that_no_single_trace_shows_are_found(shape: str) -> None:
    batch: Any = traces()
    listed = [{**trace, "trace_id": name} for name, trace in batch.items()]
    given = {
        "items": {"items": batch},
        "traces": {"traces": batch},
        "list": listed,
        "list in a dict": {"items": listed},
    }
    with ScriptedServer(Explorer([SURVEY, SUBMIT])) as server:
        reflection = explore(server, given[shape])
        assert "40 records" in server.requests[0].text and "run-07" in server.requests[0].text
    learned = {learning.learning: learning.evidence for learning in reflection.extracted_learnings}
    assert sorted(learned) == sorted(f"Avoid {cause}" for cause in CAUSES)
    for place, cause in enumerate(CAUSES):
        named = learned[f"Avoid {cause}"].removeprefix("ids: ").split(", ")
        assert named == [f"run-{number:02d}" for number in range(40) if number % 3 == place]
    for learning in reflection.extracted_learnings:
        assert learning.trace_ids == learning.evidence.removeprefix("ids: ").split(", ")


def learnings(*evidence: str) -> str:
    found = [{"learning": f"Lesson {number}.", "evidence": item} for number, item in enumerate(evidence)]
    return python(f"FINAL({{**{dict(REFLECTION)!r}, 'extracted_learnings': {found!r}}})")


def test_a_learning_has_to_name_the_traces_that_show_it() -> None:
    look = python("print(item_ids)")
    turns = [look, learnings("place 1", "ids: run-01, run-2"), learnings("ids: run-01", "runs run-02 and run-03")]
    with ScriptedServer(Explorer(turns)) as server:
        reflection = explore(server, {"items": traces(4)})
        told = server.requests[2].messages[-1]["content"]
    assert "FINAL was not accepted. The evidence of extracted_learnings[0] names no record." in told
    assert [learning.trace_ids for learning in reflection.extracted_learnings] == [["run-01"], ["run-02", "run-03"]]


def test_findings_of_the_last_call_that_name_no_trace_are_of_all() -> None:
    def turn(message: str) -> str:
        unnamed = [{"learning": "Lesson.", "evidence": "all of them", "trace_ids": ["run-77"]}]
        last = json.dumps({**REFLECTION, "extracted_learnings": unnamed})
        return last if "The iterations are used up" in message else LOOK

    with ScriptedServer(Explorer([turn])) as server:
        reflection = explore(server, {"items": traces(3)}, max_iterations=2)
    assert [learning.trace_ids for learning in reflection.extracted_learnings] == [["run-00", "run-01", "run-02"]]


def test_a_trace_on_which_reflections_fail_costs_only_itself() -> None:
    def submit(message: str) -> str:
        return python(
            "ids = [item for item in item_ids if batch_items[item]['question'] != 'poison']\n"
            "assert len(ids) == len(item_ids)\n"
            "learnings = [{'learning': item, 'evidence': item} for item in ids]\n"
            f"FINAL({{**{dict(REFLECTION)!r}, 'extracted_learnings': learnings}})"
        )

    turns: list[Turn] = [python("print(item_ids)"), submit]
    batch: dict[str, Any] = {
        f"t{number}": {"question": "poison" if number == 3 else "fine", "steps": []} for number in range(8)
    }
    with ScriptedServer(Explorer(turns)) as server:
        reflection = explore(server, {"items": batch}, max_iterations=2, enable_fallback_synthesis=False)
    assert [learning.learning for learning in reflection.extracted_learnings] == [
        "t0",
        "t1",
        "t2",
        "t4",
        "t5",
        "t6",
        "t7",
    ]
    told = reflection.raw["rr_trace"]
    (failed,) = told["failed_items"]
    assert (failed["index"], failed["item"]) == (3, "t3") and "ReflectionLimitError" in failed["error"]
    assert told["usage"]["calls"] == told["total_iterations"] == 2 * 3  # t0 and t1, t2, t4 to t7
    assert len(server.requests) == 2 * 7


def test_a_batch_of_which_every_reflection_fails_fails() -> None:
    batch: dict[str, Any] = {"items": {name: {"question": name, "steps": []} for name in ("a", "b")}}
    with ScriptedServer(Explorer([LOOK])) as server, pytest.raises(ReflectionLimitError):
        explore(server, batch, max_iterations=1)


@pytest.mark.parametrize(
    "trace",
    [
        [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
        [{"kind": "thought", "name": "", "content": "x", "is_error": False, "place": "1"}],
        {"traces": ["a"], "question": "What?"},
        ["a", "b"],
    ],
)
def test_a_single_trace_is_not_a_batch(trace: object) -> None:
    with ScriptedServer(Explorer([python("print('ids', item_ids)"), python(f"FINAL({dict(REFLECTION)!r})")])) as server:
        explore(server, trace)
        assert "ids []" in server.requests[1].messages[-1]["content"]
        assert "records of different tasks" not in server.requests[0].text
