"""Each kind of runnable runs, gets the skills, and its result is told apart."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel

from ace import Sample
from tests.langchain.models import ComputedModel, add, calls, in_turn, text_of
from tests.langchain.steps import SKILL, run

CITED = "By [sea-00001] it is the ebb."


def tide_model() -> ComputedModel:
    """Knows the tide only if it is shown the skill; cites it then."""
    return ComputedModel(answer=lambda messages: CITED if SKILL in text_of(messages) else "I do not know.")


def prompt(*variables: str) -> ChatPromptTemplate:
    lines = "\n".join(f"{{{name}}}" for name in variables)
    return ChatPromptTemplate.from_messages([("system", "You watch the sea."), ("user", lines)])


def test_a_model_alone_gets_the_skills_before_the_text() -> None:
    model = tide_model()
    result = run(model, "Which tide is it?")
    assert (result.output, result.result_type, result.success, result.skill_ids) == (
        *(CITED, "simple", True),
        ("sea-00001",),
    )
    assert result.task == "Which tide is it?"
    assert text_of(model.seen[0]).endswith("\n\n# Task\n\nWhich tide is it?")


@pytest.mark.parametrize("name", ["question", "topic"])
def test_a_chain_with_one_variable_takes_a_text_or_a_dict(name: str) -> None:
    chain = prompt(name) | tide_model() | StrOutputParser()
    for item in ("Which tide?", {name: "Which tide?"}):
        result = run(chain, item)
        assert (result.output, result.success) == (CITED, True)
        assert type(result.output) is str


def test_a_prompt_with_a_place_for_the_skills_gets_them_there() -> None:
    model = tide_model()
    template = ChatPromptTemplate.from_messages([("system", "Strategies:\n{skillbook}"), ("user", "{question}")])
    assert run(template | model, "Which {tide}?").output == CITED
    system, human = model.seen[0]
    assert SKILL in str(system.content)
    assert human.content == "Which {tide}?"


def test_a_chain_of_a_template_that_makes_a_text() -> None:
    assert run(PromptTemplate.from_template("Answer: {query}") | tide_model(), "Which tide?").output == CITED


def test_a_conversation_gets_the_skills_into_its_system_message() -> None:
    model = tide_model()
    talk = [SystemMessage("Be brief."), HumanMessage("Hello."), AIMessage("Yes?"), HumanMessage("Which tide?")]
    result = run(model, talk)
    assert result.output == CITED
    assert (result.task, result.context) == ("Which tide?", "human: Hello.\nai: Yes?")
    assert [message.type for message in model.seen[0]] == ["system", "human", "ai", "human"]
    assert str(model.seen[0][0].content).startswith("Be brief.\n\n# Skills learned")
    assert talk[0].content == "Be brief."


def test_a_conversation_without_a_system_message_gets_one_for_a_model() -> None:
    model = tide_model()
    assert run(model, [HumanMessage("Hello."), AIMessage("Yes?"), HumanMessage("Which tide?")]).output == CITED
    assert [message.type for message in model.seen[0]] == ["system", "human", "ai", "human"]
    assert str(model.seen[0][0].content).startswith("# Skills learned")


def test_a_placeholder_for_messages_takes_a_text() -> None:
    model = tide_model()
    assert run(ChatPromptTemplate([MessagesPlaceholder("messages")]) | model, "Which tide?").output == CITED
    assert [message.type for message in model.seen[0]] == ["system", "human"]


def test_parsed_answers_are_told_as_json() -> None:
    class Tide(BaseModel):
        name: str

    chain = prompt("question") | in_turn('{"tide": "ebb"}') | JsonOutputParser()
    assert run(chain, "Which?").output == '{"tide": "ebb"}'
    made = run(prompt("question") | in_turn("x") | RunnableLambda(lambda message: Tide(name="ebb")), "Which?")
    assert made.output == '{"name": "ebb"}'


def test_inputs_that_a_chain_echoes_are_no_answer() -> None:
    chain = RunnablePassthrough.assign(tide=prompt("question") | tide_model() | StrOutputParser())
    result = run(chain, {"question": "Which tide?"})
    assert (result.output, result.task) == (CITED, "Which tide?")


def test_an_agent_takes_a_text_messages_or_a_dict() -> None:
    for item in ("Add.", [("user", "Add.")], {"messages": [("user", "Add.")]}, {"input": "Add."}, Sample("Add.")):
        model = in_turn(calls("add", a=2, b=2), CITED)
        result = run(create_agent(model, [add]), item)
        assert (result.output, result.result_type, result.success, result.task) == (CITED, "langgraph", True, "Add.")
        assert all(SKILL in text_of(seen) for seen in model.seen)
        assert result.intermediate_steps == ({"tool": "add", "input": {"a": 2, "b": 2}, "output": "4", "error": None},)
        assert result.usage == {
            "model_calls": 2,
            "tool_calls": 1,
            "input_tokens": 12,
            "output_tokens": 5,
            "total_tokens": 17,
        }


def test_the_steps_of_an_agent_stand_in_order_with_their_places() -> None:
    result = run(create_agent(in_turn(calls("add", a=2, b=2), CITED), [add]), "Add.")
    assert [(step["kind"], step["name"], step["content"], step["place"]) for step in result.steps] == [
        ("call", "add", '{"a": 2, "b": 2}', "1 in model"),
        ("result", "add", "4", "2 in tools"),
        ("message", "assistant", CITED, "3 in model"),
    ]


class Text(TypedDict):
    text: str
    size: int


def test_a_graph_without_messages_needs_the_name_of_its_field() -> None:
    def measure(state: Text) -> dict[str, int]:
        return {"size": len(state["text"].rpartition("# Task\n\n")[2])}

    builder = StateGraph(Text)
    builder.add_node("measure", measure)
    builder.add_edge(START, "measure")
    builder.add_edge("measure", END)
    graph: Any = builder.compile()
    result = run(graph, "four", input_key="text")
    assert (result.output, result.result_type, result.task) == ("4", "langgraph", "four")
    assert run(graph, {"text": "four"}).output == "4"
    with pytest.raises(ValueError, match=r"state of this graph has no 'messages' \(size, text\).*input_key"):
        run(graph, "four")
    with pytest.raises(ValueError, match=r"none of 'txt' is in the state of this graph: size, text"):
        run(graph, {"txt": "four"})


def test_a_function_of_langgraph_takes_anything() -> None:
    @entrypoint()
    def shout(text: str) -> str:
        return text.upper()

    result = run(shout, "ebb")
    assert result.output.endswith("EBB")
    assert result.result_type == "langgraph"


def executor(model: ComputedModel, **settings: Any) -> AgentExecutor:
    template = ChatPromptTemplate(
        [("system", "You add."), ("user", "{input}"), MessagesPlaceholder("agent_scratchpad")]
    )
    agent = create_tool_calling_agent(model, [add], template)
    return AgentExecutor(agent=agent, tools=[add], **settings)


def test_a_legacy_agent_executor() -> None:
    for item in ("Add.", {"input": "Add."}):
        model = in_turn(calls("add", a=2, b=2), CITED)
        result = run(executor(model), item)
        assert (result.output, result.result_type, result.success, result.task) == (CITED, "agent", True, "Add.")
        assert [use["output"] for use in result.intermediate_steps] == ["4"]
        assert SKILL in text_of(model.seen[0])
        assert result.skill_ids == ("sea-00001",)


def test_wrappers_do_not_hide_what_is_inside() -> None:
    model = in_turn(CITED)
    assert run(executor(model).with_config(tags=["x"]), "Add.").result_type == "agent"
    assert run(create_agent(in_turn(CITED), [add]).with_config(tags=["x"]), "Add.").result_type == "langgraph"
    assert run(create_agent(in_turn(CITED), [add]) | (lambda state: state["messages"][-1]), {"messages": "Hi"}).output


def test_what_is_synchronous_asynchronous_or_streams_gives_the_same_result() -> None:
    chunks: list[Any] = []
    for options in ({"call": "async"}, {"call": "sync"}, {"call": "stream", "on_chunk": chunks.append}):
        for make in (
            lambda: create_agent(in_turn(calls("add", a=2, b=2), CITED), [add]),
            lambda: prompt("question") | in_turn(CITED),
            lambda: executor(in_turn(calls("add", a=2, b=2), CITED)),
        ):
            result = run(make(), "Add.", **options)
            assert (result.output, result.success, result.skill_ids) == (CITED, True, ("sea-00001",))
    assert {chunk[0] for chunk in chunks if isinstance(chunk, tuple)} == {"values", "messages"}


def test_parts_that_can_only_be_awaited_or_only_be_called() -> None:
    async def later(text: str) -> str:
        await asyncio.sleep(0)
        return text[-3:]

    assert run(RunnableLambda(lambda text: text[-3:]), "ebb").output == "ebb"
    awaited: Any = RunnableLambda(later)
    assert run(awaited, "ebb").output == "ebb"
    refused = run(awaited, "ebb", call="sync")
    assert (refused.success, refused.result_type) == (False, "error")


def test_runs_with_a_checkpointer_do_not_see_each_other() -> None:
    model = in_turn("one", "two", "three", "four", "five")
    agent = create_agent(model, [add], checkpointer=InMemorySaver())
    run(agent, "first")
    run(agent, "second")
    assert [message.type for message in model.seen[1]] == ["human"]
    for text in ("third", "fourth"):
        run(agent, text, config={"configurable": {"thread_id": "mine"}})
    third, fourth = [message.content for message in model.seen[3] if message.type == "human"]
    assert (third, str(fourth).endswith("# Task\n\nfourth")) == ("third", True)
    run(agent.with_config(configurable={"thread_id": "mine"}), "fifth")
    assert len([message for message in model.seen[4] if message.type == "human"]) == 3


def test_an_interrupted_graph_has_no_answer_yet() -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"You said {interrupt('Shall I go on?')}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    result = run(builder.compile(checkpointer=InMemorySaver()), "Go.")
    assert (result.success, result.result_type, result.output, result.error) == (None, "langgraph", "", None)
    assert result.waits_for == "Shall I go on?"
    assert result.steps == ()


def test_the_field_of_the_answer_can_be_named() -> None:
    chain: Any = RunnableLambda(lambda given: {"tide": "ebb", "height": 3})
    assert run(chain, {"question": "Which?"}, output_key="tide").output == "ebb"
    with pytest.raises(ValueError, match="returned no 'wind', which output_key names"):
        run(chain, {"question": "Which?"}, output_key="wind")


def test_a_function_may_put_the_skills_in() -> None:
    chain: Any = RunnableLambda(lambda pair: f"{pair[0]} {SKILL in pair[1]}")
    assert run(chain, 7, inject=lambda value, skills: (value, skills)).output == "7 True"
