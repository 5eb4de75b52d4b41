"""`once`, `resume="auto"`, `shuffle` and `max_consecutive_failures` hold for every runner and for the facade."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.environments import Sample, SimpleEnvironment
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.pipeline import Pipeline, PipelineCancelled
from ace.protocols import LLMCallError
from ace.runners import ACE, ACELiteLLM, ACERunner, IntegrationRunner, TraceAnalyser
from ace.skillbook import Skillbook
from ace.steps import learning_tail
from ace.updates import UpdateBatch, UpdateOperation

COUNT = 5


class Roles:
    """All roles; the reflector cannot reach its model for the questions in `unreachable`."""

    def __init__(self) -> None:
        self.unreachable: set[str] = set()
        self.reflected: list[str] = []

    def generate(self, *, question: str, **kwargs: Any) -> AgentOutput:
        return AgentOutput(reasoning="", final_answer="?")

    def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
        if question in self.unreachable:
            raise LLMCallError("the server is down", status_code=503)
        self.reflected.append(question)
        return ReflectorOutput(reasoning=question, correct_approach="", key_insight=question)

    def update_skills(self, *, reflection: ReflectorOutput, **kwargs: Any) -> SkillManagerOutput:
        operation = UpdateOperation("ADD", section="s", content=reflection.key_insight)
        return SkillManagerOutput(update=UpdateBatch("", [operation]))

    def complete(self, prompt: str, **kwargs: Any) -> Any:
        raise AssertionError("no model is asked")

    complete_structured = complete


class AsTrace:
    requires, provides = frozenset({"sample", "skillbook"}), frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        return ctx.replace(trace={"question": str(ctx.sample), "answer": ""})


class Same:
    requires = provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        return ctx


class Framework(IntegrationRunner):
    execute_step = AsTrace
    to_trace = Same


Run = Callable[..., list[Any]]


def questions() -> list[str]:
    return [f"question {number}" for number in range(COUNT)]


def samples() -> list[Sample]:
    return [Sample(question, ground_truth="!") for question in questions()]


def traces() -> list[dict[str, str]]:
    return [{"question": question, "answer": ""} for question in questions()]


def run_of(kind: str, roles: Any, book: Skillbook) -> Run:
    """Return a function that does a run over the questions with the given options."""
    looking_back: dict[str, Any] = {"reflector": roles, "skill_manager": roles, "skillbook": book}
    judge = SimpleEnvironment()
    runner: Any
    if kind == "ACE":
        runner = ACE.from_roles(
            agent=roles, environment=judge, **looking_back, unproven="keep", learn_without_truth=True
        )
        return lambda **options: runner.run(samples(), **options)
    if kind == "TraceAnalyser":
        runner = TraceAnalyser.from_roles(**looking_back, unproven="keep")
        return lambda **options: runner.run(traces(), **options)
    if kind == "IntegrationRunner":
        runner = Framework.from_roles(**looking_back, unproven="keep")
        return lambda **options: runner.run(questions(), **options)
    if kind == "ACERunner":
        runner = ACERunner(
            Pipeline[ACEStepContext]([AsTrace(), *learning_tail(roles, roles, book, unproven="keep")]), book
        )
        return lambda **options: runner.run(questions(), **options)
    facade = ACELiteLLM(
        roles, agent=roles, environment=judge, **looking_back, unproven="keep", learn_without_truth=True
    )
    if kind == "learn":
        return lambda **options: facade.learn(samples(), **options)
    if kind == "alearn":
        return lambda **options: asyncio.run(facade.alearn(samples(), **options))
    if kind == "learn_from_traces":
        return lambda **options: facade.learn_from_traces(traces(), **options)
    return lambda **options: asyncio.run(facade.alearn_from_traces(traces(), **options))


KINDS = [
    *("ACE", "TraceAnalyser", "IntegrationRunner", "ACERunner"),
    *("learn", "alearn", "learn_from_traces", "alearn_from_traces"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_learns_nothing_twice(kind: str, tmp_path: Path) -> None:
    roles = Roles()
    with Skillbook.open(tmp_path / "s.db") as book:
        run_of(kind, roles, book)(max_in_flight=1)
    assert roles.reflected == questions()
    with Skillbook.open(tmp_path / "s.db") as book:
        results = run_of(kind, roles, book)(max_in_flight=1, once=True)
        assert [bool(result.output.metadata.get("already_learned")) for result in results] == [True] * COUNT
        assert len(book) == COUNT
    assert roles.reflected == questions()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stops_when_the_server_is_down_and_is_continued_by_itself(kind: str, tmp_path: Path) -> None:
    roles = Roles()
    roles.unreachable = set(questions()[1:])
    with Skillbook.open(tmp_path / "s.db") as book:
        results = run_of(kind, roles, book)(max_in_flight=1, max_consecutive_failures=2, resume="auto")
        assert [type(result.error) for result in results] == [
            *(type(None), LLMCallError, LLMCallError),
            *[PipelineCancelled] * (COUNT - 3),
        ]
    roles.unreachable = set()
    with Skillbook.open(tmp_path / "s.db") as book:
        results = run_of(kind, roles, book)(max_in_flight=1, resume="auto")
        assert [result.error for result in results] == [None] * COUNT
        assert len(book) == COUNT
    assert roles.reflected == questions()  # each once


@pytest.mark.parametrize("kind", KINDS)
def test_every_epoch_of_a_shuffled_run_has_an_order_of_its_own(kind: str) -> None:
    roles = Roles()
    run_of(kind, roles, Skillbook())(epochs=3, shuffle=7, max_in_flight=1)
    orders = [roles.reflected[start : start + COUNT] for start in range(0, 3 * COUNT, COUNT)]
    assert [sorted(order) for order in orders] == [questions()] * 3
    assert len({tuple(order) for order in orders}) == 3
    again = Roles()
    run_of(kind, again, Skillbook())(epochs=3, shuffle=7, max_in_flight=1)
    assert again.reflected == roles.reflected
