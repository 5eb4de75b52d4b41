"""Runs that are stopped and taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ace.calls import call_scope, current_call_scope
from ace.context import ACEStepContext
from ace.environments import SimpleEnvironment
from ace.pipeline import CancellationToken, PipelineCancelled, SampleResult
from ace.protocols import LLMClientLike, LLMResponse
from ace.protocols.observers import Event, ModelCalled, RunEnded, RunStarted, SampleEnded, observing
from ace.providers import LiteLLMConfig, wrap_with_instructor
from ace.runners import ACE, ACELiteLLM, RecordedTrace, TraceAnalyser, has_run, unfinished_runs
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.checkpoints import without_run
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

Result = SampleResult[ACEStepContext]


def noon() -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC)


def trace(number: int) -> RecordedTrace:
    record = {"question": f"What is the secret of thing{number}?", "ground_truth": f"value-of-thing{number}"}
    return RecordedTrace(record, f"a.jsonl#{number}")


def traces(count: int) -> list[RecordedTrace]:
    return [trace(number) for number in range(count)]


def analyser(server: ScriptedServer, path: Path, **options: Any) -> TraceAnalyser:
    book = Skillbook.open(path, clock=noon)
    return TraceAnalyser.from_client(client_for(server), prove=False, skillbook=book, **options)


def stopping(token: CancellationToken, after: int) -> Callable[[Event], None]:
    """Return an observer that stops a run when so many samples have ended well."""
    ended: list[Event] = []

    def observe(event: Event) -> None:
        if isinstance(event, SampleEnded) and event.error is None:
            ended.append(event)
            if len(ended) == after:
                token.cancel()

    return observe


def already(results: list[Result]) -> list[bool]:
    return [bool(result.output and result.output.metadata["already_learned"]) for result in results]


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        unbroken = analyser(server, tmp_path / "unbroken.db", checkpoint_dir=tmp_path / "c1", checkpoint_interval=3)
        unbroken.run(traces(8), workers=1)
        asked = len(server.requests)
        server.clear()
        token = CancellationToken()
        runner = analyser(server, tmp_path / "broken.db", checkpoint_dir=tmp_path / "c2", checkpoint_interval=3)
        with observing(stopping(token, 3)):
            first = runner.run(traces(8), workers=1, run_id="monday", cancel_token=token)
        learned = [result.error is None for result in first].count(True)
        assert 3 <= learned < 8
        assert all(isinstance(result.error, PipelineCancelled) for result in first[learned:])
        [unfinished] = unfinished_runs(runner.skillbook)
        assert (unfinished.run_id, unfinished.learned, unfinished.total) == ("monday", learned, 8)
        assert runner.failures == []

        told: list[Result] = []
        again = analyser(server, tmp_path / "broken.db", checkpoint_dir=tmp_path / "c2", checkpoint_interval=3)
        second = again.run(traces(8), run_id="monday", resume=True, on_sample_done=told.append)
        assert len(server.requests) == asked
    assert [result.sample for result in second] == traces(8)
    assert [result.error for result in second] == [None] * 8
    assert already(second) == [True] * learned + [False] * (8 - learned)
    assert len(told) == 8
    assert again.skillbook.dumps() == unbroken.skillbook.dumps()
    assert unfinished_runs(again.skillbook) == []
    names = {path.name for path in (tmp_path / "c1").iterdir()}
    for name in names:
        assert without_run(tmp_path / "c1" / name) == without_run(tmp_path / "c2" / name), name


def test_what_was_learned_is_known_again_by_the_trace_and_not_by_its_index(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        token = CancellationToken()
        with observing(stopping(token, 2)):
            analyser(server, tmp_path / "s.db").run(traces(4), workers=1, cancel_token=token)
        known = analyser(server, tmp_path / "s.db").skillbook.skills()
        runner = analyser(server, tmp_path / "s.db")
        mixed = [trace(9), *reversed(traces(4)), trace(9)]
        results = runner.run(mixed, resume=True)
        assert [len(server.by_role(role)) for role in ("reflector", "skill_manager")] == [6, 6]
    assert already(results).count(True) == len(known) and not results[0].error
    assert len(runner.skillbook) == 5
    assert [result.sample for result in results] == mixed


def test_epochs_are_counted_apart(tmp_path: Path) -> None:
    samples = secrets_world.samples(3)
    with ScriptedServer(secrets_world.answer) as server:

        def runner(name: str) -> ACE:
            book = Skillbook.open(tmp_path / name, clock=noon)
            return ACE.from_client(client_for(server), prove=False, environment=SimpleEnvironment(), skillbook=book)

        unbroken = runner("unbroken.db")
        unbroken.run(samples, epochs=3, max_in_flight=1)
        asked = len(server.requests)
        server.clear()
        token = CancellationToken()
        with observing(stopping(token, 4)):
            first = runner("broken.db").run(samples, epochs=3, max_in_flight=1, cancel_token=token)
        assert [result.error is None for result in first] == [True] * 4 + [False] * 5
        again = runner("broken.db")
        results = again.run(samples, epochs=3, max_in_flight=1, resume=True)
        assert len(server.requests) == asked
    assert already(results) == [True] * 4 + [False] * 5
    assert again.skillbook.dumps() == unbroken.skillbook.dumps()
    assert [skill.helpful for skill in again.skillbook.skills()] == [2, 2, 2]


def test_runs_that_cannot_be_resumed_are_named(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        on_json = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=tmp_path / "s.json")
        with pytest.raises(ValueError, match=r"ends in \.db"):
            on_json.run(traces(1), resume=True)
        on_json.run(traces(1), run_id="named")
        runner = analyser(server, tmp_path / "s.db")
        with pytest.raises(ValueError, match=r"no run 'tuesday'.*unfinished runs: none"):
            runner.run(traces(1), run_id="tuesday", resume=True)
        runner.run(traces(1), run_id="monday")
        with pytest.raises(ValueError, match="a run 'monday' already exists in this store"):
            runner.run(traces(1), run_id="monday")
        with pytest.raises(ValueError, match="run_id must be a string that is not empty"):
            runner.run(traces(1), run_id=" ")
        assert already(runner.run(traces(2), run_id="monday", resume=True)) == [True, False]
        # With nothing to resume, a run begins: it may have been killed before it noted anything.
        assert already(runner.run(traces(1), resume=True)) == [False]


def test_failed_samples_are_tried_again_and_tagged_once(tmp_path: Path) -> None:
    broken = [True]

    def script(request: ScriptedRequest) -> str | dict[str, Any]:
        if request.role == "skill_manager" and broken[0] and "the secret of thing1?" in request.text:
            return "no"
        answer = secrets_world.answer(request)
        if request.role == "reflector":
            answer["skill_tags"] = [{"id": "secrets-00001", "tag": "helpful"}]
        return answer

    with ScriptedServer(script) as server:
        runner = analyser(server, tmp_path / "s.db", checkpoint_dir=tmp_path)
        first = runner.run(traces(3), run_id="r")
        assert [result.failed_at for result in first] == [None, "UpdateStep", None]
        assert runner.skillbook.skills()[0].helpful == 2
        asked = len(server.requests)
        second = analyser(server, tmp_path / "s.db", checkpoint_dir=tmp_path).run(traces(3), run_id="r", resume=True)
        assert [result.failed_at for result in second] == [None, "UpdateStep", None]
        assert len(server.requests) > asked
        broken[0] = False
        again = analyser(server, tmp_path / "s.db", checkpoint_dir=tmp_path)
        assert already(again.run(traces(3), run_id="r", resume=True)) == [True, False, True]
    assert [skill.content[:20] for skill in again.skillbook.skills()] == [f"The secret of thing{n}" for n in (0, 2, 1)]
    assert again.skillbook.skills()[0].helpful == 2
    lines = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["index"] for line in lines] == [2, 2]


class ReflectsButDies:
    """A client that answers reflectors, and is gone when the skill manager asks."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        response: LLMResponse = self.inner.complete(prompt, **kwargs)
        return response

    def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
        if response_model.__name__ == "SkillManagerOutput":
            raise KeyboardInterrupt
        return self.inner.complete_structured(prompt, response_model, **kwargs)


@pytest.mark.parametrize("kind", ["litellm", "instructor", "instructor with tools", "somebody else's"])
def test_a_recorded_answer_is_not_asked_for_again(kind: str, tmp_path: Path) -> None:
    class Foreign(ReflectsButDies):
        def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
            from ace.calls.model_calls import CallScope, call_scope

            with call_scope(CallScope()):  # a client that knows nothing of recorded answers
                return self.inner.complete_structured(prompt, response_model, **kwargs)

    def client(server: ScriptedServer) -> Any:
        plain = client_for(server)
        if kind == "litellm":
            return plain
        if kind == "somebody else's":
            return Foreign(plain)
        return wrap_with_instructor(plain, mode="TOOLS" if "tools" in kind else "MD_JSON")

    with ScriptedServer(secrets_world.answer) as server:
        book = Skillbook.open(tmp_path / "s.db", clock=noon)
        dying = TraceAnalyser.from_client(ReflectsButDies(client(server)), prove=False, skillbook=book)
        [result] = dying.run(traces(1), run_id="r")
        assert isinstance(result.error, KeyboardInterrupt)
        assert len(server.requests) == 1
        seen: list[Event] = []
        # As if the process had been killed: nothing was noted of the failure.
        assert book.store is not None
        [row] = book.store.progress("r")
        book.store.note_progress(row.key, json.dumps({"attempt": 0}), row.at)
        runner = TraceAnalyser.from_client(client(server), prove=False, skillbook=book)
        with observing(seen.append):
            runner.run(traces(1), run_id="r", resume=True)
        assert [request.role for request in server.requests] == ["reflector", "skill_manager"]
    calls = [event for event in seen if isinstance(event, ModelCalled)]
    assert [call.recorded for call in calls] == [True, False]
    if kind != "somebody else's":
        assert [call.role for call in calls] == ["Reflector", "SkillManager"]
    assert len(runner.skillbook) == 1
    if kind == "litellm":
        assert calls[0].input_tokens == server.requests[0].input_tokens
        assert runner.pipeline.steps[0].reflector.llm.usage.calls == 1  # type: ignore[attr-defined]  # our own step


def test_observers_are_told_of_the_whole_run(tmp_path: Path) -> None:
    def script(request: ScriptedRequest) -> str | dict[str, Any]:
        return "no" if "thing1" in request.text else secrets_world.answer(request)

    seen: list[Event] = []
    with ScriptedServer(script) as server, observing(seen.append):
        analyser(server, tmp_path / "s.db").run(traces(3), run_id="r")
    names = [type(event).__name__ for event in seen]
    assert (names[0], names[-1]) == ("RunStarted", "RunEnded")
    assert seen[0] == RunStarted("r", "trace_analyser", 1, 3, False)
    assert isinstance(seen[-1], RunEnded) and (seen[-1].learned, seen[-1].failed, seen[-1].stopped_by) == (2, 1, "")
    ends = {event.trace_id.rpartition("#")[2]: event for event in seen if isinstance(event, SampleEnded)}
    assert {name: type(event.error).__name__ for name, event in ends.items()} == {
        "0": "NoneType",
        "1": "UnusableAnswerError",
        "2": "NoneType",
    }
    assert ends["1"].failed_at == "ReflectStep"
    assert {event.run_id for event in seen} == {"r"}
    assert names.count("SkillsChanged") == 2 and names.count("SampleStarted") == 3


def test_the_facade_hands_the_run_on(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        facade = ACELiteLLM(client_for(server), skillbook_path=tmp_path / "s.db")
        facade.learn_from_traces(traces(2), run_id="r")
        assert already(facade.learn_from_traces(traces(3), run_id="r", resume=True)) == [True, True, False]
        facade.learn(secrets_world.samples(1), run_id="live")
        with pytest.raises(ValueError, match="a run 'live' already exists in this store"):
            facade.learn(secrets_world.samples(1), run_id="live")


class WithoutRecord:
    """A client of somebody else: it knows nothing of records, and keeps one of ours in `client`."""

    def __init__(self, client: LLMClientLike) -> None:
        self.client = client

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        return self.client.complete(prompt, **kwargs)

    def complete_structured(self, prompt: str, response_model: Any, **kwargs: Any) -> Any:
        with call_scope(replace(current_call_scope(), answers=None)):
            return self.client.complete_structured(prompt, response_model, **kwargs)


@pytest.mark.parametrize("kind", ["litellm", "instructor", "own"])
def test_keys_do_not_get_into_the_record(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-do-not-show-me")

    def script(request: ScriptedRequest) -> dict[str, Any]:
        answer = secrets_world.answer(request)
        return {**answer, "reasoning": f"sk-do-not-show-me key-of-a-fallback {request.headers['authorization']}"}

    with ScriptedServer(script) as server:
        other = LiteLLMConfig("openai/other", api_base=server.api_base, api_key="key-of-a-fallback")
        client: LLMClientLike = client_for(server, fallbacks=[other])
        used = {"litellm": client, "instructor": wrap_with_instructor(client), "own": WithoutRecord(client)}[kind]
        runner = TraceAnalyser.from_client(used, prove=False, skillbook_path=tmp_path / "s.db")
        runner.run(traces(2))
    assert len(runner.skillbook) == 2
    runner.skillbook.close()
    data = (tmp_path / "s.db").read_bytes()
    assert b"[hidden: secret]" in data
    assert [key for key in (b"do-not-show", b"sk-scripted", b"key-of-a-fallback") if key in data] == []


def test_one_run_can_be_taken_up_again_and_again(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = analyser(server, tmp_path / "book.db")
        begun: list[bool] = []
        known: list[list[bool]] = []
        for count in (1, 2, 2):
            begun.append(has_run(runner.skillbook, "daily"))
            known.append(already(runner.run(traces(count), max_in_flight=1, run_id="daily", resume=begun[-1])))
        assert not has_run(runner.skillbook, "weekly")
    assert begun == [False, True, True]
    assert known == [[False], [True, False], [True, True]]
