"""An agent of the user's own sees the skills through the middleware, with and without our runner."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from ace_langchain import skillbook_middleware
from ace_langchain.calling import CALLS
from tests.langchain.models import add, calls, in_turn, text_of
from tests.langchain.steps import SKILL, book, run


def test_an_agent_sees_the_skills_as_they_are_at_each_call() -> None:
    skills = book()
    model = in_turn("one", "two")
    agent: Any = create_agent(
        model,
        [add],
        system_prompt="You watch.",
        middleware=[skillbook_middleware(skills)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": "First."}, {"configurable": {"thread_id": "1"}})
    skills.add_skill("sea", SKILL)
    state = agent.invoke({"messages": "Second."}, {"configurable": {"thread_id": "1"}})
    first, second = model.seen
    assert first[0].content == "You watch."
    assert str(second[0].content).startswith("You watch.\n\n# Skills learned")
    assert SKILL in text_of(second[:1])
    assert [message.type for message in second] == ["system", "human", "ai", "human"]
    assert SKILL not in text_of(state["messages"])


def test_a_system_prompt_of_blocks_keeps_them() -> None:
    model = in_turn("one")
    cached = {"type": "text", "text": "You watch.", "cache_control": {"type": "ephemeral"}}
    agent: Any = create_agent(
        model, [], system_prompt=SystemMessage([cached]), middleware=[skillbook_middleware(book(SKILL))]
    )
    asyncio.run(agent.ainvoke({"messages": "First."}))
    content = model.seen[0][0].content
    assert isinstance(content, list)
    assert content[0] == cached
    assert SKILL in str(content[1])


def test_a_function_may_tell_the_skills() -> None:
    model = in_turn("one")
    agent: Any = create_agent(model, [], middleware=[skillbook_middleware(lambda: "Look twice.")])
    agent.invoke({"messages": "First."})
    assert model.seen[0][0].content == "Look twice."


def test_in_our_runner_the_agent_sees_the_skills_of_the_run_and_no_others() -> None:
    for call in CALLS:
        model = in_turn(calls("add", a=1, b=1), "By [sea-00001].")
        agent = create_agent(model, [add], middleware=[skillbook_middleware(book("An old one."))])
        result = run(agent, "Which tide?", inject="middleware", call=call)
        assert result.skill_ids == ("sea-00001",)
        for seen in model.seen:
            assert [message.type for message in seen][:2] == ["system", "human"]
            assert SKILL in text_of(seen[:1])
            assert "An old one." not in text_of(seen)
