"""browser-use with a real Chromium, whose model is behind the proxy."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from browser_use import Agent, BrowserProfile, ChatOpenAI

from ace.logs import Run, read_runs
from ace_browser_use.chromium import HOW_TO_INSTALL, find_chromium
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.proxy.test_coding_agents import proxy_before
from tests.requirement import missing
from tests.support.scripted_server import ScriptedServer


def test_an_agent_books_a_berth_with_a_skill_and_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chromium = find_chromium()
    if chromium is None:
        missing("chromium", f"there is no Chromium on this machine; install it: {HOW_TO_INSTALL}")

    async def book(address: str, office: str, folder: str) -> str | None:
        model = ChatOpenAI(
            model="scripted",
            base_url=f"{address}/v1",
            api_key="sk-scripted-0123456789",
            max_retries=0,
            default_headers={"x-ace-session": "berths"},  # each step has the page in the place of the last one
        )
        profile: BrowserProfile = harbour.profile(
            executable_path=chromium, user_data_dir=folder, chromium_sandbox=False, enable_default_extensions=False
        )
        task = f"Book a berth for Ada at {office}/ now, and accept the cookies first"
        agent: Agent[Any, Any] = Agent(task=task, llm=model, browser_profile=profile, use_judge=False)
        return (await agent.run(max_steps=6)).final_result()

    with (
        tempfile.TemporaryDirectory(prefix="ace-test-", ignore_cleanup_errors=True) as folder,  # a short path
        Site() as site,
        ScriptedServer(harbour.script) as server,
        proxy_before(server.url, tmp_path, [harbour.RULE]) as address,
    ):
        monkeypatch.setenv("ANONYMIZED_TELEMETRY", "false")
        assert asyncio.run(book(address, site.address, folder)) == "Berth 7 is for Ada."
        assert site.booked == ["Ada"]
    assert [request.text.count(harbour.RULE) for request in server.requests] == [1] * len(server.requests)
    [run] = read_runs(tmp_path / "proxy" / "runs")
    assert isinstance(run, Run)
    assert "Berth 7 is for Ada." in run.answer
    assert len([step for step in run.steps if step.speaker == "agent"]) >= len(server.requests) >= 3
