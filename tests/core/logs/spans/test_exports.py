"""The exports of Langfuse, LangSmith, Weave, Braintrust, LiteLLM and Helicone are read as runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, Run, read_runs, runs_in
from tests.core.logs.log_files import DATA, run_of, runs_of
from tests.core.logs.spans.kettle import ANSWER, ASKED, CALL, CALLED, ERROR, FAILED, SAID, TASK, TOLD, USER, steps_of

WRONG = "Wrong: kettles have 14 days, not 30."
RETURNED = {"role": "tool", "tool_call_id": "c1", "content": ERROR, "is_error": True}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize("name", ["langfuse_trace.json", "langsmith_runs.jsonl"])
def test_sample_files(name: str) -> None:
    run = run_of(DATA / name)
    assert (run.task, run.answer, run.success, run.score) == (TASK, ANSWER, False, 0.0)
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]
    assert WRONG in run.reason


def test_the_sample_file_of_weave() -> None:
    run = run_of(DATA / "weave_calls.jsonl")
    assert (run.task, run.answer, run.model) == (TASK, ANSWER, "m")
    assert (run.success, run.outcome_from) == (False, "wandb.reaction.1")
    assert steps_of(run) == [ASKED, TOLD]


LANGFUSE: list[dict[str, Any]] = [
    {"id": "o1", "traceId": "t1", "type": "AGENT", "name": "agent", "parentObservationId": None, "input": TASK},
    {
        "id": "o2",
        "traceId": "t1",
        "type": "TOOL",
        "name": "get_policy",
        "parentObservationId": "o1",
        "startTime": "2026-05-05T10:00:01Z",
        "input": {"sku": "KET-2"},
        "level": "ERROR",
        "statusMessage": ERROR,
    },
    {
        "id": "o3",
        "traceId": "t1",
        "type": "GENERATION",
        "name": "llm",
        "parentObservationId": "o1",
        "startTime": "2026-05-05T10:00:02Z",
        "input": [USER],
        "output": SAID,
        "model": "m",
        "usageDetails": {"input": 5, "output": 2},
        "calculatedTotalCost": 0.25,
    },
]
LANGSMITH: list[dict[str, Any]] = [
    {
        "id": "r2",
        "trace_id": "t1",
        "parent_run_id": "t1",
        "run_type": "tool",
        "name": "get_policy",
        "start_time": "2026-05-05T10:00:01",
        "inputs": {"input": "{'sku': 'KET-2'}"},
        "outputs": None,
        "error": f"{ERROR}Traceback (most recent call last):\n  File x",
    },
    {
        "id": "r3",
        "trace_id": "t1",
        "parent_run_id": "t1",
        "run_type": "llm",
        "name": "ChatOpenAI",
        "start_time": "2026-05-05T10:00:02",
        "inputs": {"messages": [[{"lc": 1, "id": ["HumanMessage"], "kwargs": {"content": TASK, "type": "human"}}]]},
        "outputs": {
            "generations": [
                [{"text": ANSWER, "message": {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": ANSWER}}}]
            ]
        },
        "extra": {"metadata": {"ls_model_name": "m"}},
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_cost": 0.25,
    },
    {
        "id": "t1",
        "trace_id": "t1",
        "parent_run_id": None,
        "run_type": "chain",
        "name": "agent",
        "start_time": "2026-05-05T10:00:00",
        "inputs": {"input": TASK},
        "outputs": {"output": ANSWER},
        "status": "success",
    },
]
WEAVE: list[dict[str, Any]] = [
    {
        "id": "w1",
        "op_name": "weave:///shop/bot/op/answer:abc",
        "trace_id": "t1",
        "parent_id": None,
        "started_at": "2026-05-05T10:00:00Z",
        "inputs": {"question": TASK},
        "output": ANSWER,
        "summary": {"weave": {"status": "descendant_error"}},
    },
    {
        "id": "w2",
        "op_name": "weave:///shop/bot/op/get_policy:def",
        "trace_id": "t1",
        "parent_id": "w1",
        "started_at": "2026-05-05T10:00:01Z",
        "inputs": {"sku": "KET-2"},
        "output": None,
        "exception": ERROR,
        "summary": {"weave": {"status": "error"}},
    },
    {
        "id": "w3",
        "op_name": "weave:///shop/bot/op/openai.chat.completions.create:def",
        "trace_id": "t1",
        "parent_id": "w1",
        "started_at": "2026-05-05T10:00:02Z",
        "inputs": {"model": "m", "messages": [USER]},
        "output": {"choices": [{"index": 0, "message": SAID}]},
        "summary": {"usage": {"m": {"prompt_tokens": 5, "completion_tokens": 2, "requests": 1}}},
    },
]
BRAINTRUST: list[dict[str, Any]] = [
    {
        "id": "b1",
        "span_id": "1",
        "root_span_id": "t1",
        "span_parents": [],
        "span_attributes": {"name": "agent", "type": "task"},
        "input": TASK,
        "output": ANSWER,
        "metrics": {"start": 1764000000.0, "end": 1764000009.5},
    },
    {
        "id": "b2",
        "span_id": "2",
        "root_span_id": "t1",
        "span_parents": ["1"],
        "span_attributes": {"name": "get_policy", "type": "function"},
        "input": {"sku": "KET-2"},
        "error": ERROR,
        "metrics": {"start": 1764000001.0},
    },
    {
        "id": "b3",
        "span_id": "3",
        "root_span_id": "t1",
        "span_parents": ["1"],
        "span_attributes": {"name": "llm", "type": "llm"},
        "input": [USER],
        "output": [{"finish_reason": "stop", "index": 0, "message": SAID}],
        "metadata": {"model": "m"},
        "metrics": {"start": 1764000002.0, "prompt_tokens": 5, "completion_tokens": 2, "estimated_cost": 0.25},
    },
]
LITELLM: list[dict[str, Any]] = [
    {
        "id": "l1",
        "trace_id": "t1",
        "call_type": "acompletion",
        "model": "m",
        "model_group": "m",
        "status": "success",
        "messages": [USER],
        "response": {"choices": [{"message": CALLED}]},
        "prompt_tokens": 2,
        "completion_tokens": 1,
        "startTime": 1764000000.5,
    },
    {
        "id": "l2",
        "trace_id": "t1",
        "call_type": "acompletion",
        "model": "m",
        "model_group": "m",
        "status": "success",
        "messages": [USER, CALLED, RETURNED],
        "response": {"choices": [{"message": SAID}]},
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "response_cost": 0.25,
        "startTime": 1764000009.5,
    },
]
HELICONE: list[dict[str, Any]] = [
    {
        "request_id": f"h{number}",
        "request_created_at": f"2026-05-05T10:00:0{number}Z",
        "request_properties": {"Helicone-Session-Id": "t1"},
        "request_body": json.dumps({"model": "m", "messages": messages}),
        "response_body": {"choices": [{"message": answer}]},
        "request_model": "m",
        "prompt_tokens": 2 + number,
        "completion_tokens": 1,
        "cost": 0.125,
    }
    for number, (messages, answer) in enumerate([([USER], CALLED), ([USER, CALLED, RETURNED], SAID)])
]
EXPORTS: dict[str, list[dict[str, Any]]] = {
    "langfuse": LANGFUSE,
    "langsmith": LANGSMITH,
    "weave": WEAVE,
    "braintrust": BRAINTRUST,
    "litellm": LITELLM,
    "helicone": HELICONE,
}


@pytest.mark.parametrize("name", EXPORTS)
def test_flat_records_of_a_trace(tmp_path: Path, name: str) -> None:
    run = run_of(written(tmp_path, *EXPORTS[name]))
    assert (run.id, run.format, run.task, run.answer, run.success) == ("t1", name, TASK, ANSWER, None)
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]
    assert (run.model, run.tokens.input, run.tokens.output) == ("m", 5, 2)
    assert run.cost == (None if name == "weave" else 0.25)


@pytest.mark.parametrize("name", EXPORTS)
def test_records_in_a_list_or_an_envelope_or_in_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "export.json"
    expected = [ASKED, CALL, FAILED, TOLD]
    for document in (EXPORTS[name], {"data": EXPORTS[name], "meta": {"page": 1}}):
        path.write_text(json.dumps(document))
        assert steps_of(run_of(path)) == expected
        assert [steps_of(run) for run in runs_in(document)] == [expected]


def test_child_runs_inside_their_parents(tmp_path: Path) -> None:
    children = [{key: value for key, value in run.items() if key != "trace_id"} for run in LANGSMITH[:2]]
    nested = {**LANGSMITH[2], "child_runs": [{**LANGSMITH[2], "id": "r1", "name": "inner", "child_runs": children}]}
    run = run_of(written(tmp_path, nested))
    assert (run.id, steps_of(run)) == ("t1", [ASKED, CALL, FAILED, TOLD])


def test_messages_that_the_client_of_langsmith_has_escaped(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2}
    calls = [{"name": "get_policy", "args": {"sku": "KET-2"}, "id": "c1", "type": "tool_call"}]
    answer = {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "", "tool_calls": calls, "usage_metadata": usage}}
    outputs = {
        "generations": [[{"text": "", "type": "ChatGeneration", "message": {"__lc_escaped__": answer}}]],
        "type": "LLMResult",
    }
    model = {**LANGSMITH[1], "outputs": outputs, "prompt_tokens": None, "completion_tokens": None}
    run = run_of(written(tmp_path, {**model, "start_time": "2026-05-05T10:00:00.5"}, LANGSMITH[0], LANGSMITH[2]))
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]
    assert (run.tokens.input, run.tokens.output) == (5, 2)


def test_a_langfuse_trace_with_its_observations_beside_it(tmp_path: Path) -> None:
    trace = {"id": "t1", "name": "chat", "input": json.dumps([USER]), "output": ANSWER, "sessionId": "afternoon"}
    score = {"name": "correction", "dataType": "CORRECTION", "stringValue": "14 days", "source": "ANNOTATION"}
    download = {"trace": {**trace, "scores": [score]}, "observations": LANGFUSE[1:]}
    for record in (download, {**trace, "scores": [score], "observations": LANGFUSE[1:]}):
        run = run_of(written(tmp_path, record))
        assert (run.id, run.rest["session"], run.truth, run.success) == ("t1", "afternoon", "14 days", None)
        assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]


def test_a_langfuse_trace_without_its_observations(tmp_path: Path) -> None:
    trace = {
        "id": "t1",
        "htmlPath": "/trace/t1",
        "input": TASK,
        "output": ANSWER,
        "observations": ["o1"],
        "scores": ["s"],
    }
    assert steps_of(run_of(written(tmp_path, trace))) == [ASKED, TOLD]


def test_the_root_of_a_failed_run_names_the_tool(tmp_path: Path) -> None:
    root: dict[str, Any] = {**LANGSMITH[2], "outputs": None, "error": ERROR, "status": "error"}
    run = run_of(written(tmp_path, LANGSMITH[0], root))
    assert (run.success, run.answer, run.reason) == (False, "", f"The run failed in get_policy: {ERROR}.")
    assert steps_of(run) == [ASKED, CALL, FAILED]


def test_scores_that_do_not_decide_are_feedback(tmp_path: Path) -> None:
    root = {**BRAINTRUST[0], "scores": {"Factuality": 0.4}, "expected": {"answer": "14 days"}}
    scorer = {
        **BRAINTRUST[1],
        "span_id": "4",
        "span_attributes": {"name": "Factuality", "type": "score"},
        "error": None,
        "input": {"output": ANSWER},
        "output": 0.4,
    }
    run = run_of(written(tmp_path, root, scorer, *BRAINTRUST[1:]))
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]
    assert (run.success, run.score, run.reason, run.truth) == (None, 0.4, "Factuality: 0.4", "14 days")


def test_a_reaction_in_weave_is_an_outcome(tmp_path: Path) -> None:
    feedback = [
        {"feedback_type": "wandb.reaction.1", "payload": {"emoji": "👎"}},
        {"feedback_type": "wandb.note.1", "payload": {"note": WRONG}},
    ]
    root = {**WEAVE[0], "summary": {"weave": {"status": "success", "feedback": feedback}}}
    run = run_of(written(tmp_path, root))
    assert (run.success, run.outcome_from) == (False, "wandb.reaction.1")
    assert WRONG in run.reason.splitlines()


def test_a_call_of_litellm_that_failed_and_calls_without_a_trace(tmp_path: Path) -> None:
    calls = [{key: value for key, value in call.items() if key != "trace_id"} for call in LITELLM]
    failed = {**calls[1], "id": "l3", "status": "failure", "error_str": "RateLimitError: slow down", "response": {}}
    first, _, third = runs_of(written(tmp_path, *calls, failed))
    assert (first.id, first.success) == ("l1", None)
    assert (third.id, third.success, third.answer) == ("l3", False, "")
    assert third.reason == "The run failed in acompletion: RateLimitError: slow down."


def test_damaged_records_do_not_end_the_reading(tmp_path: Path) -> None:
    odd: list[Any] = [None, 7, "", "x", [], {}, [None], [[]], {"a": {}}]
    for name, records in EXPORTS.items():
        for key in records[0]:
            for value in odd:
                damaged = [{**record, key: value} for record in records]
                found = [*read_runs(written(tmp_path, *damaged, *records))]
                assert any(isinstance(run, Run) and run.answer == ANSWER for run in found), (name, key, value)
                assert not [item for item in found if isinstance(item, Problem) and "failed:" in item.reason]
