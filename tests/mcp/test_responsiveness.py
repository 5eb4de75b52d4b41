"""The event loop is never blocked, many sessions are served at once, and an idle server stays small."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.mcp.clients import World, content_of
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:ping is removed"),  # by the newest protocol; older clients send it
]


async def pings(client: Client, count: int) -> list[float]:
    """The seconds that pings take, one after the other."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await client.send_ping()
        took.append(time.perf_counter() - began)
    return took


def test_slow_models_do_not_delay_a_ping(tmp_path: Path) -> None:
    """20 sessions wait for a model that does not answer; in the meantime, pings are answered.

    With a handler that blocks the event loop, this test does not end.
    """
    plain, asked, may_answer = learning_script(), threading.Semaphore(0), threading.Event()

    def held(request: ScriptedRequest) -> Any:
        asked.release()
        may_answer.wait()
        return plain(request)

    with ScriptedServer(held) as model:
        world = World(tmp_path, model)

        async def converse() -> None:
            async with world.connect("http-legacy") as client:
                idle = await pings(client, 100)
                answers: list[str] = []

                async def ask(number: int) -> None:
                    question = {"session_id": f"s{number}", "question": "What about tides?"}
                    answers.append(content_of(await client.call_tool("ace.ask", question))["answer"])

                async with anyio.create_task_group() as group:
                    for number in range(20):
                        group.start_soon(ask, number)
                    try:
                        for _ in range(20):
                            await anyio.to_thread.run_sync(asked.acquire)
                        busy = await pings(client, 100)
                        assert answers == []
                    finally:
                        may_answer.set()
            slow, usual = quantiles(busy, n=100)[98], quantiles(idle, n=100)[98]
            print(f"p99 of a ping: idle {usual * 1000:.1f} ms, with 20 slow sessions {slow * 1000:.1f} ms")
            assert answers == ["unknown"] * 20

        anyio.run(converse)


def test_a_hundred_sessions_are_open_at_once(world: World) -> None:
    world.taught(*(f"word{number}" for number in range(100)))

    async def converse() -> None:
        async with world.connect("http") as client:
            answers: dict[int, str] = {}

            async def ask(number: int) -> None:
                asked = {"session_id": f"s{number}", "question": f"What about word{number}?"}
                answers[number] = content_of(await client.call_tool("ace.ask", asked))["answer"]

            async with anyio.create_task_group() as group:
                for number in range(100):
                    group.start_soon(ask, number)
            assert sorted(answers) == list(range(100))
            assert all(answer.startswith("LESSON word") for answer in answers.values())

    anyio.run(converse)


def memory_of(process: int) -> tuple[int, str]:
    """The resident memory of a process, in kilobytes, and the files that it has mapped."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    [resident] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    return resident, Path(f"/proc/{process}/maps").read_text(encoding="utf-8")


def test_an_idle_server_has_not_loaded_what_only_a_model_needs(world: World) -> None:
    """What makes a server large is LiteLLM; it is loaded by the first call that needs it."""

    async def converse() -> None:
        with world.serving() as running:
            async with Client(running.url) as client:
                await client.list_tools()
                content_of(await client.call_tool("ace.skillbook.get", {"session_id": "s"}))
                resident, maps = await anyio.to_thread.run_sync(memory_of, running.process.pid)
        print(f"an idle server: {resident / 1024:.0f} MB")
        assert "tokenizers" not in maps
        assert resident < 150 * 1024

    anyio.run(converse)
