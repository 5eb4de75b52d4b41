"""The recursive reflector explores the runs of a chain."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

from ace.roles import SkillManager
from ace_langchain import LangChain, LangChainLLMClient
from tests.support.reflection_script import Explorer, is_turn, python, submit
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")


def test_the_runs_of_a_chain_are_explored_with_code() -> None:
    from ace.rr import RRStep

    explorer = Explorer([python("print(traces['question'], len(trace))"), submit()])

    def script(request: ScriptedRequest) -> Any:
        return explorer(request) if is_turn(request) or request.role else "9 m"

    key: Any = "sk-scripted-0123456789"
    with ScriptedServer(script) as server:
        model = ChatOpenAI(model="scripted", base_url=server.api_base, api_key=key, max_retries=0)
        client = LangChainLLMClient(model)
        chain = ChatPromptTemplate([("system", "Use:\n{skillbook}"), ("user", "{question}")]) | model
        runner = LangChain.from_roles(
            chain,
            reflector=RRStep(client),
            skill_manager=SkillManager(client),
            unproven="keep",
            learn_without_truth=True,
        )
        (result,) = runner.run(["How tall is the tower?"])
        turns = [request for request in server.requests if is_turn(request)]
    assert result.error is None
    assert len(turns) == 2 and "Output:\nHow tall is the tower?" in turns[1].messages[-1]["content"]
    assert [skill.content for skill in runner.skillbook] == ["Write the unit next to each number."]
