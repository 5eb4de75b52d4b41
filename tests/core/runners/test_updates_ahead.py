"""Updates that are requested while an earlier sample is still in the lane."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ace.outputs import ReflectorOutput, SkillManagerOutput
from ace.pipeline import CancellationToken
from ace.protocols.observers import Event, ModelCalled, RunEnded, SampleEnded, observing
from ace.roles import Reflector, SkillManager
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, HttpError, Reply, Script, ScriptedRequest, ScriptedServer

COUNT = 12
START = "Begin"


def traces(count: int = COUNT) -> list[dict[str, str]]:
    return [{"question": f"Do job {number}.", "answer": "Done.", "trace_id": f"t{number}"} for number in range(count)]


def job_of(request: ScriptedRequest) -> int:
    return int(re.findall(r"job (\d+)\.", request.text)[-1])


def lesson(number: int) -> str:
    """A lesson that has no word in common with those of other jobs."""
    return f"Alpha{number} beta{number} gamma{number} delta{number}."


def reflection(number: int) -> dict[str, Any]:
    texts = dict.fromkeys(("reasoning", "error_identification", "root_cause_analysis", "correct_approach"), "r")
    return {**texts, "key_insight": lesson(number), "extracted_learnings": [{"learning": lesson(number)}]}


def operations(*found: Mapping[str, Any]) -> dict[str, Any]:
    return {"reasoning": "", "operations": list(found)}


def adds_a_lesson(request: ScriptedRequest) -> dict[str, Any]:
    return operations({"type": "ADD", "section": "jobs", "content": lesson(job_of(request))})


def extends_the_skill(request: ScriptedRequest) -> dict[str, Any]:
    """Append the number of the job to the text of the only skill."""
    text = re.findall(rf"\[jobs-00001\] ({START}[ \d]*)", request.text)[-1]
    return operations({"type": "UPDATE", "skill_id": "jobs-00001", "content": f"{text} {job_of(request)}"})


def repeats_a_rule(request: ScriptedRequest) -> dict[str, Any]:
    """Add the rule unless the skillbook in the prompt has it."""
    rule = "Check the units of every number before you answer."
    known = re.findall(rf"\[(jobs-\d+)\] {rule}", request.text)
    if known:
        return operations({"type": "TAG", "skill_id": known[-1], "metadata": {"helpful": 1}})
    return operations({"type": "ADD", "section": "jobs", "content": rule})


class Model:
    """A script that notes how many requests to the skill manager are open at once.

    Args:
        update: Answers the skill manager.
        together: The first requests to the skill manager are answered when so many of them are there.
    """

    def __init__(self, update: Script, *, together: int = 1) -> None:
        self._update = update
        self._barrier = threading.Barrier(together)
        self._lock = threading.Lock()
        self._left = together
        self._open = 0
        self.most = 0
        self.asked: Counter[int] = Counter()

    def __call__(self, request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        number = job_of(request)
        if request.role == "reflector":
            return Answer(reflection(number))
        with self._lock:
            self.asked[number] += 1
            self._open += 1
            self.most = max(self.most, self._open)
            self._left -= 1
            waits = self._left >= 0
        if waits:
            self._barrier.wait(60)
        with self._lock:
            self._open -= 1
        answer = self._update(request)
        return Answer(answer, delay=0.01) if isinstance(answer, Mapping) else answer


def opened(path: Path | None) -> Skillbook:
    def clock() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    return Skillbook(clock=clock) if path is None else Skillbook.open(path, clock=clock)


def analyser(server: ScriptedServer, book: Skillbook) -> TraceAnalyser:
    client = client_for(server, max_retries=0)
    return TraceAnalyser.from_roles(
        reflector=Reflector(client), skill_manager=SkillManager(client), skillbook=book, unproven="keep"
    )


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_lessons_that_differ_give_the_book_of_a_serial_run(tmp_path: Path, is_stored: bool, is_async: bool) -> None:
    books = []
    for workers in (1, 4):
        model = Model(adds_a_lesson, together=workers)
        book = opened(tmp_path / f"{workers}.db" if is_stored else None)
        with ScriptedServer(model) as server:
            runner = analyser(server, book)
            if is_async:
                results = asyncio.run(runner.arun(traces(), workers=workers, run_id="r"))
            else:
                results = runner.run(traces(), workers=workers, run_id="r")
        assert [result.error for result in results] == [None] * COUNT
        assert model.most == workers
        assert set(model.asked.values()) == {1}
        books.append(book)
    serial, ahead = books
    assert [skill.content for skill in ahead] == [lesson(number) for number in range(COUNT)]
    assert ahead.dumps() == serial.dumps()
    if is_stored:
        assert [entry.events for entry in ahead.history()] == [entry.events for entry in serial.history()]
        assert [entry.key for entry in ahead.history()] == [entry.key for entry in serial.history()]
    sources = [skill.sources[0] for skill in ahead]
    assert [source.sample_question for source in sources] == [f"Do job {number}." for number in range(COUNT)]
    assert [source.step for source in sources] == list(range(1, COUNT + 1))


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_operation_on_a_skill_that_has_changed_is_requested_again(tmp_path: Path, is_stored: bool) -> None:
    model = Model(extends_the_skill, together=4)
    book = opened(tmp_path / "s.db" if is_stored else None)
    book.add_skill("jobs", START)
    with ScriptedServer(model) as server:
        results = analyser(server, book).run(traces(), workers=4)
    assert [result.error for result in results] == [None] * COUNT
    [skill] = book.skills()
    assert skill.content == " ".join([START, *map(str, range(COUNT))])
    assert model.most == 4
    assert set(model.asked.values()) <= {1, 2}
    assert 2 in model.asked.values(), "some were asked about together with the first one"


def test_a_near_duplicate_of_a_new_skill_is_requested_again() -> None:
    model = Model(repeats_a_rule, together=4)
    book = opened(None)
    with ScriptedServer(model) as server:
        analyser(server, book).run(traces(), workers=4)
    [skill] = book.skills()
    assert skill.helpful == COUNT - 1
    assert set(model.asked.values()) <= {1, 2}


def test_fewer_samples_are_asked_about_ahead_if_it_was_in_vain() -> None:
    count = 60
    model = Model(extends_the_skill, together=8)
    book = opened(None)
    book.add_skill("jobs", START)
    with ScriptedServer(model) as server:
        analyser(server, book).run(traces(count), workers=8)
    assert book.skills()[0].content == " ".join([START, *map(str, range(count))])
    later = [model.asked[number] for number in range(20, count)]
    assert sum(later) <= 1.5 * len(later)


@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"workers": 8, "max_in_flight": 1}])
def test_without_workers_one_update_is_requested_at_a_time(options: dict[str, Any]) -> None:
    model = Model(adds_a_lesson)
    with ScriptedServer(model) as server:
        analyser(server, opened(None)).run(traces(), **options)
    assert model.most == 1
    assert set(model.asked.values()) == {1}


def test_only_the_sample_whose_update_failed_has_failed() -> None:
    def update(request: ScriptedRequest) -> Reply | dict[str, Any]:
        return HttpError(400, "refused") if job_of(request) in (2, 5) else adds_a_lesson(request)

    book = opened(None)
    with ScriptedServer(Model(update, together=4)) as server:
        results = analyser(server, book).run(traces(), workers=4)
    assert [result.index for result in results if result.error is not None] == [2, 5]
    assert {result.failed_at for result in results} == {None, "UpdateStep"}
    assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT) if number not in (2, 5)]


def test_calls_ahead_belong_to_their_samples_and_to_the_run() -> None:
    events: list[Event] = []
    with ScriptedServer(Model(adds_a_lesson, together=4)) as server, observing(events.append):
        analyser(server, opened(None)).run(traces(), workers=4, run_id="monday")
    calls = [event for event in events if isinstance(event, ModelCalled)]
    assert Counter((call.run_id, call.role, call.trace_id) for call in calls) == {
        ("monday", role, f"t{number}"): 1 for role in ("Reflector", "SkillManager") for number in range(COUNT)
    }
    assert isinstance(events[-1], RunEnded)


def stopped_run(server: ScriptedServer, book: Skillbook, events: list[Event]) -> None:
    """Make a run that is cancelled when the first sample has been learned, with requests ahead of the next ones."""
    token = CancellationToken()

    def stop(event: Event) -> None:
        events.append(event)
        if isinstance(event, SampleEnded):
            token.cancel()

    with observing(stop):
        analyser(server, book).run(traces(), workers=4, run_id="r", cancel_token=token)


def test_a_stopped_run_waits_for_its_calls_and_a_resumed_one_uses_them(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    events: list[Event] = []
    model = Model(adds_a_lesson, together=4)
    with ScriptedServer(model) as server:
        with opened(path) as book:
            stopped_run(server, book, events)
            assert len(book) == 1
        assert isinstance(events[-1], RunEnded)
        assert sum(isinstance(event, ModelCalled) for event in events) == len(server.answered)
        assert model.asked.total() >= 4
        with opened(path) as book:
            results = analyser(server, book).run(traces(), run_id="r", resume=True, workers=4)
            assert [result.error for result in results] == [None] * COUNT
            assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT)]
        assert len(server.answered) == 2 * COUNT
    assert set(model.asked.values()) == {1}


def test_a_stopped_run_ends_when_the_last_request_ahead_is_answered() -> None:
    events: list[Event] = []
    stopped = threading.Event()

    def update(request: ScriptedRequest) -> dict[str, Any]:
        if job_of(request):
            assert stopped.wait(60)
        return adds_a_lesson(request)

    def note(event: Event) -> None:
        events.append(event)
        if isinstance(event, SampleEnded):
            token.cancel()
            threading.Timer(0.3, stopped.set).start()

    token = CancellationToken()
    with ScriptedServer(Model(update, together=4)) as server:
        with observing(note):
            analyser(server, opened(None)).run(traces(), workers=4, cancel_token=token)
        assert stopped.is_set()
        assert isinstance(events[-1], RunEnded)
        calls = [event for event in events if isinstance(event, ModelCalled) and event.role == "SkillManager"]
        assert len(calls) == 4


@pytest.mark.parametrize("workers", [1, 4])
def test_a_recorded_proposal_for_an_older_book_is_requested_again_when_resumed(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "s.db"
    model = Model(extends_the_skill, together=4)
    with opened(path) as book:
        book.add_skill("jobs", START)
        with ScriptedServer(model) as server:
            stopped_run(server, book, [])
    assert set(model.asked.values()) == {1}
    ahead = [number for number in model.asked if number]
    assert len(ahead) >= 3  # more if another one was requested before the run was stopped
    with ScriptedServer(model) as server, opened(path) as book:
        analyser(server, book).run(traces(), run_id="r", resume=True, workers=workers)
        assert book.skills()[0].content == " ".join([START, *map(str, range(COUNT))])
    assert {model.asked[number] for number in ahead} == {2}
    assert max(model.asked.values()) == 2


class Managing:
    """A skill manager of a user, which notes how many calls it has at once."""

    def __init__(self, together: int) -> None:
        self._barrier = threading.Barrier(together)
        self._lock = threading.Lock()
        self._left = together
        self._open = 0
        self.most = 0

    def _enter(self) -> bool:
        with self._lock:
            self._open += 1
            self.most = max(self.most, self._open)
            self._left -= 1
            return self._left >= 0

    def _leave(self, reflection: ReflectorOutput) -> SkillManagerOutput:
        with self._lock:
            self._open -= 1
        operation = UpdateOperation("ADD", section="jobs", content=reflection.key_insight)
        return SkillManagerOutput(update=UpdateBatch("", [operation]))

    def update_skills(self, *, reflection: ReflectorOutput, **kwargs: Any) -> SkillManagerOutput:
        if self._enter():
            self._barrier.wait(60)
        return self._leave(reflection)


class ManagingWithoutModel(Managing):
    asks_model = False


class ManagingAsync(Managing):
    async def update_skills(self, *, reflection: ReflectorOutput, **kwargs: Any) -> SkillManagerOutput:  # type: ignore[override]
        if self._enter():
            await asyncio.to_thread(self._barrier.wait, 60)
        return self._leave(reflection)


class Reflecting:
    def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
        return ReflectorOutput.model_validate(reflection(int(re.findall(r"\d+", question)[0])))


@pytest.mark.parametrize(("manager", "most"), [(Managing, 4), (ManagingAsync, 4), (ManagingWithoutModel, 1)])
@pytest.mark.parametrize("is_async", [False, True])
def test_skill_managers_of_users_are_asked_ahead_too(manager: type[Managing], most: int, is_async: bool) -> None:
    managing = manager(most)
    book = opened(None)
    runner = TraceAnalyser.from_roles(reflector=Reflecting(), skill_manager=managing, skillbook=book, unproven="keep")
    if is_async:
        asyncio.run(runner.arun(traces(), workers=4))
    else:
        runner.run(traces(), workers=4)
    assert managing.most == most
    assert [skill.content for skill in book] == [lesson(number) for number in range(COUNT)]
