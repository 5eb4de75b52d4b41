"""What the caller gives along reaches the run: callbacks, tags, metadata, options."""

import json
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager, Callbacks
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedState

from ace_langchain import LangChain, LangChainLLMClient, LangChainResult
from tests.langchain.models import ComputedModel, add, calls, in_turn, text_of, tokens
from tests.langchain.steps import run
from tests.support.role_inputs import REFLECTION


class Listener(BaseCallbackHandler):
    """The caller's own callback."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.heard.append(("model", (kwargs["tags"], (kwargs["metadata"] or {}).get("customer"))))

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.heard.append(("answer", response.generations[0][0].text))


def chain(*answers: str) -> Runnable[Any, Any]:
    return ChatPromptTemplate([("user", "{question}")]) | in_turn(*answers)


@pytest.mark.parametrize("kind", ["list", "manager"])
def test_callbacks_tags_and_metadata_of_the_caller_are_passed_on(kind: str) -> None:
    listener = Listener()
    callbacks: Callbacks = [listener] if kind == "list" else CallbackManager([listener], [listener])
    config: RunnableConfig = {"callbacks": callbacks, "tags": ["sea"], "metadata": {"customer": "Ada"}}
    result = run(chain("ebb"), "Which tide?", config=config)
    (_, (tags, customer)), answer = listener.heard
    assert (set(tags), customer, answer) == ({"seq:step:2", "sea"}, "Ada", ("answer", "ebb"))
    assert result.usage["model_calls"] == 1
    run(chain("ebb"), "Which tide?", config=config)
    assert len(listener.heard) == 4


def test_callbacks_that_are_bound_to_the_runnable_are_kept() -> None:
    listener = Listener()
    run(chain("ebb").with_config(callbacks=[listener], tags=["bound"]), "Which tide?", config={"tags": ["sea"]})
    ((_, (tags, _)), _) = listener.heard
    assert set(tags) >= {"bound", "sea"}


def test_a_config_may_be_made_of_the_input() -> None:
    listener = Listener()

    def config(item: object) -> RunnableConfig:
        return {"callbacks": [listener], "metadata": {"customer": str(item).upper()}}

    run(chain("ebb"), "ada", config=config)
    assert listener.heard[0][1][1] == "ADA"


def test_options_reach_the_call_of_a_graph() -> None:
    @dataclass
    class Sea:
        name: str

    @dynamic_prompt
    def told(request: Any) -> str:
        return f"You watch the {request.runtime.context.name}."

    model = in_turn("ebb")
    agent = create_agent(model, [add], middleware=[told], context_schema=Sea)
    result = run(agent, "Which tide?", options={"context": Sea("North Sea"), "version": "v2"})
    assert (result.output, result.success) == ("ebb", True)
    assert "North Sea" in text_of(model.seen[0])


def test_what_a_retriever_found_is_in_the_trace() -> None:
    class Almanac(BaseRetriever):
        def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
            return [Document("High water at nine."), Document("Low water at three.")]

    result = run(RunnableLambda(lambda text: text.rpartition("\n")[2]) | Almanac() | (lambda found: "nine"), "When?")
    assert [(step["kind"], step["name"], step["content"]) for step in result.steps] == [
        ("call", "Almanac", "When?"),
        ("result", "Almanac", "High water at nine.\n\nLow water at three."),
    ]


def test_thoughts_are_steps_of_their_own_and_may_cite() -> None:
    thinking = AIMessage(
        [{"type": "thinking", "thinking": "By [sea-00001] I look."}, {"type": "text", "text": "ebb"}],
        usage_metadata=tokens(3, 4),
    )
    result = run(in_turn(thinking), "Which?")
    assert [(step["kind"], step["content"]) for step in result.steps] == [
        ("thought", "By [sea-00001] I look."),
        ("message", "ebb"),
    ]
    assert (result.output, result.skill_ids) == ("ebb", ("sea-00001",))


def test_only_what_the_models_said_is_cited() -> None:
    echo = ComputedModel(answer=lambda messages: "The ebb, order-00077.")
    agent = create_agent(echo, [add], system_prompt="Cite [sea-00001] where you use it.")
    result = run(agent, "Is [sea-00001] right, for order-00077?")
    assert "sea-00001" in str(result.messages)
    assert result.skill_ids == ()


def test_what_a_tool_is_given_and_gives_back_is_told_as_json_whatever_it_is() -> None:
    @tool
    def sound(place: str, state: Annotated[dict[str, Any], InjectedState]) -> Any:
        """Measure the depth of a place."""
        return {(54, 8): {date(2026, 11, 1)}}

    @tool
    def chart(place: str) -> Any:
        """Draw a place."""
        return {"drawn": date(2026, 11, 1), "at": (54, 8)}

    model = in_turn(calls("sound", place="Elbe"), calls("chart", "c2", place="Elbe"), "deep")
    result = run(create_agent(model, [sound, chart]), "How deep?")
    assert [use["output"] for use in result.intermediate_steps] == [
        "{(54, 8): {datetime.date(2026, 11, 1)}}",
        "{'drawn': datetime.date(2026, 11, 1), 'at': (54, 8)}",
    ]
    assert [use["input"] for use in result.intermediate_steps] == [{"place": "Elbe"}] * 2
    assert LangChainResult.from_dict(json.loads(json.dumps(result.to_dict()))).to_dict() == result.to_dict()


def test_eight_runs_at_once_through_the_runner_do_not_mix() -> None:
    def answer(messages: list[BaseMessage]) -> str:
        shown = text_of(messages)
        if "\n- key_insight (" in shown:
            return json.dumps(REFLECTION)
        if "\n- operations (" in shown:
            return '{"reasoning": "", "operations": []}'
        return shown.rpartition(" ")[2]

    model = ComputedModel(answer=answer)
    runner = LangChain.from_model(create_agent(model, [add]), ace_llm=LangChainLLMClient(model))
    results = runner.run([f"Say {number}" for number in range(24)], workers=8)
    traces: list[Any] = [result.output.trace for result in results if result.output is not None]
    assert [(trace["question"], trace["answer"], len(trace["steps"])) for trace in traces] == [
        (f"Say {number}", str(number), 1) for number in range(24)
    ]
