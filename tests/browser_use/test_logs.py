"""Stored histories of all releases are read as runs of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, Run, read_runs

HISTORIES = Path(__file__).with_name("histories")
LOGS = Path(__file__).with_name("logs")


def step(output: Any, *results: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    state = {"url": "http://127.0.0.1/", "title": "Harbour", "tabs": [], "interacted_element": []}
    return {"model_output": output, "result": list(results), "state": state, "metadata": metadata or None}


def done(text: str, *, success: bool) -> dict[str, Any]:
    return {"is_done": True, "success": success, "extracted_content": text}


def read(folder: Path, *steps: Any) -> Run:
    path = folder / "history.json"
    path.write_text(json.dumps({"history": list(steps)}), encoding="utf-8")
    [run] = list(read_runs(path))
    assert isinstance(run, Run)
    return run


def test_a_history_of_an_old_release_has_its_thoughts_and_tokens() -> None:
    [run] = list(read_runs(LOGS / "bu_old.json"))
    assert isinstance(run, Run)
    thoughts = " ".join(found.content for found in run.steps if found.kind == "thought")
    assert "MEMMARK" in thoughts and "GOALMARK" in thoughts
    assert [found.is_error for found in run.steps if found.kind == "result"] == [True, False]
    assert (run.format, run.success, run.answer) == ("browser_use", False, "A customer may return it within 30 days.")


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.name)
def test_a_stored_history_is_one_run(path: Path) -> None:
    [run] = list(read_runs(path))
    assert isinstance(run, Run)
    assert run.format == "browser_use"
    assert all(found.speaker != "person" for found in run.steps)
    calls = [found for found in run.steps if found.kind == "call"]
    assert all(found.name and json.loads(found.content) is not None for found in calls)
    assert run.started is not None and run.ended is not None and run.started <= run.ended


def test_the_outcome_is_the_claim_of_the_agent_unless_a_judge_denies_it(tmp_path: Path) -> None:
    assert read(tmp_path, step(None, done("Berth 4.", success=True))).success is True
    assert read(tmp_path, step(None, done("None free.", success=False))).success is False
    judged = {**done("Berth 4.", success=True), "judgement": {"verdict": False, "failure_reason": "It is berth 5."}}
    run = read(tmp_path, step(None, judged))
    assert (run.success, run.answer) == (False, "Berth 4.")
    assert "It is berth 5." in run.reason


def test_a_run_that_stopped_is_interrupted_and_has_no_outcome(tmp_path: Path) -> None:
    run = read(tmp_path, step({"action": [{"click": {"index": 1}}], "memory": "At the form."}, {"error": "gone"}))
    assert (run.success, run.is_interrupted, run.answer) == (None, True, "")
    assert [(found.kind, found.is_error) for found in run.steps[1:]] == [
        ("thought", False),
        ("call", False),
        ("result", True),
    ]


@pytest.mark.parametrize("odd", [None, 7, "text", [], {}, [None], {"action": "click"}, {"action": [None, {}, 7]}])
def test_fields_of_other_types_lose_nothing_else(odd: Any, tmp_path: Path) -> None:
    strange = {"model_output": odd, "result": odd, "state": odd, "metadata": odd}
    run = read(tmp_path, strange, step(None, done("Berth 4.", success=True)))
    assert (run.answer, run.success) == ("Berth 4.", True)


def test_a_history_that_was_cut_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text((LOGS / "bu_old.json").read_text(encoding="utf-8")[:2000], encoding="utf-8")
    assert {type(found) for found in read_runs(path)} == {Problem}
