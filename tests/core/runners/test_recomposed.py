"""A runner over steps that the caller put together: what it learns is in its book, or an error says why not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.pipeline import Branch, Pipeline, StepProtocol
from ace.roles import Agent, Reflector, SkillManager
from ace.runners import ACE, ACERunner, TraceAnalyser
from ace.skillbook import Skillbook
from ace.steps import ReflectStep, UpdateStep, learning_tail
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedServer

Steps = Sequence[StepProtocol[ACEStepContext]]


class Roles:
    """Roles that are never asked, since the runner is refused."""

    def reflect(self, **kwargs: Any) -> Any:
        raise AssertionError("the run has started")

    update_skills = generate = reflect


def roles() -> Any:
    return Roles()


def with_skills(count: int) -> Skillbook:
    book = Skillbook()
    for number in range(count):
        book.add_skill("s", f"Skill {number}.")
    return book


def tail_into(book: Skillbook) -> Steps:
    return learning_tail(roles(), roles(), book)


@pytest.mark.filterwarnings("ignore:a lane inside the")
@pytest.mark.parametrize(
    "nested",
    [
        lambda steps: steps,
        lambda steps: [steps[0], Pipeline(steps[1:])],
        lambda steps: [*steps[:-1], Branch(Pipeline(steps[-1:]), Pipeline(steps[-1:]))],
    ],
    ids=["flat", "a nested pipeline", "a branch"],
)
def test_steps_that_write_another_book_are_refused(nested: Any) -> None:
    learned, own = with_skills(3), with_skills(1)
    with pytest.raises(ValueError, match=re.escape("ApplyStep holds a Skillbook(3 skills)")) as error:
        ACERunner(Pipeline(nested(tail_into(learned))), own)
    assert "ACERunner has Skillbook(1 skills)" in str(error.value)


class Note:
    """A step of the caller that writes a book, outside the lane."""

    requires = frozenset({"reflection"})
    provides: frozenset[str] = frozenset()

    def __init__(self, skillbook: Skillbook) -> None:
        self.skillbook = skillbook

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        return ctx


def test_only_the_step_with_another_book_is_named() -> None:
    own, other = with_skills(1), with_skills(2)
    with pytest.raises(ValueError, match="Note holds a Skillbook") as error:
        TraceAnalyser(Pipeline([*tail_into(own), Note(other)]), own)
    assert "ApplyStep" not in str(error.value)


def test_a_learning_pipeline_that_writes_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no step of TraceAnalyser writes its skillbook.*ReflectStep, UpdateStep"):
        TraceAnalyser(Pipeline([ReflectStep(roles()), UpdateStep(roles())]), Skillbook())


def test_a_pipeline_that_does_not_learn_needs_no_writer() -> None:
    class Shout:
        requires = provides = frozenset({"sample"})

        def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
            return ctx.replace(sample=ctx.sample.upper())

    assert ACERunner(Pipeline[ACEStepContext]([Shout()]), Skillbook()).failures == []


def test_a_step_of_the_caller_may_write_the_book() -> None:
    class Learner:
        requires = frozenset({"trace"})
        provides = frozenset({"reflection"})

        def __init__(self, target: Skillbook) -> None:
            self.target = target

        def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
            self.target.add_skill("s", str(ctx.trace))
            return ctx.replace(reflection=())

    book = Skillbook()
    TraceAnalyser(Pipeline[ACEStepContext]([Learner(book)]), book).run(["It is late."])
    assert [skill.content for skill in book.skills()] == ["It is late."]


@pytest.mark.parametrize("runner", [ACE, TraceAnalyser])
def test_build_steps_requires_the_book(runner: Any) -> None:
    given = {"reflector": roles(), "skill_manager": roles(), **({"agent": roles()} if runner is ACE else {})}
    with pytest.raises(TypeError, match=re.escape(f"{runner.__name__}.build_steps() missing 1 required keyword")):
        runner.build_steps(**given)
    book = Skillbook()
    steps = runner.build_steps(**given, skillbook=book)
    assert runner(Pipeline(steps), book).skillbook is book


def test_settings_of_the_pipeline_pass_through_the_factories(tmp_path: Path) -> None:
    class Watch:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def before_step(self, step_name: str, ctx: Any) -> None:
            self.seen.append(step_name)

        def after_step(self, step_name: str, ctx: Any) -> None: ...

    hook = Watch()
    with ScriptedServer(lambda request: HttpError(400)) as server:
        client = client_for(server)
        runner = ACE.from_roles(
            agent=Agent(client),
            reflector=Reflector(client),
            skill_manager=SkillManager(client),
            hooks=[hook],
            background_limit=7,
            failures_path=tmp_path / "kept" / "failures.jsonl",
        )
        runner.run(secrets_world.samples(1))
    assert list(runner.pipeline.hooks) == [hook] and hook.seen == ["AgentStep"]
    assert runner.pipeline.background_limit == 7
    assert "AgentStep" in (tmp_path / "kept" / "failures.jsonl").read_text()
    book = tmp_path / "other.json"
    Skillbook().save_to_file(book)
    runner.load(book)
    assert list(runner.pipeline.hooks) == [hook] and runner.pipeline.background_limit == 7
