"""What arrives at Opik: the traces of samples, of recursive reflections and of model calls."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from ace import ACELiteLLM, ACEStepContext, Sample, SimpleEnvironment, TraceAnalyser
from ace.context import SkillbookView
from ace.outputs import AgentOutput, ReflectorOutput
from ace.pipeline import StepContext
from ace.providers import load_litellm
from ace.roles import SkillManager
from ace.rr import RRStep
from ace.skillbook import Skillbook
from ace.steps import learning_tail
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace.updates import UpdateBatch, UpdateOperation
from ace_opik import OpikStep, RROpikStep, flush, register_opik_litellm_callback
from tests.opik.receiver import Receiver
from tests.opik.with_opik import close_connections, wait_until, without_callbacks
from tests.support.clients import client_for
from tests.support.learning_script import learning_script
from tests.support.reflection_script import TRACE, Explorer
from tests.support.scripted_server import ScriptedServer

KEY = "sk-proj-Ab12Cd34Ef56Gh78Ij90"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as started:
        for name, value in started.environ.items():
            monkeypatch.setenv(name, value)
        yield started
        close_connections()


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as server:
        yield server


@pytest.fixture
def restored_callbacks() -> Iterator[None]:
    with without_callbacks():
        yield


def context(**fields: Any) -> ACEStepContext:
    metadata = MappingProxyType({"trace_id": "t1", "source": "faq"})
    book = Skillbook()
    book.add_skill("ship", "Wrap it.")
    return ACEStepContext(skillbook=SkillbookView(book), metadata=metadata, **fields)


def test_a_sample_has_a_trace(receiver: Receiver) -> None:
    ctx = context(
        sample=Sample("Which carrier takes a vase?", context="It is of glass.", ground_truth="courier"),
        trace={"question": "of the trace", "context": "of the trace"},
        agent_output=AgentOutput(reasoning="By [ship-00001].", final_answer="courier", skill_ids=["ship-00001"]),
        reflection=ReflectorOutput(
            reasoning="It was right.", correct_approach="The same.", key_insight="Glass goes by courier.", raw={"x": 1}
        ),
        skill_manager_output=UpdateBatch(
            "", [UpdateOperation("ADD", section="ship", content="Glass by courier.", justification="j", evidence="e")]
        ),
        epoch=2,
        total_epochs=3,
        step_index=4,
        total_steps=9,
        global_sample_index=13,
    )
    step = OpikStep(project_name="parcels", tags=["nightly"])
    assert step(ctx) is ctx
    assert step.flush(timeout=30.0)
    [trace] = receiver.traces
    assert (trace["name"], trace["project_name"], trace["tags"]) == ("ace_sample", "parcels", ["nightly"])
    assert trace["input"] == {
        "question": "Which carrier takes a vase?",
        "context": "It is of glass.",
        "ground_truth": "courier",
    }
    assert trace["output"] == {
        "reasoning": "By [ship-00001].",
        "final_answer": "courier",
        "skill_ids": ["ship-00001"],
    }
    metadata = trace["metadata"]
    assert metadata["trace_id"] == "t1" and metadata["pipeline"] == {"source": "faq"} and metadata["skills"] == 1
    assert metadata["position"] == {
        "epoch": 2,
        "total_epochs": 3,
        "step_index": 4,
        "total_steps": 9,
        "global_sample_index": 13,
    }
    assert metadata["reflection"]["key_insight"] == "Glass goes by courier." and "raw" not in metadata["reflection"]
    [operation] = metadata["operations"]
    assert {name: value for name, value in operation.items() if value is not None} == {
        "type": "ADD",
        "section": "ship",
        "content": "Glass by courier.",
        "justification": "j",
        "evidence": "e",
    }
    assert "end_time" in trace


def test_where_the_steps_belong(receiver: Receiver) -> None:
    assert (OpikStep.requires, OpikStep.provides) == (frozenset({"skillbook"}), frozenset())
    assert (RROpikStep.requires, RROpikStep.provides) == (frozenset({"reflection"}), frozenset())
    assert (OpikStep().project_name, RROpikStep().project_name) == ("ace-framework", "ace-rr")
    names = [type(step).__name__ for step in learning_tail(ScriptedReflector(), ScriptedSkillManager(), Skillbook())]
    assert not {"OpikStep", "RROpikStep"} & {*names}, "they are only used if they are passed as extra_steps"


def test_the_variables_say_where_opik_is(receiver: Receiver) -> None:
    step = OpikStep()
    step(context(sample="2+2?"))
    assert step.flush(timeout=30.0)
    [post] = [request for request in receiver.requests if request.path == "/api/v1/private/traces/batch"]
    assert post.headers["authorization"] == "opik-key-of-ann"
    assert post.headers["comet-workspace"] == "glass"
    assert receiver.traces[0]["project_name"] == "ace-framework"


def test_what_a_sample_lacks_is_omitted(receiver: Receiver) -> None:
    step = OpikStep()
    for ctx in (context(sample="A text"), context(trace={"question": "3+3?"}), context(), StepContext(sample=object())):
        assert step(ctx) is ctx  # type: ignore[arg-type]  # a context of another pipeline, too
    assert step.flush(timeout=30.0)
    inputs = sorted(trace["input"].get("question", "") for trace in receiver.traces)  # they arrive in any order
    assert inputs == ["", "", "3+3?", "A text"]
    assert all("output" not in trace and "reflection" not in trace["metadata"] for trace in receiver.traces)


def test_secrets_and_personal_data_are_redacted(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse-battery")
    ctx = context(
        sample=Sample(f"Mail jane.doe@acme.com the key {KEY}."),
        agent_output=AgentOutput(reasoning="I used correct-horse-battery.", final_answer="Sent."),
    ).replace(metadata={"trace_id": "5575ae1c4f02063d@runs.jsonl#12", "api_key": "short"})
    step = OpikStep()
    step(ctx)
    assert step.flush(timeout=30.0)
    for hidden in ("jane.doe@acme.com", KEY, "correct-horse-battery", "short"):
        assert hidden not in receiver.text
    assert receiver.text.count("[hidden: ") == 4
    assert receiver.traces[0]["metadata"]["trace_id"] == "5575ae1c4f02063d@runs.jsonl#12"


def test_a_sample_that_cannot_be_read_does_not_fail_the_run(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    class Hostile:
        @property
        def question(self) -> str:
            raise OSError("the file is gone")

    step = OpikStep()
    for _ in range(2):
        step(context(sample=Hostile()))
    assert [record.getMessage() for record in caplog.records] == [
        "ace-opik: a trace was not sent: OSError: the file is gone"
    ]


def test_every_sample_of_a_run_is_sent_once(receiver: Receiver, model: ScriptedServer) -> None:
    runner = TraceAnalyser.from_client(client_for(model), extra_steps=[OpikStep()], prove=False)
    runner.run([f"LESSON word{number}" for number in range(30)], workers=4)
    assert flush(timeout=60.0)
    inputs = sorted(trace["input"]["question"] for trace in receiver.traces)
    assert inputs == sorted(f"LESSON word{number}" for number in range(30))
    assert {trace["metadata"]["operations"][0]["type"] for trace in receiver.traces} == {"ADD"}


ITERATIONS = [
    {
        "iteration": 1,
        "code": "print(trace.summary())",
        "stdout": f"3 steps, {KEY}",
        "stderr": "",
        "terminated": False,
        "seconds": 1.5,
        "input_tokens": 90,
        "output_tokens": 12,
    },
    {"iteration": 2, "code": "FINAL({})", "stdout": "", "stderr": "boom", "terminated": True, "seconds": 0.5},
]


def reflection(rr_trace: object) -> ReflectorOutput:
    return ReflectorOutput(reasoning="r", correct_approach="c", key_insight="k", raw={"rr_trace": rr_trace})


def test_a_recursive_reflection_has_a_span_for_each_iteration(receiver: Receiver) -> None:
    calls = [{"question": "Why?", "answer": "Because."}]
    rr_trace = {"iterations": ITERATIONS, "subagent_calls": calls, "total_iterations": 2, "timed_out": False}
    step = RROpikStep(tags=["rr"])
    ctx = context(trace={"question": "2+2?"}, reflection=reflection(rr_trace))
    assert step(ctx) is ctx
    assert step.flush(timeout=30.0)
    [trace] = receiver.traces
    assert (trace["name"], trace["project_name"], trace["tags"]) == ("rr_reflect", "ace-rr", ["rr"])
    assert trace["input"] == {"question": "2+2?"} and trace["output"]["key_insight"] == "k"
    assert trace["metadata"] == {
        "trace_id": "t1",
        "subagent_calls": calls,
        "total_iterations": 2,
        "timed_out": False,
    }
    first, second = sorted(receiver.spans, key=lambda span: str(span["start_time"]))
    assert {first["trace_id"], second["trace_id"]} == {trace["id"]}
    assert (first["name"], second["name"]) == ("iteration 1", "iteration 2")
    assert first["input"] == {"code": "print(trace.summary())"}
    assert first["output"] == {"stdout": "3 steps, [hidden: secret]", "stderr": ""}
    assert first["metadata"] == {"final": False, "seconds": 1.5, "input_tokens": 90, "output_tokens": 12}
    assert second["output"] == {"stdout": "", "stderr": "boom"} and second["metadata"]["final"] is True
    assert first["end_time"] == second["start_time"] and second["end_time"] == trace["end_time"]
    assert seconds_of(first) == 1.5 and trace["start_time"] == first["start_time"]


def seconds_of(span: dict[str, Any]) -> float:
    times = [datetime.fromisoformat(span[name]) for name in ("start_time", "end_time")]
    return (times[1] - times[0]).total_seconds()


def test_what_an_iteration_lacks_is_empty(receiver: Receiver) -> None:
    step = RROpikStep()
    step(context(reflection=reflection({"iterations": [{}, {"iteration": 7, "seconds": None}]})))
    step(context(reflection=reflection({"iterations": None})))
    assert step.flush(timeout=30.0)
    assert len(receiver.traces) == 2
    first, second = sorted(receiver.spans, key=lambda span: str(span["name"]))
    assert (first["name"], second["name"]) == ("iteration 1", "iteration 7")
    assert first["input"] == {"code": ""} and first["output"] == {"stdout": "", "stderr": ""}
    assert first["metadata"] == {"final": False} and second["metadata"] == {"final": False, "seconds": None}


def test_metadata_are_simple_redacted_and_limited(receiver: Receiver) -> None:
    nested: object = "the innermost"
    for _ in range(20):
        nested = [nested]
    metadata = {"words": ["a", 1], "long": "x" * 20_001, "object": object(), "lists": [nested]}
    step = OpikStep()
    step(context(sample="A text").replace(metadata=metadata))
    assert step.flush(timeout=30.0)
    [trace] = receiver.traces
    assert trace["metadata"]["pipeline"] == {"words": ["a", 1], "long": "x" * 20_000 + "..."}
    assert trace["metadata"]["trace_id"] == ""


def test_nested_values_are_cut_off(receiver: Receiver) -> None:
    nested: object = "the innermost"
    for _ in range(20):
        nested = [nested]
    calls = {"subagent_calls": nested, "limits": frozenset({"jane.doe@acme.com"}), f"key {KEY}": "x"}
    step = RROpikStep()
    step(context(reflection=reflection(calls)))
    assert step.flush(timeout=30.0)
    assert "the innermost" not in receiver.text and "<list>" in receiver.text
    assert receiver.traces[0]["metadata"]["limits"] == ["[hidden: email_address]"]
    assert KEY not in receiver.text


@pytest.fixture
def in_tashkent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UZT-5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("restored_callbacks", "in_tashkent")
def test_a_call_of_which_litellm_tells_little(receiver: Receiver) -> None:
    register_opik_litellm_callback()
    litellm: Any = load_litellm()
    report = litellm.success_callback[0]
    start = datetime(2026, 11, 24, 12, 0, 0)  # noqa: DTZ001  # as LiteLLM gives it: local, without a zone
    report({"model": "m", "messages": [{"content": "2+2?"}], "response_cost": 0.5}, None, start, "no time")
    told = {"messages": [{"content": "3+3?"}], "response": {"content": f"It is {KEY}."}}
    report({"model": "n", "messages": "of the client", "standard_logging_object": told}, None, start, start)
    assert flush(timeout=30.0)
    assert {trace["project_name"] for trace in receiver.traces} == {"ace-framework"}
    first, second = sorted(receiver.spans, key=lambda span: str(span["name"]))
    assert (first["name"], first["model"], second["name"]) == ("chat m", "m", "chat n")
    assert first["input"] == {"messages": [{"content": "2+2?"}]} and first["total_estimated_cost"] == 0.5
    assert "total_estimated_cost" not in second and second["usage"] == dict.fromkeys(second["usage"], 0)
    assert "provider" not in first and "provider" not in second
    assert second["input"] == {"messages": [{"content": "3+3?"}]}
    assert second["output"] == {"response": {"content": "It is [hidden: secret]."}}
    assert datetime.fromisoformat(second["start_time"]) == datetime(2026, 11, 24, 7, 0, 0, tzinfo=UTC)


@pytest.mark.usefixtures("restored_callbacks")
def test_a_call_that_cannot_be_read_is_reported_once(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    register_opik_litellm_callback()
    litellm: Any = load_litellm()
    for _ in range(2):
        litellm.success_callback[0]({"model": "m", "response_cost": "free"}, None, None, None)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("ace_opik")] == [
        "ace-opik: a call of LiteLLM was not reported: ValueError: could not convert string to float: 'free'"
    ]


def test_flush_reports_a_connection_that_does_not_receive(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver(status=500) as failing:
        monkeypatch.setenv("OPIK_URL_OVERRIDE", failing.address)
        OpikStep()(context(sample="lost"))
        monkeypatch.setenv("OPIK_URL_OVERRIDE", receiver.address)
        OpikStep()(context(sample="received"))
        assert not flush(timeout=2.0)
        wait_until(lambda: bool(receiver.traces))
        close_connections()
    assert [trace["input"] for trace in receiver.traces] == [{"question": "received"}]


@pytest.mark.parametrize("rr_trace", [None, "text", {}])
def test_a_reflection_without_iterations(
    rr_trace: object, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    step = RROpikStep()
    step(context(reflection=reflection(rr_trace)))
    step(context())
    assert step.flush(timeout=30.0)
    assert len(receiver.traces) == (rr_trace == {}) and receiver.spans == [] and caplog.records == []


@pytest.mark.usefixtures("restored_callbacks")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_call_of_litellm_is_reported_once(asynchronous: bool, receiver: Receiver, model: ScriptedServer) -> None:
    for project in ("first", "calls"):
        assert register_opik_litellm_callback(project_name=project, tags=["llm"])
    client = client_for(model)
    prompts = [f"Call {number} by jane.doe@acme.com" for number in range(3)]

    def all_arrived() -> bool:
        return flush(timeout=5.0) and len(receiver.spans) >= len(prompts) and len(receiver.traces) >= len(prompts)

    async def ask_and_wait() -> None:
        for prompt in prompts:
            assert (await client.acomplete(prompt)).text == "ready"
        await asyncio.to_thread(wait_until, all_arrived)

    if asynchronous:
        asyncio.run(ask_and_wait())
    else:
        assert [client.complete(prompt).text for prompt in prompts] == ["ready"] * 3
        wait_until(all_arrived)
    assert len(receiver.traces) == len(receiver.spans) == 3
    assert {trace["project_name"] for trace in receiver.traces} == {"calls"}
    sent = {request.number: request for request in model.requests}
    assert sum(span["usage"]["prompt_tokens"] for span in receiver.spans) == sum(
        request.input_tokens for request in sent.values()
    )
    assert sum(span["usage"]["completion_tokens"] for span in receiver.spans) == sum(
        request.output_tokens for request in sent.values()
    )
    assert {span["type"] for span in receiver.spans} == {"llm"}
    assert {span["provider"] for span in receiver.spans} == {"openai"}
    assert "jane.doe@acme.com" not in receiver.text and "by [hidden: email_address]" in receiver.text
    assert "ready" in json.dumps([trace["output"] for trace in receiver.traces])


@pytest.mark.usefixtures("restored_callbacks")
def test_registering_again_after_a_call_does_not_report_calls_twice(receiver: Receiver, model: ScriptedServer) -> None:
    client = client_for(model)

    async def ask(number: int) -> None:
        register_opik_litellm_callback()
        await client.acomplete(f"Call {number}")
        await asyncio.to_thread(wait_until, lambda: flush(timeout=5.0) and len(receiver.traces) >= number)

    async def ask_three_times() -> None:
        for number in (1, 2, 3):
            await ask(number)

    asyncio.run(ask_three_times())
    prompts = sorted(str(trace["input"]["messages"]) for trace in receiver.traces)
    assert len(prompts) == 3 and all(f"Call {number}" in prompt for number, prompt in enumerate(prompts, 1))


@pytest.mark.usefixtures("restored_callbacks")
def test_the_cost_of_a_call_is_reported(receiver: Receiver) -> None:
    register_opik_litellm_callback()
    litellm: Any = load_litellm()
    answer = litellm.completion("gpt-4o-mini", [{"role": "user", "content": "2+2?"}], mock_response="4", api_key="k")
    wait_until(lambda: flush(timeout=5.0) and bool(receiver.spans))
    [span] = receiver.spans
    assert span["model"] == "gpt-4o-mini"
    assert span["total_estimated_cost"] == pytest.approx(litellm.completion_cost(answer)) != 0


@pytest.mark.usefixtures("restored_callbacks")
def test_one_argument_enables_both(receiver: Receiver, model: ScriptedServer) -> None:
    ace = ACELiteLLM.from_model(
        "openai/scripted",
        api_base=model.api_base,
        api_key="k" * 9,
        opik=True,
        opik_project="parcels",
        opik_tags=["nightly"],
        environment=SimpleEnvironment(),
        prove=False,
    )
    ace.learn([Sample("LESSON glass", ground_truth="courier")])
    calls = len(model.requests)
    wait_until(lambda: flush(timeout=5.0) and len(receiver.traces) > calls and len(receiver.spans) >= calls)
    assert sum(trace["name"] == "ace_sample" for trace in receiver.traces) == 1
    assert sum(trace["name"].startswith("chat ") for trace in receiver.traces) == calls == len(receiver.spans)
    assert {(trace["project_name"], *trace["tags"]) for trace in receiver.traces} == {("parcels", "nightly")}


def test_a_run_with_the_recursive_reflector(receiver: Receiver) -> None:
    pytest.importorskip("pydantic_monty", reason="the sandbox is an extra of ace-core")
    with ScriptedServer(Explorer()) as server:
        client = client_for(server)
        runner = TraceAnalyser.from_roles(
            reflector=RRStep(client), skill_manager=SkillManager(client), extra_steps=[RROpikStep()], prove=False
        )
        [result] = runner.run([TRACE])
    assert result.error is None
    assert flush(timeout=30.0)
    [trace] = receiver.traces
    assert trace["input"]["question"] == TRACE["question"]
    spans = sorted(receiver.spans, key=lambda span: str(span["start_time"]))
    assert [span["metadata"]["final"] for span in spans] == [False, True]
    assert "trace.summary()" in spans[0]["input"]["code"] and spans[0]["output"]["stdout"]
