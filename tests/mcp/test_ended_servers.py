"""A server that is ended while it learns: what was acknowledged is in the skillbook."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

import anyio
import pytest
from mcp import Client, MCPError

from tests.mcp.clients import World, content_of, error_of
from tests.mcp.hanging_model import HangingModel
from tests.support.command_line import ACE


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_what_was_acknowledged_survives_the_end_of_the_server(
    world: World, hanging: HangingModel, ending: signal.Signals
) -> None:
    world = World(world.folder, hanging.server)
    took = 0.0
    ends: list[tuple[str, bool]] = []

    async def converse(url: str, pid: int) -> None:
        async with Client(url) as client:
            given = {"session_id": "s", "trace": {"question": "?", "answer": "LESSON tides", "reward": 0.0}}
            assert content_of(await client.call_tool("ace.learn.trace", given))["learned"]
            progressed = anyio.Event()

            async def note(progress: float, total: float | None, message: str | None) -> None:
                progressed.set()

            async def learn() -> None:
                samples = [
                    {"question": f"What about it? LESSON {word}", "ground_truth": f"LESSON {word}"}
                    for word in ("kelp", "HANG", "surf")
                ]
                with contextlib.suppress(MCPError):  # no answer comes from a process that was killed
                    result = await client.call_tool(
                        "ace.learn.sample", {"session_id": "s", "samples": samples}, progress_callback=note
                    )
                    code, message, _ = error_of(result)
                    ends.append((code, "shutdown" in message))

            async with anyio.create_task_group() as group:
                group.start_soon(learn)
                await progressed.wait()
                await anyio.to_thread.run_sync(hanging.asked.wait)
                os.kill(pid, ending)

    with world.serving() as running:
        with contextlib.suppress(BaseExceptionGroup):  # the client loses its connection
            anyio.run(converse, running.url, running.process.pid)
        began = time.monotonic()
        running.process.wait()
        took = time.monotonic() - began
    hanging.let_go()
    assert running.process.returncode == (-9 if ending == signal.SIGKILL else 130)
    # The connection may end before the answer to the stopped call has arrived.
    assert ends in ([], [] if ending == signal.SIGKILL else [("TIMEOUT", True)])
    lessons = [lesson.partition(" Example")[0] for lesson in world.lessons()]
    assert {"Remember LESSON tides.", "Remember LESSON kelp."} <= set(lessons)
    assert not any("HANG" in lesson for lesson in lessons)
    print(f"it took {took:.2f} s to end")  # `pytest -s` shows it; the machine is shared, so it is not asserted


def test_a_server_on_stdio_ends_when_its_client_is_gone_or_a_signal_comes(world: World, hanging: HangingModel) -> None:
    world = World(world.folder, hanging.server)
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    call = {"name": "ace.learn.trace", "arguments": {"session_id": "s", "trace": "HANG LESSON tides"}}
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
    ]
    for ending in ("closed", "SIGTERM"):
        hanging.asked.clear()
        process = subprocess.Popen(
            [ACE, "mcp"],
            env=world.environment(),
            cwd=world.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            process.stdin.flush()
            hanging.asked.wait()
            if ending == "closed":
                process.stdin.close()
            else:
                process.send_signal(signal.SIGTERM)
            out = process.stdout.read().splitlines()
            assert process.wait() == (0 if ending == "closed" else 130)
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out)
    assert world.lessons() == []
