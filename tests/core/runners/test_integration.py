"""`IntegrationRunner`: two steps of a framework are enough for a runner."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

import pytest

from ace.context import ACEStepContext
from ace.protocols import LLMAuthenticationError
from ace.protocols.roles import ReflectorLike, SkillManagerLike
from ace.providers import LiteLLMClient
from ace.roles import Reflector, SkillManager
from ace.runners import IntegrationRunner, LearningOptions
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedServer


class FrameworkResult:
    """What a framework leaves behind; nothing of it can be read but by its converter."""

    __slots__ = ("answer", "task")

    def __init__(self, task: str, answer: str) -> None:
        self.task = task
        self.answer = answer


class SeaExecuteStep:
    """An agent that knows what the skills in its instructions tell."""

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"trace"})

    def __init__(self, agent: str, *, polite: bool = False) -> None:
        self.ending = f" says {agent}" + (", please" if polite else "")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        assert ctx.skillbook is not None
        known = ctx.sample in secrets_world.things_taught(ctx.skillbook.as_prompt())
        answer = f"value-of-{ctx.sample}" if known else "no idea"
        return ctx.replace(trace=FrameworkResult(ctx.sample, answer + self.ending))


class SeaToTrace:
    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        result: Any = ctx.trace
        return ctx.replace(
            trace={
                "question": f"What is the secret of {result.task}?",
                "answer": result.answer,
                "ground_truth": f"value-of-{result.task}",
            }
        )


class Sea(IntegrationRunner):
    integration = "sea"
    execute_step = SeaExecuteStep
    to_trace = SeaToTrace


class TypedSea(Sea):
    """The same with exact arguments, as an integration would have it."""

    @classmethod
    def from_roles(  # the exact arguments of the step
        cls, *, agent: str, reflector: ReflectorLike, skill_manager: SkillManagerLike, **options: Any
    ) -> Self:
        return super().from_roles(agent, reflector=reflector, skill_manager=skill_manager, **options)

    @classmethod
    def from_model(cls, agent: str, *, ace_model: str = "gpt-4o-mini", **options: Any) -> Self:
        return super().from_model(agent=agent, ace_model=ace_model, **options)


def test_a_second_run_knows_what_the_first_one_taught(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = Sea.from_model("Ann", polite=True, ace_llm=client_for(server), check_key=False)
        first = runner.run(["boat", "sail"])
        second = runner.run(["boat"])
        runner.save(tmp_path / "book.json")
    answers = [secrets_trace(result.output)["answer"] for result in (*first, *second)]
    assert answers == ["no idea says Ann, please"] * 2 + ["value-of-boat says Ann, please"]
    skills = Skillbook.load_from_file(tmp_path / "book.json").skills()
    assert {source.integration for skill in skills for source in skill.sources} == {"sea"}


def test_strictly_online_each_task_knows_the_ones_before_it() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = Sea.from_client(client_for(server), "Ann", check_key=False)
        results = runner.run(["boat", "boat"], max_in_flight=1)
    assert [secrets_trace(result.output)["answer"] for result in results] == [
        "no idea says Ann",
        "value-of-boat says Ann",
    ]


def test_exact_arguments_can_be_given_by_a_subclass(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        client = client_for(server)
        roles: Any = {"reflector": Reflector(client), "skill_manager": SkillManager(client)}
        runner = TypedSea.from_roles(agent="Ann", skillbook_path=tmp_path / "book.json", check_key=False, **roles)
        runner.run(["boat"])
        names = [type(step).__name__ for step in TypedSea.build_steps("Ann", skillbook=Skillbook(), **roles)]
    assert names == ["SeaExecuteStep", "SeaToTrace", "ReflectStep", "TagStep", "UpdateStep", "ApplyStep"]
    assert len(Skillbook.load_from_file(tmp_path / "book.json")) == 1
    assert TypedSea.from_model("Ann", ace_model="openai/none").skillbook.stats()["skills"] == 0


def test_a_refused_key_stops_every_integration_before_its_agent_runs() -> None:
    with ScriptedServer(lambda request: HttpError(401, "wrong key")) as server:
        runner = Sea.from_model("Ann", ace_llm=client_for(server))
        for _ in range(2):
            with pytest.raises(LLMAuthenticationError, match="wrong key"):
                runner.run(["boat"])
        with pytest.raises(LLMAuthenticationError, match="wrong key"):
            asyncio.run(TypedSea.from_model("Ann", ace_llm=client_for(server)).arun(["boat"]))
        assert ["Reply with OK." in request.text for request in server.requests] == [True] * 3


def test_learning_options_go_to_learning_and_the_others_to_the_step() -> None:
    client = LiteLLMClient("openai/none", api_key="none")
    with pytest.raises(TypeError, match="'loud'"):
        Sea.from_model("Ann", ace_llm=client, loud=True)
    with pytest.raises(ValueError, match="skillbook or skillbook_path"):
        Sea.from_model("Ann", ace_llm=client, skillbook=Skillbook(), skillbook_path="b.json")
    assert "skillbook_path" in LearningOptions.__annotations__


def test_a_resumed_run_does_not_run_again_what_it_has_learned(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        for tasks in (["boat"], ["boat", "sail"]):
            runner = Sea.from_client(client_for(server), "Ann", skillbook_path=tmp_path / "book.db", check_key=False)
            runner.run(tasks, run_id="voyage", resume=tasks != ["boat"])
            runner.skillbook.close()
    assert len(server.by_role("reflector")) == 2
    with Skillbook.open(tmp_path / "book.db") as book:
        assert secrets_world.things_taught(book.as_prompt()) == ["boat", "sail"]


def secrets_trace(ctx: ACEStepContext | None) -> dict[str, Any]:
    assert ctx is not None and isinstance(ctx.trace, dict)
    return ctx.trace
