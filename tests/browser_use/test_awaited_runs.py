"""Browsers are awaited: several run together on one event loop, and a cancelled task closes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ace import ACEStepContext, SampleResult
from ace_browser_use import BrowserUse
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.browser_use.test_learning import trace_of
from tests.support.clients import client_for
from tests.support.gate import Gate
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytestmark = pytest.mark.usefixtures("no_browser_is_left")

SHIPS = ["Ada", "Bee"]


def test_browsers_run_together_on_the_loop_of_the_caller(site: Site) -> None:
    gate = Gate(2)

    def script(request: ScriptedRequest) -> Any:
        if harbour.is_of_browser(request) and not gate.is_open.is_set():
            gate.wait()
        return harbour.script(request)

    ended: list[int] = []
    threads: set[int] = set()

    def tell(result: SampleResult[ACEStepContext]) -> None:
        threads.add(threading.get_ident())
        ended.append(result.index)

    async def main(server: ScriptedServer) -> None:
        model = harbour.browser_llm(server)
        runner = BrowserUse.from_model(model, ace_llm=client_for(server), browser=harbour.profile())
        tasks = [f"Book a berth for {ship} at {site.address}/plain please" for ship in SHIPS]
        results, _ = await asyncio.gather(
            runner.arun(tasks, workers=2, on_sample_done=tell, on_sample_end=tell), gate.open()
        )
        assert [trace_of(result)["answer"] for result in results] == [f"Berth 7 is for {ship}." for ship in SHIPS]

    with ScriptedServer(script) as server:
        asyncio.run(main(server))
    assert sorted(site.booked) == SHIPS
    assert sorted(ended) == [0, 0, 1, 1]
    assert threads == {threading.get_ident()}


def test_a_cancelled_task_closes_the_browsers_and_nothing_is_learned(
    site: Site, browsers: Callable[[], list[int]]
) -> None:
    gate = Gate(2)

    def script(request: ScriptedRequest) -> Any:
        gate.wait()
        return harbour.script(request)

    async def main(server: ScriptedServer) -> None:
        model = harbour.browser_llm(server)
        runner = BrowserUse.from_model(model, ace_llm=client_for(server), browser=harbour.profile(), check_key=False)
        tasks = [f"Book a berth for {ship} at {site.address}/ please" for ship in (*SHIPS, "Cat")]
        task = asyncio.create_task(runner.arun(tasks, workers=2))
        await gate.filled()
        assert browsers()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert browsers() == []
        assert len(runner.skillbook) == 0
        gate.is_open.set()

    with ScriptedServer(script) as server:
        asyncio.run(main(server))
        assert not server.by_role("reflector")
