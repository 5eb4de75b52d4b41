"""`ACELiteLLM`: ask, and teach."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.environments import SimpleEnvironment
from ace.protocols import register_model_prefix, unregister_model_prefix
from ace.roles import Agent
from ace.runners import ACELiteLLM
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedServer

QUESTION = "What is the secret of boat?"


def test_feedback_is_about_the_last_question() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        assert ace.learn_from_feedback("good") is False
        assert server.requests == []
        assert ace.ask(QUESTION) == "I do not know."
        assert ace.ask("What is the secret of sail?") == "I do not know."
        assert ace.learn_from_feedback("wrong", ground_truth="value-of-sail") is True
        assert [skill.content for skill in ace.skillbook.skills()] == ["The secret of sail is value-of-sail."]
        assert ace.ask("What is the secret of sail?") == "value-of-sail"
        assert ace.learn_from_feedback("right", ground_truth="value-of-sail") is True
        assert (ace.skillbook.skills()[0].proof, ace.skillbook.skills()[0].helpful) == ("proven", 2)
        assert "wrong" in server.by_role("reflector")[0].text


def test_samples_and_traces_teach_the_same_book() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server), environment=SimpleEnvironment())
        ace.learn(secrets_world.samples(2), epochs=2)
        ace.learn_from_traces([{"question": QUESTION, "ground_truth": "value-of-boat"}], wait=False)
        ace.wait_for_background(30)
        assert ace.ask(QUESTION) == "value-of-boat"
        assert ace.ask("What is the secret of thing1?") == "value-of-thing1"
    assert len(ace.skillbook) == 3
    assert ace.learning_stats["completed"] == 5
    assert "value-of-boat" in ace.get_strategies()
    assert ace.failures == []


def test_the_environment_of_a_call_goes_first() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        [unjudged] = ace.learn(secrets_world.samples(1))
        [judged] = ace.learn(secrets_world.samples(1), SimpleEnvironment())
    assert unjudged.output is not None and judged.output is not None
    assert isinstance(unjudged.output.trace, dict) and isinstance(judged.output.trace, dict)
    assert "feedback" not in unjudged.output.trace
    assert judged.output.trace["metrics"] == {"correct": 1.0}
    assert ace.learning_stats["completed"] == 2


def test_after_load_everything_uses_the_new_book(tmp_path: Path) -> None:
    other = Skillbook()
    other.add_skill("secrets", "The secret of boat is value-of-boat.")
    other.save_to_file(tmp_path / "other.json")
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server), environment=SimpleEnvironment())
        old = ace.skillbook
        ace.learn(secrets_world.samples(1), wait=False)
        ace.load(tmp_path / "other.json")
        assert len(old) == 1
        assert ace.ask(QUESTION) == "value-of-boat"
        ace.learn(secrets_world.samples(2))
        ace.learn_from_traces([{"question": "What is the secret of x?", "ground_truth": "value-of-x"}])
        ace.save(tmp_path / "saved.json")
    assert len(old) == 1
    assert len(Skillbook.load_from_file(tmp_path / "saved.json")) == len(ace.skillbook) == 4


def test_learning_can_be_switched_off() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM(client_for(server))
        ace.disable_learning()
        ace.ask(QUESTION)
        assert ace.learn_from_feedback("wrong", "value-of-boat") is False
        with pytest.raises(RuntimeError, match="enable_learning"):
            ace.learn(secrets_world.samples(1))
        with pytest.raises(RuntimeError, match="enable_learning"):
            ace.learn_from_traces([{}])
        assert len(server.requests) == 1
        ace.enable_learning()
        assert ace.learn_from_feedback("wrong", "value-of-boat") is True


def test_a_model_string_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    with ScriptedServer(secrets_world.answer) as server:
        ace = ACELiteLLM.from_model(
            "openai/scripted", api_base=server.api_base, api_key="k" * 9, skillbook_path=path, max_tokens=99
        )
        assert isinstance(ace.agent, Agent)
        ace.ask(QUESTION)
        ace.learn_from_feedback("wrong", "value-of-boat")
        assert server.requests[0].body["max_tokens"] == 99
    assert len(Skillbook.load_from_file(path)) == 1


def test_a_prefix_of_a_plugin_makes_the_client() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        asked: list[tuple[str, object]] = []

        def factory(model: str, **settings: object) -> object:
            asked.append((model, settings["temperature"]))
            return client_for(server)

        register_model_prefix("acme", factory)  # type: ignore[arg-type]  # a client, made in a test
        try:
            assert ACELiteLLM.from_model("acme/large", temperature=0.5).ask(QUESTION) == "I do not know."
        finally:
            unregister_model_prefix("acme")
    assert asked == [("large", 0.5)]
