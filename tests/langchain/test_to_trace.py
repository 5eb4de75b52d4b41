"""Results, live and stored, become the standard trace dict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.agents import AgentAction
from langchain_core.load import dumpd, dumps
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_to_dict,
)

from ace import ACEStepContext, Sample, read_trace
from ace.cases import answer_passes, cases_of, replies_in
from ace_langchain import LangChainResult, LangChainToTrace, result_to_trace
from ace_langchain.stored import recognise
from tests.langchain.models import add, calls, divide, in_turn, tokens
from tests.langchain.steps import run
from tests.support.corrected_chats import judged

TALK = [
    SystemMessage("Cite [sea-00009]."),
    HumanMessage("2+2?"),
    calls("add", a=2, b=2),
    ToolMessage("4", name="add", tool_call_id="c1"),
    AIMessage("By [maths-00001] it is 4.", usage_metadata=tokens(10, 5)),
]
STEPS = [("message", "user"), ("call", "add"), ("result", "add"), ("message", "assistant")]


def test_the_trace_of_a_run_has_the_standard_fields() -> None:
    result = run(create_agent(in_turn(calls("add", a=2, b=2), "By [sea-00001] 4"), [add]), "2+2?")
    trace = result_to_trace(result)
    assert (trace["schema"], trace["question"], trace["answer"], trace["success"]) == (
        1,
        "2+2?",
        "By [sea-00001] 4",
        True,
    )
    assert trace["skill_ids"] == ["sea-00001"]
    assert trace["reasoning"] == (
        '[1 in model] call add\n{"a": 2, "b": 2}\n[2 in tools] result add\n4\n'
        "[3 in model] message assistant\nBy [sea-00001] 4"
    )
    assert trace["metrics"] | {"duration_seconds": 0} == {
        "model_calls": 2,
        "tool_calls": 1,
        "steps": 3,
        "duration_seconds": 0,
        "input_tokens": 12,
        "output_tokens": 5,
        "total_tokens": 17,
    }
    assert trace["metrics"]["duration_seconds"] > 0
    read = read_trace(json.loads(json.dumps(trace)))
    assert (read["question"], read["answer"], read["success"], read["steps"]) == (
        *(trace["question"], trace["answer"], True),
        trace["steps"],
    )


def test_a_failed_run_is_marked_where_it_failed() -> None:
    trace = result_to_trace(run(create_agent(in_turn(calls("divide", a=1, b=0)), [divide]), "1/0?"))
    assert trace["success"] is False
    assert "[2 in tools] result divide (failed)\nZeroDivisionError: division by zero" in trace["reasoning"]
    assert trace["metadata"]["failed_at"] == "tools/divide"


def test_the_step_adds_the_ground_truth_of_a_sample() -> None:
    result = run(in_turn("4"), Sample("2+2?", context="Of integers.", ground_truth="four"))
    ctx = LangChainToTrace()(ACEStepContext(sample=Sample("2+2?", ground_truth="four"), trace=result))
    trace: Any = ctx.trace
    assert (trace["question"], trace["ground_truth"]) == ("2+2?\n\nOf integers.", "four")


@pytest.mark.parametrize(
    "record",
    [
        TALK,
        {"messages": TALK},
        messages_to_dict(TALK),
        {"messages": [message.model_dump() for message in TALK]},
        [dumpd(message) for message in TALK],
        dumps(TALK),
        json.dumps({"messages": messages_to_dict(TALK)}).encode(),
        "\n".join(json.dumps(message_to_dict(message)) for message in TALK),
    ],
    ids=["messages", "state", "dicts", "dumped state", "serialised", "text", "bytes", "lines"],
)
def test_stored_conversations(record: object) -> None:
    assert isinstance(record, str | bytes) or recognise(record) >= 0.7
    trace = result_to_trace(record)
    assert (trace["question"], trace["answer"], trace["success"]) == ("2+2?", "By [maths-00001] it is 4.", None)
    assert [(step["kind"], step["name"]) for step in trace["steps"]] == STEPS
    assert trace["skill_ids"] == ["maths-00001"]
    assert trace["metrics"]["total_tokens"] == 22


def test_only_a_line_feed_ends_a_line() -> None:
    lines = [
        json.dumps(message_to_dict(message), ensure_ascii=False) for message in (HumanMessage("a\u2028b"), TALK[-1])
    ]
    assert result_to_trace("\n".join(lines))["question"] == "a\u2028b"
    assert result_to_trace("\r\n".join([*lines, ""]).encode())["question"] == "a\u2028b"


def test_what_an_agent_executor_returned() -> None:
    action = AgentAction("add", {"a": 2, "b": 2}, "I add, by [maths-00001].")
    record = {"input": "2+2?", "output": "4", "intermediate_steps": [(action, "4")]}
    stored = json.loads(json.dumps({**record, "intermediate_steps": [[dumpd(action), "4"]]}))
    for value in (record, stored, {**record, "intermediate_steps": [(action.model_dump(), "4")]}):
        assert recognise(value) == 0.8
        trace = result_to_trace(value)
        assert (trace["question"], trace["answer"], trace["skill_ids"]) == ("2+2?", "4", ["maths-00001"])
        assert [(step["kind"], step["content"]) for step in trace["steps"]] == [
            ("thought", "I add, by [maths-00001]."),
            ("call", '{"a": 2, "b": 2}'),
            ("result", "4"),
        ]


def test_a_stored_result_is_the_same_trace() -> None:
    for model in (in_turn(calls("add", a=2, b=2), "4"), in_turn(calls("add", a=2, b=2), OSError("no route"))):
        result = run(create_agent(model, [add]), "2+2?")
        text = json.dumps(result.to_dict())
        stored = json.loads(text)
        assert recognise(stored) == 0.95
        assert LangChainResult.from_dict(stored).to_dict() == result.to_dict()
        assert result_to_trace(stored) == result_to_trace(text) == result_to_trace(result)


@pytest.mark.parametrize(
    "record",
    [
        [{"role": "user", "content": "2+2?"}],
        {"question": "2+2?", "answer": "4"},
        {"messages": []},
        {"task": "2+2?", "intermediate_steps": ["add"]},
        "2+2?",
        b"\xff",
        [],
        7,
        None,
        result_to_trace(LangChainResult("2+2?", "4", "simple", success=True)),
    ],
)
def test_records_of_others_are_left_alone(record: object) -> None:
    assert recognise(record) == 0.0


def test_a_record_of_others_is_refused() -> None:
    for record, told in (
        (7, "a int is not a record of LangChain"),
        ("hello", "this text is not a record of LangChain: it is not JSON"),
        ({"messages": [1]}, "the 'messages' of this record are not messages of LangChain"),
    ):
        with pytest.raises(TypeError, match=told):
            result_to_trace(record)
    with pytest.raises(ValueError, match="not a stored LangChainResult: it lacks 'output'"):
        LangChainResult.from_dict({"task": "", "result_type": "simple", "success": True})


def test_mixed_messages_are_left_to_others() -> None:
    """They have LangChain's field names, but one of them is of another kind."""
    messages: list[dict[str, Any]] = [
        {"type": "human", "content": "2+2?", "additional_kwargs": {}},
        {"type": "ai", "content": "4"},
    ]
    assert recognise(messages) == 0.0
    messages[1]["additional_kwargs"] = {}
    assert recognise(messages) == 0.9


CORRECTED = [
    SystemMessage("You help the office."),
    HumanMessage("Which currency is on the bill of a guest from Sweden?"),
    AIMessage("", tool_calls=[{"name": "guests", "args": {}, "id": "c1", "type": "tool_call"}]),
    ToolMessage("Lindqvist, Uppsala", tool_call_id="c1"),
    AIMessage("EUR"),
    HumanMessage("Swedish guests are billed in SEK."),
    AIMessage("Sorry, you are right. SEK"),
]


@pytest.mark.parametrize(
    "record",
    [CORRECTED, {"messages": CORRECTED}, [message.model_dump() for message in CORRECTED], dumps(CORRECTED)],
    ids=["messages", "state of a graph", "dumped", "serialised"],
)
def test_a_correction_is_a_case(record: object) -> None:
    [case] = cases_of(judged(result_to_trace(record), "SEK"))
    assert (case.question, case.wrong, case.expected) == (CORRECTED[1].content, "EUR", "SEK")
    assert (answer_passes(case, "SEK"), answer_passes(case, "EUR or SEK")) == (True, False)


def test_the_replies_of_a_conversation_are_those_of_the_person() -> None:
    thanked = [*CORRECTED[:5], HumanMessage("Thanks!"), AIMessage("You're welcome.")]
    assert [reply.text for reply in replies_in(read_trace(result_to_trace(thanked)))] == ["Thanks!"]
