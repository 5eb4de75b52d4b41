"""The formats that are described by a table of fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs import Run
from tests.core.logs.log_files import run_of, runs_of, written

CASE = {"name": "t", "input": "2+2?", "success": False}
METRICS = [
    {"name": "a", "score": 1, "success": True, "reason": "fine"},
    {"name": "b", "success": False, "reason": "It is 4."},
]


def summary(run: Run) -> tuple[Any, ...]:
    return run.format, run.task, run.answer, run.truth, run.success, run.reason


@pytest.mark.parametrize(
    "document",
    [
        {"testCases": [{**CASE, "actualOutput": "5", "expectedOutput": "4", "metricsData": METRICS}]},
        {"test_cases": [{**CASE, "actual_output": "5", "expected_output": "4", "metrics_data": METRICS}]},
        [{**CASE, "actual_output": "5", "expected_output": "4", "metrics_data": METRICS}],
    ],
)
def test_deepeval(tmp_path: Path, document: Any) -> None:
    assert summary(run_of(written(tmp_path / "d.json", document))) == ("deepeval", "2+2?", "5", "4", False, "It is 4.")


def promptfoo(**fields: Any) -> dict[str, Any]:
    return {
        "prompt": {"raw": "2+2?"},
        "vars": {},
        "response": {"output": "5"},
        "success": False,
        "score": 0,
        "gradingResult": {"pass": False, "score": 0, "reason": "Expected 4"},
        "testCase": {"assert": [{"type": "latency"}, {"type": "equals", "value": "4"}]},
        **fields,
    }


@pytest.mark.parametrize("is_lines", [True, False])
def test_promptfoo(tmp_path: Path, is_lines: bool) -> None:
    if is_lines:
        path = written(tmp_path / "p.jsonl", promptfoo(), promptfoo())
    else:
        path = written(tmp_path / "p.json", {"evalId": "e", "results": {"version": 3, "results": [promptfoo()] * 2}})

    assert [summary(run) for run in runs_of(path)] == [("promptfoo", "2+2?", "5", "4", False, "Expected 4")] * 2


def test_an_error_of_a_provider_is_not_a_failure(tmp_path: Path) -> None:
    failed = promptfoo(failureReason=2, error="429", gradingResult=None, response=None)

    run = run_of(written(tmp_path / "p.jsonl", failed))

    assert (run.success, run.reason) == (None, "429")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"user_input": "2+2?", "response": "5", "reference": "4", "retrieved_contexts": ["a"], "faithfulness": 0.4},
            ("ragas", "2+2?", "5", "4", None, ""),
        ),
        (
            {"user_input": [{"type": "human", "content": "2+2?"}, {"type": "ai", "content": "5"}], "reference": "4"},
            ("ragas", "2+2?", "5", "4", None, ""),
        ),
        (
            {"example": {"question": "2+2?", "answer": "4"}, "prediction": {"answer": "5"}, "score": 0.0},
            ("dspy", "2+2?", "5", "4", False, ""),
        ),
        (
            {"Question": "2+2?", "model_answer": "5", "Final answer": "4", "score": False},
            ("gaia", "2+2?", "5", "4", False, ""),
        ),
        (
            {"instance_id": "a", "problem_statement": "2+2?", "patch": "4", "model_patch": "5", "resolved": False},
            ("swe-bench", "2+2?", "5", "4", False, ""),
        ),
        (
            {"conversation_id": "c", "query": "2+2?", "answer": "5", "rating": "like", "feedback": ""},
            ("dify", "2+2?", "5", None, True, ""),
        ),
    ],
)
def test_one_record(tmp_path: Path, record: Any, expected: tuple[Any, ...]) -> None:
    assert summary(run_of(written(tmp_path / "records.jsonl", record))) == expected


def test_predictions_by_instance(tmp_path: Path) -> None:
    document = {name: {"instance_id": name, "model_patch": f"diff {name}", "model_name_or_path": "m"} for name in "ab"}

    runs = runs_of(written(tmp_path / "preds.json", document))

    assert [(run.id, run.answer, run.model) for run in runs] == [("a", "diff a", "m"), ("b", "diff b", "m")]


def call(*texts: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return {
        "messages": messages,
        "prompt": None,
        "outputs": ["14"],
        "kwargs": {"n": 1},
        "model": "m",
        "uuid": texts[-1],
        **fields,
    }


def test_a_history_of_dspy_counts_a_growing_dialogue_once(tmp_path: Path) -> None:
    calls = [call("Days?"), call("Days?", "30", "No."), call("Price?"), call("Size?", outputs=[{"text": "7"}])]

    runs = runs_of(written(tmp_path / "history.jsonl", *calls))

    assert [(run.task, run.answer) for run in runs] == [("Days?", "14"), ("Price?", "14"), ("Size?", "7")]


def test_a_history_of_dspy_with_a_prompt(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "history.jsonl", call("x", messages=None, prompt="Days?", outputs=["14"])))

    assert (run.task, run.answer) == ("Days?", "14")
