"""`TraceAnalyser`: traces of every type reach the model, whole or visibly cut."""

from __future__ import annotations

import dataclasses
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from ace.protocols import TraceConverter, register_trace_converter, unregister_trace_converter
from ace.runners import TraceAnalyser
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.support.trace_shapes import MARK, SHAPES

THING = "the secret of boat? value-of-boat"


@dataclasses.dataclass
class Record:
    task: str
    events: list[dict[str, Any]]
    notes: str = ""


class Run(BaseModel):
    input: str
    output: str
    details: dict[str, Any] = {}


class Plain:
    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


def messages(place: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"role": "user", "content": f"What is {THING}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": '{"at": "boat"}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]
    if place == 1:
        found[1]["tool_calls"][0]["function"]["arguments"] = json.dumps({"at": MARK})
    elif place == 3:
        found[3]["content"][0]["text"] = MARK
    else:
        found[place]["content"] = f"{MARK} What is {THING}"
    return found


NAMES = ["question", "prompt", "response", "rationale", "correction", "target", "context", "messages", "trajectory"]
NAMES += ["metadata", "anything_else", "Question", "OUTPUT"]
TRACES: dict[str, Any] = {f"dict {name}": {"q": THING, name: f"{MARK}"} for name in NAMES}
TRACES |= {
    "dict, deep": {"q": THING, "a": {"b": [{"c": ({"d": MARK},)}]}},
    "dict, key": {"q": THING, "a": {MARK: 1}},
    "dict, steps": {"question": THING, "steps": [{"action": "look", "observation": {"text": MARK}}]},
    "dict, two aliases": {"question": THING, "task": MARK, "input": "i", "answer": "a", "output": "o"},
    "dataclass": Record(THING, [], MARK),
    "dataclass, nested": Record(THING, [{"x": Record("t", [], MARK)}]),
    "pydantic": Run(input=THING, output=MARK),
    "pydantic, nested": Run(input=THING, output="o", details={"a": Run(input="i", output=MARK)}),
    "object": Plain(question=THING, log=[Plain(text=MARK)]),
    "namespace": SimpleNamespace(input=THING, output=SimpleNamespace(x=[MARK])),
    "text": f"{THING} {MARK}",
    "JSON text": json.dumps({"task": THING, "rest": [MARK]}),
    "bytes": f"{THING} {MARK}".encode(),
    "bytes, not UTF-8": f"{THING} {MARK}".encode() + b"\xff\xfe",
    "list of texts": [THING, "x", MARK],
    "tuple": (THING, {"a": MARK}),
    "nested list": [[THING], [[MARK]]],
    "long text, at the start": f"{MARK} {THING} " + "x" * 400_000,
    "long text, at the end": f"{THING} " + "x" * 400_000 + f" {MARK}",
} | {f"messages, {place}": messages(place) for place in range(4)}


@pytest.fixture(scope="module")
def received() -> dict[str, str]:
    """Run all traces once; returns what the reflector was asked for each."""
    texts: dict[str, str] = {}
    current: list[str] = []

    def script(request: ScriptedRequest) -> dict[str, Any]:
        if request.role == "reflector":
            texts[current[-1]] = request.text
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server))
        for name, trace in (TRACES | {f"shape {name}": shape for name, shape in SHAPES.items()}).items():
            current.append(name)
            runner.run([trace])
    assert runner.failures == []
    return texts


@pytest.mark.parametrize("name", TRACES)
def test_the_marker_is_in_the_request_that_the_server_received(name: str, received: dict[str, str]) -> None:
    assert MARK in received[name]
    assert "value-of-boat" in received[name]


@pytest.mark.parametrize("name", SHAPES)
def test_so_is_that_of_every_other_type(name: str, received: dict[str, str]) -> None:
    assert MARK in received[f"shape {name}"]


def test_what_does_not_fit_is_cut_visibly(received: dict[str, str]) -> None:
    for name in ("long text, at the start", "long text, at the end"):
        assert len(received[name]) < 390_000
        assert "cut" in received[name].lower()


def test_a_converter_s_result_is_read() -> None:
    class Foreign:
        """Nothing of it can be seen but through its converter."""

        __slots__ = ()

    converter = TraceConverter(
        name="foreign",
        recognises=lambda trace: 1.0 if isinstance(trace, Foreign) else 0.0,
        convert=lambda trace: {"question": "What is the secret of sail?", "ground_truth": "value-of-sail"},
    )
    register_trace_converter(converter)
    try:
        with ScriptedServer(secrets_world.answer) as server:
            runner = TraceAnalyser.from_client(client_for(server))
            runner.run([Foreign()])
    finally:
        unregister_trace_converter("foreign")
    assert [skill.content for skill in runner.skillbook.skills()] == ["The secret of sail is value-of-sail."]
    assert runner.skillbook.skills()[0].sources[0].sample_question == "What is the secret of sail?"


def secrets(count: int) -> list[dict[str, str]]:
    return [
        {"question": f"What is the secret of thing{n}?", "ground_truth": f"value-of-thing{n}", "answer": "?"}
        for n in range(count)
    ]


@pytest.mark.parametrize("workers", [1, 2, 6])
def test_workers_set_how_many_reflections_go_on_at_once(workers: int) -> None:
    lock = threading.Lock()
    inside, most = [0], [0]
    full = threading.Event()

    def script(request: ScriptedRequest) -> dict[str, Any]:
        if request.role != "reflector":
            return secrets_world.answer(request)
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            if inside[0] == workers:
                full.set()
        full.wait(20)  # nobody leaves before as many as may be are inside
        with lock:
            inside[0] -= 1
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server))
        runner.run(secrets(8), workers=workers)
        runner.run(secrets(2), workers=workers)
    assert most[0] == workers
    assert [skill.content[14:20] for skill in runner.skillbook.skills()] == [f"thing{n}" for n in range(8)]
    assert runner.learning_stats["completed"] == 10


def test_trace_ids_are_the_same_in_every_run_and_name_the_place() -> None:
    ids = []
    for _ in range(2):
        with ScriptedServer(secrets_world.answer) as server:
            runner = TraceAnalyser.from_client(client_for(server))
            runner.run([*secrets(2), {"trace_id": "runs.jsonl#3", **secrets(3)[2]}])
        ids.append([skill.sources[0].trace_id for skill in runner.skillbook.skills()])
    assert ids[0] == ids[1]
    assert ids[0][0].endswith("#1")
    assert ids[0][2] == "runs.jsonl#3"


def test_wrong_workers_are_refused() -> None:
    with ScriptedServer(secrets_world.answer) as server, pytest.raises(ValueError, match="workers must be at least 1"):
        TraceAnalyser.from_client(client_for(server)).run([{}], workers=0)
