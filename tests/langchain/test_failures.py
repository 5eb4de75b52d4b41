"""What goes wrong inside a run is recorded with its place; a wrong use and a cancellation are raised."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from ace.context import SkillbookView
from ace_langchain import LangChainExecuteStep, LangChainResult, result_to_trace, skillbook_middleware
from tests.langchain.models import ComputedModel, add, calls, divide, in_turn
from tests.langchain.steps import book, run

TEMPLATE = ChatPromptTemplate([("user", "{question}")])


def failed_steps(result: LangChainResult) -> list[tuple[str, str, str]]:
    return [(step["name"], step["content"], step["place"]) for step in result.steps if step["is_error"]]


def test_a_tool_that_raises() -> None:
    result = run(create_agent(in_turn(calls("divide", a=1, b=0)), [divide]), "Divide.")
    assert (result.result_type, result.success, result.output, result.task) == ("error", False, "", "Divide.")
    assert result.error == "ZeroDivisionError: division by zero"
    assert result.failed_at == "tools/divide"
    assert failed_steps(result) == [("divide", "ZeroDivisionError: division by zero", "2 in tools")]
    assert result.intermediate_steps[0]["error"] == "ZeroDivisionError: division by zero"
    assert [message["tool_calls"][0]["name"] for message in result.messages] == ["divide"]
    assert result.usage["total_tokens"] == 7
    assert result_to_trace(result)["feedback"].startswith("The run failed in tools/divide: ZeroDivisionError")


def test_a_tool_that_raises_in_a_legacy_executor() -> None:
    template = ChatPromptTemplate([("user", "{input}"), MessagesPlaceholder("agent_scratchpad")])
    agent = create_tool_calling_agent(in_turn(calls("divide", a=1, b=0)), [divide], template)
    result = run(AgentExecutor(agent=agent, tools=[divide]), "Divide.")
    assert (result.result_type, result.failed_at) == ("error", "divide")


def test_wrong_arguments_and_unknown_tools_are_failed_parts_of_a_run_that_goes_on() -> None:
    model = in_turn(calls("add", a="x", b=2), calls("subtract", "c2", a=1), "I give up.")
    result = run(create_agent(model, [add]), "Add.")
    assert (result.success, result.output) == (True, "I give up.")
    (first, told, _), (second, unknown, place) = failed_steps(result)
    assert (first, second, place) == ("add", "subtract", "4")
    assert "valid integer" in told
    assert "subtract is not a valid tool" in unknown
    assert [use["tool"] for use in result.intermediate_steps if use["error"]] == ["add", "subtract"]
    feedback = result_to_trace(result)["feedback"]
    assert [line.partition(":")[0] for line in feedback.split("\n")] == [
        "The run came to its end with an answer.",
        "add failed at 2 in tools",
        "subtract failed at 4",
    ]


def test_a_parser_that_raises() -> None:
    result = run(TEMPLATE | in_turn("no JSON [sea-00001]") | JsonOutputParser(), "Which?")
    assert (result.result_type, result.failed_at) == ("error", "JsonOutputParser")
    assert [message["content"] for message in result.messages] == ["no JSON [sea-00001]"]
    assert result.skill_ids == ("sea-00001",)
    assert [(step["kind"], step["is_error"]) for step in result.steps] == [("message", False), ("result", True)]


def test_a_structured_answer_that_cannot_be_parsed() -> None:
    class Tide(BaseModel):
        name: str

    raw = AIMessage("none")
    chain: Any = RunnableLambda(lambda text: {"raw": raw, "parsed": None, "parsing_error": ValueError("no name")})
    assert run(chain, "Which?").error == "the answer could not be parsed: ValueError: no name"
    good: Any = RunnableLambda(lambda text: {"raw": raw, "parsed": Tide(name="ebb"), "parsing_error": None})
    assert run(good, "Which?").output == '{"name": "ebb"}'


def test_a_model_that_raises() -> None:
    result = run(create_agent(in_turn(calls("add", a=1, b=1), OSError("no route")), [add]), "Add.")
    assert (result.success, result.failed_at) == (False, "model/ComputedModel")
    assert [step["name"] for step in result.steps] == ["add", "add", "ComputedModel"]
    assert result.usage["model_calls"] == 2


def test_a_node_that_raises() -> None:
    def broken(state: MessagesState) -> dict[str, Any]:
        raise KeyError("depth")

    builder = StateGraph(MessagesState)
    builder.add_node("sound", broken)
    builder.add_edge(START, "sound")
    result = run(builder.compile(), "How deep?")
    assert (result.failed_at, failed_steps(result)) == ("sound", [("sound", "KeyError: 'depth'", "1")])


def test_too_many_steps_of_a_graph() -> None:
    model = ComputedModel(answer=lambda messages: calls("add", a=1, b=1))
    result = run(create_agent(model, [add]), "Add.", recursion_limit=6)
    assert result.error is not None
    assert result.error.startswith("GraphRecursionError: Recursion limit of 6 reached")
    assert (result.result_type, result.failed_at) == ("error", "LangGraph")
    assert len(model.seen) == 3
    assert len(run(create_agent(model, [add]), "Add.", config={"recursion_limit": 4}).messages) == 2
    bound: Any = create_agent(model, [add]).with_config(recursion_limit=2)
    assert len(run(bound, "Add.").messages) == 1


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (in_turn(AIMessage("Once upon", response_metadata={"finish_reason": "length"})), "the answer was cut off"),
        (in_turn(AIMessage("", response_metadata={"stop_reason": "refusal"})), "the model refused to answer: refusal"),
        (in_turn(AIMessage("")), "the answer is empty"),
    ],
)
def test_an_answer_that_is_none(model: ComputedModel, problem: str) -> None:
    result = run(model, "Tell.")
    assert result.error is not None
    assert (result.success, result.error.startswith(problem)) == (False, True)


def test_an_answer_that_was_cut_off_before_it_was_parsed() -> None:
    cut = in_turn(AIMessage("Once upon", response_metadata={"finish_reason": "length"}))
    assert run(TEMPLATE | cut | StrOutputParser(), "Tell.").success is False


def test_an_agent_that_gives_up() -> None:
    template = ChatPromptTemplate([("user", "{input}"), MessagesPlaceholder("agent_scratchpad")])
    model = ComputedModel(answer=lambda messages: calls("add", a=1, b=1))
    legacy = AgentExecutor(agent=create_tool_calling_agent(model, [add], template), tools=[add], max_iterations=2)
    result = run(legacy, "Add.")
    assert (result.success, result.result_type) == (False, "agent")
    assert result.error == "it gave up: Agent stopped due to max iterations."
    assert result_to_trace(result)["feedback"].endswith("Agent stopped due to max iterations.")
    limited = create_agent(model, [add], middleware=[ModelCallLimitMiddleware(run_limit=1)])
    assert run(limited, "Add.").error == "it gave up: Model call limits exceeded: run limit (1/1)"


def test_a_wrong_use_is_raised() -> None:
    wrong: Any = "gpt-4o-mini"
    with pytest.raises(TypeError, match="a str is not a Runnable: it has no invoke"):
        LangChainExecuteStep(wrong)
    graph: Any = StateGraph(MessagesState)
    with pytest.raises(TypeError, match=r"compile the graph first: graph\.compile\(\)"):
        LangChainExecuteStep(graph)
    model, other = in_turn(), "other"
    for options, told in (
        ({"inject": other}, "inject must be 'input', 'middleware' or a function, got 'other'"),
        ({"call": other}, "call must be one of 'async', 'sync', 'stream', got 'other'"),
        ({"on_chunk": print}, "on_chunk needs call='stream'"),
        ({"timeout": 0}, "timeout must be more than 0"),
    ):
        with pytest.raises(ValueError, match=told):
            LangChainExecuteStep(model, **options)


def test_an_input_that_does_not_fit_the_prompt_is_raised_before_anything_runs() -> None:
    chain = ChatPromptTemplate([("user", "{question} {style}")]) | in_turn()
    with pytest.raises(ValueError, match="the prompt of this chain has the variables question, style; give a dict"):
        run(chain, "Which?")
    with pytest.raises(ValueError, match="the input lacks 'style', which the prompt of this chain needs"):
        run(chain, {"question": "Which?"})


def test_an_input_without_a_place_for_the_skills_is_raised_also_of_an_empty_book() -> None:
    chain = RunnableLambda(str)
    for item in (7, {"first": "a", "second": "b"}, {"size": 3}):
        with pytest.raises(ValueError, match=r"no place for the skills in a .*input_key"):
            run(chain, item, book())
    assert run(chain, {"first": "a", "second": "b"}, input_key="second").task == "b"


def test_an_agent_without_the_middleware_is_told() -> None:
    with pytest.raises(ValueError, match="the agent called a model without the skills: inject='middleware' needs"):
        run(create_agent(in_turn("4"), [add]), "Add.", inject="middleware")
    with_it: Any = create_agent(in_turn("4"), [add], middleware=[skillbook_middleware()])
    assert run(with_it, "Add.", inject="middleware").output == "4"


def test_a_recorder_of_one_run_hears_nothing_of_another() -> None:
    def answer(messages: list[BaseMessage]) -> str:
        return str(messages[-1].content).rpartition(" ")[2]

    step = LangChainExecuteStep(TEMPLATE | ComputedModel(answer=answer))
    view = SkillbookView(book())

    async def together() -> list[LangChainResult]:
        return await asyncio.gather(*(step.execute(f"Say {number}", view) for number in range(8)))

    results = asyncio.run(together())
    assert [(result.output, len(result.steps)) for result in results] == [(str(number), 1) for number in range(8)]
