"""Whatever becomes of a run, its browser is closed; one that the caller lends stays if it shall."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_use import BrowserSession

from ace.context import ACEStepContext
from ace.pipeline import CancellationToken, Pipeline
from ace_browser_use import BrowserExecuteStep, BrowserResult
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.browser_use.steps import acting, book, run, seen_from_a_thread
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

pytestmark = pytest.mark.usefixtures("no_browser_is_left")


# What a browser of our own gets without saying.
LENT = {"chromium_sandbox": False, "enable_default_extensions": False}


def test_a_browser_behind_a_wrapper_is_closed(
    site: Site, chromium: str, tmp_path: Path, browsers: Callable[[], list[int]]
) -> None:
    # browser-use ends the wrapper, and takes that for the browser.
    wrapper = tmp_path / "browser"
    wrapper.write_text(f'#!/bin/sh\n"{chromium}" "$@"\nexit $?\n', encoding="utf-8")
    wrapper.chmod(0o755)
    with ScriptedServer(harbour.script) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(executable_path=wrapper))
        result = run(step, f"Book a berth for Ada at {site.address}/plain please")
    assert browsers() == []
    assert result.success is True


LATE_WRITER = """\
import os, time
folder, browser = os.environ["FOLDER"], os.getppid()
while os.getppid() == browser:
    time.sleep(0.001)
end = time.monotonic() + 1
while time.monotonic() < end:
    for number in range(1000):
        open(f"{folder}/late-{number}", "w").close()
"""
"""A helper of a browser that begins to write to the profile when the browser has ended, for a second."""


def test_the_folder_of_a_browser_whose_helper_still_writes_to_it_is_removed(
    site: Site, chromium: str, tmp_path: Path
) -> None:
    writer, wrapper = tmp_path / "writer.py", tmp_path / "browser"
    writer.write_text(LATE_WRITER, encoding="utf-8")
    take_folder = (
        "for argument; do case $argument in --user-data-dir=*) FOLDER=${argument#*=};; esac; done\nexport FOLDER\n"
    )
    start_writer = f'"{sys.executable}" "{writer}" 2>/dev/null &\n'
    wrapper.write_text(f'#!/bin/sh\n{take_folder}{start_writer}exec "{chromium}" "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    with ScriptedServer(harbour.script) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(executable_path=wrapper))
        result = run(step, f"Book a berth for Ada at {site.address}/plain please")
    assert result.success is True  # `no_browser_is_left` checks the rest


def test_a_cancelled_token_closes_the_browser_and_is_raised(site: Site, browsers: Callable[[], list[int]]) -> None:
    token = CancellationToken()
    seen: list[int] = []

    def script(request: ScriptedRequest) -> Answer:
        seen.extend(browsers())
        token.cancel()
        return Answer("", delay=30)

    with ScriptedServer(script) as server:
        pipeline = Pipeline([BrowserExecuteStep(harbour.browser_llm(server), harbour.profile())])
        contexts = [ACEStepContext(sample=f"Book a berth for Ada at {site.address}/ now", skillbook=book())]
        (result,) = pipeline.run(contexts, cancel_token=token)
    assert seen
    assert browsers() == []
    assert result.output is None
    assert type(result.error).__name__ == "PipelineCancelled"


def test_a_cancelled_task_closes_the_browser_and_is_raised(site: Site, browsers: Callable[[], list[int]]) -> None:
    async def cancelled(server: ScriptedServer) -> None:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile())
        running = asyncio.ensure_future(step.execute(f"Book a berth for Ada at {site.address}/ now", book()))
        await seen_from_a_thread(lambda: bool(server.requests))
        assert browsers()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert browsers() == []

    with ScriptedServer(lambda request: Answer("", delay=30)) as server:
        asyncio.run(cancelled(server))


def test_an_agent_that_loses_the_cancellation_begins_no_other_step(browsers: Callable[[], list[int]]) -> None:
    token = CancellationToken()
    lost: list[bool] = []

    async def lose_cancellation(_: object) -> None:
        token.cancel()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost.append(True)

    with ScriptedServer(lambda request: acting({"wait": {"seconds": 1}})) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(), on_step_end=lose_cancellation)
        contexts = [ACEStepContext(sample="Wait for a ship", skillbook=book())]
        (result,) = Pipeline([step]).run(contexts, cancel_token=token)
    assert (lost, len(server.requests)) == ([True], 1)
    assert browsers() == []
    assert type(result.error).__name__ == "PipelineCancelled"


def test_a_task_that_is_cancelled_while_the_browser_starts_leaves_none(browsers: Callable[[], list[int]]) -> None:
    async def cancelled(server: ScriptedServer) -> None:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile())
        running = asyncio.ensure_future(step.execute("Book a berth for Ada", book()))
        await seen_from_a_thread(lambda: bool(browsers()))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert browsers() == []

    with ScriptedServer(harbour.script) as server:
        asyncio.run(cancelled(server))
        assert server.requests == []


@pytest.mark.parametrize("is_lent", [True, False])
def test_a_task_that_is_cancelled_while_a_page_loads_leaves_neither_a_browser_nor_a_task(
    site: Site, browsers: Callable[[], list[int]], is_lent: bool
) -> None:
    """The loading page keeps the browser from closing. If a task of browser-use is left, the loop does not end."""

    async def both(server: ScriptedServer) -> BrowserResult:
        session = BrowserSession(browser_profile=harbour.profile(keep_alive=False, **LENT)) if is_lent else None
        step = BrowserExecuteStep(harbour.browser_llm(server), session or harbour.profile())
        running = asyncio.ensure_future(step.execute(f"Book a berth for Ada at {site.address}/slow now", book()))
        await seen_from_a_thread(lambda: "/slow" in site.asked)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert browsers() == []
        return await step.execute(f"Book a berth for Bee at {site.address}/plain please", book())

    with ScriptedServer(harbour.script) as server:
        result = asyncio.run(both(server))
    assert result.output == "Berth 7 is for Bee.", result.error


@pytest.mark.parametrize("keep_alive", [True, False])
def test_runs_take_turns_in_a_session_that_the_caller_lends(
    site: Site, browsers: Callable[[], list[int]], keep_alive: bool
) -> None:
    async def both(server: ScriptedServer) -> list[BrowserResult]:
        session = BrowserSession(browser_profile=harbour.profile(keep_alive=keep_alive, **LENT))
        step = BrowserExecuteStep(harbour.browser_llm(server), session)
        tasks = (f"Book a berth for {ship} at {site.address}/plain please" for ship in ("Ada", "Bee"))
        results = await asyncio.gather(*(step.execute(task, book()) for task in tasks))
        assert bool(browsers()) is keep_alive
        if keep_alive:
            await session.kill()
            await seen_from_a_thread(lambda: not browsers())
        return results

    with ScriptedServer(harbour.script) as server:
        results = asyncio.run(both(server))
    assert [result.output for result in results] == ["Berth 7 is for Ada.", "Berth 7 is for Bee."]
    assert site.asked.index("/booked?ship=Ada") < len(site.asked) - 1 - site.asked[::-1].index("/plain")
