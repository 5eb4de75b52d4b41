"""Evaluations of Inspect."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, Run, read_runs
from tests.core.logs.log_files import run_of, runs_of, steps_of, written

EVALUATION = {"task": "shop", "model": "m", "created": "2026-01-01T00:00:00Z"}
CALL = {"id": "c", "function": "policy", "arguments": {"sku": "K"}, "type": "function"}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief.", "source": "input"},
    {"role": "user", "content": "Days to return?", "source": "input"},
    {"role": "assistant", "content": "", "source": "generate", "tool_calls": [CALL]},
    {
        "role": "tool",
        "function": "policy",
        "tool_call_id": "c",
        "content": "",
        "error": {"type": "timeout", "message": "no reply"},
    },
    {"role": "user", "content": "Please go on."},
    {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "30"}]},
]


def sample(**fields: Any) -> dict[str, Any]:
    known = {"id": "k1", "epoch": 1, "input": "Days to return?", "target": "14", "messages": MESSAGES}
    scores = {"match": {"value": "I", "answer": "30", "explanation": "not 14"}}
    return {**known, "output": {"completion": "30"}, "scores": scores, **fields}


def log(*samples: dict[str, Any]) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": EVALUATION, "plan": {}, "samples": list(samples)}


def archive(path: Path, members: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, value in members.items():
            file.writestr(name, json.dumps(value))
    return path


def test_a_sample(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "log.json", log(sample())))

    assert steps_of(run) == [
        "harness: Be brief.",
        "person: Days to return?",
        'policy {"sku": "K"}',
        "policy failed: no reply",
        "harness: Please go on.",
        "thought: hm",
        "agent: 30",
    ]
    assert (run.id, run.task, run.answer, run.truth) == ("k1", "Days to return?", "30", "14")
    assert (run.success, run.reason, run.model) == (False, "not 14", "m")


@pytest.mark.parametrize(
    ("scores", "success"),
    [
        ({"a": {"value": "C"}}, True),
        ({"a": {"value": "P"}}, None),
        ({"a": {"value": "N"}}, False),
        ({"a": {"value": 1.0}}, True),
        ({"a": {"value": 0.4}}, None),
        ({"a": {"value": "C"}, "b": {"value": "C"}}, True),
        ({"a": {"value": "C"}, "b": {"value": "I"}}, None),
        ({"a": {"value": {"x": 0, "y": 0}}}, False),
        ({}, None),
    ],
)
def test_the_grades_decide_and_not_the_status_of_the_log(tmp_path: Path, scores: Any, success: bool | None) -> None:
    assert run_of(written(tmp_path / "log.json", log(sample(scores=scores)))).success is success


def test_epochs_errors_and_limits(tmp_path: Path) -> None:
    crashed = sample(epoch=2, error={"message": "no memory", "traceback": "..."})
    limited = sample(epoch=3, limit={"type": "token", "limit": 100})

    first, second, third = runs_of(written(tmp_path / "log.json", log(sample(), crashed, limited)))

    assert (first.id, second.id, third.id) == ("k1", "k1/2", "k1/3")
    assert (second.success, second.is_interrupted, "no memory" in second.reason) == (None, True, True)
    assert (third.success, third.is_interrupted, "token" in third.reason) == (False, True, True)


def test_an_archive(tmp_path: Path) -> None:
    large = {**sample(id="k2"), "messages": []}
    path = archive(
        tmp_path / "2026_shop.eval",
        {
            "_journal/start.json": {"eval": EVALUATION},
            "_journal/summaries/1.json": [sample(id="journal")],
            "samples/k1_epoch_1.json": sample(),
            "samples/k2_epoch_1/sample.json": large,
            "samples/k2_epoch_1/messages/10.json": MESSAGES[5:],
            "samples/k2_epoch_1/messages/0.json": MESSAGES[:5],
            "summaries.json": [],
            "header.json": log(),
        },
    )

    first, second = runs_of(path)

    assert (first.id, second.id, first.model) == ("k1", "k2", "m")
    assert steps_of(first) == steps_of(second)


def test_a_damaged_sample_of_an_archive_is_a_problem(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.eval", {"header.json": log(), "samples/b_epoch_1.json": sample(id="b")})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("samples/a_epoch_1.json", '{"id": "a", "mess')

    run, problem = read_runs(path)

    assert isinstance(run, Run) and run.id == "b"
    assert isinstance(problem, Problem) and "samples/a_epoch_1.json" in problem.reason


def test_texts_that_are_stored_apart(tmp_path: Path) -> None:
    stored = sample(
        input="attachment://abc",
        messages=[{"role": "user", "content": "attachment://abc"}],
        attachments={"abc": "A long question"},
    )

    run = run_of(written(tmp_path / "log.json", log(stored)))

    assert (run.task, run.steps[0].content) == ("A long question", "A long question")


def test_an_input_of_messages(tmp_path: Path) -> None:
    given = [
        MESSAGES[0],
        MESSAGES[1],
        {"role": "assistant", "content": "Of what?"},
        {"role": "user", "content": "Kettles."},
    ]
    messages = [*given, {"role": "user", "content": "Continue."}, {"role": "assistant", "content": "14"}]

    run = run_of(written(tmp_path / "log.json", log(sample(input=given, messages=messages, target=["14", "fourteen"]))))

    assert run.task == "Days to return?"
    assert [step.speaker for step in run.steps] == ["harness", "person", "agent", "person", "harness", "agent"]
    assert run.truth == "14\nfourteen"


def test_an_evaluation_without_samples(tmp_path: Path) -> None:
    [problem] = read_runs(written(tmp_path / "log.json", {**log(), "error": {"message": "no key"}}))

    assert isinstance(problem, Problem) and "no key" in problem.reason
