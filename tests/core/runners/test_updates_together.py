"""Updates of several samples that are requested together (`reflections_per_call`)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace.context import ACEStepContext
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled, lane_queue
from ace.protocols.observers import Event, ModelCalled, SampleEnded, observing
from ace.providers import LiteLLMClient
from ace.roles import Reflector, SkillManager
from ace.roles.prompts import SKILL_MANAGER_PROMPT
from ace.runners import ACE, StepOptions, TraceAnalyser
from ace.skillbook import Skillbook
from ace.skillbook.sqlite_store import SqliteStore
from ace.steps import UpdateStep, learning_tail
from tests.core.runners.test_updates_ahead import (
    COUNT,
    START,
    Managing,
    ManagingWithoutModel,
    Reflecting,
    adds_a_lesson,
    extends_the_skill,
    job_of,
    lesson,
    opened,
    operations,
    reflection,
    repeats_a_rule,
    traces,
)
from tests.support.clients import client_for
from tests.support.learning_script import parts_of
from tests.support.scripted_server import Answer, HttpError, Reply, ScriptedRequest, ScriptedServer

N = 8
Update = Mapping[str, Any]


def jobs_of(request: ScriptedRequest) -> list[int]:
    """Return the jobs that a request about several reflections is about."""
    return [int(re.findall(r"job (\d+)\.", part)[-1]) for part in parts_of(request.text).values()]


class Part:
    """One of several reflections in a request; it looks to a script like a request of its own."""

    def __init__(self, text: str) -> None:
        self.text = text


class Model:
    """A script that answers for each reflection, and notes which jobs each request to the skill manager is about.

    Args:
        update: Answers for one reflection.
        change: Changes the updates of a request about several, or replaces the reply.
    """

    def __init__(
        self,
        update: Callable[[Any], Update],
        change: Callable[[list[dict[str, Any]], Sequence[int]], Reply | str | list[Any]] = lambda updates, jobs: (
            updates
        ),
    ) -> None:
        self._update = update
        self._change = change
        self.requests: list[tuple[int, ...]] = []

    @property
    def asked(self) -> Counter[int]:
        """How often each job was asked about."""
        return Counter(job for jobs in self.requests for job in jobs)

    def __call__(self, request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "reflector":
            return Answer(reflection(job_of(request)))
        if request.role == "skill_manager":
            self.requests.append((job_of(request),))
            return self._update(request)
        assert request.role == "skill_manager_together"
        parts: dict[int, Any] = {number: Part(text) for number, text in parts_of(request.text).items()}
        jobs = jobs_of(request)
        self.requests.append(tuple(jobs))
        changed = self._change([{"reflection": n, **self._update(part)} for n, part in parts.items()], jobs)
        return {"updates": changed} if isinstance(changed, list) else changed


def wait_until_waiting(count: int) -> None:
    """Wait, in a lane, until so many samples wait for it."""
    queue = lane_queue()
    while queue is not None and len(queue.waiting(count)) < count:
        time.sleep(0.002)


class Held(SkillManager):
    """A skill manager that begins when all other samples wait for the lane.

    Args:
        llm: The client.
        count: The number of samples.
    """

    def __init__(self, llm: LiteLLMClient, count: int) -> None:
        super().__init__(llm, max_retries=1)
        self._left = count - 1

    def _hold(self) -> None:
        wait_until_waiting(self._left)
        self._left = 0

    def update_skills(self, *args: Any, **kwargs: Any) -> SkillManagerOutput:
        self._hold()
        return super().update_skills(*args, **kwargs)

    def update_skills_together(self, *args: Any, **kwargs: Any) -> Mapping[int, SkillManagerOutput]:
        self._hold()
        return super().update_skills_together(*args, **kwargs)


def analyser(server: ScriptedServer, book: Skillbook, together: int = N, count: int = COUNT) -> TraceAnalyser:
    client = client_for(server, max_retries=0)
    return TraceAnalyser.from_roles(
        reflector=Reflector(client),
        skill_manager=Held(client, count),
        skillbook=book,
        reflections_per_call=together,
        unproven="keep",
    )


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_lessons_that_differ_give_the_book_of_separate_requests(
    tmp_path: Path, is_stored: bool, is_async: bool
) -> None:
    books = []
    for together in (1, N):
        model = Model(adds_a_lesson)
        book = opened(tmp_path / f"{together}.db" if is_stored else None)
        with ScriptedServer(model) as server:
            runner = analyser(server, book, together)
            results = asyncio.run(runner.arun(traces(), run_id="r")) if is_async else runner.run(traces(), run_id="r")
        assert [result.error for result in results] == [None] * COUNT
        assert set(model.asked.values()) == {1}
        assert len(model.requests) <= 3 if together == N else len(model.requests) == COUNT
        assert max(map(len, model.requests)) <= together
        books.append(book)
    separate, joint = books
    assert [skill.content for skill in joint] == [lesson(number) for number in range(COUNT)]
    assert joint.dumps() == separate.dumps()
    if is_stored:
        assert [entry.events for entry in joint.history()] == [entry.events for entry in separate.history()]
        assert [entry.key for entry in joint.history()] == [entry.key for entry in separate.history()]
    sources = [skill.sources[0] for skill in joint]
    assert [source.sample_question for source in sources] == [f"Do job {number}." for number in range(COUNT)]
    assert [source.trace_id for source in sources] == [f"t{number}" for number in range(COUNT)]
    assert [source.learning_text for source in sources] == [lesson(number) for number in range(COUNT)]


def test_several_workers_request_several_groups() -> None:
    model = Model(adds_a_lesson)
    book, count = opened(None), 48
    with ScriptedServer(model) as server:
        client = client_for(server, max_retries=0)
        results = TraceAnalyser.from_roles(
            reflector=Reflector(client),
            skill_manager=SkillManager(client),
            skillbook=book,
            reflections_per_call=4,
            unproven="keep",
        ).run(traces(count), workers=4)
    assert [result.error for result in results] == [None] * count
    assert [skill.content for skill in book] == [lesson(number) for number in range(count)]
    assert set(model.asked.values()) == {1}
    assert len(model.requests) < count
    assert max(map(len, model.requests)) <= 4


def test_the_prompt_contains_each_reflection_with_its_question_once() -> None:
    model = Model(adds_a_lesson)
    with ScriptedServer(model) as server:
        analyser(server, opened(None)).run(traces())
    jobs = max(model.requests, key=len)
    [request] = [prompt for prompt in server.by_role("skill_manager_together") if f"job {jobs[-1]}." in prompt.text]
    for number in jobs:
        assert request.text.count(f"Do job {number}.") == 1
        assert request.text.count(f'"key_insight": "{lesson(number)}"') == 1
    assert f"There are {len(jobs)} reflections" in request.text
    assert request.text.count("# Reflection\n") == 1
    rules = SKILL_MANAGER_PROMPT.partition("# Skillbook")[0].strip()
    assert request.messages[0]["content"].startswith(rules), "the rules are the same as with one reflection"


BAD_PART = 5


def without(updates: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [update for update in updates if update["reflection"] != number]


def changed_part(changes: Callable[[dict[str, Any], list[dict[str, Any]]], list[Any]]) -> Callable[..., list[Any]]:
    """Return a script for `Model` that changes what it says about one job."""

    def change(updates: list[dict[str, Any]], jobs: Sequence[int]) -> list[Any]:
        if BAD_PART not in jobs:
            return updates
        bad = updates[jobs.index(BAD_PART)]
        return without(updates, bad["reflection"]) + changes(bad, updates)

    return change


BAD_PARTS: dict[str, Callable[[dict[str, Any], list[dict[str, Any]]], list[Any]]] = {
    "missing": lambda bad, updates: [],
    "twice": lambda bad, updates: [bad, bad],
    "without a number": lambda bad, updates: [{name: bad[name] for name in ("reasoning", "operations")}],
    "number of no reflection": lambda bad, updates: [{**bad, "reflection": 99}],
    "no list": lambda bad, updates: [{**bad, "operations": "none"}],
    "no object": lambda bad, updates: ["nothing"],
    "unknown skill": lambda bad, updates: [{**bad, "operations": [{"type": "REMOVE", "skill_id": "jobs-00099"}]}],
    "no content": lambda bad, updates: [{**bad, "operations": [{"type": "ADD", "section": "jobs"}]}],
}


@pytest.mark.parametrize("name", BAD_PARTS)
def test_an_unusable_part_concerns_only_its_sample(tmp_path: Path, name: str) -> None:
    model = Model(adds_a_lesson, changed_part(BAD_PARTS[name]))
    book = opened(tmp_path / "s.db")
    with ScriptedServer(model) as server:
        results = analyser(server, book).run(traces())
    assert [result.error for result in results] == [None] * COUNT
    assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT)]
    assert [skill.sources[0].trace_id for skill in book] == [f"t{number}" for number in range(COUNT)]
    assert model.asked == {**dict.fromkeys(range(COUNT), 1), BAD_PART: 2}
    assert (BAD_PART,) in model.requests, "it is asked about alone"


@settings(max_examples=40)
@given(
    bad=st.dictionaries(st.integers(0, 19), st.sampled_from(sorted(BAD_PARTS))),
    count=st.integers(1, 20),
    together=st.integers(1, 16),
    workers=st.sampled_from([None, 3]),
)
def test_any_mixture_of_unusable_parts_gives_the_book_of_separate_requests(
    bad: dict[int, str], count: int, together: int, workers: int | None
) -> None:
    def change(updates: list[dict[str, Any]], jobs: Sequence[int]) -> list[Any]:
        changed: list[Any] = []
        for job, update in zip(jobs, updates, strict=True):
            changed += BAD_PARTS[bad[job]](update, updates) if job in bad else [update]
        return changed

    model, book = Model(adds_a_lesson, change), opened(None)
    with ScriptedServer(model) as server:
        results = analyser(server, book, together, count).run(traces(count), workers=workers)
    assert [result.error for result in results] == [None] * count
    assert [skill.content for skill in book] == [lesson(number) for number in range(count)]
    assert [skill.sources[0].trace_id for skill in book] == [f"t{number}" for number in range(count)]
    assert max(map(len, model.requests)) <= together
    alone = Counter(jobs[0] for jobs in model.requests if len(jobs) == 1)
    assert max(alone.values(), default=1) == 1
    assert all(alone[job] for job in bad if job < count), "an unusable part is asked about alone"


def test_only_the_operations_of_a_reflection_come_from_it() -> None:
    """An operation that the model gives for another reflection has the source of that one."""

    def swapped(updates: list[dict[str, Any]], jobs: Sequence[int]) -> list[Any]:
        return [{**update, "reflection": len(updates) - place} for place, update in enumerate(updates)]

    model = Model(adds_a_lesson, swapped)
    book = opened(None)
    with ScriptedServer(model) as server:
        analyser(server, book).run(traces())
    sources = [skill.sources[0].trace_id for skill in book]
    assert sources == [f"t{number}" for number in range(COUNT)]
    jobs = max(model.requests, key=len)
    found = {skill.sources[0].trace_id: skill.content for skill in book}
    assert [found[f"t{job}"] for job in jobs] == [lesson(job) for job in reversed(jobs)]


@pytest.mark.parametrize("reply", ["Nothing but prose.", HttpError(400, "the prompt is too long")])
def test_about_half_as_many_are_asked_about_if_no_part_is_usable(reply: Reply | str) -> None:
    def change(updates: list[dict[str, Any]], jobs: Sequence[int]) -> Reply | str | list[Any]:
        return reply if len(jobs) > 2 else updates

    model = Model(adds_a_lesson, change)
    book = opened(None)
    with ScriptedServer(model) as server:
        results = analyser(server, book).run(traces())
    assert [result.error for result in results] == [None] * COUNT
    assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT)]
    used = [jobs for jobs in model.requests if len(jobs) <= 2]
    assert Counter(job for jobs in used for job in jobs) == dict.fromkeys(range(COUNT), 1)
    assert 2 <= len(model.requests) - len(used) <= 6, "fewer are asked about after that"


@pytest.mark.parametrize("workers", [None, 4])
def test_only_the_sample_whose_update_was_refused_has_failed(workers: int | None) -> None:
    refused = (2, 5)

    def change(updates: list[dict[str, Any]], jobs: Sequence[int]) -> Reply | list[Any]:
        return HttpError(400, "refused") if set(refused) & set(jobs) else updates

    def update(request: Any) -> Any:
        return HttpError(400, "refused") if job_of(request) in refused else adds_a_lesson(request)

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "skill_manager_together" and set(refused) & set(jobs_of(request)):
            return HttpError(400, "refused")
        return model(request)

    model = Model(update)
    book = opened(None)
    with ScriptedServer(script) as server:
        client = client_for(server, max_retries=0)
        runner = TraceAnalyser.from_roles(
            reflector=Reflector(client),
            skill_manager=SkillManager(client),
            skillbook=book,
            reflections_per_call=N,
            unproven="keep",
        )
        results = runner.run(traces(), workers=workers)
    assert [result.index for result in results if result.error is not None] == [2, 5]
    assert {result.failed_at for result in results} == {None, "UpdateStep"}
    assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT) if number not in refused]


@pytest.mark.parametrize("workers", [None, 3])
def test_a_server_that_fails_once_costs_one_sample(workers: int | None) -> None:
    failed: list[Sequence[int]] = []

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        # The second request fails. Without workers, it is about several; with them, that depends on their speed.
        if request.role != "reflector" and model.requests and not failed:
            failed.append(jobs_of(request) if request.role == "skill_manager_together" else [job_of(request)])
            return HttpError(503, "overloaded")
        return model(request)

    model = Model(adds_a_lesson)
    book = opened(None)
    with ScriptedServer(script) as server:
        results = analyser(server, book).run(traces(), workers=workers)
    assert [result.index for result in results if result.error is not None] == [failed[0][0]]
    assert len(book) == COUNT - 1
    if workers is None:
        assert len(failed[0]) > 1


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_operation_on_a_skill_that_has_changed_is_requested_again(tmp_path: Path, is_stored: bool) -> None:
    model = Model(extends_the_skill)
    book = opened(tmp_path / "s.db" if is_stored else None)
    book.add_skill("jobs", START)
    with ScriptedServer(model) as server:
        results = analyser(server, book).run(traces())
    assert [result.error for result in results] == [None] * COUNT
    assert book.skills()[0].content == " ".join([START, *map(str, range(COUNT))])
    assert set(model.asked.values()) == {1, 2}


def test_a_rule_that_is_proposed_for_every_reflection_is_added_once() -> None:
    model = Model(repeats_a_rule)
    book = opened(None)
    with ScriptedServer(model) as server:
        analyser(server, book).run(traces())
    [skill] = book.skills()
    assert skill.helpful == COUNT - 1
    assert max(model.asked.values()) <= 2


@pytest.mark.parametrize("options", [{"max_in_flight": 1}, {"workers": 8, "max_in_flight": 1}])
def test_no_sample_is_waited_for(options: dict[str, Any]) -> None:
    model = Model(adds_a_lesson)
    book = opened(None)
    with ScriptedServer(model) as server:
        client = client_for(server, max_retries=0)
        TraceAnalyser.from_roles(
            reflector=Reflector(client),
            skill_manager=SkillManager(client),
            skillbook=book,
            reflections_per_call=N,
            unproven="keep",
        ).run(traces(), **options)
    assert model.requests == [(number,) for number in range(COUNT)]


def test_long_reflections_are_not_asked_about_together() -> None:
    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "reflector":
            return {**reflection(job_of(request)), "reasoning": "long " * 4000}
        return model(request)

    model = Model(adds_a_lesson)
    with ScriptedServer(script) as server:
        analyser(server, opened(None)).run(traces())
    assert max(map(len, model.requests)) == 2


def stopped_run(server: ScriptedServer, book: Skillbook, events: list[Event], workers: int | None) -> None:
    """Make a run that is cancelled when three samples have been learned."""
    token = CancellationToken()

    def stop(event: Event) -> None:
        events.append(event)
        if sum(isinstance(seen, SampleEnded) for seen in events) == 3:
            token.cancel()

    with observing(stop):
        analyser(server, book).run(traces(), workers=workers, run_id="r", cancel_token=token)


@pytest.mark.parametrize("workers", [None, 3])
@pytest.mark.parametrize("part", ["usable", "missing"])
def test_a_resumed_run_uses_what_was_answered_about_several(tmp_path: Path, part: str, workers: int | None) -> None:
    path = tmp_path / "s.db"
    model = Model(adds_a_lesson) if part == "usable" else Model(adds_a_lesson, changed_part(BAD_PARTS[part]))
    with ScriptedServer(model) as server:
        with opened(path) as book:
            stopped_run(server, book, [], workers)
            assert 3 <= len(book) < COUNT
        assert max(map(len, model.requests)) > 1
        with opened(path) as book:
            results = analyser(server, book, count=1).run(traces(), run_id="r", resume=True, workers=workers)
            assert [result.error for result in results] == [None] * COUNT
            assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT)]
            assert [skill.sources[0].trace_id for skill in book] == [f"t{number}" for number in range(COUNT)]
    is_twice = part == "missing" and any(BAD_PART in jobs and len(jobs) > 1 for jobs in model.requests)
    assert model.asked == {**dict.fromkeys(range(COUNT), 1), BAD_PART: 2 if is_twice else 1}


class Killed(Held):
    """A skill manager that has an answer about several samples recorded, and then neither divides nor uses it."""

    token: CancellationToken

    def update_skills_together(self, *args: Any, **kwargs: Any) -> Mapping[int, SkillManagerOutput]:
        super().update_skills_together(*args, **kwargs)
        self.token.cancel()
        raise PipelineCancelled("as if it had been killed here")


@pytest.mark.parametrize("options", [{"max_in_flight": 1}, {}, {"workers": 3}])
def test_an_answer_that_was_not_divided_yet_is_used_when_the_run_is_resumed(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """Even if its samples do not wait then."""
    path = tmp_path / "s.db"
    model = Model(adds_a_lesson)
    with ScriptedServer(model) as server:
        with opened(path) as book:
            client = client_for(server, max_retries=0)
            manager = Killed(client, COUNT)
            manager.token = CancellationToken()
            TraceAnalyser.from_roles(
                reflector=Reflector(client),
                skill_manager=manager,
                skillbook=book,
                reflections_per_call=N,
                unproven="keep",
            ).run(traces(), run_id="r", cancel_token=manager.token)
        [several] = [jobs for jobs in model.requests if len(jobs) > 1]
        with opened(path) as book:
            results = analyser(server, book, count=1).run(traces(), run_id="r", resume=True, **options)
            assert [result.error for result in results] == [None] * COUNT
            assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT)]
    assert len(several) > 1
    assert set(model.asked.values()) == {1}


class KilledAlone(Held):
    """A skill manager that has an answer about the first sample recorded, and then does not use it."""

    token: CancellationToken

    def update_skills(self, *args: Any, **kwargs: Any) -> SkillManagerOutput:
        super().update_skills(*args, **kwargs)
        self.token.cancel()
        raise PipelineCancelled("as if it had been killed here")


class WaitingForAll:
    """A step that holds the first sample in the lane until all others wait for it."""

    requires: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, count: int) -> None:
        self._left = count - 1

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        wait_until_waiting(self._left)
        self._left = 0
        return ctx


@pytest.mark.parametrize("count", [2, 4])
def test_others_asked_about_at_the_turn_of_one_with_a_recorded_answer_see_its_change_too(
    tmp_path: Path, count: int
) -> None:
    """They were asked about before it was committed, so an operation on the skill that it changes is outdated."""
    path = tmp_path / "s.db"
    model = Model(extends_the_skill)
    with ScriptedServer(model) as server:
        client = client_for(server, max_retries=0)
        manager = KilledAlone(client, 1)
        manager.token = CancellationToken()
        with opened(path) as book:
            book.add_skill("jobs", START)
            TraceAnalyser.from_roles(
                reflector=Reflector(client),
                skill_manager=manager,
                skillbook=book,
                reflections_per_call=N,
                unproven="keep",
            ).run(traces(1), run_id="r", cancel_token=manager.token)
        assert model.requests == [(0,)]
        with opened(path) as book:
            steps = TraceAnalyser.build_steps(
                reflector=Reflector(client),
                skill_manager=SkillManager(client),
                skillbook=book,
                reflections_per_call=N,
                unproven="keep",
            )
            place = next(place for place, step in enumerate(steps) if isinstance(step, UpdateStep))
            runner = TraceAnalyser(Pipeline([*steps[:place], WaitingForAll(count), *steps[place:]]), skillbook=book)
            results = runner.run(traces(count), run_id="r", resume=True)
            assert [result.error for result in results] == [None] * count
            assert book.skills()[0].content == " ".join([START, *map(str, range(count))])
    assert model.requests[1] == tuple(range(1, count))


def test_answers_about_several_are_forgotten_with_their_run(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with ScriptedServer(Model(adds_a_lesson)) as server, opened(path) as book:
        analyser(server, book).run(traces(), run_id="r")
    with closing(SqliteStore(path)) as store:
        assert any(json.loads(key)[4] == "SkillManager together" for key, _ in store.recorded_answers())
        store.forget_answers("r")
        assert not list(store.recorded_answers())


def test_a_call_about_several_belongs_to_the_first_of_them() -> None:
    events: list[Event] = []
    model = Model(adds_a_lesson)
    with ScriptedServer(model) as server, observing(events.append):
        analyser(server, opened(None)).run(traces(), run_id="monday")
    calls = [event for event in events if isinstance(event, ModelCalled) and event.role == "SkillManager"]
    assert Counter(call.trace_id for call in calls) == Counter(f"t{jobs[0]}" for jobs in model.requests)


@pytest.mark.parametrize(("number", "problem"), [(0, "at least 1"), (17, "at most 16"), ("8", "a whole number")])
def test_a_number_out_of_range_is_refused(number: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"reflections_per_call must be {problem}"):
        UpdateStep(ManagingWithoutModel(1), reflections_per_call=number)
    with pytest.raises(ValueError, match=f"reflections_per_call must be {problem}"):
        TraceAnalyser.from_roles(
            reflector=Reflecting(), skill_manager=ManagingWithoutModel(1), reflections_per_call=number, unproven="keep"
        )


def test_a_skill_manager_that_takes_one_reflection_only_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("must be an object with a method update_skills_together()")):
        UpdateStep(Managing(1), reflections_per_call=2)
    assert UpdateStep(Managing(1)).reflections_per_call == 1
    assert UpdateStep(ManagingWithoutModel(1), reflections_per_call=2).reflections_per_call == 2


class ManagingTogether(Managing):
    """A skill manager of a user that notes how many reflections it is told."""

    def __init__(self) -> None:
        super().__init__(1)
        self.numbers: list[int] = []
        self._is_first = True

    def hold(self) -> None:
        """Make the first request wait until several samples wait behind it. A later one may be the last of all."""
        if self._is_first:
            self._is_first = False
            wait_until_waiting(4)

    def update_skills(self, **kwargs: Any) -> SkillManagerOutput:
        self.hold()
        return super().update_skills(**kwargs)

    def update_skills_together(self, *, reflections: Sequence[ReflectorOutput], **kwargs: Any) -> dict[int, Any]:
        self.hold()
        self.numbers.append(len(reflections))
        time.sleep(0.05)
        return {n: self._leave(output) for n, output in enumerate(reflections, start=1)}


class ManagingTogetherWrongly(ManagingTogether):
    def update_skills_together(self, **kwargs: Any) -> Any:
        self.hold()
        return {1: operations()}


@pytest.mark.parametrize("is_async", [False, True])
def test_skill_managers_of_users_are_asked_about_several_too(is_async: bool) -> None:
    managing, book, count = ManagingTogether(), opened(None), 40
    runner = TraceAnalyser.from_roles(
        reflector=Reflecting(), skill_manager=managing, skillbook=book, reflections_per_call=4, unproven="keep"
    )
    if is_async:
        asyncio.run(runner.arun(traces(count)))
    else:
        runner.run(traces(count))
    assert max(managing.numbers) == 4
    assert [skill.content for skill in book] == [lesson(number) for number in range(count)]


def test_what_a_skill_manager_of_a_user_returns_is_checked() -> None:
    runner = TraceAnalyser.from_roles(
        reflector=Reflecting(), skill_manager=ManagingTogetherWrongly(), reflections_per_call=4, unproven="keep"
    )
    results = runner.run(traces(40))
    problems = {str(result.error) for result in results if result.error is not None}
    [problem] = problems
    assert "update_skills_together() returned a dict" in problem
    assert "it must return a SkillManagerOutput" in problem


class Answering:
    def generate(self, **kwargs: Any) -> AgentOutput:
        return AgentOutput(reasoning="", final_answer="")


def test_every_runner_takes_the_option() -> None:
    options: StepOptions = {"reflections_per_call": 3}
    manager, book = ManagingTogether(), Skillbook()
    looking_back = TraceAnalyser.build_steps(reflector=Reflecting(), skill_manager=manager, skillbook=book, **options)
    answering = ACE.build_steps(
        agent=Answering(), reflector=Reflecting(), skill_manager=manager, skillbook=book, **options
    )
    for steps in (
        looking_back,
        answering,
        learning_tail(Reflecting(), manager, book, reflections_per_call=3, unproven="keep"),
    ):
        [step] = [step for step in steps if isinstance(step, UpdateStep)]
        assert step.reflections_per_call == 3
