"""Each field of `RRConfig` is checked, and has an effect."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ace.outputs import AgentOutput, ReflectorOutput
from ace.rr import RRConfig, RRStep
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.reflection_script import (
    LOOK,
    REFLECTION,
    TRACE,
    Explorer,
    conversation_length,
    is_turn,
    python,
    submit,
)
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")

ASK = python("print(ask_llm('Which unit?'))")


def reflect(server: ScriptedServer, **config: Any) -> ReflectorOutput:
    step = RRStep(client_for(server), RRConfig(**config))
    return step.reflect("", AgentOutput(reasoning="", final_answer=""), Skillbook(), trace=TRACE)


def first_output(code: str, **config: Any) -> str:
    """Return what the model is told of its code."""
    with ScriptedServer(Explorer([python(code), LOOK, submit()])) as server:
        reflect(server, **config)
        return str(server.requests[1].messages[-1]["content"])


def question(code: str = "print(ask_llm('Which unit?'))", **config: Any) -> ScriptedRequest:
    """Return the request of a sub-question."""
    with ScriptedServer(Explorer([python(code), submit()])) as server:
        reflect(server, **config)
        (found,) = [request for request in server.requests if not is_turn(request)]
        return found


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RRConfig)])
def test_each_field_is_checked(name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"RRConfig.{name} must "):
        RRConfig(**{name: object()})  # type: ignore[arg-type]  # that is what is tested


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("max_iterations", "max_llm_calls", "max_tokens") for value in (0, -1, 1.5, True)),
        *((name, 0) for name in ("max_context_chars", "max_output_chars", "max_memory", "subagent_max_tokens")),
        *(("timeout", value) for value in (0, -1, float("inf"), float("nan"), True)),
        ("max_cost", 0),
        ("subagent_temperature", -0.1),
        ("enable_subagent", 1),
        ("subagent_model", ""),
        ("subagent_system_prompt", " "),
    ],
)
def test_values_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"RRConfig.{name} must "):
        RRConfig(**{name: value})


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RRConfig().max_iterations = 3  # type: ignore[misc]  # that is what is tested


def test_timeout() -> None:
    # The start of the session has the same limit: a shorter one may be reached before the code begins.
    told = first_output("x = 1\nwhile True:\n    x += 1", timeout=2.0)
    assert "Error:" in told and "your variables are gone" in told


def test_max_memory() -> None:
    code = "text = 'a' * 30_000_000\nprint(len(text))"
    assert "30000000" in first_output(code)
    assert "your variables are gone" in first_output(code, max_memory=8 * 1024 * 1024)
    large = code.replace("30_", "90_")
    assert "your variables are gone" in first_output(large), "a short trace needs little memory"
    assert "90000000" in first_output(large, max_memory=256 * 1024 * 1024)


def test_max_output_chars() -> None:
    code = "print('x' * 5000)"
    assert "x" * 5000 in first_output(code)
    assert len(first_output(code, max_output_chars=1000)) < 1200


def test_max_context_chars() -> None:
    turns = [python(f"print('turn {number} ' + 'x' * 3000)") for number in range(9)]
    with ScriptedServer(Explorer([*turns, submit()])) as server:
        reflect(server, max_context_chars=20_000)
    assert max(conversation_length(request) for request in server.requests) <= 20_000
    last = server.requests[-1]
    assert "Turns 1, 2, 3" in last.text and "removed from this conversation" in last.text
    assert "turn 8 xxx" in last.text and "turn 0 xxx" not in last.text
    assert last.messages[0] == server.requests[0].messages[0]


def test_the_conversation_fits_into_the_context_window_of_the_model() -> None:
    turns = [python(f"print('turn {number} ' + 'x' * 3000)") for number in range(9)]
    with ScriptedServer(Explorer([*turns, submit()])) as server:
        step = RRStep(client_for(server, context_tokens=8000, max_tokens=1000))
        step.reflect("", AgentOutput(reasoning="", final_answer=""), Skillbook(), trace=TRACE)
    assert max(conversation_length(request) for request in server.requests) <= 7000 * 3
    assert "removed from this conversation" in server.requests[-1].text


def test_turns_with_errors_and_findings_are_removed_last() -> None:
    finding = python("print('FINDING: feet')")
    turns = [LOOK, finding, python("1 / 0"), *(python(f"print('{number}' * 3000)") for number in range(6)), submit()]
    with ScriptedServer(Explorer(turns)) as server:
        reflect(server, max_context_chars=20_000)
    last = server.requests[-1].text
    assert "FINDING: feet" in last and "ZeroDivisionError" in last
    assert "Turns 1, 4" in last


def test_enable_subagent() -> None:
    for code in ("ask_llm('why?')", "ask_llm_many(['why?'])"):
        assert "NameError" in first_output(code, enable_subagent=False)
        assert "Error:" not in first_output(code)
    with ScriptedServer(Explorer()) as server:
        reflect(server, enable_subagent=False)
        assert "ask_llm" not in server.requests[0].text and "llm_query" in server.requests[0].text


def test_enable_llm_query() -> None:
    assert "NameError" in first_output("llm_query('why?')", enable_llm_query=False)
    assert "Error:" not in first_output("llm_query('why?')")
    with ScriptedServer(Explorer()) as server:
        reflect(server, enable_llm_query=False)
        assert "ask_llm" in server.requests[0].text and "llm_query" not in server.requests[0].text


def test_settings_of_the_second_model() -> None:
    default = question()
    assert (default.model, default.body["max_tokens"], default.body["temperature"]) == ("scripted", 8192, 0.3)
    asked = question(
        subagent_model="openai/other",
        subagent_max_tokens=77,
        subagent_temperature=0.9,
        subagent_system_prompt="Answer as a lawyer.",
    )
    assert (asked.model, asked.body["max_tokens"], asked.body["temperature"]) == ("other", 77, 0.9)
    assert asked.messages[0]["content"].startswith("Answer as a lawyer.")


def test_the_modes_of_a_question_differ() -> None:
    survey = question("print(ask_llm('Which unit?', 'feet'))")
    dive = question("print(ask_llm('Which unit?', 'feet', mode='deep_dive'))")
    assert "Survey the material" in survey.text and "root cause" in dive.text
    assert "feet" in dive.messages[1]["content"]
    query = question("print(llm_query('Which unit?'))")
    assert query.messages == [{"role": "user", "content": "Which unit?"}]


def test_questions_are_asked_at_once_and_answered_in_order() -> None:
    def answer(request: ScriptedRequest) -> str:
        return f"answer to {request.messages[-1]['content']}"

    turns = [python("for answer in ask_llm_many([f'q{n}' for n in range(12)]):\n    print(answer)"), submit()]
    with ScriptedServer(Explorer(turns, sub_answer=answer)) as server:
        reflection = reflect(server)
    told = server.requests[-1].messages[-1]["content"]
    assert told.splitlines()[2:14] == [f"answer to q{number}" for number in range(12)]
    calls = reflection.raw["rr_trace"]["subagent_calls"]
    assert [call["question"] for call in calls] == [f"q{number}" for number in range(12)]
    assert [call["call_number"] for call in calls] == list(range(1, 13))


def test_another_client_answers_the_questions() -> None:
    with ScriptedServer(Explorer([ASK, submit()])) as server, ScriptedServer(lambda request: "Feet.") as second:
        step = RRStep(client_for(server), subagent_llm=client_for(second))
        step.reflect("", AgentOutput(reasoning="", final_answer=""), Skillbook(), trace=TRACE)
    assert len(second.requests) == 1
    assert all(is_turn(request) for request in server.requests)


def test_secrets_and_personal_data_are_neither_sent_nor_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "zebra-parrot-17")
    steps = [{"kind": "result", "name": "sh", "content": "ann@acme.com uses zebra-parrot-17", "place": "1"}]
    code = "print(trace[0].content, 'zebra-' + 'parrot-17')\nprint(ask_llm('who?', trace[0].content))"
    code += "\nprint(*trace[0].content)"  # letter by letter, so that no pattern finds it in the output
    final = {**REFLECTION, "key_insight": "Ask bob@acme.com."}
    explorer = Explorer([python(code), submit(final)], sub_answer=lambda request: "It is carl@acme.com.")
    with ScriptedServer(explorer) as server:
        step = RRStep(client_for(server))
        trace = {"question": "Mail ann@acme.com", "steps": steps}
        reflection = step.reflect("", AgentOutput(reasoning="", final_answer=""), Skillbook(), trace=trace)
        sent = json.dumps([request.body for request in server.requests])
    kept = reflection.model_dump_json()
    for secret in ("zebra-parrot-17", "z e b r a", "a n n @", "ann@", "bob@", "carl@"):
        assert secret not in sent and secret not in kept


class Plain:
    def complete(self, prompt: str) -> None: ...


def test_a_client_that_answers_no_prompt_is_refused() -> None:
    class Structured:
        def complete_structured(self, prompt: str, response_model: type) -> None: ...

    for arguments in ((Structured(),), (Plain(), None, None, Structured())):
        with pytest.raises(TypeError, match=r"must be an object with a method complete\(\)"):
            RRStep(*arguments)
