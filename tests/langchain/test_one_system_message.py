"""Skills reach the model once per request and never as a second system message, whatever the agent is made of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from ace_langchain import result_to_trace, skillbook_middleware
from tests.langchain.models import add, in_turn, text_of
from tests.langchain.steps import SKILL, book, run
from tests.langchain.test_learning import chat_model
from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer

HEADING = "# Skills learned"


def strict(request: ScriptedRequest) -> Any:
    """Refuse whatever the chat templates of some models refuse."""
    roles = [message["role"] for message in request.messages]
    if "system" in roles[1:]:
        return HttpError(400, "only one system message, and it must be the first")
    if any(first == second == "user" for first, second in pairwise(roles)):
        return HttpError(400, "roles must alternate")
    return Answer(f"turn {roles.count('user')}")


def by_hand(model: Any, prompt: str | None) -> Any:
    """A graph with a prompt of its own."""
    own = [SystemMessage(prompt)] if prompt else []

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke([*own, *state["messages"]])]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("inject", ["input", "middleware"])
@pytest.mark.parametrize("prompt", ["You watch the tides.", None])
@pytest.mark.parametrize("given", ["text", "system first", "system each turn"])
@pytest.mark.parametrize("thread", ["kept", "new"])
def test_five_turns_with_a_strict_server(inject: Any, prompt: str | None, given: str, thread: str) -> None:
    if given != "text" and prompt is not None:
        pytest.skip("such an agent sends two system messages without us, too")
    if given == "system each turn" and thread == "kept":
        pytest.skip("such a thread has several system messages without us, too")
    with ScriptedServer(strict) as server:
        middleware = [skillbook_middleware()] if inject == "middleware" else []
        agent = create_agent(
            chat_model(server), [add], system_prompt=prompt, middleware=middleware, checkpointer=InMemorySaver()
        )
        skills = book()
        config: Any = {"configurable": {"thread_id": "1"}} if thread == "kept" else None
        for turn in range(1, 6):
            item: Any = f"Turn {turn}?"
            if given != "text" and (turn == 1 or given != "system first" or thread == "new"):
                item = [("system", "Be brief."), ("user", item)]
            result = run(agent, item, skills, inject=inject, config=config, call="sync")
            assert (result.success, result.error, result.task) == (True, None, f"Turn {turn}?")
            skills.add_skill("sea", f"Rule {turn}.")
        requests = server.requests
    assert len(requests) == 5
    for turn, request in enumerate(requests, 1):
        assert request.text.count(HEADING) == (turn > 1)
        assert f"Rule {turn - 1}." in request.text or turn == 1
        assert [message["role"] for message in request.messages].count("user") == (turn if thread == "kept" else 1)


def test_a_graph_by_hand_keeps_one_copy_in_its_thread() -> None:
    with ScriptedServer(strict) as server:
        graph = by_hand(chat_model(server), "You watch.")
        config: Any = {"configurable": {"thread_id": "1"}}
        results = [run(graph, f"Turn {turn}?", config=config, call="sync") for turn in range(5)]
        assert [request.text.count(SKILL) for request in server.requests] == [1] * 5
    state = graph.get_state(config)
    assert text_of(state.values["messages"]).count(SKILL) == 1
    assert [message["content"] for message in results[-1].messages if message["type"] == "human"] == [
        f"Turn {turn}?" for turn in range(5)
    ]
    assert SKILL not in result_to_trace(state)["reasoning"]
    assert run(graph, "Turn 5?", book(), config=config, call="sync").success
    assert SKILL not in text_of(graph.get_state(config).values["messages"])


def test_blocks_of_what_the_user_says_are_kept() -> None:
    model = in_turn("one", "two")
    agent = create_agent(model, [], system_prompt="You watch.", checkpointer=InMemorySaver())
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    config: Any = {"configurable": {"thread_id": "1"}}
    run(agent, [HumanMessage([{"type": "text", "text": "What is it?"}, picture])], config=config)
    run(agent, "And this?", config=config)
    first, second = model.seen
    assert (first[1].content[0]["type"], first[1].content[2]) == ("text", picture)  # type: ignore[index]
    assert second[1].content == [{"type": "text", "text": "What is it?"}, picture]
    assert text_of(second).count(HEADING) == 1


def test_a_middleware_of_the_agent_does_not_show_them_a_second_time() -> None:
    model = in_turn("one")
    run(create_agent(model, [], middleware=[skillbook_middleware(book(SKILL))]), "Which tide?")
    assert text_of(model.seen[0]).count(SKILL) == 1


def test_a_thread_that_was_begun_without_the_middleware() -> None:
    model = in_turn("one", "two")
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    run(create_agent(model, [], system_prompt="You watch.", checkpointer=saver), "First.", config=config)
    agent = create_agent(model, [], system_prompt="You watch.", checkpointer=saver, middleware=[skillbook_middleware()])
    run(agent, "Second.", inject="middleware", config=config)
    assert text_of(model.seen[1]).count(SKILL) == 1
    assert SKILL in str(model.seen[1][0].content)


def test_a_system_message_of_the_input_takes_the_skills_of_the_middleware() -> None:
    model = in_turn("one")
    agent = create_agent(model, [], middleware=[skillbook_middleware()])
    run(agent, [SystemMessage("Be brief."), HumanMessage("Which tide?")], inject="middleware")
    assert [message.type for message in model.seen[0]] == ["system", "human"]
    assert str(model.seen[0][0].content).startswith("Be brief.\n\n# Skills learned")


def test_a_prompt_with_a_system_message_and_a_placeholder_for_messages() -> None:
    model = in_turn("one", "two")
    chain = ChatPromptTemplate([("system", "You watch."), MessagesPlaceholder("messages")]) | model
    run(chain, {"messages": [HumanMessage("Hm."), AIMessage("Yes?"), HumanMessage("Which tide?")]})
    run(RunnableLambda(lambda messages: [SystemMessage("You watch."), *messages]) | model, [HumanMessage("Which?")])
    for seen in model.seen:
        assert [message.type for message in seen].count("system") == 1
        assert SKILL in str(seen[-1].content)
