"""Where `RRStep` can be used: in a step list, in the runners, in the background, several at once."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import Pipeline
from ace.protocols.observers import Event, ReflectionTurn, SubQuestionAnswered, observing
from ace.roles import SkillManager
from ace.rr import RRStep
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace.steps import ApplyStep, LoadTracesStep, TagStep, UpdateStep
from tests.support.clients import client_for
from tests.support.reflection_script import LOOK, TRACE, Explorer, is_turn, python, submit
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")


def test_a_step_of_a_list_of_ones_own(tmp_path: Path) -> None:
    book = Skillbook()
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE), encoding="utf-8")
    with ScriptedServer(Explorer()) as server:
        llm = client_for(server)
        steps: list[Any] = [
            LoadTracesStep(),
            RRStep(llm),
            TagStep(book),
            UpdateStep(SkillManager(llm)),
            ApplyStep(book),
        ]
        with Pipeline[ACEStepContext](steps) as pipeline:
            results = pipeline.run([ACEStepContext(sample=path, skillbook=SkillbookView(book))])
            assert results[0].error is None
    assert results[0].error is None
    assert [skill.content for skill in book.skills()] == ["Write the unit next to each number."]


def test_from_this_step_on_a_sample_is_in_the_background() -> None:
    may_answer = threading.Event()

    def wait(message: str) -> str:
        assert may_answer.wait(60)
        return LOOK

    with ScriptedServer(Explorer([wait, submit()])) as server:
        llm = client_for(server)
        runner = TraceAnalyser.from_roles(reflector=RRStep(llm), skill_manager=SkillManager(llm), prove=False)
        results = runner.run([TRACE], wait=False)
        assert runner.skillbook.skills() == []
        may_answer.set()
        runner.wait_for_background()
    assert results[0].error is None
    assert len(runner.skillbook.skills()) == 1


def test_eight_reflections_run_at_once() -> None:
    all_inside = threading.Barrier(8)

    def meet(request: ScriptedRequest) -> str:
        all_inside.wait(60)
        return "met"

    turns = [python("print(traces['question'])\nprint(ask_llm('Are all here?'))"), submit()]
    traces = [{**TRACE, "question": f"Question {number}"} for number in range(8)]
    with ScriptedServer(Explorer(turns, sub_answer=meet)) as server:
        llm = client_for(server)
        runner = TraceAnalyser.from_roles(reflector=RRStep(llm), skill_manager=SkillManager(llm), prove=False)
        results = runner.run(traces, workers=8)
        second = [request for request in server.requests if is_turn(request) and "[Iteration 2/" in request.text]
    assert [result.error for result in results] == [None] * 8
    assert sorted(request.messages[-1]["content"].splitlines()[2] for request in second) == [
        f"Question {number}" for number in range(8)
    ]


def test_observers_are_told_of_turns_and_questions(tmp_path: Path) -> None:
    events: list[Event] = []
    code = "print(ask_llm('Which unit?', mode='deep_dive'))"
    with ScriptedServer(Explorer([python(code), python("1 / 0"), submit()])) as server, observing(events.append):
        llm = client_for(server)
        runner = TraceAnalyser.from_roles(
            reflector=RRStep(llm), skill_manager=SkillManager(llm), prove=False, skillbook_path=tmp_path / "book.db"
        )
        runner.run([TRACE], run_id="monday")
    turns = [event for event in events if isinstance(event, ReflectionTurn)]
    (question,) = [event for event in events if isinstance(event, SubQuestionAnswered)]
    assert [turn.iteration for turn in turns] == [1, 2, 3]
    assert [turn.run_id for turn in turns] == ["monday"] * 3
    assert len({turn.trace_id for turn in turns} | {question.trace_id}) == 1 and question.trace_id
    assert turns[0].code_length == len(code) + 1 and turns[0].output_length == len("Nothing stands out.\n")
    assert "ZeroDivisionError" in turns[1].error and not turns[0].error
    assert (question.number, question.mode, question.characters) == (1, "deep_dive", len("Nothing stands out."))
    assert events.index(question) < events.index(turns[0])
