"""Files of stored conversations and of recorded runs are read trace by trace, with the installed plugin."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import langsmith
import langsmith.schemas
import pytest
from langchain.agents import create_agent
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, message_to_dict, messages_to_dict
from langchain_core.tracers import LangChainTracer
from langgraph.checkpoint.memory import InMemorySaver

from ace import TraceAnalyser, read_trace
from ace.logs import Problem, Run, read_runs
from ace.protocols import TraceConversionError
from ace_langchain import LangChainLLMClient, records_in, result_to_trace
from ace_langchain.stored import parts_of, recognise
from tests.langchain import harbour
from tests.langchain.models import add, calls, divide, in_turn
from tests.langchain.test_learning import chat_model
from tests.support.scripted_server import ScriptedServer

Json = dict[str, Any]
FIRST = [HumanMessage("2+2?"), calls("add", a=2, b=2), AIMessage("By [maths-00001] it is 4.")]
SECOND = [HumanMessage("3+3?"), AIMessage("6")]


class _LangSmith(BaseHTTPRequestHandler):
    posted: list[Json]

    def do_GET(self) -> None:
        limits = {"size_limit": 100, "size_limit_bytes": 20_000_000}
        threads = {"scale_up_nthreads_limit": 1, "scale_up_qsize_trigger": 1000, "scale_down_nempty_trigger": 4}
        self._answer({"batch_ingest_config": {"use_multipart_endpoint": False, **limits, **threads}})

    def do_POST(self) -> None:
        self.posted.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self._answer({})

    def _answer(self, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def langsmith_server() -> Iterator[tuple[langsmith.Client, list[Json]]]:
    handler: Any = type("Handler", (_LangSmith,), {"posted": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield langsmith.Client(api_url=url, api_key="ls-scripted"), handler.posted
        server.shutdown()


@pytest.fixture(scope="module")
def runs() -> list[Json]:
    """What LangChain's own tracer sends of a run that answers, and of one whose tool raises."""
    with langsmith_server() as (client, posted):
        config: Any = {"callbacks": [LangChainTracer(client=client, project_name="maths")]}
        talker: Any = create_agent(
            in_turn(calls("add", a=2, b=2), "By [maths-00001] it is 4."), [add], system_prompt="Hm."
        )
        talker.invoke({"messages": [("user", "2+2?")]}, config)
        divider: Any = create_agent(in_turn(calls("divide", a=1, b=0)), [divide])
        with pytest.raises(ZeroDivisionError):
            divider.invoke({"messages": "1/0?"}, config)
        client.flush()
    seen: dict[str, Json] = {}
    for batch in posted:
        for run in [*batch.get("post", []), *batch.get("patch", [])]:
            seen.setdefault(run["id"], {}).update({name: value for name, value in run.items() if value is not None})
    return list(seen.values())


@pytest.fixture(scope="module")
def watched() -> tuple[list[Json], Any, list[Any]]:
    """The events of a run, the snapshot of its thread, and its history."""

    async def watch() -> tuple[list[Json], Any, list[Any]]:
        config: Any = {"configurable": {"thread_id": "7"}}
        agent: Any = create_agent(
            in_turn(calls("add", a=2, b=2), "By [maths-00001] it is 4."), [add], checkpointer=InMemorySaver()
        )
        events: list[Any] = [event async for event in agent.astream_events({"messages": "2+2?"}, config, version="v2")]
        return events, agent.get_state(config), list(agent.get_state_history(config))

    return asyncio.run(watch())


def write(path: Path, records: list[Any], form: str) -> Path:
    """Write records as a list, or one a line."""
    text = dumps(records) if form == "json" else "\n".join(dumps(record) for record in records) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def learned(path: Path) -> list[Any]:
    """Return the traces of the runs in a file."""
    found = list(read_runs(path))
    assert not [problem for problem in found if isinstance(problem, Problem)]
    return [read_trace(run) for run in found]


def steps_of(trace: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(step["kind"], step["name"], step["content"]) for step in trace["steps"]]


SUM = [
    ("message", "user", "2+2?"),
    ("call", "add", '{"a": 2, "b": 2}'),
    ("result", "add", "4"),
    ("message", "assistant", "By [maths-00001] it is 4."),
]


def test_a_stored_conversation_in_a_file(tmp_path: Path) -> None:
    whole = tmp_path / "run.json"
    whole.write_text(json.dumps(messages_to_dict(FIRST)))
    lines = tmp_path / "run.jsonl"
    lines.write_text("\n".join(json.dumps(message_to_dict(message)) for message in FIRST))
    for path in (whole, lines):
        [trace] = learned(path)
        assert (trace["question"], trace["answer"]) == ("2+2?", "By [maths-00001] it is 4.")
        assert trace["skill_ids"] == ["maths-00001"]
        assert [kind for kind, _, _ in steps_of(trace)] == ["message", "call", "message"]
        assert read_trace(path)["steps"] == trace["steps"]


def test_conversations_and_states_in_one_file_are_one_trace_each(tmp_path: Path) -> None:
    talks = [messages_to_dict(FIRST), messages_to_dict(SECOND)]
    states = [{"messages": talk} for talk in talks]
    kinds: list[list[Any]] = [talks, states]
    for number, records in enumerate(kinds):
        for form in ("json", "jsonl"):
            traces = learned(write(tmp_path / f"{number}.{form}", records, form))
            assert [(trace["question"], trace["answer"]) for trace in traces] == [
                ("2+2?", "By [maths-00001] it is 4."),
                ("3+3?", "6"),
            ]


def test_a_conversation_that_is_longer_than_the_head_of_its_file(tmp_path: Path) -> None:
    talk = [HumanMessage("2+2?"), AIMessage("x" * 100_000), HumanMessage("No."), AIMessage("4")]
    [trace] = learned(write(tmp_path / "run.json", [*talk], "json"))
    assert (trace["question"], trace["answer"], len(trace["steps"])) == ("2+2?", "4", 4)


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_an_export_of_langsmith(tmp_path: Path, runs: list[Json], form: str) -> None:
    mixed = [*runs[1::2], *runs[::2]]
    summed, failed = sorted(
        learned(write(tmp_path / f"runs.{form}", mixed, form)), key=lambda trace: trace["question"]
    )[::-1]
    assert (summed["question"], summed["answer"], summed["success"]) == ("2+2?", "By [maths-00001] it is 4.", None)
    assert steps_of(summed) == SUM
    assert summed["skill_ids"] == ["maths-00001"]
    assert summed["rest"]["metrics"]["input_tokens"] == 12
    assert (failed["question"], failed["success"]) == ("1/0?", False)
    assert steps_of(failed)[-1][:2] == ("result", "divide")
    assert failed["feedback"].startswith("The run failed in tools/divide: ZeroDivisionError('division by zero').")


def test_runs_of_langsmith_as_its_client_returns_them(runs: list[Json]) -> None:
    children: dict[str, list[Any]] = {}
    live: dict[str, langsmith.schemas.Run] = {}
    for run in sorted(runs, key=lambda stored: stored["dotted_order"], reverse=True):
        made = langsmith.schemas.Run(**{**run, "child_runs": children.get(run["id"], [])})
        children.setdefault(run.get("parent_run_id", ""), []).insert(0, made)
        live[run["id"]] = made
    root = next(run for run in live.values() if run.parent_run_id is None and not run.error)
    root.feedback_stats = {"user_score": {"n": 2, "avg": 0.5, "comments": ["Too short."]}}
    for record in (root, root.model_dump(mode="json"), [run for run in live.values() if run.trace_id == root.trace_id]):
        assert recognise(record) == 0.9
        trace = result_to_trace(record)
        assert steps_of(trace) == SUM
        assert 'user_score: 0.5 (average of 2)\nuser_score: ["Too short."]' in trace["feedback"]


def test_a_file_with_several_traces_given_as_one_is_read_whole_and_told(
    tmp_path: Path, runs: list[Json], caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "runs.jsonl", runs, "jsonl")
    trace = result_to_trace(path)
    assert "a text or file with 2 traces is read as one trace" in caplog.text
    assert {"2+2?", "1/0?"} <= {content for _, _, content in steps_of(trace)}
    assert [read_trace(record)["question"] for record in records_in(path)] == ["2+2?", "1/0?"]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_the_events_of_a_run(tmp_path: Path, watched: Any, form: str) -> None:
    events, _, _ = watched
    other = [{**event, "run_id": f"x{event['run_id']}", "parent_ids": ["xroot"]} for event in events]
    assert steps_of(result_to_trace(events)) == SUM
    [trace] = learned(write(tmp_path / f"events.{form}", events, form))
    assert steps_of(trace) == SUM
    assert (trace["question"], trace["answer"]) == ("2+2?", "By [maths-00001] it is 4.")
    assert trace["rest"]["metrics"] == {"input_tokens": 12.0, "output_tokens": 5.0}
    assert len(learned(write(tmp_path / f"more.{form}", [*events, *other], form))) == 2


def test_the_events_of_a_run_that_was_cut_off(watched: Any) -> None:
    events, _, _ = watched
    ends = [number for number, event in enumerate(events) if event["event"] == "on_tool_start"]
    trace = result_to_trace(events[: ends[0] + 1])
    assert steps_of(trace) == SUM[:2]
    assert (trace["answer"], trace["success"]) == ("", None)


def test_snapshots_of_a_thread(tmp_path: Path, watched: Any) -> None:
    _, snapshot, history = watched
    stored = json.loads(dumps(snapshot._asdict()))
    served = {"values": {"messages": messages_to_dict(FIRST)}, "next": [], "checkpoint": {"thread_id": "7"}}
    for record in (snapshot, stored, json.loads(dumps(snapshot)), history, json.loads(dumps(history))):
        assert recognise(record) == 0.9
        assert steps_of(result_to_trace(record)) == SUM
    for number, records in enumerate(([stored], [snapshot], [state._asdict() for state in history])):
        for form in ("json", "jsonl"):
            [trace] = learned(write(tmp_path / f"{number}.{form}", records, form))
            assert steps_of(trace) == SUM
    assert result_to_trace(served)["question"] == "2+2?"


def test_a_snapshot_of_a_thread_whose_task_failed() -> None:
    task = {"id": "1", "name": "tools", "error": "ZeroDivisionError('division by zero')", "interrupts": []}
    record = {"values": {"messages": messages_to_dict(FIRST)}, "next": ["tools"], "config": {}, "tasks": [task]}
    trace = result_to_trace(record)
    assert (trace["success"], trace["metadata"]["failed_at"]) == (False, "tools")


def test_what_is_claimed_can_be_converted(tmp_path: Path, runs: list[Json], watched: Any) -> None:
    """Every record here is read with the plugin's reader or without it, and never refused."""
    events, snapshot, _ = watched
    odd: list[Any] = [
        {"run_type": "llm", "inputs": {}, "id": "1", "trace_id": "1"},
        {"event": "on_custom_event", "run_id": "1", "data": {}},
        {"event": "on_tool_error", "run_id": "1", "parent_ids": None, "data": {"error": 7}},
        {"event": "on_chain_end", "run_id": "1", "parent_ids": ["1"], "data": {"output": None}},
        {"values": {"size": 3}, "next": [], "config": {}},
        {"type": "human", "content": 7, "additional_kwargs": None},
        {"messages": [{"type": "ai", "data": {"content": None}}]},
        {"intermediate_steps": [[{"tool": "add"}, None]], "input": 3},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "GET /", "attributes": []}]}]}]},
        json.loads(dumps(snapshot._asdict())),
    ]
    with_task = [run for run in runs if run["run_type"] != "tool"]
    for record in (*odd, *json.loads(dumps(events)), *with_task):
        read_trace(record)
        read_trace([record])
        for key, part in parts_of(record):
            assert key is None or recognise(part)
    mixed = write(tmp_path / "mixed.jsonl", [*odd, *runs], "jsonl")
    assert {"2+2?", "1/0?"} <= {found.task for found in read_runs(mixed) if isinstance(found, Run)}
    (tmp_path / "cut.json").write_text(json.dumps(runs)[: len(json.dumps(runs)) // 2])
    found = list(read_runs(tmp_path / "cut.json"))
    assert {type(item) for item in found} == {Run, Problem}


def test_the_call_of_a_tool_alone_has_no_task() -> None:
    record = {"run_type": "tool", "inputs": {"a": [1, None]}, "outputs": "x", "id": "1", "trace_id": "1"}
    with pytest.raises(TraceConversionError, match="record the calls of the model too"):
        read_trace(record)


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("long", [{"error": "Traceback " * 60_000}, {"extra": {"invocation_params": ["x"] * 100_000}}])
def test_an_export_is_recognised_also_where_a_long_field_comes_before_the_input(
    tmp_path: Path, runs: list[Json], long: Json, form: str
) -> None:
    # LangSmith writes the error, such as a traceback, and the extra fields before the input.
    order = ["id", "name", "start_time", "run_type", "end_time", "extra", "error"]
    first = {**{name: runs[0].get(name) for name in order}, **long}
    exported = [{**first, **{name: value for name, value in runs[0].items() if name not in order}}, *runs[1:]]
    short = learned(write(tmp_path / f"short.{form}", runs, form))
    found = learned(write(tmp_path / f"runs.{form}", exported, form))
    assert [trace["question"] for trace in found] == [trace["question"] for trace in short]


def test_the_analyser_learns_from_paths_and_records(tmp_path: Path) -> None:
    with ScriptedServer(harbour.script) as server:
        agent: Any = create_agent(chat_model(server), harbour.TOOLS)
        with langsmith_server() as (client, posted):
            config: Any = {"callbacks": [LangChainTracer(client=client)]}
            with pytest.raises(LookupError):
                agent.invoke({"messages": "When is high water in Bremen?"}, config)
            client.flush()
        runs = [run for batch in posted for run in [*batch.get("post", []), *batch.get("patch", [])]]
        path = write(tmp_path / "runs.jsonl", runs, "jsonl")
        for inputs in ([path], records_in(path)):
            server.clear()
            analyser = TraceAnalyser.from_client(LangChainLLMClient(chat_model(server)))
            [result] = analyser.run(inputs)
            assert result.error is None
            assert [skill.content for skill in analyser.skillbook.skills()] == [harbour.RULE]
