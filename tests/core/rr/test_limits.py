"""The limits of a reflection: what reaches one fails, or has one last chance, and never becomes a skill by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ace.outputs import AgentOutput, ReflectorOutput
from ace.protocols import LLMCallError, Usage
from ace.protocols.llm import LLMResponse
from ace.roles import SkillManager
from ace.rr import CallBudget, ReflectionLimitError, RRConfig, RRStep, SubAgentLLM
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.reflection_script import LOOK, REFLECTION, TRACE, Explorer, Turn, is_turn, python, submit
from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")


def reflect(server: ScriptedServer, trace: object = TRACE, **config: Any) -> ReflectorOutput:
    step = RRStep(client_for(server), RRConfig(**config))
    return step.reflect("", AgentOutput(reasoning="", final_answer=""), Skillbook(), trace=trace)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_model_that_never_submits_is_asked_for_its_findings_once(limit: int) -> None:
    def turn(message: str) -> str:
        return json.dumps(REFLECTION) if "The iterations are used up" in message else LOOK

    with ScriptedServer(Explorer([turn])) as server:
        reflection = reflect(server, max_iterations=limit)
    assert reflection.key_insight == REFLECTION["key_insight"]
    assert reflection.raw["rr_trace"]["timed_out"] is True
    assert reflection.raw["rr_trace"]["total_iterations"] == limit
    assert len(server.requests) == limit + 1
    assert server.requests[-1].messages[-1]["content"].startswith(f"[Iteration {limit}/{limit}]")


@pytest.mark.parametrize("last", ["nothing", "{}", json.dumps({"reasoning": 1}), LOOK])
def test_a_model_without_usable_findings_fails_the_reflection(last: str) -> None:
    def turn(message: str) -> str:
        return last if "The iterations are used up" in message else LOOK

    with ScriptedServer(Explorer([turn])) as server, pytest.raises(ReflectionLimitError) as caught:
        reflect(server, max_iterations=2)
    assert "no reflection after 2 turns and 3 model calls: the limit of 2 iterations was reached" in str(caught.value)
    assert (caught.value.iterations, caught.value.calls) == (2, 3)
    assert caught.value.raw_answers == (LOOK, LOOK, last)
    assert caught.value.role == "Reflector"


def test_without_the_fallback_the_limit_fails_at_once() -> None:
    with ScriptedServer(Explorer([LOOK])) as server, pytest.raises(ReflectionLimitError, match="2 turns and 2 model"):
        reflect(server, max_iterations=2, enable_fallback_synthesis=False)
    assert len(server.requests) == 2


def test_the_model_is_told_how_many_iterations_are_left() -> None:
    with ScriptedServer(Explorer([LOOK])) as server, pytest.raises(ReflectionLimitError):
        reflect(server, max_iterations=4, enable_fallback_synthesis=False)
    starts = [request.messages[-1]["content"].splitlines()[0] for request in server.requests]
    assert starts == [
        "[Iteration 1/4]",
        "[Iteration 2/4]",
        "[Iteration 3/4] Two iterations are left.",
        "[Iteration 4/4] This is the last iteration: submit your findings with FINAL now.",
    ]


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("calls", [1, 2, 3, 6])
def test_turns_and_questions_share_one_budget_of_calls(calls: int, fallback: bool) -> None:
    ask = python("for number in range(9):\n    print(ask_llm(f'question {number}'))")
    with ScriptedServer(Explorer([ask])) as server, pytest.raises(ReflectionLimitError) as caught:
        reflect(server, max_llm_calls=calls, enable_fallback_synthesis=fallback)
    assert len(server.requests) == calls
    assert caught.value.calls == calls


def test_when_questions_use_up_the_budget_the_model_has_one_turn_to_finish() -> None:
    ask = python("for number in range(9):\n    print(ask_llm(f'question {number}'))")

    def finish(message: str) -> str:
        assert "The budget for model calls is used up" in message
        assert "This is the last iteration: submit your findings with FINAL now." in message
        assert message.count("so this question was not asked") == 6
        return submit()

    with ScriptedServer(Explorer([ask, finish])) as server:
        reflection = reflect(server, max_llm_calls=6)
    assert reflection.raw["rr_trace"]["usage"]["calls"] == 5
    assert len(reflection.raw["rr_trace"]["subagent_calls"]) == 3


@pytest.mark.parametrize(
    ("limit", "usage"),
    [
        ({"max_tokens": 1000}, {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}),
        ({"max_tokens": 1000}, None),
    ],
    ids=["reported", "estimated"],
)
def test_when_the_tokens_are_used_up_the_model_has_one_turn_to_finish(limit: Any, usage: Any) -> None:
    def answered(text: str) -> Answer:
        return Answer(text, usage=usage) if usage else Answer(text, with_usage=False)

    def finish(message: str) -> Answer:
        assert "The budget for model calls is used up" in message
        return answered(LOOK)

    with ScriptedServer(Explorer([answered(LOOK), finish])) as server, pytest.raises(ReflectionLimitError) as caught:
        reflect(server, **limit)
    assert len(server.requests) == 2
    assert "the budget for model calls is used up" in str(caught.value)


def test_when_the_money_is_used_up_the_model_has_one_turn_to_finish() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000}
    with ScriptedServer(Explorer([Answer(LOOK, usage=usage)])) as server:
        step = RRStep(client_for(server, model="openai/gpt-4o"), RRConfig(max_cost=0.02))
        with pytest.raises(ReflectionLimitError, match="the budget for model calls is used up"):
            step.reflect("", AgentOutput(reasoning="", final_answer=""), Skillbook(), trace=TRACE)
    assert len(server.requests) == 3  # one costs 0.0125 US dollars


def refused(message: str) -> HttpError:
    return HttpError(400, "refused")


def garbage(message: str) -> str:
    return "I would rather not."


def unusable(message: str) -> str:
    return python("FINAL({'reasoning': ''})")


@pytest.mark.parametrize(
    ("turns", "config", "expected"),
    [
        ([refused], {}, LLMCallError),
        ([LOOK, refused], {}, LLMCallError),
        ([garbage], {}, ReflectionLimitError),
        ([LOOK, unusable], {}, ReflectionLimitError),
        ([LOOK], {"enable_fallback_synthesis": False}, ReflectionLimitError),
        ([LOOK], {"max_llm_calls": 1}, ReflectionLimitError),
    ],
    ids=["unreachable", "unreachable later", "garbage", "unusable", "never submits", "empty budget"],
)
def test_a_failed_reflection_fails_its_sample_and_never_becomes_a_skill(
    turns: list[Turn], config: dict[str, Any], expected: type[Exception]
) -> None:
    with ScriptedServer(Explorer(turns)) as server:
        llm = client_for(server)
        runner = TraceAnalyser.from_roles(
            reflector=RRStep(llm, RRConfig(max_iterations=3, **config)), skill_manager=SkillManager(llm)
        )
        results = runner.run([TRACE])
    assert isinstance(results[0].error, expected)
    assert runner.skillbook.skills() == []
    assert all(is_turn(request) for request in server.requests)
    (failed,) = runner.failures
    assert failed.role == "Reflector"


@pytest.mark.parametrize(
    "ask",
    [
        "answer = ask_llm('why?')",
        "answer = llm_query('why?')",
        "answers = ask_llm_many(['why?', 'where?'])",
        "try:\n    ask_llm('why?')\nexcept Exception as error:\n    print('it does not matter')",
    ],
)
def test_a_question_that_cannot_be_asked_fails_the_reflection(ask: str) -> None:
    submits_anyway = python(f"{ask}\nFINAL({REFLECTION!r})")

    def refuse(request: ScriptedRequest) -> HttpError:
        return HttpError(400, "refused")

    script = Explorer([LOOK, submits_anyway], sub_answer=refuse)
    with ScriptedServer(script) as server, pytest.raises(LLMCallError):
        reflect(server)


class Echo:
    """A model whose answers are as long as the questions."""

    def __init__(self) -> None:
        self.sent = 0

    def complete_messages(self, messages: Any, **settings: Any) -> LLMResponse:
        text = messages[-1]["content"]
        self.sent += len(text) // 2
        return LLMResponse(text, usage=Usage(len(text) // 4, len(text) // 4, cost=len(text) / 4e6))


@pytest.mark.parametrize("limit", [{"max_tokens": 1000}, {"max_cost": 0.001}])
def test_many_questions_at_once_do_not_evade_the_budget(limit: dict[str, Any]) -> None:
    model = Echo()
    budget = CallBudget(30, **limit)
    answers = SubAgentLLM(model, budget=budget).ask_many(["y" * 40_000] * 30)
    refused = [answer for answer in answers if "budget for model calls is used up" in answer]
    most = 1 if "max_tokens" in limit else 8  # the price is only known after the first answers
    assert 1 <= budget.count <= most and len(refused) == 30 - budget.count


def test_small_questions_use_the_whole_budget() -> None:
    model = Echo()
    budget = CallBudget(30, max_tokens=10_000)
    answers = SubAgentLLM(model, budget=budget).ask_many(["y" * 400] * 30)
    assert budget.count == 30 and not any("used up" in answer for answer in answers)


def test_what_a_failed_call_reserved_is_given_back() -> None:
    class Broken:
        def complete_messages(self, messages: Any, **settings: Any) -> LLMResponse:
            raise LLMCallError("away", status_code=500)

    budget = CallBudget(30, max_tokens=1000)
    with pytest.raises(RuntimeError):
        SubAgentLLM(Broken(), budget=budget).ask("y" * 40_000)
    assert not budget.exhausted
