"""The runner learns from each turn once, wherever OpenClaw keeps it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.pipeline import CancellationToken, PipelineCancelled, SampleResult
from ace.plugins import get_runner
from ace.protocols import LLMClientLike, register_model_prefix, unregister_model_prefix
from ace_openclaw import OpenClaw, read_session
from tests.openclaw.learning_script import learn
from tests.openclaw.samples import (
    CAPTURED,
    EXPORTED,
    SIDECAR,
    V3,
    V4,
    V4_ERROR,
    add_events,
    events_of,
    make_database,
    said,
)
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learn) as started:
        yield started


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of OpenClaw, with a database and with files of the time before."""
    folder = tmp_path / "state"
    make_database(folder / "agents/main/agent/openclaw-agent.sqlite", [events_of(V4)])
    old = folder / "agents/old/sessions"
    old.mkdir(parents=True)
    for sample in (V3, SIDECAR):
        (old / sample.name).write_bytes(sample.read_bytes())
    (old / "sessions.json").write_text("{}", encoding="utf-8")
    return folder


def runner_for(server: ScriptedServer, state: Path, **options: Any) -> OpenClaw:
    return OpenClaw.from_model(ace_llm=client_for(server), state_dir=state, **options)


def test_everything_in_the_state_folder_is_learned_once(server: ScriptedServer, state: Path, tmp_path: Path) -> None:
    options = {"skillbook_path": tmp_path / "skills.db"}
    runner = runner_for(server, state, **options)
    results = runner.run(max_in_flight=1)
    assert [result.error for result in results] == [None] * 4
    assert (runner.report.sessions, runner.report.turns_learned, runner.report.problems) == (2, 4, [])
    assert {skill.content for skill in runner.skillbook.skills(include_invalid=True)} == {
        "Guard a division against an empty list.",
        "Answer in one sentence.",
    }
    [source] = {skill.sources[0].integration for skill in runner.skillbook.skills(include_invalid=True)}
    assert source == "openclaw"
    server.clear()
    again = runner_for(server, state, **options)
    assert again.run() == []
    assert (again.report.turns_known, server.requests) == (4, [])


def test_shuffled_turns_are_counted_as_themselves(server: ScriptedServer, state: Path) -> None:
    orders = []
    for seed in range(4):
        runner = runner_for(server, state)
        orders.append([str(result.sample["trace_id"]) for result in runner.run(max_in_flight=1, shuffle=seed)])
        assert (runner.report.turns_learned, runner.report.problems) == (4, [])
        assert runner.run(shuffle=seed) == []
    assert len({tuple(order) for order in orders}) > 1
    assert len({frozenset(order) for order in orders}) == 1


def test_a_session_that_has_grown_is_new_only_in_its_new_turns(server: ScriptedServer, state: Path) -> None:
    events = events_of(V4)
    path = make_database(state / "agents/grown/agent/openclaw-agent.sqlite", [events[:16]])
    runner = runner_for(server, state)
    assert len(runner.run(["grown"])) == 1
    with closing(sqlite3.connect(path)) as database:
        add_events(database, str(events[0]["id"]), events[16:], 16)
        database.commit()
    [result] = runner.run(["grown"])
    assert result.output is not None and isinstance(result.output.trace, dict)
    assert result.output.trace["question"] == "Too long. In one sentence, please."
    assert runner.report.turns_known == 1


def test_the_same_session_is_known_in_each_of_its_forms(server: ScriptedServer, state: Path) -> None:
    runner = runner_for(server, state)
    assert len(runner.run([V4, CAPTURED, EXPORTED])) == 3  # two turns, and the captured one of another session
    assert (runner.report.sessions, runner.report.turns_known) == (2, 0)  # none was learned from before


def test_a_turn_under_way_waits_until_it_is_done_or_idle(server: ScriptedServer, state: Path) -> None:
    now = datetime.now(UTC).timestamp() * 1000
    path = state / "agents/old/sessions/now.jsonl"
    path.write_text('{"type": "session", "version": 3, "id": "now", "cwd": "/"}\n', encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(said("user", "Are you there?", int(now))) + "\n")
    runner = runner_for(server, state)
    assert runner.run([path]) == []
    assert runner.report.turns_unfinished == 1
    assert len(runner_for(server, state, idle_minutes=0).run([path])) == 1


def test_what_cannot_be_read_is_told_and_the_rest_is_learned(server: ScriptedServer, state: Path) -> None:
    broken = state / "agents/old/sessions/broken.jsonl"
    broken.write_bytes(b"no json\n")
    silent = state / "agents/old/sessions/silent.jsonl"
    silent.write_text('{"type": "session", "version": 3, "id": "quiet", "cwd": "/"}\n', encoding="utf-8")
    make_database(state / "agents/next/agent/openclaw-agent.sqlite", [events_of(V4_ERROR)], version=24)
    runner = runner_for(server, state)
    assert len(runner.run([state, "nobody"])) == 5
    problems = "\n".join(runner.report.problems)
    assert f"{broken}: no events of OpenClaw found" in problems
    assert f"{silent}: quiet: no message of a user in it" in problems
    assert "has schema 24, but this release of ace-openclaw was tested with schemas up to 23" in problems
    assert "'nobody' is neither a file nor an agent" in problems and "main, next, old" in problems


def test_a_turn_whose_learning_failed_is_learned_next_time(state: Path, tmp_path: Path) -> None:
    def refuse(request: ScriptedRequest) -> HttpError:
        return HttpError(400)

    with ScriptedServer(refuse) as broken:
        runner = runner_for(broken, state, skillbook_path=tmp_path / "skills.db")
        assert all(result.error is not None for result in runner.run(["main"]))
        assert (runner.report.turns_learned, len(runner.report.problems)) == (0, 2)
    with ScriptedServer(learn) as mended:
        again = OpenClaw.from_model(ace_llm=client_for(mended), state_dir=state, skillbook=runner.skillbook)
        again.run(["main"])
        assert (again.report.turns_learned, again.report.turns_known) == (2, 0)


@pytest.mark.parametrize("name", ["", "skills.json"])
def test_with_a_skillbook_without_a_store_the_runner_itself_knows_what_it_learned(
    server: ScriptedServer, state: Path, tmp_path: Path, name: str
) -> None:
    runner = runner_for(server, state, **({"skillbook_path": tmp_path / name} if name else {}))
    assert len(runner.run(["main"])) == 2
    server.clear()
    assert runner.run(["main"]) == []
    assert (runner.report.turns_known, server.requests) == (2, [])


def test_sessions_without_an_id_are_not_taken_for_each_other(server: ScriptedServer, state: Path) -> None:
    runner = runner_for(server, state)
    for words in ("One?", "Two?"):
        asked: dict[str, object] = {"type": "message", "message": {"role": "user", "content": words}}
        assert len(runner.run([read_session([asked])])) == 1


def test_what_a_cancelled_run_left_is_no_problem_and_is_learned_by_the_next_one(
    server: ScriptedServer, state: Path, tmp_path: Path
) -> None:
    token = CancellationToken()
    token.cancel()
    runner = runner_for(server, state, skillbook_path=tmp_path / "skills.db")
    runner.run(cancel_token=token)
    assert (runner.report.turns_unfinished, runner.report.problems) == (4, [])
    runner.run()
    assert (runner.report.turns_learned, runner.report.turns_unfinished) == (4, 0)


def test_a_model_string_may_have_the_prefix_of_a_plugin(server: ScriptedServer, state: Path) -> None:
    asked: list[str] = []

    def factory(model: str, **settings: Any) -> LLMClientLike:
        asked.append(model)
        return client_for(server)

    register_model_prefix("claws", factory)
    try:
        OpenClaw.from_model(ace_model="claws/large", state_dir=state).run(["main"])
    finally:
        unregister_model_prefix("claws")
    assert asked == ["large"]
    assert server.requests


def test_one_path_in_the_place_of_a_list_is_a_mistake(server: ScriptedServer, state: Path) -> None:
    with pytest.raises(TypeError, match=r"run\(\[\.\.\.\]\)"):
        runner_for(server, state).run(str(V3))


def test_the_runner_is_found_by_the_name_of_the_plugin() -> None:
    assert get_runner("openclaw") is OpenClaw


@pytest.mark.parametrize(
    ("given", "meant"), [("skill_book", "skillbook"), ("base_url", "api_base"), ("state_folder", "state_dir")]
)
def test_a_misspelt_option_is_suggested(given: str, meant: str) -> None:
    options: dict[str, Any] = {given: None}
    with pytest.raises(TypeError, match=rf"OpenClaw\.from_model\(\) got .*'{given}'; did you mean '{meant}'\?"):
        OpenClaw.from_model(**options)


def test_the_address_of_the_model_that_learns() -> None:
    runner: Any = OpenClaw.from_model(ace_model="openai/x", api_base="http://127.0.0.1:1", api_key="k")
    assert runner.pipeline.steps[0].reflector.llm.config.api_base == "http://127.0.0.1:1"


def test_sessions_are_learned_from_asynchronous_code(tmp_path: Path) -> None:
    runner = OpenClaw.from_model(ace_model="openai/x", api_key="k", state_dir=tmp_path)
    assert asyncio.run(runner.arun()) == [] and runner.report.turns_learned == 0


def test_the_run_options_that_every_runner_has(server: ScriptedServer, state: Path, tmp_path: Path) -> None:
    runner = runner_for(server, state, skillbook_path=tmp_path / "skills.db")
    done: list[int] = []
    ended: list[int] = []
    callbacks: Any = {
        "on_sample_done": lambda result: done.append(result.index),
        "on_sample_end": lambda result: ended.append(result.index),
    }
    assert len(runner.run(["main"], workers=2, max_in_flight=2, **callbacks)) == 2
    assert sorted(done) == sorted(ended) == [0, 1]
    assert len(runner.run(["main", "old"], **callbacks)) == 2
    assert len(done) == len(ended) == 4  # the callbacks hear of new turns alone
    with pytest.raises(TypeError, match=r"^OpenClaw\.run\(\) got .* 'worker'; did you mean 'workers'\?$"):
        runner.run(["main"], worker=2)  # type: ignore[call-arg]  # the mistake that is tested


def test_workers_limit_how_many_turns_are_reflected_on(state: Path) -> None:
    at_once: list[int] = []
    working = threading.Semaphore(0)
    guard = threading.Lock()
    now = [0]

    def count(request: ScriptedRequest) -> Any:
        if request.role == "reflector":
            with guard:
                now[0] += 1
                at_once.append(now[0])
            working.acquire(timeout=0.2)  # others may come meanwhile
            with guard:
                now[0] -= 1
        return learn(request)

    with ScriptedServer(count) as server:
        assert len(runner_for(server, state).run(workers=1)) == 4
    assert max(at_once) == 1


def test_a_failed_turn_stops_a_run_that_fails_fast(state: Path) -> None:
    with ScriptedServer(lambda request: HttpError(400)) as server:
        runner = runner_for(server, state)
        results = runner.run(fail_fast=True, max_in_flight=1)
    assert len(results) == 4
    assert [isinstance(result.error, PipelineCancelled) for result in results] == [False, True, True, True]


def test_servers_that_cannot_be_reached_stop_the_run(state: Path) -> None:
    with ScriptedServer(lambda request: HttpError(500)) as server:
        runner = runner_for(server, state)
        results = runner.run(max_consecutive_failures=2, max_in_flight=1)
    assert [isinstance(result.error, PipelineCancelled) for result in results] == [False, False, True, True]


def test_it_is_awaited_on_the_loop_of_the_caller(server: ScriptedServer, state: Path, tmp_path: Path) -> None:
    places = {"skillbook_path": tmp_path / "skills.db", "workspace": tmp_path / "workspace"}
    runner = runner_for(server, state, **places, unproven="keep")
    (tmp_path / "workspace").mkdir()
    threads: set[int] = set()

    async def main() -> list[str]:
        ended: asyncio.Queue[str] = asyncio.Queue()

        def tell(result: SampleResult[ACEStepContext]) -> None:
            threads.add(threading.get_ident())
            ended.put_nowait(str(result.index))

        await runner.arun(["main"], on_sample_end=tell)
        assert await runner.arun(["main"], on_sample_end=tell) == []
        return [ended.get_nowait() for _ in range(ended.qsize())]

    assert sorted(asyncio.run(main(), debug=True)) == ["0", "1"]
    assert threads == {threading.get_ident()}
    assert "Answer in one sentence." in (tmp_path / "workspace" / "AGENTS.md").read_text(encoding="utf-8")


def test_a_cancelled_task_stops_the_run_and_the_next_one_learns_the_rest(state: Path, tmp_path: Path) -> None:
    asked, is_cancelled = threading.Event(), threading.Event()

    def slow(request: ScriptedRequest) -> Any:
        asked.set()
        is_cancelled.wait(60)
        return learn(request)

    with ScriptedServer(slow) as server:
        runner = runner_for(server, state, skillbook_path=tmp_path / "skills.db")

        async def main() -> None:
            task = asyncio.create_task(runner.arun(max_in_flight=1))
            await asyncio.to_thread(asked.wait, 60)
            task.cancel()
            asyncio.get_running_loop().call_later(0.05, is_cancelled.set)
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        learned = len(server.by_role("skill_manager"))
        assert learned < 4
        assert len(runner.run()) == 4 - learned


@pytest.mark.parametrize("name", ["once", "resume", "run_id", "wait"])
def test_what_the_runner_sets_itself_is_refused(server: ScriptedServer, state: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"OpenClaw.run sets {name} itself"):
        runner_for(server, state).run(**{name: "x"})  # type: ignore[arg-type]  # any value
