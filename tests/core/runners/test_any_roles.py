"""Roles of other people: every shape in every place works, or is named with what it returned and what was expected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.deduplication import DeduplicationManager
from ace.environments import EnvironmentResult, Sample
from ace.evaluation import Evaluator
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.pipeline import Pipeline, SampleResult, StepProtocol
from ace.protocols import DeduplicationConfig, RoleError
from ace.runners import ACE, ACELiteLLM
from ace.skillbook import Skillbook
from ace.steps import AgentStep, DeduplicateStep, EvaluateStep, learning_tail
from ace.updates import UpdateBatch, UpdateOperation

METHODS = {
    "agent": "generate",
    "environment": "evaluate",
    "reflector": "reflect",
    "skill_manager": "update_skills",
}
STEPS = {
    "agent": "AgentStep",
    "environment": "EvaluateStep",
    "reflector": "ReflectStep",
    "skill_manager": "UpdateStep",
}
KEYWORDS = {
    "agent": {"question", "context", "skillbook", "sample"},
    "environment": {"sample", "agent_output"},
    "reflector": {"question", "agent_output", "skillbook", "ground_truth", "feedback", "trace", "cases"},
    "skill_manager": {"reflection", "skillbook", "question_context", "progress"},
}
EXPECTED = {
    "agent": "an AgentOutput",
    "environment": "an EnvironmentResult",
    "reflector": "a ReflectorOutput",
    "skill_manager": "a SkillManagerOutput",
}


def good_output(role: str, given: Mapping[str, Any]) -> object:
    if role == "agent":
        return AgentOutput(reasoning="", final_answer=given["question"].upper())
    if role == "environment":
        return EnvironmentResult("fine", metrics={"correct": 1.0})
    if role == "reflector":
        return ReflectorOutput(reasoning="r", correct_approach="a", key_insight=f"Learned: {given['question']}")
    operation = UpdateOperation("ADD", section="all", content=given["reflection"].key_insight)
    return SkillManagerOutput(update=UpdateBatch("", [operation]))


def role_of(role: str, shape: str) -> Any:
    """Return a role whose one method has a shape; it takes its arguments by keyword only."""

    def plain(self: object, **given: Any) -> object:
        # The facade asks without a sample.
        assert set(given) - {"sample"} == KEYWORDS[role] - {"sample"} or set(given) == KEYWORDS[role]
        return good_output(role, given)

    async def awaitable(self: object, **given: Any) -> object:
        await asyncio.sleep(0)
        return plain(self, **given)

    def coroutine_from_plain(self: object, **given: Any) -> object:
        return awaitable(self, **given)

    def dict_instead(self: object, **given: Any) -> object:
        return {"reasoning": "", "final_answer": "Paris"}

    async def text_awaited(self: object, **given: Any) -> object:
        return "Paris"

    def nothing(self: object, **given: Any) -> None:
        return None

    def other_names(self: object, what: str) -> object:
        return what

    shapes: dict[str, Callable[..., object]] = {
        "keyword-only": plain,
        "async": awaitable,
        "coroutine from plain": coroutine_from_plain,
        "dict": dict_instead,
        "text, async": text_awaited,
        "None": nothing,
        "other names": other_names,
    }
    return type(f"My{role.title().replace('_', '')}", (), {METHODS[role]: shapes[shape]})()


def roles_with(role: str, shape: str) -> dict[str, Any]:
    return {method: role_of(method, shape if method == role else "keyword-only") for method in METHODS}


GOOD = ["keyword-only", "async", "coroutine from plain"]
BAD = {
    "dict": "returned a dict, {'reasoning'",
    "text, async": "returned a str, 'Paris'",
    "None": "returned None",
    "other names": "cannot be called with the keywords",
}
SAMPLES = [Sample(f"question {number}") for number in range(5)]
Results = list[SampleResult[ACEStepContext]]


def in_run(roles: dict[str, Any], book: Skillbook) -> Results:
    return ACE.from_roles(**roles, skillbook=book).run(SAMPLES)


def in_run_with_workers(roles: dict[str, Any], book: Skillbook) -> Results:
    return ACE.from_roles(**roles, skillbook=book).run(SAMPLES, workers=4)


def in_run_async(roles: dict[str, Any], book: Skillbook) -> Results:
    tail = learning_tail(roles["reflector"], roles["skill_manager"], book)
    steps: list[StepProtocol[ACEStepContext]] = [AgentStep(roles["agent"]), EvaluateStep(roles["environment"]), *tail]
    contexts = [ACEStepContext(sample=sample, skillbook=SkillbookView(book)) for sample in SAMPLES]

    async def main() -> Results:
        with Pipeline[ACEStepContext](steps) as pipeline:
            results = await pipeline.run_async(contexts, workers=4)
            await asyncio.to_thread(pipeline.wait_for_background)
            return results

    return asyncio.run(main())


def in_run_where_a_loop_runs(roles: dict[str, Any], book: Skillbook) -> Results:
    async def main() -> Results:
        return in_run(roles, book)

    return asyncio.run(main())


def in_facade(roles: dict[str, Any], book: Skillbook) -> Results:
    environment = roles.pop("environment")
    return ACELiteLLM(no_client(), **roles, skillbook=book).learn(SAMPLES, environment)


def no_client() -> Any:
    """Return a client that must not be called: every role is given."""

    def complete(self: object, *args: object, **kwargs: object) -> object:
        raise AssertionError("every role is given")

    return type("NoClient", (), {"complete": complete, "complete_structured": complete})()


PLACES = [in_run, in_run_with_workers, in_run_async, in_run_where_a_loop_runs, in_facade]
Place = Callable[[dict[str, Any], Skillbook], Results]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("shape", GOOD)
@pytest.mark.parametrize("role", METHODS)
def test_every_shape_works_everywhere(role: str, shape: str, place: Place) -> None:
    book = Skillbook()
    results = place(roles_with(role, shape), book)
    assert [result.error for result in results] == [None] * len(SAMPLES)
    learned = sorted(skill.content for skill in book.skills())
    assert learned == [f"Learned: {sample.question}" for sample in SAMPLES]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("shape", BAD)
@pytest.mark.parametrize("role", METHODS)
def test_every_wrong_role_is_named_where_it_was_called(role: str, shape: str, place: Place) -> None:
    roles = roles_with(role, shape)
    owner = type(roles[role]).__name__
    for result in place(roles, Skillbook()):
        assert isinstance(result.error, RoleError)
        assert result.failed_at == STEPS[role]
        told = str(result.error)
        assert f"the {role.replace('_', ' ')}: {owner}.{METHODS[role]}()" in told
        assert BAD[shape] in told
        assert shape == "other names" or f"it must return {EXPECTED[role]}" in told


@pytest.mark.parametrize("shape", [*GOOD, *BAD])
def test_asking_the_facade(shape: str) -> None:
    ace = ACELiteLLM(no_client(), agent=role_of("agent", shape))
    if shape in GOOD:
        assert ace.ask("paris") == "PARIS"
    else:
        with pytest.raises(RoleError, match=r"the agent: MyAgent\.generate\(\)"):
            ace.ask("paris")


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("shape", [*GOOD, *BAD])
@pytest.mark.parametrize("role", ["agent", "environment"])
def test_evaluating(role: str, shape: str, workers: int) -> None:
    roles = roles_with(role, shape)
    found = Evaluator(roles["agent"], roles["environment"], workers=workers).evaluate(SAMPLES)
    if shape in GOOD:
        assert [answer.correct for answer in found.answers] == [1.0] * len(SAMPLES)
        assert [answer.error for answer in found.answers] == [None] * len(SAMPLES)
    else:
        for answer in found.answers:
            assert answer.error is not None
            assert answer.error.startswith(f"RoleError in {STEPS[role]}: the {role}: My{role.title()}")


def similar_skills() -> Skillbook:
    book = Skillbook()
    book.add_skill("maths", "Check the units of every number before you add them.")
    book.add_skill("maths", "Check the units of each number before you sum them up.")
    return book


class Consolidator:
    """A skill manager that keeps what is similar apart."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def answer(self, prompt: str) -> object:
        self.questions.append(prompt)
        return {"consolidation_operations": [{"type": "KEEP", "skill_ids": ["maths-00001", "maths-00002"]}]}


def consolidators() -> Iterator[tuple[str, Consolidator]]:
    class Plain(Consolidator):
        def consolidate_skills(self, *, prompt: str) -> object:
            return self.answer(prompt)

    class Async(Consolidator):
        async def consolidate_skills(self, *, prompt: str) -> object:
            return self.answer(prompt)

    class Texts(Consolidator):
        def consolidate_skills(self, *, prompt: str) -> object:
            self.answer(prompt)
            return "keep them"

    yield "", Plain()
    yield "", Async()
    yield "the skill manager: Texts.consolidate_skills() returned a str, 'keep them'; it must return a Mapping", Texts()


def test_consolidating() -> None:
    config = DeduplicationConfig(similarity_threshold=0.3, embedding_provider="lexical")
    for problem, consolidator in consolidators():
        given: Any = consolidator
        found = DeduplicationManager(config, given).consolidate(similar_skills())
        assert len(consolidator.questions) == 1
        assert problem in found.problem
        assert len(found.applied) == (0 if problem else 1)


@pytest.mark.parametrize("method", ["consolidate", "get_similarity_report"])
def test_a_deduplication_manager_of_other_people(method: str) -> None:
    asked: list[object] = []

    async def answer(self: object, *, skillbook: Skillbook) -> object:
        asked.append(skillbook)
        return "2 skills are alike"

    def answer_badly(self: object, *, skills: Skillbook) -> object:
        raise AssertionError("its parameter has another name")

    book = Skillbook()
    context = ACEStepContext(global_sample_index=1)
    good: Any = type("Good", (), {method: answer})()
    DeduplicateStep(good, book, interval=1)(context)
    assert asked == [book]
    bad: Any = type("Bad", (), {method: answer_badly})()
    with pytest.raises(RoleError, match=rf"the deduplication manager: Bad\.{method}\(\) cannot be called with"):
        DeduplicateStep(bad, book, interval=1)(context)


def test_a_report_that_is_no_text_is_named() -> None:
    class Counting:
        def get_similarity_report(self, skillbook: Skillbook) -> Any:
            return 3

    with pytest.raises(
        RoleError, match=r"Counting\.get_similarity_report\(\) returned an int, 3; it must return a str"
    ):
        DeduplicateStep(Counting(), Skillbook(), interval=1)(ACEStepContext(global_sample_index=1))


def test_an_agent_awaited_by_a_run_belongs_to_the_loop_of_the_caller() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    class Agent:
        async def generate(self, **given: Any) -> AgentOutput:
            loops.append(asyncio.get_running_loop())
            return AgentOutput(reasoning="", final_answer="4")

    async def main() -> None:
        step = AgentStep(Agent())
        contexts = [ACEStepContext(sample=sample, skillbook=SkillbookView(Skillbook())) for sample in SAMPLES]
        results = await Pipeline[ACEStepContext]([step]).run_async(contexts)
        assert [result.error for result in results] == [None] * len(SAMPLES)
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(main())


def test_a_class_that_overrides_the_plain_method_only_is_asked_by_it() -> None:
    class Twice:
        def generate(self, **given: Any) -> AgentOutput:
            return AgentOutput(reasoning="", final_answer="inherited")

        async def agenerate(self, **given: Any) -> AgentOutput:
            return AgentOutput(reasoning="", final_answer="inherited twin")

    class Overridden(Twice):
        def generate(self, **given: Any) -> AgentOutput:
            return AgentOutput(reasoning="", final_answer="own")

    def answer_of(agent: Any) -> str:
        async def main() -> str:
            context = ACEStepContext(sample=SAMPLES[0], skillbook=SkillbookView(Skillbook()))
            [result] = await Pipeline[ACEStepContext]([AgentStep(agent)]).run_async([context])
            assert result.output is not None
            assert result.output.agent_output is not None
            return result.output.agent_output.final_answer

        return asyncio.run(main())

    assert answer_of(Twice()) == "inherited twin"
    assert answer_of(Overridden()) == "own"


def test_an_error_inside_of_a_role_stays_what_it_is() -> None:
    class Agent:
        def generate(self, **given: Any) -> AgentOutput:
            raise TypeError("mine")

    [result] = ACE.from_roles(**{**roles_with("", ""), "agent": Agent()}).run(SAMPLES[:1])
    assert type(result.error) is TypeError
    assert str(result.error) == "mine"
