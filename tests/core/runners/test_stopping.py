"""What stops a run, what finishes then, and what is noted at once."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ace.calls.model_calls import note_model_call
from ace.environments import SimpleEnvironment
from ace.pipeline import CancellationToken, PipelineCancelled
from ace.protocols.llm import StructuredAnswer, Usage
from ace.protocols.observers import Event, ModelCalled, RunEnded, SampleEnded, observing
from ace.providers import LiteLLMClient
from ace.runners import ACE, TraceAnalyser, unfinished_runs
from ace.runners.spend import RunLimits
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import KEY, client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.support.subprocesses import run_python


def traces(count: int) -> list[dict[str, str]]:
    return [
        {"question": f"What is the secret of thing{n}?", "ground_truth": f"value-of-thing{n}", "trace_id": f"t{n}"}
        for n in range(count)
    ]


@pytest.mark.parametrize(("recorded", "is_stopped"), [(False, True), (True, False)])
def test_an_answer_that_was_paid_for_before_does_not_count_against_the_limit(recorded: bool, is_stopped: bool) -> None:
    token = CancellationToken()
    limits = RunLimits("monday", token, max_cost=0.5, fail_fast=False)
    limits.observe(ModelCalled("tuesday", "", "m", "Agent", 1, 1, 1.0, 1.0, recorded=False))
    assert not token.is_cancelled
    limits.observe(ModelCalled("monday", "", "m", "Agent", 1, 1, 1.0, 1.0, recorded=recorded))
    assert token.is_cancelled == is_stopped


class Priced(LiteLLMClient):
    """A client whose price list says a cent for each call."""

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        answer = super().complete_structured(prompt, response_model, **kwargs)
        note_model_call("priced", Usage(calls=1, cost=0.01), 0.0)
        return answer


def test_what_is_inside_a_step_finishes_and_what_is_queued_can_be_resumed(tmp_path: Path) -> None:
    token = CancellationToken()
    reflecting = threading.Barrier(3)
    may_answer = threading.Event()

    def script(request: ScriptedRequest) -> dict[str, Any]:
        if request.role == "reflector" and not may_answer.is_set():
            reflecting.wait(60)
            may_answer.wait(60)
        return secrets_world.answer(request)

    path = tmp_path / "s.db"
    seen: list[Event] = []
    with ScriptedServer(script) as server, observing(seen.append):
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        # All eight are in the background when the run is stopped: two inside the reflection, six queued.
        results = runner.run(traces(8), workers=2, wait=False, cancel_token=token, run_id="r")
        reflecting.wait(60)
        assert [result.error for result in results] == [None] * 8
        token.cancel()
        may_answer.set()
        runner.wait_for_background(60)
        asked = [request.role for request in server.requests]
        assert asked == ["reflector"] * 2
        assert [type(result.error) for result in results] == [PipelineCancelled] * 8
        assert [result.failed_at for result in results] == ["TagStep"] * 2 + ["ReflectStep"] * 6
        [end] = [event for event in seen if isinstance(event, RunEnded)]
        assert (end.cancelled, end.learned, end.failed, end.stopped_by) == (8, 0, 0, "cancelled")
        assert runner.failures == [] and not (tmp_path / "failures.jsonl").exists()
        assert [run.run_id for run in unfinished_runs(runner.skillbook)] == ["r"]

        again = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        assert [result.error for result in again.run(traces(8), resume=True)] == [None] * 8
        assert len(server.by_role("reflector")) == 8
    assert [skill.content for skill in again.skillbook.skills()] == [
        f"The secret of thing{n} is value-of-thing{n}." for n in range(8)
    ]


def test_a_sample_that_is_being_written_is_written(tmp_path: Path) -> None:
    token = CancellationToken()

    def script(request: ScriptedRequest) -> dict[str, Any]:
        if request.role == "skill_manager":
            token.cancel()
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=tmp_path / "s.db")
        results = runner.run(traces(3), max_in_flight=1, cancel_token=token)
    assert [type(result.error) for result in results] == [type(None), PipelineCancelled, PipelineCancelled]
    assert len(Skillbook.open(tmp_path / "s.db")) == 1


def test_a_run_that_has_cost_enough_begins_nothing_more(tmp_path: Path) -> None:
    seen: list[Event] = []
    with ScriptedServer(secrets_world.answer) as server, observing(seen.append):

        def runner() -> TraceAnalyser:
            client = Priced("openai/scripted", api_base=server.api_base, api_key=KEY)
            return TraceAnalyser.from_client(client, prove=False, skillbook_path=tmp_path / "s.db")

        # Two calls for each trace: the fifth call reaches the limit, and the sample that it belongs to finishes.
        results = runner().run(traces(6), max_in_flight=1, max_cost=0.045)
        assert [result.error is None for result in results].count(True) == 2
        assert len(server.requests) == 5
        # Another call has another budget; what was paid before does not count against it.
        results = runner().run(traces(6), max_in_flight=1, max_cost=10.0, resume=True)
        assert [result.error for result in results] == [None] * 6
        assert len(server.requests) == 12
    assert [event.stopped_by for event in seen if isinstance(event, RunEnded)] == ["max_cost", ""]


def test_an_unknown_price_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False)
        assert [result.error for result in runner.run(traces(3), max_cost=0.01)] == [None] * 3
        with pytest.raises(ValueError, match="max_cost must be more than 0 US dollars"):
            runner.run(traces(1), max_cost=0)
    assert caplog.text.count("The price of model 'openai/scripted' is not known") == 1


def test_fail_fast_stops_at_the_first_failure(tmp_path: Path) -> None:
    def script(request: ScriptedRequest) -> str | dict[str, Any]:
        return "no" if "thing1" in request.text else secrets_world.answer(request)

    seen: list[Event] = []
    with ScriptedServer(script) as server, observing(seen.append):
        runner = ACE.from_client(
            client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=tmp_path / "skills.json"
        )
        results = runner.run(secrets_world.samples(5), max_in_flight=1, fail_fast=True)
    assert [type(result.error).__name__ for result in results] == [
        *("NoneType", "UnusableAnswerError"),
        *["PipelineCancelled"] * 3,
    ]
    assert len(runner.failures) == 1 and len(runner.skillbook) == 1
    assert [event.stopped_by for event in seen if isinstance(event, RunEnded)] == ["fail_fast"]
    assert len(Skillbook.load_from_file(tmp_path / "skills.json")) == 1


def test_a_failed_sample_is_in_the_file_when_the_next_one_begins(tmp_path: Path) -> None:
    lines: list[int] = []

    def script(request: ScriptedRequest) -> str | dict[str, Any]:
        path = tmp_path / "failures.jsonl"
        if request.role == "reflector":
            lines.append(len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0)
        return f"no, {KEY}"

    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(
            client_for(server, validation_retries=0), prove=False, checkpoint_dir=tmp_path
        )
        runner.run(traces(3), max_in_flight=1)
    assert lines == [0, 1, 2]
    text = (tmp_path / "failures.jsonl").read_text(encoding="utf-8")
    assert KEY not in text
    assert [json.loads(line)["raw_answers"] for line in text.splitlines()] == [["no, [hidden: secret]"]] * 3


DYING = """
import os
from ace.runners import TraceAnalyser
from ace.providers import LiteLLMClient
from tests.core.runners.test_stopping import traces
client = LiteLLMClient("openai/scripted", api_base={api_base!r}, api_key="k" * 9, validation_retries=0)
runner = TraceAnalyser.from_client(client, prove=False, checkpoint_dir={folder!r})
from ace.protocols.observers import register_observer, SampleEnded
register_observer("dies", lambda event: os._exit(0) if isinstance(event, SampleEnded) and event.index == 2 else None)
runner.run(traces(5), max_in_flight=1)
"""


def test_a_kill_loses_no_failure_and_half_a_line_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "failures.jsonl"
    path.write_text('{"half of a line', encoding="utf-8")
    with ScriptedServer(lambda request: "no") as server:
        run_python(DYING.format(api_base=server.api_base, folder=str(tmp_path)))
    half, *lines = path.read_text(encoding="utf-8").splitlines()
    assert half == '{"half of a line'
    assert [json.loads(line)["index"] for line in lines] == [1, 2]


def test_what_cannot_be_noted_is_told_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "failures.jsonl").mkdir()
    seen: list[Event] = []
    with ScriptedServer(lambda request: "no") as server, observing(seen.append):
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=tmp_path / "skills.json")
        with pytest.raises(IsADirectoryError, match=r"failures\.jsonl"):
            runner.run(traces(2))
    assert len(runner.failures) == 2
    assert sum(isinstance(event, SampleEnded) for event in seen) == 2
    assert (tmp_path / "skills.json").exists()
