"""Observers are told of every step, in the background too, with its run and its trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ace.protocols.observers import Event, RunStarted, StepEnded, StepStarted, observing
from ace.runners import TraceAnalyser
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedServer

TAIL = ["ReflectStep", "TagStep", "UpdateStep", "ApplyStep"]


def learn(server: ScriptedServer, folder: Path) -> list[Event]:
    seen: list[Event] = []
    traces = [{"question": "What is the secret of thing1?", "ground_truth": "value-of-thing1", "trace_id": "t1"}]
    with observing(seen.append):
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=folder / "s.json")
        runner.run(traces)
        runner.save(folder / "copy.json")
        runner.load(folder / "copy.json")
        runner.run(traces)
    return seen


def test_each_step_begins_and_ends_also_after_a_load(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        seen = learn(server, tmp_path)
    runs = {event.run_id for event in seen if isinstance(event, RunStarted)}
    started = [event for event in seen if isinstance(event, StepStarted)]
    ended = [event for event in seen if isinstance(event, StepEnded)]
    assert len(runs) == 2
    assert {event.run_id for event in started} == runs == {event.run_id for event in ended}
    assert {event.trace_id for event in started} == {"t1"} == {event.trace_id for event in ended}
    for events in (started, ended):
        counts = Counter(event.step for event in events)
        assert [counts[name] for name in TAIL] == [2] * 4
    assert all(event.seconds > 0 and event.error is None for event in ended)


def test_a_step_that_fails_ends_with_its_error(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: "this is no JSON") as server:
        seen = learn(server, tmp_path)
    errors = [(event.step, type(event.error).__name__) for event in seen if isinstance(event, StepEnded)]
    assert errors == [("ReflectStep", "UnusableAnswerError")] * 2
