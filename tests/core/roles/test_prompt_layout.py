"""What the roles send: what repeats comes first, in messages and in the text for clients that send one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ace import Agent, LiteLLMClient, Reflector, Skillbook, SkillManager
from ace.context import SkillbookView
from ace.outputs import AgentOutput, ReflectorOutput, SkillTag
from ace.protocols import LayeredPrompt, LLMResponse, StructuredAnswer
from ace.skill import InsightSource
from tests.support.scripted_anthropic_server import ScriptedAnthropicServer, Text
from tests.support.scripted_server import ScriptedServer

ANSWER = {"reasoning": "By [area-00001].", "final_answer": "12"}


@pytest.fixture
def book() -> Skillbook:
    book = Skillbook()
    for number in range(4):
        source = InsightSource(f"trace-{number}")
        book.add_skill(f"area {number % 2}", f"Count crate {number}.", insight_source=source)
    book.tag_skill("area-00002", "helpful", 3)
    return book


def test_an_openai_server_gets_rules_fields_and_skills_as_system_message(book: Skillbook) -> None:
    with ScriptedServer(lambda request: ANSWER) as server:
        agent = Agent(LiteLLMClient("openai/scripted", api_base=server.api_base))
        agent.generate("How many?", "", SkillbookView(book))
        book.update_skill("area-00003", content="Count crate 2 twice.")
        agent.generate("How many now?", "", SkillbookView(book))
    (system, user), (changed, last) = (request.messages for request in server.requests)
    assert [system["role"], user["role"]] == ["system", "user"] and isinstance(system["content"], str)
    text = system["content"]
    places = [text.index(part) for part in ("# How to work", "- final_answer (text)", "# Skillbook", "Count crate 3")]
    assert places == sorted(places)
    assert "helpful" not in text and "How many?" not in text and user["content"].count("How many?") == 1
    assert changed["content"].startswith(text) and "Count crate 2 twice." in changed["content"][len(text) :]
    assert "cache_control" not in json.dumps(server.requests[0].body)
    assert "How many now?" in last["content"]


def test_an_anthropic_server_gets_marks_after_the_rules_and_after_the_skills(book: Skillbook) -> None:
    with ScriptedAnthropicServer(lambda request: [Text(json.dumps(ANSWER))]) as server:
        agent = Agent(LiteLLMClient("anthropic/claude-sonnet-4-5", api_base=server.url, api_key="key"))
        agent.generate("How many?", "", SkillbookView(book))
        book.update_skill("area-00003", content="Count crate 2 twice.")
        agent.generate("How many now?", "", SkillbookView(book))
    first, second = (request.body["system"] for request in server.requests)
    assert ["cache_control" in part for part in first] == [True, True]
    assert ["cache_control" in part for part in second] == [True, True, False]
    assert second[:2] == first
    assert "- final_answer (text)" in first[0]["text"] and "Count crate 3" in first[1]["text"]
    assert "Count crate 2 twice." in second[2]["text"]
    assert "cache_control" not in json.dumps(server.requests[1].messages)


def test_a_fallback_of_another_provider_gets_no_marks(book: Skillbook) -> None:
    with ScriptedServer(lambda request: ANSWER) as server:
        client = LiteLLMClient(
            "openai/claude-of-my-own", api_base=server.api_base, fallbacks=["openai/spare"], max_retries=0
        )
        Agent(client).generate("How many?", "", SkillbookView(book))
    assert isinstance(server.requests[0].messages[0]["content"], str)


class PlainClient:
    """A user's client with the two required methods, which takes the prompt as one text."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.prompts: list[str] = []

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        self.prompts.append(prompt)
        return LLMResponse(json.dumps(self.answer))

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        self.prompts.append(prompt)
        return response_model.model_validate(self.answer)


def test_a_client_that_sends_one_text_gets_the_parts_in_the_same_order(book: Skillbook) -> None:
    client = PlainClient(ANSWER)
    Agent(client).generate("How many?", "In a yard.", SkillbookView(book))
    prompt = client.prompts[0]
    parts = ("# How to work", "# Skillbook", "Count crate 0", "Count crate 3", "# Context\n\nIn a yard.", "# Task")
    assert [prompt.index(part) for part in parts] == sorted(prompt.index(part) for part in parts)
    assert "".join(prompt.split()) == "".join("".join(_parts_of(prompt)).split())


def _parts_of(prompt: str) -> tuple[str, str, str, str]:
    assert isinstance(prompt, LayeredPrompt)
    return prompt.rules, prompt.skills, prompt.changes, prompt.task


def test_a_template_of_a_user_gets_what_it_asks_for(book: Skillbook) -> None:
    client = PlainClient(ANSWER)
    agent = Agent(client, "Q: {question}\n\nS:\n{skillbook}\n\n# End\nGo.")
    agent.generate("How many?", "", SkillbookView(book))
    assert not isinstance(client.prompts[0], LayeredPrompt)
    assert client.prompts[0].startswith("Q: How many?\n\nS:\n- [area-00001] Count crate 0.\n")
    assert client.prompts[0].endswith("- [area-00004] Count crate 3.\n\n# End\nGo.")


def test_the_skill_manager_sees_counters_and_sources_of_the_skills_that_are_reflected_on_only(book: Skillbook) -> None:
    client = PlainClient({"reasoning": "", "operations": []})
    reflection = ReflectorOutput(
        reasoning="Counted.",
        key_insight="Count.",
        correct_approach="",
        skill_tags=[SkillTag(id="area-00002", tag="helpful")],
    )
    SkillManager(client).update_skills(reflection, SkillbookView(book))
    prompt = client.prompts[0]
    assert isinstance(prompt, LayeredPrompt)
    assert "- [area-00002] in area 1: helpful 3, harmful 0, neutral 0; learned from trace-1" in prompt.task
    assert "Sections: area 0, area 1" in prompt.task
    assert "trace-3" not in prompt and prompt.count("helpful 3") == 1 and "helpful 3" not in prompt.skills


def test_the_reflector_is_told_what_to_find_out_before_the_record(book: Skillbook) -> None:
    client = PlainClient({"reasoning": "Counted.", "key_insight": "Count.", "correct_approach": ""})
    Reflector(client).reflect("How many?", AgentOutput(reasoning="", final_answer="12"), SkillbookView(book))
    prompt = client.prompts[0]
    assert isinstance(prompt, LayeredPrompt)
    assert "# What to find out" in prompt.rules and "How many?" in prompt.task and prompt.skills == ""
