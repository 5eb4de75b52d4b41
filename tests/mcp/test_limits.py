"""Safe mode, folders, time limits, budgets and cancellation: each limit holds, and what was learned is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from ace import LiteLLMClient, Skillbook
from ace_mcp import MCPServerConfig, create_server
from ace_mcp.sessions import SessionModel
from tests.mcp.clients import World, content_of, error_of
from tests.mcp.hanging_model import HangingModel, SilentModel
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Answer, Reply, ScriptedRequest, ScriptedServer

LEARN: list[tuple[str, dict[str, Any]]] = [
    ("ace.learn.sample", {"samples": [{"question": "What about tides? LESSON tides"}]}),
    ("ace.learn.feedback", {"question": "?", "answer": "!", "feedback": "LESSON tides"}),
    ("ace.learn.trace", {"trace": "LESSON tides"}),
]
FILES: list[tuple[str, dict[str, Any]]] = [
    ("ace.skillbook.save", {"path": "copy.json"}),
    ("ace.skillbook.load", {"path": "copy.json"}),
]


def test_safe_mode_answers_and_shows_and_does_nothing_else(world: World) -> None:
    world.taught("kelp")
    before = {path: path.read_bytes() for path in world.data.iterdir() if path.name == "skills.db"}

    async def converse() -> None:
        async with world.connect(safe_mode=True) as client:
            asked = {"session_id": "s", "question": "What about kelp?"}
            assert content_of(await client.call_tool("ace.ask", asked))["answer"] == "LESSON kelp"
            assert len(content_of(await client.call_tool("ace.skillbook.get", {"session_id": "s"}))["skills"]) == 1
            for name, given in [*LEARN, *FILES]:
                code, message, _ = error_of(await client.call_tool(name, {"session_id": "s", **given}))
                assert code == "FORBIDDEN_IN_SAFE_MODE"
                assert "safe mode" in message

    anyio.run(converse)
    assert world.lessons() == ["Remember LESSON kelp."]
    assert [path.name for path in world.data.iterdir() if path.suffix == ".json"] == []
    assert len(before) == 1


def test_saving_and_loading_can_be_switched_off(world: World) -> None:
    async def converse() -> None:
        async with world.connect(allow_save_load=False) as client:
            for name, given in FILES:
                code, message, _ = error_of(await client.call_tool(name, {"session_id": "s", **given}))
                assert (code, "disabled" in message) == ("SAVE_LOAD_DISABLED", True)

    anyio.run(converse)


def test_a_saved_copy_is_loaded_by_another_user_once(world: World, tmp_path: Path) -> None:
    world.taught("tides", "kelp")
    root = tmp_path / "shared"
    root.mkdir()

    async def converse() -> None:
        async with world.connect(skillbook_root=root) as client:
            given = {"session_id": "s", "path": "team/copy.json"}
            for _ in range(2):  # a copy may be saved again
                saved = content_of(await client.call_tool("ace.skillbook.save", given))
                assert saved == {"session_id": "s", "path": str(root / "team/copy.json"), "count": 2}
        async with world.connect(skillbook=str(tmp_path / "other.db"), skillbook_root=root) as client:
            for count in (2, 0):
                loaded = content_of(await client.call_tool("ace.skillbook.load", given))
                assert loaded["count"] == count
            assert content_of(await client.call_tool("ace.skillbook.get", {"session_id": "s"}))["stats"]["skills"] == 2

    anyio.run(converse)
    with Skillbook.open(tmp_path / "other.db") as book:
        assert [skill.content for skill in book.skills()] == ["Remember LESSON tides.", "Remember LESSON kelp."]


def test_a_path_that_leads_out_of_the_folder_is_refused(world: World, tmp_path: Path) -> None:
    world.taught("tides")
    root = tmp_path / "root"
    outside = tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    Skillbook().save_to_file(outside / "theirs.json")
    (root / "link").symlink_to(outside)
    (root / "link.json").symlink_to(outside / "theirs.json")
    (root / "circle.json").symlink_to(root / "circle.json")
    (root / "notes.txt").write_text("mine", encoding="utf-8")
    Skillbook.open(root / "own.db").close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file() and not path.is_symlink()}
    refused = [
        "../outside/new.json",
        "a/../../outside/new.json",
        "a/../new.json",
        str(outside / "theirs.json"),
        "/etc/passwd",
        "link/new.json",
        "link/theirs.json",
        "link.json",
        "circle.json",
        "acme://team/skills",
        "nul\0byte.json",
    ]

    async def converse() -> None:
        async with world.connect(skillbook_root=root) as client:
            for name in ("ace.skillbook.save", "ace.skillbook.load"):
                for path in refused:
                    code, message, _ = error_of(await client.call_tool(name, {"session_id": "s", "path": path}))
                    assert (code, str(root) in message) == ("SAVE_LOAD_DISABLED", False), path
            unusable = (
                "mcp-clients.json",
                "~/.bashrc",
                "~/a.json",
                " ",
                "con",
                "con.json",
                "a/.json",
                ".a.json",
                "a.sh",
            )
            for path in ("notes.txt", "own.db", ".", "notes.md", "x" * 300 + ".json", *unusable):
                code, *_ = error_of(await client.call_tool("ace.skillbook.save", {"session_id": "s", "path": path}))
                assert code == "VALIDATION_ERROR", path
            for path in ("notes.txt", "none.json", "."):
                code, *_ = error_of(await client.call_tool("ace.skillbook.load", {"session_id": "s", "path": path}))
                assert code == "VALIDATION_ERROR", path

    anyio.run(converse)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file() and not path.is_symlink()}
    assert {path: after[path] for path in before} == before
    assert [path for path in after if path not in before and path.suffix == ".json"] == []


def test_learning_that_takes_too_long_is_stopped_and_what_was_learned_is_kept(
    world: World, hanging: HangingModel
) -> None:
    world = World(world.folder, hanging.server)
    samples = [
        {"question": f"What about it? LESSON {word}", "ground_truth": f"LESSON {word}"}
        for word in ("tides", "HANG", "kelp")
    ]

    async def converse(seconds: float) -> None:
        async with world.connect(learn_timeout_seconds=seconds) as client:
            for given in ({"samples": samples}, {"samples": samples[1:2]}):
                result = await client.call_tool("ace.learn.sample", {"session_id": "s", **given})
                code, message, details = error_of(result)
                assert code == "TIMEOUT"
                assert "and their skills are kept" in message
            assert details["processed"] == 0
            if not world.lessons():
                return
            requests = len(hanging.server.requests)
            # Nothing is left behind: the session is free, and the model is not asked any more.
            asked = {"session_id": "s", "question": "What about tides?"}
            assert content_of(await client.call_tool("ace.ask", asked))["answer"] == "LESSON tides"
            assert len(hanging.server.requests) == requests + 1

    for seconds in (8, 60, 480):  # on a busy machine, the time may be up before anything was learned
        anyio.run(converse, seconds)
        if world.lessons():
            break
    assert "Remember LESSON tides." in [lesson.partition(" Example")[0] for lesson in world.lessons()]
    assert not any("HANG" in lesson for lesson in world.lessons())


@pytest.mark.parametrize("transport", ["memory", "stdio", "http", "http-legacy"])
def test_a_cancelled_call_stops_between_samples_and_keeps_what_it_has_learned(
    world: World, hanging: HangingModel, transport: str
) -> None:
    world = World(world.folder, hanging.server)
    words = ("tides", "HANG", *[f"later{number}" for number in range(10)])
    samples = [{"question": f"What about it? LESSON {word}", "ground_truth": f"LESSON {word}"} for word in words]

    async def converse() -> None:
        async with world.connect(transport) as client:
            learned = anyio.Event()

            async def note(progress: float, total: float | None, message: str | None) -> None:
                learned.set()

            async def learn() -> None:
                given = {"session_id": "s", "samples": samples}
                await client.call_tool("ace.learn.sample", given, progress_callback=note)

            async with anyio.create_task_group() as group:
                group.start_soon(learn)
                await learned.wait()
                await anyio.to_thread.run_sync(hanging.asked.wait)
                group.cancel_scope.cancel()
            # The call has ended when the server ends, or it would hang here.
            asked = {"session_id": "s", "question": "What about tides?"}
            assert content_of(await client.call_tool("ace.ask", asked))["answer"] == "LESSON tides"

    anyio.run(converse)
    lessons = world.lessons()
    assert "Remember LESSON tides." in [lesson.partition(" Example")[0] for lesson in lessons]
    assert len(lessons) < len(words)
    requests = len(hanging.server.requests)
    hanging.let_go()
    assert (world.lessons(), len(hanging.server.requests)) == (lessons, requests)


def test_a_cancelled_call_leaves_its_session_free(world: World, hanging: HangingModel) -> None:
    """While the call ran on, its session would be busy, and a busy session is never closed."""
    server = World(world.folder, hanging.server).server(session_ttl_seconds=0.001)

    async def converse() -> None:
        async with Client(server) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ace.ask", {"session_id": "s", "question": "HANG"})
            await anyio.to_thread.run_sync(hanging.asked.wait)
            assert server.sessions.close_idle() == []
            group.cancel_scope.cancel()
        while server.sessions.open_sessions:
            await anyio.to_thread.run_sync(server.sessions.close_idle)
            await anyio.sleep(0.01)

    anyio.run(converse)


@pytest.mark.parametrize("reason", ["cancelled", "shutdown"])
def test_a_call_that_is_stopped_closes_its_request_to_the_model(tmp_path: Path, reason: str) -> None:
    """The model waits for the end of the connection, so this test hangs if the request is left open."""
    with SilentModel() as model:
        client = LiteLLMClient("openai/scripted", api_base=model.api_base, api_key="none")
        config = MCPServerConfig(skillbook=str(tmp_path / "skills.db"))
        server = create_server(config, open_model=lambda _: SessionModel(client))

        async def converse() -> None:
            async with Client(server) as user, anyio.create_task_group() as group:
                group.start_soon(user.call_tool, "ace.learn.trace", {"session_id": "s", "trace": "LESSON tides"})
                await anyio.to_thread.run_sync(model.asked.wait)
                if reason == "cancelled":
                    group.cancel_scope.cancel()
                else:
                    await anyio.to_thread.run_sync(lambda: server.sessions.shut_down(seconds=60))

        anyio.run(converse)
        model.abandoned.wait()
        assert server.sessions.shut_down(seconds=60)


def test_calls_that_read_or_ask_do_not_wait_for_one_that_waits_for_its_model(
    world: World, hanging: HangingModel
) -> None:
    world = World(world.folder, hanging.server)

    async def converse() -> None:
        async with world.connect() as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ace.ask", {"session_id": "s", "question": "HANG"})
            await anyio.to_thread.run_sync(hanging.asked.wait)
            for session_id in ("s", "t"):
                asked = {"session_id": session_id, "question": "What about tides?"}
                assert content_of(await client.call_tool("ace.ask", asked))["answer"] == "unknown"
                content_of(await client.call_tool("ace.skillbook.get", {"session_id": session_id}))
            group.cancel_scope.cancel()

    anyio.run(converse)


def priced(request: ScriptedRequest) -> Reply:
    """Each answer costs: the price of a model that LiteLLM knows is computed from the tokens."""
    reply = learning_script()(request)
    content = reply.content if isinstance(reply, Answer) else str(reply)
    return Answer(content, usage={"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000})


def test_a_server_that_has_spent_its_budget_calls_no_model(tmp_path: Path) -> None:
    with ScriptedServer(priced) as model:
        world = World(tmp_path, model)

        async def converse() -> None:
            async with world.connect("stdio", max_cost=0.0001, default_model="openai/gpt-4o-mini") as client:
                asked = {"session_id": "s", "question": "What about tides?"}
                content_of(await client.call_tool("ace.ask", asked))
                for name, given in [("ace.ask", {"question": "And kelp?"}), *LEARN]:
                    code, message, details = error_of(await client.call_tool(name, {"session_id": "t", **given}))
                    assert (code, details) == ("PROVIDER_ERROR", {"max_cost": 0.0001})
                    assert "--max-cost" in message

        anyio.run(converse)
        assert len(model.requests) == 1


def test_learning_that_spends_the_budget_says_so(tmp_path: Path) -> None:
    """The first answer costs more than the budget, so no sample gets further than its answer."""
    samples = [{"question": f"What about {word}? LESSON {word}"} for word in ("tides", "kelp", "surf")]
    with ScriptedServer(priced) as model:
        world = World(tmp_path, model)

        async def converse() -> None:
            async with world.connect("stdio", max_cost=0.0001, default_model="openai/gpt-4o-mini") as client:
                given = {"session_id": "s", "samples": samples}
                code, message, details = error_of(await client.call_tool("ace.learn.sample", given))
                assert (code, "--max-cost" in message) == ("PROVIDER_ERROR", True), message
                assert [failure["index"] for failure in details["failures"]] == [0, 1, 2]
                assert all("--max-cost" in failure["what"] for failure in details["failures"])

        anyio.run(converse)
        assert {request.role for request in model.requests} == {"agent"}


@pytest.mark.parametrize("transport", ["memory", "stdio"])
def test_a_model_that_cannot_be_used_is_a_provider_error_without_the_key(tmp_path: Path, transport: str) -> None:
    key = "sk-scripted-0123456789"

    def refuse(request: ScriptedRequest) -> Reply:
        from tests.support.scripted_server import HttpError

        return HttpError(401, f"the key {key} is wrong")

    with ScriptedServer(refuse) as model:
        world = World(tmp_path, model)

        async def converse() -> None:
            async with world.connect(transport) as client:
                for name, given in [("ace.ask", {"question": "?"}), *LEARN]:
                    result = await client.call_tool(name, {"session_id": "s", **given})
                    code, message, _ = error_of(result)
                    assert code == "PROVIDER_ERROR", name
                    assert key not in str(result)
                    if transport == "stdio":
                        assert "refused the key" in message

        anyio.run(converse)
