"""Exports of spans in all supported conventions, and damaged ones, become runs or problems."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.logs import LogHead, Problem, Run, file_source, live_source, read_runs, read_trace, runs_in
from ace.logs.formats.spans.otel import SpansReader
from ace.logs.reading import read_source, reader_for, readers
from ace.protocols import TraceConversionError
from tests.support.corrected_chats import judged

Json = dict[str, Any]


def pairs(attributes: Mapping[str, object]) -> list[Json]:
    """Attributes in the JSON of OTLP; objects and lists are JSON texts, as libraries write them."""

    def value(held: object) -> Json:
        if isinstance(held, int):
            return {"intValue": str(held)}
        return {"stringValue": held if isinstance(held, str) else json.dumps(held)}

    return [{"key": key, "value": value(held)} for key, held in attributes.items()]


def span(number: int, parent: int, name: str, attributes: Mapping[str, object], **more: object) -> Json:
    return {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(1764000000000000000 + number * 1_000_000_000),
        "endTimeUnixNano": str(1764000000500000000 + number * 1_000_000_000),
        "attributes": pairs(attributes),
        "status": {},
        **more,
    }


def event(name: str, attributes: Mapping[str, object]) -> Json:
    return {"name": name, "attributes": pairs(attributes)}


def otlp(*spans: Json) -> Json:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


SPEAKERS = {"person": "user", "agent": "assistant", "tool": "tool", "harness": "harness"}


def steps_of(run: Run) -> list[tuple[str, str, str]]:
    spoken = ("message", "thought")
    return [
        (step.kind, SPEAKERS[step.speaker] if step.kind in spoken else step.name, step.content) for step in run.steps
    ]


def run_of(value: object) -> Run:
    [run] = runs_in(value)
    return run


CHAT = {"gen_ai.operation.name": "chat"}
CALL = {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 2, "b": 2}}
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "2+2?"}]}]
CALLED = [{"role": "assistant", "parts": [CALL], "finish_reason": "tool_call"}]
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": "By [maths-00001] it is 4."}]}]
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "add",
    "gen_ai.tool.call.id": "c1",
    "gen_ai.tool.call.arguments": {"a": 2, "b": 2},
    "gen_ai.tool.call.result": "4",
}
FIRST = {
    **CHAT,
    "gen_ai.input.messages": ASKED,
    "gen_ai.output.messages": CALLED,
    "gen_ai.usage.input_tokens": 5,
    "gen_ai.usage.output_tokens": 2,
}
SECOND = {
    **CHAT,
    "gen_ai.input.messages": [
        *ASKED,
        *CALLED,
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "4"}]},
    ],
    "gen_ai.output.messages": SAID,
    "gen_ai.usage.input_tokens": 7,
    "gen_ai.usage.output_tokens": 3,
}
SPANS = [
    span(1, 0, "invoke_agent sums", {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 12}),
    span(2, 1, "chat gpt-5", FIRST),
    span(3, 1, "execute_tool add", TOOL),
    span(4, 1, "chat gpt-5", SECOND),
]
SUM = [
    ("message", "user", "2+2?"),
    ("call", "add", '{"a": 2, "b": 2}'),
    ("result", "add", "4"),
    ("message", "assistant", "By [maths-00001] it is 4."),
]


def found_in(path: Path) -> tuple[list[Run], list[str]]:
    """The runs in a file, and its problems."""
    found = list(read_runs(path))
    runs = [run for run in found if isinstance(run, Run)]
    return runs, [problem.reason for problem in found if isinstance(problem, Problem)]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_interleaved_spans_of_several_traces(tmp_path: Path, form: str) -> None:
    other = {**span(9, 0, "chat", {**CHAT, "gen_ai.input.messages": ASKED}), "traceId": "0" * 31 + "1"}
    path = tmp_path / f"spans.{form}"
    batches = [otlp(SPANS[3], SPANS[1]), otlp(SPANS[2], other), otlp(SPANS[0])]
    path.write_text(json.dumps(otlp(*SPANS, other)) if form == "json" else "\n".join(map(json.dumps, batches)))
    runs, problems = found_in(path)
    first, second = sorted(runs, key=lambda run: run.answer, reverse=True)
    assert problems == []
    assert steps_of(first) == SUM
    assert (first.task, first.answer) == ("2+2?", "By [maths-00001] it is 4.")
    assert (first.tokens.input, first.tokens.output) == (12, 5)
    assert first.to_trace()["metrics"]["duration_seconds"] == 3.5
    assert first.skill_ids == ("maths-00001",)
    assert (second.task, second.answer) == ("2+2?", "")


def numbered(prefix: str, *messages: Json) -> Json:
    """Messages as OpenInference (`llm...`) and OpenLLMetry (`gen_ai...`) spread them over attributes."""
    found: Json = {}

    def spread(name: str, value: object) -> None:
        if isinstance(value, dict | list):
            for key, held in value.items() if isinstance(value, dict) else enumerate(value):
                spread(f"{name}.{key}", held)
        else:
            found[name] = value

    spread(prefix, list(messages))
    return found


ARGUMENTS = '{"a": 2, "b": 2}'
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    **numbered("llm.input_messages", {"message": {"role": "user", "content": "2+2?"}}),
    **numbered(
        "llm.output_messages",
        {
            "message": {
                "role": "assistant",
                "contents": [{"message_content": {"type": "text", "text": "I add."}}],
                "tool_calls": [{"tool_call": {"id": "c1", "function": {"name": "add", "arguments": ARGUMENTS}}}],
            }
        },
    ),
    "llm.token_count.prompt": 5,
    "llm.token_count.completion": 2,
}
OPENLLMETRY = {
    "llm.request.type": "chat",
    **numbered("gen_ai.prompt", {"role": "user", "content": "2+2?"}),
    **numbered(
        "gen_ai.completion",
        {"role": "assistant", "content": "I add.", "tool_calls": [{"name": "add", "arguments": ARGUMENTS}]},
    ),
    "gen_ai.usage.prompt_tokens": 5,
    "gen_ai.usage.completion_tokens": 2,
}
USAGE = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2}
OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": ARGUMENTS}}
EVENTS = [
    event("gen_ai.system.message", {"content": "Hm."}),
    event("gen_ai.user.message", {"content": "2+2?"}),
    event("gen_ai.choice", {"index": 0, "message": {"content": "I add.", "tool_calls": [OPENAI_CALL]}}),
]
OLDER_EVENTS = [
    event("gen_ai.content.prompt", {"gen_ai.prompt": [{"role": "user", "content": "2+2?"}]}),
    event(
        "gen_ai.content.completion",
        {"gen_ai.completion": [{"role": "assistant", "content": "I add.", "tool_calls": [OPENAI_CALL]}]},
    ),
]
BOTH = [{"role": "assistant", "parts": [{"type": "text", "content": "I add."}, CALL]}]
NEW_EVENT = [
    event("gen_ai.client.inference.operation.details", {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": BOTH})
]
LANGSMITH = {
    "langsmith.span.kind": "llm",
    "gen_ai.prompt": {"messages": [[{"role": "user", "content": "2+2?"}]]},
    "gen_ai.completion": {
        "generations": [
            [{"text": "I add.", "message": {"role": "assistant", "content": "I add.", "tool_calls": [OPENAI_CALL]}}]
        ]
    },
    **USAGE,
}
CONVENTIONS = {
    "attributes of the GenAI conventions": span(
        1, 0, "chat", {**CHAT, **USAGE, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": BOTH}
    ),
    "the event of the GenAI conventions": span(1, 0, "chat", {**CHAT, **USAGE}, events=NEW_EVENT),
    "events of older GenAI conventions": span(1, 0, "chat", {**CHAT, **USAGE}, events=EVENTS),
    "events of the oldest GenAI conventions": span(1, 0, "chat", {**CHAT, **USAGE}, events=OLDER_EVENTS),
    "OpenInference": span(1, 0, "ChatCompletion", OPENINFERENCE),
    "OpenLLMetry": span(1, 0, "openai.chat", OPENLLMETRY),
    "LangSmith": span(1, 0, "ChatOpenAI", LANGSMITH),
}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_conventions(convention: str) -> None:
    run = run_of(otlp(CONVENTIONS[convention]))
    assert steps_of(run) == [
        ("message", "user", "2+2?"),
        ("message", "assistant", "I add."),
        ("call", "add", ARGUMENTS),
    ]
    assert (run.task, run.answer) == ("2+2?", "I add.")
    assert (run.tokens.input, run.tokens.output) == (5, 2)


def test_older_events_in_log_records_of_their_own_lines(tmp_path: Path) -> None:
    call = span(1, 0, "chat", CHAT)
    ids = {"traceId": call["traceId"], "spanId": call["spanId"]}
    told = {"key": "content", "value": {"stringValue": "2+2?"}}
    asked = {**ids, "eventName": "gen_ai.user.message", "body": {"kvlistValue": {"values": [told]}}}
    unrelated = {"body": {"stringValue": "started"}, "attributes": []}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [unrelated, asked]}]}]}
    path = tmp_path / "telemetry.jsonl"
    path.write_text("\n".join(map(json.dumps, [logs, {"resourceMetrics": []}, otlp(call)])))
    [run], problems = found_in(path)
    assert (steps_of(run), problems) == ([("message", "user", "2+2?")], [])


def test_tools_of_openinference_and_openllmetry() -> None:
    workflow = {"traceloop.span.kind": "workflow", "traceloop.entity.input": "2+2?"}
    kinds = {
        "openinference": {
            "openinference.span.kind": "TOOL",
            "tool.name": "add",
            "input.value": ARGUMENTS,
            "output.value": {"type": "tool", "data": {"content": "4", "tool_call_id": "c1"}},
        },
        "traceloop": {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "add",
            "traceloop.entity.input": ARGUMENTS,
            "traceloop.entity.output": {"output": "4"},
        },
    }
    for attributes in kinds.values():
        run = run_of(otlp(span(1, 0, "chat", FIRST), span(2, 0, "a tool", attributes)))
        assert steps_of(run) == SUM[:3]
        alone = run_of(otlp(span(1, 0, "the task", workflow), span(2, 1, "a tool", attributes)))
        assert (steps_of(alone), alone.task) == ([("message", "user", "2+2?"), *SUM[1:3]], "2+2?")


def test_a_tool_that_failed_in_an_agent_that_went_on() -> None:
    exception = event(
        "exception", {"exception.type": "builtins.ZeroDivisionError", "exception.message": "division by zero"}
    )
    failed = {**SPANS[2], "status": {"code": 2}, "events": [exception]}
    run = run_of(otlp(SPANS[0], SPANS[1], failed, SPANS[3]))
    assert run.success is None
    assert run.steps[2].is_error
    assert "add failed at 3: ZeroDivisionError: division by zero" in run.to_trace()["feedback"]
    whole = run_of(otlp({**SPANS[0], "status": {"code": "STATUS_CODE_ERROR"}}, SPANS[1], failed))
    assert (whole.success, whole.rest["failed_at"], whole.answer) == (False, "add", "")
    assert steps_of(whole)[-1] == ("result", "add", "ZeroDivisionError: division by zero")
    assert whole.reason == "The run failed in add: it failed."


def test_a_call_that_two_libraries_have_recorded_is_counted_once() -> None:
    chain = {"openinference.span.kind": "CHAIN"}
    double = otlp(span(1, 0, "chat", FIRST), span(2, 1, "RunnableSequence", chain), span(3, 2, "ChatCompletion", FIRST))
    run = run_of(double)
    assert steps_of(run) == SUM[:2]
    assert (run.tokens.input, run.tokens.output) == (5, 2)


def test_places_name_the_agent_in_an_agent() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent"}
    inner = {**agent, "gen_ai.agent.name": "adder"}
    run = run_of(otlp(span(1, 0, "main", agent), span(2, 1, "sub", inner), span(3, 2, "chat", FIRST)))
    assert [step.place for step in run.steps] == ["1 in adder", "2 in adder"]


def test_what_a_user_says_twice_is_told_twice() -> None:
    def said(*texts: str) -> list[Json]:
        speakers = ("user", "assistant")
        return [{"role": speakers[number % 2], "content": text} for number, text in enumerate(texts)]

    first = {**CHAT, "gen_ai.input.messages": said("Go on."), "gen_ai.output.messages": said("", "One.")[1:]}
    second = {
        **CHAT,
        "gen_ai.input.messages": said("Go on.", "One.", "Go on."),
        "gen_ai.output.messages": said("", "Two.")[1:],
    }
    run = run_of(otlp(span(1, 0, "chat", first), span(2, 0, "chat", second)))
    assert [content for _, _, content in steps_of(run)] == ["Go on.", "One.", "Go on.", "Two."]


def test_a_correction_in_a_conversation_is_found() -> None:
    messages = [
        {"role": "user", "content": "High water?"},
        {"role": "assistant", "content": "2:30 pm"},
        {"role": "user", "content": "No, our table has an h: 14h30."},
    ]
    answer = [{"role": "assistant", "content": "You're right, sorry! 14h30"}]
    run = run_of(
        otlp(span(1, 0, "chat", {**CHAT, "gen_ai.input.messages": messages, "gen_ai.output.messages": answer}))
    )
    found = judged(run.to_trace(), "14h30")["corrections"]
    assert [(correction["wrong"], correction["right"]) for correction in found] == [("2:30 pm", "14h30")]


def test_scores_of_evaluations_are_feedback() -> None:
    score = {
        "gen_ai.evaluation.name": "Relevance",
        "gen_ai.evaluation.score.label": "bad",
        "gen_ai.evaluation.explanation": "Off topic.",
    }
    run = run_of(otlp(span(1, 0, "chat", FIRST, events=[event("gen_ai.evaluation.result", score)])))
    assert "Relevance: bad (Off topic.)" in run.reason.splitlines()


def test_values_that_the_exporting_program_has_cut() -> None:
    whole = json.dumps(SECOND["gen_ai.input.messages"])
    for length in range(len(whole)):
        attributes = {**CHAT, "gen_ai.input.messages": whole[:length], "gen_ai.output.messages": SAID}
        run = run_of(otlp(span(1, 0, "chat", attributes)))
        assert run.answer == "By [maths-00001] it is 4."
        assert run.rest.get("cut_values", 0) == (1 if length else 0)
    at = whole.index("2+2?") + 3
    cut = {**CHAT, "gen_ai.input.messages": whole[:at], "gen_ai.output.messages": SAID}
    run = run_of(otlp(span(1, 0, "chat", cut)))
    assert (run.task, run.rest["cut_values"]) == ("2+2", 1)


def test_a_text_that_merely_begins_like_json_is_not_cut() -> None:
    for text in ("[1] see the table", "[INFO] started", "{no json}"):
        run = run_of(otlp(span(1, 0, "chat", {**CHAT, "gen_ai.prompt": text})))
        assert (run.task, run.rest.get("cut_values")) == (text, None)


def test_missing_parents_and_circles() -> None:
    orphans = [{**fields, "parentSpanId": "f" * 16} for fields in SPANS[1:]]
    assert steps_of(run_of(otlp(*orphans))) == SUM
    own = {**SPANS[1], "parentSpanId": SPANS[1]["spanId"]}
    assert steps_of(run_of(otlp(own))) == SUM[:2]
    circle = [
        {**SPANS[1], "parentSpanId": SPANS[3]["spanId"]},
        SPANS[2],
        {**SPANS[3], "parentSpanId": SPANS[1]["spanId"]},
    ]
    assert {content for _, _, content in SUM} <= {content for _, _, content in steps_of(run_of(otlp(*circle)))}
    twice = run_of(otlp(*SPANS, *SPANS))
    assert steps_of(twice) == SUM


def test_spans_as_the_sdk_writes_them(tmp_path: Path) -> None:
    lines = [
        {
            "name": fields["name"],
            "context": {"trace_id": "0x5b8efff798038103d269b633813fc60c", "span_id": f"0x{fields['spanId']}"},
            "parent_id": f"0x{fields['parentSpanId']}" if fields["parentSpanId"] else None,
            "start_time": f"2026-11-23T01:00:0{number}.000000Z",
            "end_time": f"2026-11-23T01:00:0{number}.500000Z",
            "status": {"status_code": "UNSET"},
            "attributes": {pair["key"]: next(iter(pair["value"].values())) for pair in fields["attributes"]},
        }
        for number, fields in enumerate(SPANS)
    ]
    path = tmp_path / "console.jsonl"
    path.write_text("\n".join(map(json.dumps, reversed(lines))))
    [run], problems = found_in(path)
    assert (steps_of(run), problems) == (SUM, [])


def test_broken_spans_are_counted_as_problems(tmp_path: Path) -> None:
    nameless = {"spanId": "1", "attributes": pairs(CHAT)}
    idless = {"traceId": "7", "name": "chat", "attributes": []}
    path = tmp_path / "spans.jsonl"
    cut = json.dumps(otlp(*SPANS))[:300]
    path.write_text("\n".join([json.dumps(otlp(*SPANS, nameless, "chat")), json.dumps(otlp(idless)), cut]))  # type: ignore[arg-type]  # a broken span
    [run], problems = found_in(path)
    assert steps_of(run) == SUM
    assert set(problems) >= {
        "a str instead of an object in spans",
        "the span 'chat' of trace 7 has no span id",
        "the span 'without a name' has no trace id",
    }


def test_other_spans_are_not_learned_from(tmp_path: Path) -> None:
    web = {**span(9, 0, "GET /", {"http.request.method": "GET"}), "traceId": "a" * 32}
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(otlp(web, *SPANS)))
    runs, problems = found_in(path)
    assert (len(runs), problems) == (1, [])
    path.write_text(json.dumps(otlp(web)))
    assert found_in(path) == ([], ["none of its spans is that of a model, a tool or an agent"])
    assert SpansReader().recognises(live_source(otlp(web)).head) == 0.0


def test_spans_without_texts_are_a_problem_and_other_traces_are_read(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    textless = {**span(9, 0, "chat", CHAT), "traceId": "a" * 32}
    path.write_text(json.dumps(otlp(*SPANS, textless, {"name": "chat"})))
    [run], (broken, without_texts) = found_in(path)
    assert steps_of(run) == SUM
    assert broken == "the span 'chat' has no trace id"
    assert without_texts.startswith(f"the spans of the trace {'a' * 32} have no texts of messages or tools; let your")
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in without_texts


@pytest.mark.parametrize("operation", ["create_agent", "invoke_agent", "embeddings"])
def test_a_span_of_no_run_beside_runs_is_skipped(tmp_path: Path, operation: str) -> None:
    """OpenLLMetry records the building of an agent as a trace of its own, without a call of a model or a tool."""
    path = tmp_path / "spans.json"
    built = span(9, 0, f"{operation} harbour", {"gen_ai.operation.name": operation, "gen_ai.agent.name": "harbour"})
    built["traceId"] = "a" * 32
    path.write_text(json.dumps(otlp(built, *SPANS)))
    [run], problems = found_in(path)
    assert (steps_of(run), problems) == (SUM, [])
    path.write_text(json.dumps(otlp(built)))
    runs, [without_texts] = found_in(path)
    assert runs == []
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in without_texts


@pytest.mark.parametrize("status", [{}, {"code": 2, "message": "the connection was lost"}])
def test_agents_and_tools_without_a_model_do_not_tell_the_task(tmp_path: Path, status: Json) -> None:
    path = tmp_path / "spans.json"
    agent = span(1, 0, "invoke_agent harbour", {"gen_ai.operation.name": "invoke_agent"}, status=status)
    path.write_text(json.dumps(otlp(agent, span(2, 1, "execute_tool add", TOOL))))
    runs, [reason] = found_in(path)
    assert runs == []
    assert reason.startswith(
        "the task of the trace 5b8efff798038103d269b633813fc60c is unknown, because only its agents"
    )
    assert reason.endswith("such as opentelemetry-instrumentation-genai-openai")
    path.write_text(json.dumps(otlp(agent, span(2, 1, "execute_tool add", TOOL), SPANS[3])))
    assert [run.task for run in found_in(path)[0]] == ["2+2?"]


def test_traces_in_memory() -> None:
    other = {**SPANS[1], "traceId": "a" * 32}
    assert [run.task for run in runs_in(otlp(*SPANS, other))] == ["2+2?", "2+2?"]
    assert [run.task for run in runs_in([otlp(*SPANS), otlp(other)])] == ["2+2?", "2+2?"]
    assert [steps_of(run) for run in runs_in(SPANS)] == [SUM]


def test_no_damage_ends_in_a_traceback() -> None:
    """Values anywhere in an export are replaced; the result is a run, or a problem that says what is wrong."""
    odd: list[Any] = [None, True, 7, -1, 1.5, "", "{", "[[", [], {}, [None], {"stringValue": 3}, {"intValue": "x"}]
    explained = (
        "has no trace id",
        "has no span id",
        "instead of an object",
        "no texts",
        "none of its spans",
        "only its agents",
    )
    generator = random.Random(24)
    outcomes = set()
    for _ in range(1500):
        spans = [CONVENTIONS[generator.choice(list(CONVENTIONS))], *SPANS, *({**fields} for fields in SPANS)]
        export = json.loads(json.dumps(otlp(*generator.sample(spans, 4))))
        for _ in range(generator.randrange(1, 5)):
            place = generator.choice(list(_places(export)))
            place[0][place[1]] = copy.deepcopy(generator.choice(odd))
        for found in read_source(live_source(export), SpansReader()):
            reason = "run" if isinstance(found, Run) else found.reason
            outcomes.add(next((phrase for phrase in explained if phrase in reason), reason))
    assert outcomes == {"run", *explained}


def _places(value: Any) -> Any:
    """Yield all places in a JSON value, as their container and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in items:
        yield value, key
        yield from _places(held)


def test_files_are_recognised_by_their_content(tmp_path: Path) -> None:
    def chosen(text: str) -> str:
        path = tmp_path / "some.log"
        path.write_text(text)
        head = file_source(path).head
        reader = reader_for(head, readers())
        return reader.name if reader else ""

    document = json.dumps(otlp(*SPANS), indent=2)
    lines = "\n".join(json.dumps(fields) for fields in SPANS)
    for text in (document, lines, f"[{','.join(lines.splitlines())}]"):
        assert chosen(text) == "spans"
    for other in ('{"spanId": 1}', '{"task": "resourceSpans"}', '{"spanId": "1", "traceId": "2"}'):
        assert chosen(other) == "unknown"
    too_large = LogHead(path=tmp_path / "large.json", shape="object", keys=frozenset({"resourceSpans"}))
    assert SpansReader().recognises(too_large) == 0.9


def test_one_trace_in_memory_is_read_as_a_standard_trace() -> None:
    trace = read_trace(otlp(*SPANS))
    assert (trace["question"], trace["answer"], trace["skill_ids"]) == ("2+2?", SUM[-1][2], ["maths-00001"])
    assert [(step["kind"], step["name"], step["content"]) for step in trace["steps"]] == SUM
    web = {**span(9, 0, "GET /", {"http.request.method": "GET"}), "traceId": "a" * 32}
    assert read_trace(otlp(web))["rest"]  # as any other record
    with pytest.raises(TraceConversionError, match="holds 2 runs"):
        read_trace(otlp(*SPANS, {**SPANS[1], "traceId": "a" * 32}))
    with pytest.raises(TraceConversionError, match="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"):
        read_trace(otlp(span(1, 0, "chat", CHAT)))
