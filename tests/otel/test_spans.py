"""Spans of runs in this process: complete, in order, and with what they must and must not contain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace.environments import Sample, SimpleEnvironment
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.protocols.llm import LayeredPrompt
from ace.protocols.observers import (
    AnswerEvaluated,
    ArtifactWritten,
    BatchJudged,
    InsightsFound,
    ModelCalled,
    SkillChange,
    SkillProven,
    SkillsChanged,
    emit,
)
from ace.providers import LiteLLMClient
from ace.runners import ACE, TraceAnalyser
from ace.skillbook import Skillbook
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace_otel import instrument
from ace_otel.spans import run_context
from tests.otel.collector import Collector, ReceivedSpan
from tests.otel.test_command_line import check_tree
from tests.support.scripted_server import ScriptedServer

SECRET = "sk-proj-a1B2c3D4e5F6g7H8"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as started:
        for name, value in started.environ.items():
            monkeypatch.setenv(name, value)
        yield started


class CallingReflector:
    """A reflector that makes a model call, and fails on some traces."""

    def reflect(self, **arguments: Any) -> ReflectorOutput:
        trace = str(arguments["trace"])
        call = ModelCalled("", "", "openai/gpt-5", "Reflector", 7, 3, 0.5, 0.0, False, finish_reason="stop")
        emit(call)
        if "FAILS" in trace:
            raise ValueError(f"cannot reflect on {trace}")
        return ScriptedReflector().reflect(**arguments)


def named(spans: list[ReceivedSpan], name: str) -> list[ReceivedSpan]:
    return [span for span in spans if span.name == name]


def test_a_thousand_samples_with_four_workers(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20000")  # beside other work, sending may be slower than the run
    traces = [f"Repeat the code word kit{number:04d}code." for number in range(1000)]
    with instrument():
        runner = TraceAnalyser.from_roles(reflector=CallingReflector(), skill_manager=ScriptedSkillManager())
        runner.run(traces, workers=4, run_id="thousand")
        while not named(collector.spans, "ace.run"):  # it is the last one; the end does not wait long for the others
            time.sleep(0.05)
    spans = collector.spans
    check_tree(spans)
    [root] = [span for span in spans if not span.parent]
    assert root.name == "ace.run" and root.trace_id == f"{run_context('thousand').trace_id:032x}"
    counts = Counter(span.name for span in spans)
    assert counts["ace.sample"] == counts["chat gpt-5"] == counts["ace.step ReflectStep"] == 1000
    assert {span.trace_id for span in spans} == {root.trace_id}
    samples = {span.id: span.attributes["ace.sample.index"] for span in named(spans, "ace.sample")}
    assert sorted(samples.values()) == list(range(1, 1001))
    by_sample = Counter(samples[span.parent] for span in named(spans, "ace.step ApplyStep"))
    assert set(by_sample.values()) == {1} and len(by_sample) == 1000
    steps = {span.id for span in named(spans, "ace.step ReflectStep")}
    assert Counter(span.parent for span in named(spans, "chat gpt-5")) == dict.fromkeys(steps, 1)
    assert collector.total("gen_ai.client.token.usage", gen_ai_token_type="input") == 7000
    assert collector.total("ace.model.cost") == 500
    assert collector.total("ace.samples", ace_outcome="learned") == 1000
    assert collector.total("ace.samples.in_flight") == 0


def test_a_failed_sample_has_a_status_and_no_text(collector: Collector) -> None:
    text = f"FAILS with {SECRET}"
    for content in (False, True):
        with instrument(content=content):
            runner = TraceAnalyser.from_roles(reflector=CallingReflector(), skill_manager=ScriptedSkillManager())
            runner.run([text])
    plain, told = named(collector.spans, "ace.sample")
    assert plain.failed and told.failed
    [without], [exception] = plain.events, told.events
    assert without.attributes == {"exception.type": "ValueError"}
    assert exception.attributes["exception.message"].startswith("cannot reflect on FAILS with [hidden: secret]")
    assert plain.attributes["ace.failed_at"] == "ReflectStep"
    assert SECRET not in str(collector.spans)


def test_changes_of_skills_and_scores_are_events_of_the_sample(collector: Collector) -> None:
    class ChangingManager:
        def update_skills(self, **arguments: Any) -> SkillManagerOutput:
            emit(SkillsChanged("", "", (), (SkillChange("UPDATE", "maths-00009", "no such skill"),)))
            return ScriptedSkillManager().update_skills(**arguments)

    class Parrot:
        def generate(self, **arguments: Any) -> AgentOutput:
            return AgentOutput(reasoning="I repeat it.", final_answer=arguments["question"])

    with instrument():
        runner = ACE.from_roles(
            agent=Parrot(),
            environment=SimpleEnvironment(),
            reflector=ScriptedReflector(),
            skill_manager=ChangingManager(),
        )
        runner.run([Sample("Repeat the code word kit0001code.", ground_truth="?")])
    [sample] = named(collector.spans, "ace.sample")
    events = [(event.name, event.attributes) for event in sample.events]
    changes = [held for name, held in events if name == "ace.skill.changed"]
    assert [(held["ace.skill.operation"], held["ace.skill.applied"]) for held in changes] == [
        ("UPDATE", False),
        ("ADD", True),
    ]
    assert changes[0]["ace.skill.reason"] == "no such skill"
    [evaluation] = [held for name, held in events if name == "gen_ai.evaluation.result"]
    assert evaluation["gen_ai.evaluation.name"].startswith("SimpleEnvironment.")
    assert evaluation["gen_ai.evaluation.score.value"] in (0.0, 1.0)


def test_log_events_name_their_span(collector: Collector) -> None:
    class ChangingManager:
        def update_skills(self, **arguments: Any) -> SkillManagerOutput:
            emit(SkillsChanged("", "", (), (SkillChange("UPDATE", "maths-00009", f"no such skill, {SECRET}"),)))
            emit(SkillProven("", "", "maths-00001", True, "before", "after", 0))
            emit(
                BatchJudged("", "", "CounterGate", accepted=True, reason="enough", before={"net": 1}, after={"net": 2})
            )
            emit(AnswerEvaluated("", "", "Exact", {"score": 0.5}))
            emit(
                InsightsFound(
                    run_id="",
                    trace_id="",
                    task_id="bd-1",
                    description=f"Fix {SECRET}",
                    success=False,
                    consulted=2,
                    files=1,
                    min_confidence=0.8,
                    ready=1,
                    pending=2,
                )
            )
            emit(ArtifactWritten("", "", 18, f"logs/{SECRET}/20261122T120000.123456Z-v18"))
            return ScriptedSkillManager().update_skills(**arguments)

    with instrument():
        runner = TraceAnalyser.from_roles(reflector=CallingReflector(), skill_manager=ChangingManager())
        runner.run(["Repeat the code word kit0001code.", f"FAILS with {SECRET}"], run_id="logged")
    ids = {span.id: span for span in collector.spans}
    logs = sorted(collector.logs, key=lambda log: log.time)
    assert {log.trace_id for log in logs} == {f"{run_context('logged').trace_id:032x}"}
    for log in logs:
        assert ids[log.span].start <= log.time <= ids[log.span].end
        assert log.resource["service.name"] == "ace" and SECRET not in str(log)
    assert (logs[0].name, logs[0].text) == ("ace.run.started", "run logged started")
    assert (logs[-1].name, logs[-1].text) == ("ace.run.ended", "run logged ended: 1 learned, 1 failed")
    assert logs[-1].attributes["ace.run.failed"] == 1
    [failure] = [log for log in logs if log.severity != "INFO"]
    assert (failure.name, failure.severity) == ("exception", "ERROR")
    assert failure.text == "sample 2 of epoch 1 failed at ReflectStep: ValueError"
    assert failure.attributes["exception.type"] == "ValueError" and ids[failure.span].name == "ace.sample"
    assert sorted((log.name, log.text) for log in logs if log not in (logs[0], logs[-1], failure)) == [
        ("ace.artifact.written", "artifacts of version 18"),
        ("ace.gate.judged", "CounterGate: operations accepted"),
        ("ace.insights.found", "insights: 1 to learn, 2 pending"),
        ("ace.skill.changed", "ADD kit-00001"),
        ("ace.skill.changed", "UPDATE maths-00009 skipped: no such skill, [hidden: secret]"),
        ("ace.skill.proven", "proof of maths-00001: passed"),
        ("gen_ai.evaluation.result", "Exact.score: 0.5"),
    ]
    [sample] = [span for span in named(collector.spans, "ace.sample") if not span.failed]
    of_sample = {(log.name, str(log.attributes)) for log in logs if log.span == sample.id}
    assert of_sample == {(event.name, str(event.attributes)) for event in sample.events}


def test_unsampled_traces_have_no_log_events(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with instrument():
        runner = TraceAnalyser.from_roles(reflector=CallingReflector(), skill_manager=ScriptedSkillManager())
        runner.run(["Repeat the code word kit0001code."])
    assert collector.spans == [] and collector.logs == []
    assert collector.total("ace.samples", ace_outcome="learned") == 1


LEARNER = """
import os, signal, sys
from ace.pipeline import CancellationToken
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager

token = CancellationToken()

class Reflector:
    def reflect(self, **arguments):
        if sys.argv[1] == "killed" and "kit0003code" in str(arguments["trace"]):
            input()  # until the finished spans have been sent
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1] == "stopped" and "kit0003code" in str(arguments["trace"]):
            token.cancel()
        return ScriptedReflector().reflect(**arguments)

with Skillbook.open("skills.db") as book:
    runner = TraceAnalyser.from_roles(reflector=Reflector(), skill_manager=ScriptedSkillManager(), skillbook=book)
    traces = [f"Repeat the code word kit{n:04d}code." for n in range(1, 6)]
    runner.run(traces, run_id="r", resume=sys.argv[1] == "resumed", cancel_token=token)
"""


def start_learner(folder: Path, how: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(path for path in sys.path if path)
    environ = {**os.environ, "PYTHONPATH": path, "ACE_OTEL": "1"}
    command = [sys.executable, "-c", LEARNER, how]
    return subprocess.Popen(command, cwd=folder, env=environ, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def run_learner(folder: Path, how: str) -> int:
    with start_learner(folder, how) as process:
        process.communicate()
    return process.returncode


def test_a_run_that_was_killed_and_resumed_is_one_trace(tmp_path: Path, collector: Collector) -> None:
    with start_learner(tmp_path, "killed") as process:
        while len(named(collector.spans, "ace.sample")) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.communicate(b"\n")
    assert process.returncode == -signal.SIGKILL
    assert named(collector.spans, "ace.run") == []
    assert len(named(collector.spans, "ace.sample")) == 2
    assert run_learner(tmp_path, "resumed") == 0
    spans = collector.spans
    assert {span.trace_id for span in spans} == {f"{run_context('r').trace_id:032x}"}
    [root] = [span for span in spans if not span.parent]
    assert root.name == "ace.run" and root.attributes["ace.run.resumed"]
    ids = {span.id for span in spans}
    assert len(ids) == len(spans)
    samples = named(spans, "ace.sample")
    assert {span.parent for span in samples} == {root.id}
    assert sorted(span.attributes["ace.sample.index"] for span in samples) == [1, 2, 3, 4, 5]
    resumed = [span for span in samples if span.attributes["ace.sample.index"] > 2]
    assert [span.links for span in resumed] == [[(root.trace_id, root.id)]] * 3


def test_a_run_that_was_stopped_and_resumed_is_one_trace(tmp_path: Path, collector: Collector) -> None:
    assert run_learner(tmp_path, "stopped") == 0
    [first] = named(collector.spans, "ace.run")
    assert first.failed and first.attributes["ace.run.stopped_by"] == "cancelled"
    assert run_learner(tmp_path, "resumed") == 0
    check_ids = {span.id: span for span in collector.spans}
    assert [span.name for span in collector.spans if check_ids[span.id] is not span] == []
    [root] = [span for span in collector.spans if not span.parent]
    assert root == first
    [again] = [span for span in named(collector.spans, "ace.run") if span != first]
    assert again.parent == first.id and again.trace_id == first.trace_id
    assert all(span.parent in check_ids for span in collector.spans if span.parent)


def test_the_skillbook_is_the_same_with_and_without(collector: Collector) -> None:
    books = []
    for enabled in (False, True):
        book = Skillbook()
        runner = TraceAnalyser.from_roles(
            reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager(), skillbook=book
        )
        sending = instrument() if enabled else None
        tasks = [f"Repeat the code word kit{number:04d}code." for number in range(1, 6)]
        runner.run([{"question": task, "success": False} for task in tasks])
        if sending is not None:
            sending.close()
        books.append([skill.content for skill in book.skills()])
    assert books[0] == books[1] and len(books[0]) == 5
    assert len(named(collector.spans, "ace.run")) == 1


def test_a_model_call_has_what_the_conventions_ask_for(collector: Collector) -> None:
    with ScriptedServer(lambda request: "Paris") as server, instrument(content=True):
        client = LiteLLMClient(
            "openai/scripted", api_base=server.api_base, api_key="sk-of-nobody", max_tokens=99, options={"stop": "END"}
        )
        prompt = LayeredPrompt("Be brief.", "- Name the city.", "", "The capital of France?")
        client.complete(prompt)
        client.complete_messages(
            [{"role": "system", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]}]
        )
        port = int(server.url.rpartition(":")[2])
    first, second = named(collector.spans, "chat scripted")
    expected = {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.max_tokens": 99,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.stop_sequences": ["END"],
        "gen_ai.response.model": "scripted",
        "gen_ai.response.id": "scripted-1",
        "server.address": "127.0.0.1",
        "server.port": port,
    }
    assert {name: first.attributes[name] for name in expected} == expected
    messages = json.loads(first.attributes["gen_ai.input.messages"])
    assert [message["role"] for message in messages] == ["system", "user"]
    parts = [part for message in messages for part in message["parts"]]
    assert [(part["type"], part["content"].strip()) for part in parts] == [
        ("text", "Be brief."),
        ("text", "- Name the city."),
        ("text", "The capital of France?"),
    ]
    (message,) = json.loads(second.attributes["gen_ai.input.messages"])
    assert [part["content"] for part in message["parts"]] == ["One.", "Two."]
    assert collector.bounds("gen_ai.client.operation.duration")[:3] == [0.01, 0.02, 0.04]
    assert collector.bounds("gen_ai.client.token.usage")[-1] == 67_108_864


def test_a_call_without_content_has_no_texts_of_the_request(collector: Collector) -> None:
    with ScriptedServer(lambda request: "Paris") as server, instrument():
        LiteLLMClient("openai/m", api_base=server.api_base, api_key="k" * 9, options={"stop": "END"}).complete("?")
    (span,) = named(collector.spans, "chat m")
    assert "gen_ai.request.stop_sequences" not in span.attributes and "END" not in str(span.attributes)
