"""Runs whose model cannot be reached stop after some failures in a row; a resumed run pays only for what is left."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.environments import SimpleEnvironment
from ace.outputs import ReflectorOutput, SkillManagerOutput
from ace.pipeline import CancellationToken, PipelineCancelled
from ace.protocols import LLMCallError, UnusableAnswerError
from ace.protocols.observers import Event, RunEnded, observing
from ace.runners import ACE, RecordedTrace, TraceAnalyser, unfinished_runs
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer

COUNT = 12


def traces() -> list[RecordedTrace]:
    records = [
        {"question": f"What is the secret of thing{n}?", "ground_truth": f"value-of-thing{n}"} for n in range(COUNT)
    ]
    return [RecordedTrace(record, f"a.jsonl#{n}") for n, record in enumerate(records)]


class Failing:
    """A script that answers what `fails` does not pick with the status."""

    def __init__(self, status: int = 503) -> None:
        self.status = status
        self.things: set[int] = set()
        self.roles: set[str] = set()

    def __call__(self, request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        about = {thing for thing in range(COUNT) if f"the secret of thing{thing}?" in request.text}
        if about & self.things and (not self.roles or request.role in self.roles):
            return HttpError(self.status)
        return secrets_world.answer(request)


def stopped_by(events: list[Event]) -> list[str]:
    return [event.stopped_by for event in events if isinstance(event, RunEnded)]


@pytest.mark.parametrize("limit", [1, 3, 5])
def test_a_run_stops_after_so_many_failures_in_a_row(
    limit: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Failing()
    script.things = set(range(4, COUNT))
    seen: list[Event] = []
    with ScriptedServer(script) as server, observing(seen.append):
        client = client_for(server, max_retries=0)
        runner = TraceAnalyser.from_client(client, prove=False, skillbook_path=tmp_path / "s.db")
        results = runner.run(traces(), max_in_flight=1, run_id="monday", max_consecutive_failures=limit)
        kinds = [type(result.error) for result in results]
        assert kinds == [type(None)] * 4 + [LLMCallError] * limit + [PipelineCancelled] * (COUNT - 4 - limit)
        assert stopped_by(seen) == ["server_failures"]
        assert f"for {limit} samples in a row" in caplog.text and "run_id='monday', resume=True" in caplog.text
        [run] = unfinished_runs(runner.skillbook)
        assert (run.run_id, run.learned, run.failed) == ("monday", 4, limit)
        script.things = set()
        answered = len(server.answered)
        again = TraceAnalyser.from_client(client, prove=False, skillbook_path=tmp_path / "s.db")
        assert [result.error for result in again.run(traces(), resume=True)] == [None] * COUNT
        assert len(server.answered) == answered + 2 * (COUNT - 4)
        assert unfinished_runs(again.skillbook) == []
        # `hash@a.jsonl` looks like an e-mail address, and is none.
        assert again.skillbook.skills()[0].sources[0].trace_id.endswith("@a.jsonl#0")
        assert runner.failures[0].trace_id.endswith("@a.jsonl#4")


def test_failures_that_are_not_in_a_row_do_not_stop_a_run(tmp_path: Path) -> None:
    script = Failing()
    script.things = {1, 3, 5, 7, 9, 11}
    seen: list[Event] = []
    with ScriptedServer(script) as server, observing(seen.append):
        runner = TraceAnalyser.from_client(
            client_for(server, max_retries=0), prove=False, skillbook_path=tmp_path / "s.db"
        )
        runner.run(traces(), max_in_flight=1, max_consecutive_failures=2)
    assert stopped_by(seen) == [""]
    [run] = unfinished_runs(runner.skillbook)
    assert (run.learned, run.failed) == (6, 6)


@pytest.mark.parametrize(
    "answered",
    [UnusableAnswerError("no JSON", raw_answers=["?"], role="Reflector"), LLMCallError("too long", status_code=413)],
    ids=["unusable", "refused"],
)
def test_a_failed_sample_whose_model_answered_ends_the_row(answered: Exception) -> None:
    class Reflector:
        calls = 0

        def reflect(self, **kwargs: Any) -> ReflectorOutput:
            self.calls += 1
            raise answered if self.calls % 2 == 0 else LLMCallError("unreachable")

    class SkillManager:
        def update_skills(self, **kwargs: Any) -> SkillManagerOutput:
            raise AssertionError("no sample gets this far")

    runner = TraceAnalyser.from_roles(reflector=Reflector(), skill_manager=SkillManager())
    results = runner.run(traces(), max_in_flight=1, max_consecutive_failures=2)
    assert not any(isinstance(result.error, PipelineCancelled) for result in results)


def test_a_request_that_the_server_refuses_says_nothing_about_the_next_one() -> None:
    script = Failing(400)
    script.things = set(range(COUNT))
    seen: list[Event] = []
    with ScriptedServer(script) as server, observing(seen.append):
        runner = TraceAnalyser.from_client(client_for(server), prove=False)
        runner.run(traces(), max_in_flight=1, max_consecutive_failures=1)
        assert len(server.requests) == COUNT
    assert stopped_by(seen) == [""]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_stops_an_agent_at_once(status: int, tmp_path: Path) -> None:
    script = Failing(status)
    script.things, script.roles = set(range(COUNT)), {"reflector"}
    samples = secrets_world.samples(COUNT)
    seen: list[Event] = []
    with ScriptedServer(script) as server, observing(seen.append):

        def runner() -> ACE:
            return ACE.from_client(
                client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=tmp_path / "s.db"
            )

        runner().run(samples, max_in_flight=1)
        assert stopped_by(seen) == ["authentication"]
        assert [request.role for request in server.requests] == ["agent", "reflector"]
        script.things = set()
        results = runner().run(samples, max_in_flight=1, resume=True)
        assert [result.error for result in results] == [None] * COUNT
        # What the agent had answered was paid for: it is not asked again.
        assert [len(server.by_role(role)) for role in ("agent", "skill_manager")] == [COUNT, COUNT]
        assert len([request for request in server.answered if request.role == "reflector"]) == COUNT


def test_an_answer_counts_although_the_skillbook_has_changed_since(tmp_path: Path) -> None:
    """The agent's prompt holds the whole skillbook, which is another one when the run is resumed."""
    script = Failing()
    script.things, script.roles = {0, 1, 2, 5}, {"reflector", "skill_manager"}
    samples = secrets_world.samples(COUNT)
    with ScriptedServer(script) as server:

        def runner() -> ACE:
            client = client_for(server, max_retries=0)
            return ACE.from_client(
                client, prove=False, environment=SimpleEnvironment(), skillbook_path=tmp_path / "s.db"
            )

        runner().run(samples, max_in_flight=1)
        script.things = set()
        runner().run(samples, max_in_flight=1, resume=True)
        answered = [request.role for request in server.answered]
        assert [answered.count(role) for role in ("agent", "reflector", "skill_manager")] == [COUNT] * 3
    with Skillbook.open(tmp_path / "s.db") as book:
        assert len(book) == COUNT


def test_another_model_is_asked_although_the_first_one_has_answered(tmp_path: Path) -> None:
    script = Failing()
    script.things, script.roles = {0}, {"skill_manager"}
    with ScriptedServer(script) as server:

        def run(model: str) -> list[BaseException | None]:
            client = client_for(server, max_retries=0, model=model)
            runner = TraceAnalyser.from_client(client, prove=False, skillbook_path=tmp_path / "s.db")
            return [result.error for result in runner.run(traces()[:1], resume=True)]

        assert [type(error) for error in run("openai/first")] == [LLMCallError]
        script.things = set()
        assert run("openai/second") == [None]
        assert [(request.role, request.model) for request in server.answered] == [
            ("reflector", "first"),
            ("reflector", "second"),
            ("skill_manager", "second"),
        ]


def test_only_the_role_whose_answer_was_unusable_is_asked_anew(tmp_path: Path) -> None:
    broken = [True]

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if broken[0] and request.role == "skill_manager":
            return "no JSON"
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:

        def run() -> list[BaseException | None]:
            client = client_for(server, validation_retries=0)
            runner = TraceAnalyser.from_client(client, prove=False, skillbook_path=tmp_path / "s.db")
            return [result.error for result in runner.run(traces()[:2], resume=True)]

        assert all(run())
        broken[0] = False
        asked = len(server.by_role("skill_manager"))
        assert run() == [None, None]
        assert len(server.by_role("reflector")) == 2
        assert len(server.by_role("skill_manager")) == asked + 2


def test_a_caller_who_cancels_is_not_told_of_an_outage(tmp_path: Path) -> None:
    script = Failing()
    script.things = set(range(COUNT))
    token = CancellationToken()
    asked = threading.Event()

    def cancelling(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        token.cancel()
        asked.set()
        return script(request)

    seen: list[Event] = []
    with ScriptedServer(cancelling) as server, observing(seen.append):
        runner = TraceAnalyser.from_client(
            client_for(server, max_retries=0), prove=False, skillbook_path=tmp_path / "s.db"
        )
        runner.run(traces(), max_in_flight=1, cancel_token=token, max_consecutive_failures=1)
    assert asked.is_set() and stopped_by(seen) == ["cancelled"]


@pytest.mark.parametrize("limit", [0, -1, True, "5"])
def test_a_limit_of_failures_is_a_number_from_1(limit: Any) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False)
        with pytest.raises((TypeError, ValueError), match="max_consecutive_failures"):
            runner.run(traces(), max_consecutive_failures=limit)
