"""Questions of proofs that do not depend on each other are asked at once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.outputs import AgentOutput
from ace.protocols.errors import LLMCallError
from ace.protocols.observers import Event, SkillProven, observing
from ace.runners import TraceAnalyser
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from ace.steps import ApplyStep, ProveStep
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.clients import client_for
from tests.support.corrected_chats import CODE, PAYER, TIDE, Lesson, chat, chats, correcting_script, lesson_number
from tests.support.scripted_server import ScriptedServer


class Meeting:
    """An agent of a caller: the answers to some questions wait until so many of them are there at once."""

    def __init__(self, answer: Callable[[str, str], str]) -> None:
        self.asked: list[str] = []
        self.most = 0
        self._inside = 0
        self._answer = answer
        self._lock = threading.Lock()
        self.meet(1)

    def meet(self, size: int, *questions: str, alone: bool = False) -> None:
        """Let these questions, or all, wait for each other from now on; maybe only those with a single skill."""
        self._met = threading.Barrier(size)
        self._meeting = questions
        self._only_alone = alone

    def generate(self, *, question: str, skillbook: Any, **_: Any) -> AgentOutput:
        """Answer."""
        with self._lock:
            self.asked.append(question)
            self._inside += 1
            self.most = max(self.most, self._inside)
        skills = skillbook.skills()
        if (not self._meeting or question in self._meeting) and (not self._only_alone or len(skills) == 1):
            self._met.wait(timeout=60)
        with self._lock:
            self._inside -= 1
        texts = "\n".join(skill.content for skill in skills)
        return AgentOutput(reasoning="", final_answer=self._answer(question, texts))


class MeetingLater(Meeting):
    """The same, awaited."""

    async def agenerate(self, **arguments: Any) -> AgentOutput:
        """Answer, on a thread, because it waits for the others."""
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self.generate(**arguments))


def shelf(number: int) -> SkillCase:
    made = SkillCase.make(f"Shelf of ware {number}?", CaseCheck("contains", f"S-{number}"), expected=f"S-{number}")
    return replace(made, last_result="passed", last_run_at="2026-01-01T00:00:00+00:00")


UNLIKE = "Ware 9 is on the shelf S-9, unlike 0, 1, 2, 3, 4, 5 and 6."
"""A text that competes with the skill of each ware."""


def right(question: str, texts: str) -> str:
    return f"S-{question.rstrip('?').split()[-1]}"


def book_of(count: int) -> Skillbook:
    book = Skillbook()
    for number in range(count):
        skill = book.add_skill("x", f"Number {number} is at S-{number}.", cases=[shelf(number)])
        book.put_cases(skill.id, [shelf(number)])
    return book


def proven(step: ProveStep, book: Skillbook, operation: UpdateOperation, *, is_awaited: bool = False) -> ACEStepContext:
    ctx = ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=UpdateBatch("", [operation]))
    ctx = asyncio.run(step.__call_async__(ctx)) if is_awaited else step(ctx)
    ApplyStep(book)(ctx)
    return ctx


@pytest.mark.parametrize("kind", [Meeting, MeetingLater])
def test_the_cases_of_one_skill_are_asked_at_once(kind: type[Meeting]) -> None:
    book = book_of(6)
    agent = kind(right)
    agent.meet(3)
    step = ProveStep(agent, skillbook=book, workers=3)
    cases = (shelf(7), shelf(8), shelf(9))
    added = UpdateOperation("ADD", section="y", content="Wares 7, 8 and 9 are on S-7, S-8 and S-9.", cases=cases)
    ctx = proven(step, book, added, is_awaited=kind is MeetingLater)
    assert (agent.most, len(agent.asked)) == (3, 3)
    assert list(ctx.metadata["asked_cases"]) == [case.id for case in cases]


@pytest.mark.parametrize("kind", [Meeting, MeetingLater])
def test_regression_cases_are_asked_at_once_and_no_more_than_there_are_calls(kind: type[Meeting]) -> None:
    book = book_of(6)
    agent = kind(right)
    agent.meet(2, *(shelf(number).question for number in range(6)))
    step = ProveStep(agent, skillbook=book, calls_per_skill=6, regression_cases=6, workers=2)
    added = UpdateOperation("ADD", section="y", content=UNLIKE, cases=(shelf(9),))
    ctx = proven(step, book, added, is_awaited=kind is MeetingLater)
    assert agent.most == 2
    assert len(agent.asked) == 5, "alone, and four; one is left for the final test"
    assert len(ctx.metadata["asked_cases"]) == 5


@pytest.mark.parametrize("kind", [Meeting, MeetingLater])
def test_the_new_skills_of_one_sample_are_tried_alone_at_once(kind: type[Meeting]) -> None:
    added = [
        UpdateOperation("ADD", section="y", content=f"Ware {number} is on S-{number}.", cases=(shelf(number),))
        for number in range(3)
    ]
    found = []
    for workers in (1, 3):
        agent, book = kind(right), Skillbook()
        agent.meet(workers, alone=True)
        step = ProveStep(agent, skillbook=book, regression_cases=0, workers=workers)
        ctx = ACEStepContext(skillbook=SkillbookView(book), skill_manager_output=UpdateBatch("", added))
        ctx = asyncio.run(step.__call_async__(ctx)) if kind is MeetingLater else step(ctx)
        ApplyStep(book)(ctx)
        assert agent.most == workers
        found.append((Counter(agent.asked), [(skill.id, skill.content, skill.proof) for skill in book.skills()]))
    assert found[0] == found[1]


def test_the_cases_of_the_final_test_are_asked_at_once() -> None:
    book = book_of(0)
    agent = Meeting(right)
    step = ProveStep(agent, skillbook=book, regression_cases=0, workers=3)
    for number in range(7):
        text = f"Number {number} is at S-{number}."
        proven(step, book, UpdateOperation("ADD", section="x", content=text, cases=(shelf(number),)))
    book.add_skill("x", UNLIKE)
    assert agent.most == 1
    agent.meet(3, *(shelf(number).question for number in range(6)))
    before = len(agent.asked)
    step.end_run(7)
    assert (agent.most, len(agent.asked) - before) == (3, 7)
    assert {skill.proof for skill in book.skills() if skill.cases} == {"proven"}


class Slow:
    """An agent whose answers wait until enough questions are there at once, or it is clear that there will not be."""

    can_be_asked_again = True

    def __init__(self, enough: int) -> None:
        self.most = 0
        self._enough = enough
        self._inside = 0
        self._changed = threading.Condition()

    def generate(self, *, question: str, **_: Any) -> AgentOutput:
        """Answer."""
        with self._changed:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._enough, timeout=10)
            self._inside -= 1
        return AgentOutput(
            reasoning="", final_answer=f"S-{question.rstrip('?').removeprefix('What is the shelf of ware')}"
        )


def test_the_new_skills_of_different_samples_are_tried_at_once() -> None:
    lessons = [lesson_number(number) for number in range(1, 17)]
    agent, book = Slow(4), Skillbook()
    with ScriptedServer(correcting_script(*lessons)) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book, proof_agent=agent)
        runner.run(chats(lessons), workers=8)
        assert runner.failures == []
    assert agent.most >= 4
    assert [skill.proof for skill in book.skills()] == ["proven"] * 16


def test_an_error_of_the_model_ends_the_final_test_and_changes_nothing() -> None:
    book = book_of(0)
    is_down = False

    def answer(question: str, texts: str) -> str:
        if is_down and "ware 3" in question:
            raise LLMCallError("the model cannot be reached")
        return "S-0" if is_down else right(question, texts)

    step = ProveStep(Meeting(answer), skillbook=book, regression_cases=0, workers=3)
    for number in range(7):
        text = f"Number {number} is at S-{number}."
        proven(step, book, UpdateOperation("ADD", section="x", content=text, cases=(shelf(number),)))
    book.add_skill("x", UNLIKE)
    before, is_down = book.dumps(), True
    step.end_run(7)
    assert book.dumps() == before


BREAKS = Lesson(
    "When is low water in Emden?",
    "8:30 pm",
    "No, times of low water are told as minus 20h30.",
    "minus 20h30",
    "Tell times of water as minus 20h30.",
    "minus 20h30",
)


def learned(path: Path, traces: Sequence[Any], lessons: Sequence[Lesson], **options: Any) -> tuple[Any, ...]:
    script = correcting_script(*lessons, broken_by={TIDE.question: "minus 20h30"})
    events: list[Event] = []
    with ScriptedServer(script) as server, observing(events.append), Skillbook.open(path) as book:
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book)
        runner.run(traces, max_in_flight=1, run_id="monday", **options)
        assert runner.failures == []
        requests = Counter(json.dumps(request.body) for request in server.requests)
        runner.run(traces, max_in_flight=1, run_id="monday", resume=True, **options)
        assert Counter(json.dumps(request.body) for request in server.requests) == requests, "nothing is paid for twice"
        skills = [(skill.id, skill.content, skill.proof, skill.helpful) for skill in book.skills()]
        history = [(entry.author, len(entry.events), entry.skipped) for entry in book.history()]
    proofs = [
        (event.skill_id, event.passed, event.after, event.reason) for event in events if type(event) is SkillProven
    ]
    return skills, history, proofs, requests


def test_the_number_of_workers_changes_neither_the_book_nor_the_calls(tmp_path: Path) -> None:
    lessons = [TIDE, PAYER, CODE, BREAKS, *(lesson_number(number) for number in range(1, 6))]
    traces = [chat(TIDE, PAYER, CODE), *chats([BREAKS]), *chats(lessons[4:])]
    found = [learned(tmp_path / f"{workers}.db", traces, lessons, workers=workers) for workers in (1, 2, 4)]
    assert found[0] == found[1] == found[2]
    assert any(reason for *_, reason in found[0][2]), "one lesson is rejected"
