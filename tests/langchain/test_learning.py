"""Agents behind a real HTTP client learn: the second epoch does what the first one's failures taught."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import ace
from ace import ACEStepContext, SampleResult, TraceAnalyser
from ace.plugins import get_runner
from ace.roles import Reflector, SkillManager
from ace_langchain import LangChain, LangChainLLMClient, skillbook_middleware
from tests.langchain import harbour
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer


def chat_model(server: ScriptedServer, **settings: Any) -> ChatOpenAI:
    key: Any = "sk-scripted-0123456789"
    return ChatOpenAI(model="scripted", base_url=server.api_base, api_key=key, max_retries=0, **settings)


def graph_of(model: ChatOpenAI) -> Any:
    """An agent that is wired by hand."""
    asking = model.bind_tools(harbour.TOOLS)

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await asking.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_node("tools", ToolNode(harbour.TOOLS, handle_tool_errors=False))
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", tools_condition)
    builder.add_edge("tools", "ask")
    return builder.compile()


def agent_of(model: ChatOpenAI, **settings: Any) -> Any:
    return create_agent(model, harbour.TOOLS, system_prompt="You watch the tides.", **settings)


def trace_of(result: SampleResult[ACEStepContext]) -> dict[str, Any]:
    assert result.error is None
    assert result.output is not None
    trace = result.output.trace
    assert isinstance(trace, dict)
    return trace


@pytest.mark.parametrize("kind", ["agent", "agent with middleware", "graph", "streamed graph"])
def test_the_second_epoch_uses_what_the_first_one_learned(kind: str) -> None:
    with ScriptedServer(harbour.script) as server:
        model = chat_model(server, stream_usage=True)
        client = LangChainLLMClient(chat_model(server))
        if kind == "agent with middleware":
            agent = agent_of(model, middleware=[skillbook_middleware()])
            runner = LangChain.from_model(agent, ace_llm=client, inject="middleware", check_key=False)
        elif kind == "agent":
            runner = LangChain.from_model(agent_of(model), ace_llm=client, check_key=False)
        else:
            call = "stream" if kind == "streamed graph" else "async"
            runner = LangChain.from_model(graph_of(model), ace_llm=client, call=call, check_key=False)
        results = runner.run([harbour.SAMPLE], epochs=2)
        requests = server.requests
    first, second = map(trace_of, results)
    assert (first["success"], first["metadata"]["failed_at"]) == (False, "tools/tide_table")
    assert (second["success"], second["answer"]) == (True, "By [tides-00001]: High water in Bremen is at nine.")
    assert [trace["skill_ids"] for trace in (first, second)] == [[], ["tides-00001"]]
    assert [trace["ground_truth"] for trace in (first, second)] == ["nine", "nine"]
    (skill,) = runner.skillbook.skills()
    assert (skill.content, skill.helpful, skill.sources[0].integration) == (harbour.RULE, 1, "langchain")

    asked = [request for request in requests if not request.role]
    assert sum(trace["metrics"]["input_tokens"] for trace in (first, second)) == sum(
        request.input_tokens for request in asked
    )
    roles = [request for request in requests if request.role]
    assert client.usage.input_tokens == sum(request.input_tokens for request in roles)
    assert client.usage.calls == len(roles) == 4


def test_through_the_plugin_and_a_model_string_of_langchain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    with ScriptedServer(harbour.script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
        runner_class: Any = get_runner("langchain")
        assert runner_class is LangChain is ace.LangChain
        runner = runner_class.from_model(
            agent_of(chat_model(server)), ace_model="langchain/openai:gpt-4o-mini", skillbook_path=path
        )
        results = runner.run(["When is high water in Bremen?"] * 2, max_in_flight=1, workers=2)
        assert {request.model for request in server.requests if request.role} == {"gpt-4o-mini"}
        assert {request.body.get("max_completion_tokens") for request in server.requests if request.role} == {2048}
    assert [trace_of(result)["success"] for result in results] == [False, True]
    assert harbour.RULE in path.read_text(encoding="utf-8")


def test_a_chain_behind_http(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: f"{'sea-00001' in request.text}: {request.text[-6:]}") as server:
        chain = ChatPromptTemplate([("system", "Use:\n{skillbook}"), ("user", "{question}")]) | chat_model(server)
        client = client_for(server)
        runner = LangChain.from_roles(
            chain, reflector=Reflector(client, max_retries=0), skill_manager=SkillManager(client)
        )
        runner.skillbook.add_skill("sea", "Look twice.")
        (result,) = runner.run(["Which?"])
    # The roles get no usable answer from this server: the run itself stands on the result all the same.
    assert [failed.step for failed in runner.failures] == ["ReflectStep"]
    assert result.failed_at == "ReflectStep"


def test_a_server_that_refuses_is_a_failed_run_that_is_learned_from() -> None:
    def refuses(request: ScriptedRequest) -> Any:
        return harbour.script(request) if request.role else HttpError(400, "too many tides")

    with ScriptedServer(refuses) as server:
        runner = LangChain.from_model(agent_of(chat_model(server)), ace_llm=LangChainLLMClient(chat_model(server)))
        (result,) = runner.run(["When is high water in Bremen?"])
        assert len(server.by_role("reflector")) == 1
    trace = trace_of(result)
    assert (trace["success"], trace["metadata"]["failed_at"]) == (False, "model/ChatOpenAI")
    assert "too many tides" in trace["feedback"]


def test_stored_records_are_learned_from_without_running_anything() -> None:
    with ScriptedServer(harbour.script) as server:
        agent = agent_of(chat_model(server))
        runner = LangChain.from_model(agent, ace_llm=LangChainLLMClient(chat_model(server)))
        runner.run(["When is high water in Bremen?"])
        runner.run(["When is high water in Bremen?"])
        state = agent.invoke({"messages": [("system", runner.get_strategies()), ("user", "High water in Husum?")]})
        server.clear()
        analyser = TraceAnalyser.from_client(LangChainLLMClient(chat_model(server)), skillbook=runner.skillbook)
        (result,) = analyser.run([state])
        (reflection,) = server.by_role("reflector")
        assert all(request.role for request in server.requests)
    assert result.error is None
    assert "result harbour_master" in reflection.text
    assert "integration" in reflection.text
    (skill,) = runner.skillbook.skills()
    assert skill.helpful == 2
