"""A retriever never searches with the skills; what is wired wrongly is raised before a model is paid."""

from __future__ import annotations

import logging
from operator import itemgetter
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import Field

from ace_langchain import LangChain, LangChainLLMClient, skillbook_middleware
from tests.langchain import harbour
from tests.langchain.models import calls, in_turn, text_of
from tests.langchain.steps import SKILL, book, run
from tests.langchain.test_learning import chat_model
from tests.support.scripted_server import ScriptedServer

QUESTION = "When?"


class Archive(BaseRetriever):
    queries: list[str] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        self.queries.append(query)
        return [Document("High water is at nine.")]


def prompt(system: str = "Use: {context}") -> ChatPromptTemplate:
    return ChatPromptTemplate([("system", system), ("user", "{question}")])


def rag(archive: Archive, model: Any, template: ChatPromptTemplate | None = None) -> Any:
    return {"context": archive, "question": RunnablePassthrough()} | (template or prompt()) | model | StrOutputParser()


def retrieval_chain(archive: Archive, model: Any) -> Any:
    template = ChatPromptTemplate([("system", "Use: {context}"), ("user", "{input}")])
    return create_retrieval_chain(archive, create_stuff_documents_chain(model, template))


def nested(archive: Archive, model: Any) -> Any:
    inner = RunnableParallel(context=archive, question=RunnablePassthrough()) | prompt() | model.bind(stop=["x"])
    branch = RunnableBranch((lambda text: text == "no", RunnableLambda(str)), inner.with_config(tags=["x"]))
    return branch.with_fallbacks([RunnableLambda(str)]) | StrOutputParser()


@pytest.mark.parametrize("make", [rag, retrieval_chain, nested])
def test_a_chain_that_searches_gets_the_skills_at_its_model(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    archive, model = Archive(), in_turn("At nine.")
    item: Any = {"input": QUESTION} if make is retrieval_chain else QUESTION
    chain = make(archive, model)
    with caplog.at_level(logging.WARNING):
        result = run(chain, item)
    assert "this chain has a retriever, which would search with skills" in caplog.text
    assert (result.success, result.task, result.error) == (True, QUESTION, None)
    assert archive.queries == [QUESTION]
    [seen] = model.seen
    assert [message.type for message in seen] == ["system", "human"]
    assert str(seen[0].content).startswith("Use: ")
    assert text_of(seen).count(SKILL) == 1
    assert seen[1].content == QUESTION


def test_a_prompt_behind_the_search_takes_the_skills_in_its_variable(caplog: pytest.LogCaptureFixture) -> None:
    archive, model = Archive(), in_turn("At nine.", "At ten.")
    chain = rag(archive, model, prompt("{skillbook}\n\nUse: {context}"))
    for item in (QUESTION, {"question": QUESTION}):
        searching = chain if isinstance(item, str) else RunnableLambda(itemgetter("question")) | chain
        assert run(searching, item).success
    assert "retriever" not in caplog.text
    assert archive.queries == [QUESTION, QUESTION]
    for seen in model.seen:
        assert str(seen[0].content).startswith("# Skills learned")
        assert text_of(seen).count(SKILL) == 1


def test_a_chain_whose_search_cannot_be_seen_is_stopped_before_it_searches() -> None:
    archive, model = Archive(), in_turn()
    chain: Any = RunnableLambda(lambda text: {"context": archive.invoke(text), "question": text}) | prompt() | model
    with pytest.raises(ValueError, match=r"a retriever was about to search with the skills.*variable 'skillbook'"):
        run(chain, QUESTION)
    assert (archive.queries, model.seen) == ([], [])


def test_a_search_with_the_skills_is_raised_although_the_chain_catches_it() -> None:
    archive = Archive()

    def search(text: str) -> str:
        try:
            return str(archive.invoke(text)[0].page_content)
        except ValueError:
            return "Nothing was found."

    with pytest.raises(ValueError, match="a retriever was about to search with the skills"):
        run(RunnableLambda(search), QUESTION)
    assert archive.queries == []


def test_a_graph_that_searches_takes_the_skills_in_its_state() -> None:
    archive, model = Archive(), in_turn("At nine.")

    class State(MessagesState):
        skillbook: str

    def answer(state: Any) -> dict[str, Any]:
        found = archive.invoke(state["messages"][-1].content)
        told = SystemMessage(f"{state.get('skillbook', '')}\n{found[0].page_content}")
        return {"messages": [model.invoke([told, *state["messages"]])]}

    def graph(schema: Any) -> Any:
        builder = StateGraph(schema)
        builder.add_node("answer", answer)
        builder.add_edge(START, "answer")
        return builder.compile()

    with pytest.raises(ValueError, match="or the state of the graph a field 'skillbook'"):
        run(graph(MessagesState), QUESTION)
    assert run(graph(State), QUESTION).output == "At nine."
    assert archive.queries == [QUESTION]
    assert text_of(model.seen[0]).count(SKILL) == 1


def test_an_agent_with_a_search_tool_searches_with_what_its_model_writes() -> None:
    archive = Archive()
    model = in_turn(calls("archive", query="high water"), "At nine.")
    agent = create_agent(
        model, [create_retriever_tool(archive, "archive", "Search.")], middleware=[skillbook_middleware()]
    )
    assert run(agent, QUESTION, inject="middleware").success
    assert archive.queries == ["high water"]


def test_what_is_wired_wrongly_is_raised_before_a_model_is_paid() -> None:
    model = in_turn("one", "two")
    for chain, item, told in (
        ({"question": RunnablePassthrough()} | prompt() | model, QUESTION, "needs 'context', and gets only 'question'"),
        (RunnablePassthrough.assign(context=itemgetter("question")) | prompt() | model, "x", "give a dict"),
        (
            RunnablePassthrough.assign(context=itemgetter("topic")) | prompt() | model,
            {"topic": "tides", "text": "x"},
            "needs 'question', and gets only 'context', 'text', 'topic'",
        ),
        (RunnableLambda(lambda text: {"context": text}) | prompt() | model, QUESTION, "is missing variables"),
    ):
        with pytest.raises(ValueError, match=told):
            run(chain, item, input_key="topic" if isinstance(item, dict) else None)
    assert model.seen == []


def test_a_later_prompt_that_lacks_a_field_is_not_learned_from() -> None:
    with ScriptedServer(harbour.script) as server:
        model = chat_model(server)
        first = ChatPromptTemplate([("user", "{question}")]) | model | StrOutputParser()
        chain = first | RunnableLambda(lambda text: {"context": text}) | prompt() | model
        runner = LangChain.from_model(chain, ace_llm=LangChainLLMClient(model), check_key=False)
        [result] = runner.run([QUESTION])
        assert [request.role for request in server.requests] == [""]
    assert "is missing variables" in str(result.error)


def test_a_variable_for_the_skills_in_a_later_prompt_is_filled() -> None:
    model = in_turn("one", "two")
    chain = (
        ChatPromptTemplate([("user", "{question}")])
        | model
        | {"context": StrOutputParser(), "question": str}
        | (prompt("{skills} Use: {context}") | model)
    )
    assert run(chain, QUESTION, book(SKILL)).output == "two"
    assert [text_of(seen).count(SKILL) for seen in model.seen] == [0, 1]
