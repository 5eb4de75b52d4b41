"""Spans of every instrumentation library, in every container in which tools export them, are read as runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, read_runs
from tests.core.logs.log_files import DATA, run_of, runs_of
from tests.core.logs.spans.kettle import ANSWER, ASKED, CALL, CALLED, ERROR, FAILED, SAID, TASK, TOLD, USER, steps_of


def span(number: int, parent: int, name: str, attributes: Mapping[str, object], **more: object) -> dict[str, Any]:
    """A span as a flat object, with texts for objects in its attributes, as most libraries write them."""
    texts = {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in attributes.items()}
    return {
        "trace_id": "t1",
        "span_id": f"s{number}",
        "parent_span_id": f"s{parent}" if parent else None,
        "name": name,
        "start_time_unix_nano": 1764000000000000000 + number,
        "attributes": texts,
        **more,
    }


RECORDED = Path(__file__).with_name("data")
ERROR_STATUS: dict[str, Any] = {"status": {"code": "STATUS_CODE_ERROR", "message": ERROR}}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize(
    ("name", "has_tool"),
    [
        ("otel_logfire_pydantic_ai.json", False),
        ("otel_mlflow_attrs.json", True),
        ("otel_openllmetry_workflow.json", False),
        ("otel_vercel_ai.json", True),
        ("phoenix_rest.json", False),
        ("phoenix_spans.jsonl", True),
        ("mlflow_trace.json", True),
    ],
)
def test_sample_files(name: str, has_tool: bool) -> None:
    run = run_of(DATA / name)
    assert (run.task, run.answer) == (TASK, ANSWER)
    assert steps_of(run) == [ASKED, *([CALL, FAILED] if has_tool else []), TOLD]


VERCEL = (
    span(1, 0, "ai.streamText", {"ai.operationId": "ai.streamText", "ai.prompt": {"prompt": TASK}}),
    span(
        2,
        1,
        "ai.streamText.doStream",
        {
            "ai.operationId": "ai.streamText.doStream",
            "ai.prompt.messages": [{"role": "user", "content": [{"type": "text", "text": TASK}]}],
            "ai.response.toolCalls": [{"toolCallId": "c1", "toolName": "get_policy", "args": '{"sku": "KET-2"}'}],
            "ai.usage.promptTokens": 5,
            "ai.usage.completionTokens": 2,
        },
    ),
    span(
        3,
        1,
        "ai.toolCall",
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "get_policy", "ai.toolCall.args": {"sku": "KET-2"}},
        **ERROR_STATUS,
    ),
    span(
        4,
        1,
        "ai.streamText.doStream",
        {
            "ai.operationId": "ai.streamText.doStream",
            "ai.prompt.messages": [
                {"role": "user", "content": [{"type": "text", "text": TASK}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool-call", "toolCallId": "c1", "toolName": "get_policy", "args": {"sku": "KET-2"}}
                    ],
                },
                {
                    "role": "tool",
                    "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "get_policy", "result": ERROR}],
                },
            ],
            "ai.response.text": ANSWER,
            "ai.usage.promptTokens": 9,
            "ai.usage.completionTokens": 4,
        },
    ),
)
PYDANTIC_AI = (
    span(
        1,
        0,
        "agent run",
        {
            "gen_ai.agent.name": "shop",
            "pydantic_ai.all_messages": [
                {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]},
                {"role": "user", "parts": [{"type": "text", "content": TASK}]},
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": "c1", "name": "get_policy", "arguments": {"sku": "KET-2"}}],
                },
                {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]},
            ],
            "final_result": ANSWER,
        },
    ),
    span(
        2,
        1,
        "running tool",
        {"gen_ai.tool.name": "get_policy", "gen_ai.tool.call.id": "c1", "tool_arguments": {"sku": "KET-2"}},
        **ERROR_STATUS,
    ),
)
ADK = (
    span(1, 0, "invocation", {"gen_ai.operation.name": "invoke_agent"}),
    span(
        2,
        1,
        "call_llm",
        {
            "gcp.vertex.agent.llm_request": {"model": "g", "contents": [{"role": "user", "parts": [{"text": TASK}]}]},
            "gcp.vertex.agent.llm_response": {
                "content": {
                    "role": "model",
                    "parts": [{"function_call": {"id": "c1", "name": "get_policy", "args": {"sku": "KET-2"}}}],
                }
            },
        },
    ),
    span(
        3,
        2,
        "execute_tool get_policy",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_policy",
            "gcp.vertex.agent.tool_call_args": {"sku": "KET-2"},
            "gcp.vertex.agent.llm_request": "{}",
            "gcp.vertex.agent.llm_response": "{}",
        },
        **ERROR_STATUS,
    ),
    span(
        4,
        1,
        "call_llm",
        {
            "gcp.vertex.agent.llm_request": {
                "contents": [
                    {"role": "user", "parts": [{"text": TASK}]},
                    {"role": "model", "parts": [{"function_call": {"name": "get_policy", "args": {"sku": "KET-2"}}}]},
                    {
                        "role": "user",
                        "parts": [{"function_response": {"name": "get_policy", "response": {"error": ERROR}}}],
                    },
                ]
            },
            "gcp.vertex.agent.llm_response": {"content": {"role": "model", "parts": [{"text": ANSWER}]}},
        },
    ),
)
MLFLOW = (
    span(1, 0, "agent", {"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": {"question": TASK}}),
    span(
        2,
        1,
        "Completions",
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": {"messages": [USER], "model": "m"},
            "mlflow.spanOutputs": {"choices": [{"index": 0, "message": CALLED}]},
            "mlflow.chat.tokenUsage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        },
    ),
    span(
        3,
        1,
        "get_policy",
        {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": {"sku": "KET-2"}},
        **ERROR_STATUS,
    ),
    span(
        4,
        1,
        "Completions",
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": {"messages": [USER, CALLED, {"role": "tool", "tool_call_id": "c1", "content": ERROR}]},
            "mlflow.spanOutputs": {"choices": [{"index": 0, "message": SAID}]},
        },
    ),
)
LANGFUSE = (
    span(1, 0, "agent", {"langfuse.observation.type": "agent", "langfuse.observation.input": {"question": TASK}}),
    span(
        2,
        1,
        "get_policy",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": {"sku": "KET-2"},
            "langfuse.observation.level": "ERROR",
            "langfuse.observation.status_message": ERROR,
        },
    ),
    span(
        3,
        1,
        "llm",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": [USER],
            "langfuse.observation.output": SAID,
            "langfuse.observation.usage_details": {"input": 5, "output": 2},
        },
    ),
)
OPENINFERENCE = (
    span(1, 0, "agent", {"openinference.span.kind": "AGENT", "input.value": TASK, "output.value": ANSWER}),
    span(
        2,
        1,
        "get_policy",
        {"openinference.span.kind": "TOOL", "tool.name": "get_policy", "input.value": {"sku": "KET-2"}},
        status_code="ERROR",
        status_message=ERROR,
    ),
)
DIALECTS = {
    "Vercel AI SDK": VERCEL,
    "pydantic-ai": PYDANTIC_AI,
    "Google ADK": ADK,
    "MLflow": MLFLOW,
    "Langfuse": LANGFUSE,
    "OpenInference": OPENINFERENCE,
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects(tmp_path: Path, dialect: str) -> None:
    run = run_of(written(tmp_path, *DIALECTS[dialect]))
    assert (run.task, run.answer, run.success) == (TASK, ANSWER, None)
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]


def test_tokens_are_those_of_the_models(tmp_path: Path) -> None:
    vercel, mlflow = (run_of(written(tmp_path, *spans)).tokens for spans in (VERCEL, MLFLOW))
    assert (vercel.input, vercel.output) == (14, 6)
    assert (mlflow.input, mlflow.output) == (5, 2)


def test_content_that_was_switched_off_is_no_message(tmp_path: Path) -> None:
    off = {"gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"}
    [problem] = read_runs(written(tmp_path, span(1, 0, "call_llm", off)))
    assert isinstance(problem, Problem)
    assert "have no texts" in problem.reason


def test_a_tool_of_vercels_sdk_without_a_result_failed(tmp_path: Path) -> None:
    quiet = {name: value for name, value in VERCEL[2].items() if name != "status"}
    run = run_of(written(tmp_path, VERCEL[0], VERCEL[1], quiet))
    assert steps_of(run)[-1] == ("result", "get_policy", "it returned nothing", True)


def test_a_result_that_says_that_the_tool_failed(tmp_path: Path) -> None:
    done = {**OPENINFERENCE[1]["attributes"], "output.value": "Error: no such sku"}
    run = run_of(written(tmp_path, OPENINFERENCE[0], span(2, 1, "get_policy", done, status_code="OK")))
    assert steps_of(run)[2] == ("result", "get_policy", "Error: no such sku", True)


COLUMNS = [
    {
        "name": fields["name"],
        "context.trace_id": "t1",
        "context.span_id": fields["span_id"],
        "parent_id": fields["parent_span_id"],
        "status_code": fields.get("status_code", "OK"),
        "status_message": fields.get("status_message", ""),
        **{f"attributes.{key}": value for key, value in fields["attributes"].items()},
    }
    for fields in OPENINFERENCE
]
NESTED = [
    {
        **OPENINFERENCE[0],
        "attributes": {
            "openinference": {"span": {"kind": "AGENT"}},
            "input": {"value": TASK},
            "output": {"value": ANSWER},
        },
    },
    OPENINFERENCE[1],
]
CONTEXTS = [
    {
        **{name: value for name, value in fields.items() if name not in ("trace_id", "span_id", "parent_span_id")},
        "context": {"trace_id": fields["trace_id"], "span_id": fields["span_id"]},
        "parent_id": fields["parent_span_id"],
    }
    for fields in OPENINFERENCE
]
CONTAINERS = {
    "a list of flat spans": OPENINFERENCE,
    "rows of a table with a column for each attribute": COLUMNS,
    "spans with nested attributes": NESTED,
    "the answer of Phoenix": {"data": CONTEXTS, "next_cursor": None},
    "a trace of MLflow": {"info": {"trace_id": "t1"}, "data": {"spans": OPENINFERENCE}},
    "rows of MLflow": [{"trace_id": "t1", "spans": OPENINFERENCE, "assessments": []}],
    "a list in which MLflow wrote its traces": {"traces": [{"info": {}, "data": {"spans": OPENINFERENCE}}]},
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers(tmp_path: Path, container: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(CONTAINERS[container]))
    run = run_of(path)
    assert (run.id, run.format) == ("t1", "spans")
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]


def test_evaluators_and_annotations_are_feedback(tmp_path: Path) -> None:
    judge = {"openinference.span.kind": "EVALUATOR", "annotations.0.annotation.label": "incorrect"}
    note = {
        "annotations.0.annotation.name": "correctness",
        "annotations.0.annotation.score": 0,
        "annotations.0.annotation.explanation": "Kettles have 14 days.",
        "annotations.0.annotation.annotator_kind": "HUMAN",
    }
    inside = span(4, 3, "judge's model", {"openinference.span.kind": "LLM", "output.value": "incorrect"})
    judged = run_of(written(tmp_path, *OPENINFERENCE, span(3, 1, "eval", judge), inside))
    assert (steps_of(judged), judged.success) == ([ASKED, CALL, FAILED, TOLD], False)
    asked = {**OPENINFERENCE[0], "attributes": {**OPENINFERENCE[0]["attributes"], **note}}
    annotated = run_of(written(tmp_path, asked, OPENINFERENCE[1]))
    assert (annotated.success, annotated.score, annotated.outcome_from) == (False, 0.0, "correctness")
    assert annotated.reason == "Kettles have 14 days.\ncorrectness: 0"


def test_a_person_is_believed_before_a_judge(tmp_path: Path) -> None:
    assessments = [
        {"assessment_name": "correct", "source": {"source_type": "LLM_JUDGE"}, "feedback": {"value": True}},
        {"assessment_name": "correct", "source": {"source_type": "HUMAN"}, "feedback": {"value": False}},
        {"assessment_name": "toxicity", "source": {"source_type": "HUMAN"}, "feedback": {"value": 0}},
        {"assessment_name": "answer", "source": {"source_type": "HUMAN"}, "expectation": {"value": "14 days"}},
    ]
    trace = {"info": {"trace_id": "tr-9", "assessments": assessments}, "data": {"spans": OPENINFERENCE}}
    run = run_of(written(tmp_path, trace))
    assert (run.id, run.success, run.truth, run.outcome_from) == ("tr-9", False, "14 days", "correct")
    opposed = [assessments[0], {"assessment_name": "passed", "feedback": {"value": False}}]
    opposed[1]["source"] = opposed[0]["source"]
    trace["info"]["assessments"] = opposed  # type: ignore[index]  # a dict
    assert run_of(written(tmp_path, trace)).success is None


def test_a_state_of_messages_is_answered_by_its_last_text(tmp_path: Path) -> None:
    state = {
        "messages": [
            {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": TASK}},
            {
                "lc": 1,
                "type": "constructor",
                "id": ["langchain", "AIMessage"],
                "kwargs": {
                    "content": "",
                    "tool_calls": [{"name": "get_policy", "args": {"sku": "KET-2"}, "id": "c1", "type": "tool_call"}],
                },
            },
            {
                "lc": 1,
                "type": "constructor",
                "id": ["langchain", "ToolMessage"],
                "kwargs": {"content": ERROR, "status": "error", "tool_call_id": "c1"},
            },
            {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": {"content": ANSWER}},
        ]
    }
    chain = {"openinference.span.kind": "CHAIN", "input.value": {"messages": [["user", TASK]]}, "output.value": state}
    web = span(9, 0, "POST /chat", {"http.request.method": "POST"})
    run = run_of(written(tmp_path, span(1, 9, "LangGraph", chain), web))
    assert (run.task, run.answer) == (TASK, ANSWER)
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]


def test_one_run_for_each_trace_id_and_its_session(tmp_path: Path) -> None:
    attributes = {**OPENINFERENCE[0]["attributes"], "session.id": "afternoon"}
    spans = [{**OPENINFERENCE[0], "trace_id": name, "attributes": attributes} for name in ("a", "b", "c")]
    tools = [{**OPENINFERENCE[1], "trace_id": name} for name in ("c", "a")]
    runs = runs_of(written(tmp_path, *spans, *tools))
    assert sorted(run.id for run in runs) == ["a", "b", "c"]
    assert {run.id: len(run.steps) for run in runs} == {"a": 4, "b": 2, "c": 4}
    assert {run.rest["session"] for run in runs} == {"afternoon"}


def test_an_object_for_a_program_is_not_the_task(tmp_path: Path) -> None:
    order = {"openinference.span.kind": "CHAIN", "input.value": {"order": 9, "lines": [1, 2]}}
    model = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": TASK,
        "output.value": ANSWER,
    }
    run = run_of(written(tmp_path, span(1, 0, "POST", order), span(2, 1, "llm", model)))
    assert (run.task, run.answer, steps_of(run)) == (TASK, ANSWER, [ASKED, TOLD])


def test_an_attribute_beside_one_that_its_name_begins_with(tmp_path: Path) -> None:
    attributes = {**OPENINFERENCE[0]["attributes"], "input": "{}", "output": "x"}
    run = run_of(written(tmp_path, {**OPENINFERENCE[0], "attributes": attributes}))
    assert (run.task, run.answer) == (TASK, ANSWER)


def test_a_trace_of_evaluators_alone_is_skipped(tmp_path: Path) -> None:
    judge = {"openinference.span.kind": "EVALUATOR", "input.value": TASK, "output.value": "incorrect"}
    model = {"openinference.span.kind": "LLM", "input.value": TASK, "output.value": "incorrect"}
    alone = [span(1, 0, "eval", judge), span(2, 1, "llm", model)]
    runs = runs_of(written(tmp_path, *({**fields, "trace_id": "t2"} for fields in alone), *OPENINFERENCE))
    assert [run.id for run in runs] == ["t1"]


def test_spans_whose_parent_was_not_exported_are_inside_the_root(tmp_path: Path) -> None:
    run = run_of(written(tmp_path, OPENINFERENCE[0], {**OPENINFERENCE[1], "parent_span_id": "lost"}))
    assert steps_of(run) == [ASKED, CALL, FAILED, TOLD]


def test_spans_of_no_known_kind_are_tools_if_a_model_called_their_names(tmp_path: Path) -> None:
    model = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [USER], "gen_ai.output.messages": [CALLED]}
    other = [span(2, 0, name, {"traceloop.span.kind": "task"}, **ERROR_STATUS) for name in ("get_policy", "parse")]
    run = run_of(written(tmp_path, span(1, 0, "chat", model), other[0], {**other[1], "span_id": "s3"}))
    assert steps_of(run)[1:] == [CALL, FAILED, ("result", "parse", ERROR, True)]


def test_arguments_of_decorated_functions(tmp_path: Path) -> None:
    kinds = {"args": [], "kwargs": {"sku": "KET-2"}}, {"input_str": "{'sku': 'KET-2'}", "tags": [], "metadata": {}}
    for arguments in kinds:
        tool = {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "get_policy",
            "traceloop.entity.input": arguments,
        }
        task = {"traceloop.span.kind": "agent", "traceloop.entity.input": TASK}
        run = run_of(
            written(
                tmp_path,
                span(1, 0, "agent", task, **ERROR_STATUS),
                span(2, 1, "get_policy.tool", tool, **ERROR_STATUS),
            )
        )
        assert steps_of(run) == [("message", "person", TASK, False), CALL, FAILED]


def test_tools_of_the_provider_and_parts_that_are_not_texts(tmp_path: Path) -> None:
    parts = [
        {"type": "reasoning", "content": "I search."},
        {
            "type": "server_tool_call",
            "id": "w1",
            "name": "web_search",
            "server_tool_call": {"type": "web_search", "query": "kettle"},
        },
        {
            "type": "server_tool_call_response",
            "id": "w1",
            "server_tool_call_response": {"type": "web_search", "results": 3},
        },
        {"type": "compaction", "content": "..."},
        {"type": "text", "content": ANSWER},
    ]
    asked = [{"type": "text", "content": TASK}, {"type": "blob", "mime_type": "image/png", "content": "iVBORw0KGgo"}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": [{"type": "text", "content": "Be kind."}],
        "gen_ai.input.messages": [{"role": "user", "parts": asked}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": parts, "finish_reason": "stop"}],
    }
    assert steps_of(run_of(written(tmp_path, span(1, 0, "chat", attributes)))) == [
        ("message", "person", f"{TASK}\n[blob]", False),
        ("thought", "agent", "I search.", False),
        ("call", "web_search", "kettle", False),
        ("result", "web_search", '{"type": "web_search", "results": 3}', False),
        TOLD,
    ]


def test_outputs_of_tools_in_messages_of_vercels_sdk(tmp_path: Path) -> None:
    part = {"type": "tool-result", "toolCallId": "c1", "toolName": "get_policy"}
    messages = [
        {"role": "user", "content": TASK},
        CALLED,
        {"role": "tool", "content": [{**part, "output": {"type": "text", "value": "30 days"}}]},
    ]
    attributes = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": messages}
    run = run_of(written(tmp_path, span(1, 0, "llm", {**attributes, "ai.response.text": ANSWER})))
    assert steps_of(run) == [ASKED, CALL, ("result", "get_policy", "30 days", False), TOLD]


def test_an_evaluation_of_the_whole_trace_in_a_log_record(tmp_path: Path) -> None:
    fields = {
        "gen_ai.evaluation.name": "Correctness",
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "Kettles have 14 days.",
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in fields.items()]
    record = {"traceId": "t1", "eventName": "gen_ai.evaluation.result", "attributes": attributes}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    run = run_of(written(tmp_path, logs, *OPENINFERENCE))
    assert (run.success, run.reason) == (False, "Correctness: fail (Kettles have 14 days.)")


def test_spans_that_pydantic_ai_recorded() -> None:
    run = run_of(DATA / "recorded_pydantic_ai_2.68.jsonl")
    assert (run.task, run.answer) == ("Days to return the kettle?", "It is 30 days.")
    assert steps_of(run) == [
        ("message", "person", "Days to return the kettle?", False),
        ("thought", "agent", "Look it up.", False),
        CALL,
        ("result", "get_policy", "ToolRetryError: no such sku KET-2", True),
        ("thought", "agent", "Look it up.", False),
        ("call", "get_policy", '{"sku": "KET-3"}', False),
        ("result", "get_policy", "30 days", False),
        ("message", "agent", "It is 30 days.", False),
    ]
    assert (run.tokens.input, run.tokens.output) == (181, 50)


def test_a_trace_that_mlflow_recorded() -> None:
    run = run_of(DATA / "recorded_mlflow_3.17.json")
    assert (run.task, run.answer, run.success, run.truth) == (
        "Days to return the kettle?",
        "It is 30 days.",
        False,
        "14 days",
    )
    assert run.reason == "Wrong: it is 14.\ncorrect: false"
    assert [(step.kind, step.is_error) for step in run.steps] == [
        ("message", False),
        ("call", False),
        ("result", True),
        ("call", False),
        ("result", False),
        ("message", False),
    ]


def test_the_building_of_an_agent_that_openllmetry_has_recorded_is_no_run() -> None:
    """A LangChain agent of `create_agent`: that call is a trace of its own, with the tools and the instructions."""
    run = run_of(RECORDED / "recorded_openllmetry_langchain_0.62.4.jsonl")
    assert (run.task, run.answer) == ("When is high water in Bremen?", "High water in Bremen is at 14:05.")


def test_the_agents_and_tools_of_openai_agents_do_not_tell_the_task() -> None:
    [problem] = read_runs(RECORDED / "recorded_genai_openai_agents_1.3b0.jsonl")
    assert isinstance(problem, Problem)
    assert "is unknown, because only its agents and tools were recorded" in problem.reason
