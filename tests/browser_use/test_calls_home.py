"""A run asks no host but those of its task; telemetry and the like are off unless the user wants them."""

from __future__ import annotations

import os

import pytest

from tests.browser_use.site import Site
from tests.support.subprocesses import run_python

RUN = """
import sys

asked = set()

def listen(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        asked.add(str(arguments[0]))
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        asked.add(arguments[1][0])

sys.addaudithook(listen)

import asyncio, os
from ace import Skillbook, SkillbookView
from ace_browser_use import BrowserExecuteStep, BrowserUse
from tests.browser_use import harbour
from tests.support.scripted_server import ScriptedServer

with ScriptedServer(harbour.script) as server:
    step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile())
    task = f"Book a berth for Ada at {sys.argv[1]}/plain please"
    result = asyncio.run(step.execute(task, SkillbookView(Skillbook())))
print(result.output)
runner = BrowserUse.from_model("gpt-4o-mini")  # looks up no prices, though it has to load LiteLLM
print(type(runner.pipeline.steps[0].browser_llm).__name__)
print(sorted(asked - {"127.0.0.1", "localhost", "None"}))
print(os.environ["ANONYMIZED_TELEMETRY"], os.environ["BROWSER_USE_VERSION_CHECK"])
"""


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("BROWSER_USE_", "ANONYMIZED_"))]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("chromium")
def test_no_other_host_is_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP", raising=False)
    code = RUN.replace("sys.argv[1]", repr(site.address))
    assert run_python(code).stdout.splitlines()[-4:] == ["Berth 7 is for Ada.", "ChatLiteLLM", "[]", "false false"]


def test_what_the_user_says_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "true")
    code = """
import os
from ace_browser_use.framework import load
load("browser_use", needed_by="this test")
print(os.environ["ANONYMIZED_TELEMETRY"], os.environ["BROWSER_USE_VERSION_CHECK"])
"""
    assert run_python(code).stdout.splitlines()[-1] == "true false"
