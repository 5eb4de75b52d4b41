"""OpenAI's evals, and batches of requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, read_runs
from tests.core.logs.log_files import run_of, runs_of, steps_of, written


def event(sample: str, kind: str, **data: Any) -> dict[str, Any]:
    return {"run_id": "r", "event_id": 1, "sample_id": sample, "type": kind, "data": data}


def test_the_events_of_a_sample_are_a_run(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    lines = [
        {"spec": {"completion_fns": ["m"], "eval_name": "sums"}},
        event("s.1", "sampling", prompt="3+3?", sampled="6"),
        event("s.0", "sampling", prompt=prompt, sampled=["5"]),
        event("s.1", "metrics", accuracy=1),
        event("s.0", "sampling", prompt="Is 5 right?", sampled=["no"]),
        event("s.0", "match", correct=False, expected=["4", "four"], picked=None, sampled="5"),
        event("s.2", "error", type="Timeout", message="no answer"),
        {"final_report": {"accuracy": 0.5}},
    ]

    runs = {run.id: run for run in runs_of(written(tmp_path / "eval.jsonl", *lines))}

    assert (runs["s.0"].task, runs["s.0"].answer, runs["s.0"].truth) == ("2+2?", "5", "4\nfour")
    assert (runs["s.0"].success, runs["s.1"].success, runs["s.2"].success) == (False, True, None)
    assert steps_of(runs["s.0"]) == ["harness: Be brief.", "person: 2+2?", "agent: 5"]
    assert (runs["s.1"].model, runs["s.2"].reason) == ("m", "no answer")


def response(name: str, text: str) -> dict[str, Any]:
    body = {
        "model": "m",
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 3},
    }
    return {"id": f"b{name}", "custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}


def request(name: str, text: str) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}


def test_a_batch_with_its_requests(tmp_path: Path) -> None:
    written(tmp_path / "requests.jsonl", request("a", "2+2?"), request("b", "3+3?"))
    written(tmp_path / "results.jsonl", response("b", "6"), response("a", "4"))

    runs = runs_of(tmp_path)

    assert [(run.id, run.task, run.answer, run.tokens.input) for run in runs] == [
        ("b", "3+3?", "6", 3),
        ("a", "2+2?", "4", 3),
    ]


def test_a_request_that_failed_is_not_a_failure_of_the_agent(tmp_path: Path) -> None:
    error = {"custom_id": "a", "response": None, "error": {"code": "expired", "message": "The batch expired."}}
    written(tmp_path / "in.jsonl", request("a", "2+2?"))

    run = run_of(written(tmp_path / "out.jsonl", error))

    assert (run.success, run.answer, run.reason) == (None, "", "The batch expired.")


def test_a_batch_of_anthropic(tmp_path: Path) -> None:
    written(
        tmp_path / "in.jsonl",
        {"custom_id": "a", "params": {"system": "Be brief.", "messages": [{"role": "user", "content": "2+2?"}]}},
    )
    message = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "4"}]}

    run = run_of(
        written(tmp_path / "out.jsonl", {"custom_id": "a", "result": {"type": "succeeded", "message": message}})
    )

    assert (run.task, run.answer, run.model) == ("2+2?", "4", "m")


def test_requests_alone_are_no_runs(tmp_path: Path) -> None:
    [problem] = read_runs(written(tmp_path / "in.jsonl", request("a", "2+2?")))

    assert isinstance(problem, Problem) and "without their results" in problem.reason


@pytest.mark.parametrize("other", [request("z", "another batch"), {"question": "2+2?", "answer": "4"}])
def test_requests_of_another_batch_are_not_taken(tmp_path: Path, other: dict[str, Any]) -> None:
    written(tmp_path / "in.jsonl", other)

    problem, run = read_runs(written(tmp_path / "out.jsonl", response("a", "4")))

    assert isinstance(problem, Problem)
    assert not isinstance(run, Problem) and run.task == ""
