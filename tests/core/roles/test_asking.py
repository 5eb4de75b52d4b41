"""Answers that cannot be used: asked for again, within one total, and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ace.outputs import ReflectorOutput
from ace.protocols import (
    AgentLike,
    EmptyAnswerError,
    LLMCallError,
    LLMClientLike,
    ReflectorLike,
    SkillManagerLike,
    UnusableAnswerError,
)
from ace.roles import Agent, Reflector, SkillManager
from ace.roles.small_models import SmallModelAgent
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.role_inputs import ANSWER, REFLECTION, update
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer, in_turn


def ask(role: str, client: LLMClientLike) -> object:
    if role == "agent":
        return Agent(client).generate("q", "", Skillbook())
    if role == "reflector":
        return Reflector(client).reflect("q", ANSWER, Skillbook(), trace={"a": 1})
    return SkillManager(client).update_skills(ReflectorOutput.model_validate(REFLECTION), Skillbook())


BAD_ANSWERS: dict[str, Reply | str | dict[str, Any]] = {
    "broken JSON": '{"reasoning": "and th',
    "prose": "I am afraid I cannot do that.",
    "wrong schema": {"foo": 1},
    "empty": "",
    "unknown operation": update({"type": "EXPLODE"}),
    "300,000 characters": "x" * 300_000,
    "300,000 braces": "{" * 300_000,
}


@pytest.mark.parametrize("role", ["agent", "reflector", "skill_manager"])
@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_bad_answers_are_asked_for_again_and_then_kept(
    role: str, bad: Reply | str | dict[str, Any], wrap: Callable[[LLMClientLike], LLMClientLike]
) -> None:
    good = {
        "agent": {"reasoning": "", "final_answer": "1"},
        "reflector": REFLECTION,
        "skill_manager": update(),
    }
    with ScriptedServer(in_turn(bad, good[role])) as server:
        ask(role, wrap(client_for(server)))
        assert len(server.requests) == 2
    with ScriptedServer(in_turn(bad)) as server:
        with pytest.raises(UnusableAnswerError) as raised:
            ask(role, wrap(client_for(server)))
        kept = bad if isinstance(bad, str) else json.dumps(bad)
        assert raised.value.raw_answers == (kept,) * len(server.requests)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("role", "unusable"),
    [
        ("agent", {"reasoning": "hm", "final_answer": " "}),
        ("reflector", dict.fromkeys(REFLECTION, "")),
        ("skill_manager", update({"type": "REMOVE", "skill_id": "gone-00001"})),
    ],
)
def test_retries_of_role_and_client_share_one_total(
    role: str, unusable: dict[str, Any], wrap: Callable[[LLMClientLike], LLMClientLike]
) -> None:
    # Every answer is bad, in turn one that does not validate and one that cannot be used.
    def script(request: ScriptedRequest) -> str | dict[str, Any]:
        return unusable if request.number % 2 else "no JSON"

    with ScriptedServer(script) as server:
        with pytest.raises(UnusableAnswerError) as raised:
            ask(role, wrap(client_for(server, validation_retries=50)))
        assert len(server.requests) == 4
        assert len(raised.value.raw_answers) == 4


def test_a_call_error_is_no_matter_for_a_role() -> None:
    with ScriptedServer(in_turn(HttpError(400, "no good"))) as server:
        with pytest.raises(LLMCallError, match="no good"):
            ask("agent", client_for(server))
        assert len(server.requests) == 1


def test_the_roles_have_the_shape_of_their_protocols() -> None:
    with ScriptedServer(in_turn("")) as server:
        client = client_for(server)
        assert isinstance(Agent(client), AgentLike)
        assert isinstance(Reflector(client), ReflectorLike)
        assert isinstance(SkillManager(client), SkillManagerLike)


def test_a_client_that_knows_nothing_of_budgets_is_bounded_too() -> None:
    class Stubborn:
        def __init__(self) -> None:
            self.calls = 0

        def complete(self, prompt: str, **kwargs: Any) -> Any:
            raise AssertionError("roles ask for structured answers")

        def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return response_model(reasoning="", final_answer="")

    stubborn = Stubborn()
    with pytest.raises(UnusableAnswerError, match="final_answer is empty"):
        Agent(stubborn, max_retries=2).generate("q", "", Skillbook())
    assert stubborn.calls == 3


def test_a_model_that_saw_no_error_is_asked_once(wrap: Callable[[LLMClientLike], LLMClientLike]) -> None:
    with ScriptedServer(in_turn({"reasoning": "fine", "correct_approach": "same", "key_insight": "k"})) as server:
        ask("reflector", wrap(client_for(server)))
        assert len(server.requests) == 1


def test_a_model_whose_answer_was_empty_is_told_so_and_its_last_answer_is_kept() -> None:
    with ScriptedServer(in_turn({"reasoning": "By [maths-00001], hm.", "final_answer": " "})) as server:
        book = Skillbook()
        book.add_skill("maths", "Check the units.", "maths-00001")
        with pytest.raises(EmptyAnswerError, match="final_answer is empty") as raised:
            Agent(client_for(server)).generate("q", "", book)
        assert raised.value.output.skill_ids == ["maths-00001"]
        assert len(server.requests) == len(raised.value.raw_answers) == 4
        told = "final_answer is empty; write the answer there, or that it cannot be known"
        assert [told in request.text for request in server.requests] == [False, True, True, True]


@pytest.mark.parametrize("empty", ["", {"reasoning": "", "final_answer": ""}], ids=["text", "answer"])
def test_no_retry_of_an_empty_answer_repeats_a_prompt(
    empty: str | dict[str, Any], wrap: Callable[[LLMClientLike], LLMClientLike]
) -> None:
    """At temperature 0, a repeated prompt gets a repeated answer."""
    with ScriptedServer(in_turn(empty)) as server:
        with pytest.raises(UnusableAnswerError):
            SmallModelAgent(wrap(client_for(server))).generate("q", "", Skillbook())
        texts = [request.text for request in server.requests]
    assert len(texts) > 2
    assert len(set(texts)) == len(texts)


def test_a_small_model_is_held_to_an_answer() -> None:
    schema = SmallModelAgent.answer_type.model_json_schema()
    assert list(schema["properties"]) == schema["required"] == ["final_answer"]
    assert schema["properties"]["final_answer"]["minLength"] == 1
