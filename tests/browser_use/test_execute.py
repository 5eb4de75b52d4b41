"""One run of a real browser: what it leaves behind, well or not, and that no browser is left."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from ace import Sample
from ace_browser_use import BrowserExecuteStep, history_to_trace, result_to_trace
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.browser_use.steps import acting, book, run
from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer

pytestmark = pytest.mark.usefixtures("no_browser_is_left")


def test_a_form_is_sent_with_the_skill_in_the_system_message(site: Site, folder_of_browsers: Path) -> None:
    sample = Sample("Book a berth for Ada.", context=f"The office is at {site.address}/ on this machine.")
    with ScriptedServer(harbour.script) as server:
        model = harbour.browser_llm(server)
        before = dict(vars(model))
        result = run(BrowserExecuteStep(model, harbour.profile()), sample, book(harbour.RULE))
        requests = server.requests
    assert (result.success, result.error, result.output) == (True, None, "Berth 7 is for Ada.")
    assert (result.task, result.context) == (sample.question, sample.context)
    assert result.cited_skill_ids == ("cookies-00001",)
    assert (result.problems, result.steps_count) == ((), 4)
    assert site.booked == ["Ada"]
    for request in requests:
        assert request.messages[0]["role"] == "system"
        assert harbour.RULE in json.dumps(request.messages[0])
        assert harbour.RULE not in harbour.told_last(request)
    assert result.usage["model_calls"] == len(requests) == 3
    assert result.usage["input_tokens"] == sum(request.input_tokens for request in requests)
    assert vars(model) == before
    assert result.duration_seconds > sum(step["seconds"] or 0 for step in result.chronological_steps) > 0
    assert result.chronological_steps[-1]["http_status"] == 200
    assert list(folder_of_browsers.glob("org.chromium.*")) == []


def test_without_skills_the_system_message_is_the_frameworks_own_and_the_callers(site: Site) -> None:
    with ScriptedServer(harbour.script) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(), extend_system_message="Be polite.")
        result = run(step, f"Book a berth for Ada at {site.address}/ now")
        (request,) = server.requests
    assert "Be polite." in json.dumps(request.messages[0])
    assert "Skills learned from earlier runs" not in request.text
    assert (result.success, result.cited_skill_ids) == (False, ())
    assert result.error == "by its own word, the agent did not succeed: I see no form to book a berth."


def test_a_page_that_answers_with_an_error_is_told(site: Site) -> None:
    with ScriptedServer(harbour.script) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile())
        result = run(step, f"Book a berth for Ada at {site.address}/broken please")
    assert result.problems == (f"step 2: the page {site.address}/broken did not load: HTTP status 500",)


def test_a_page_that_cannot_be_reached_is_told() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        with ScriptedServer(harbour.script) as server:
            step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile())
            result = run(step, f"Book a berth for Ada at {address} please")
    assert result.success is False
    assert result.problems == (f"step 1: a page did not load: Navigation failed - site unavailable: {address}",)


def test_a_model_that_fails_is_recorded() -> None:
    with ScriptedServer(lambda request: HttpError(500, "the model is ill")) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(), max_failures=1)
        result = run(step, "Book a berth for Ada")
    assert result.success is False
    assert (result.error or "").startswith(
        "the agent stopped without being done; steps 1 to 2: the model failed: Error"
    )
    assert "the model is ill" in (result.error or "")


def test_the_last_step_that_may_be_taken_is_told() -> None:
    waiting = acting({"wait": {"seconds": 1}})
    with ScriptedServer(lambda request: waiting) as server:
        result = run(BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(), max_steps=2), "Wait for Ada")
    assert result.error == "it ran out of steps: max_steps=2"
    assert (result.output, result.steps_count) == ("", 2)


def test_a_run_that_takes_too_long_keeps_what_happened(site: Site) -> None:
    def script(request: ScriptedRequest) -> Answer:
        if "/slow" in harbour.told_last(request):
            return Answer("", delay=600)
        return acting({"navigate": {"url": f"{site.address}/slow", "new_tab": False}})

    for seconds in (15, 60, 240):  # on a busy machine, the time may be up before the first step was made
        with ScriptedServer(script) as server:
            step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(), timeout=seconds)
            result = run(step, f"Book a berth for Ada at {site.address}/plain please")
        assert (result.success, result.error) == (False, f"the run was not done after timeout={seconds}")
        if result.chronological_steps:
            break
    assert result.chronological_steps[0]["actions"][0]["name"] == "navigate"


def test_a_browser_that_does_not_start_is_recorded(tmp_path: Path) -> None:
    broken = tmp_path / "browser"
    broken.write_text("#!/bin/sh\nsleep 1\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    with ScriptedServer(harbour.script) as server:
        profile = harbour.profile(executable_path=broken)
        result = run(BrowserExecuteStep(harbour.browser_llm(server), profile), "Book a berth for Ada")
    assert result.success is False
    assert (result.error or "").startswith("the run failed: RuntimeError: ")
    assert result.chronological_steps == ()


def test_a_browser_that_is_not_there_is_a_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(harbour.script) as server:
        model = harbour.browser_llm(server)
        profile = harbour.profile(executable_path=tmp_path / "none")
        with pytest.raises(FileNotFoundError, match="no such browser: executable_path="):
            run(BrowserExecuteStep(model, profile), "Book a berth for Ada")
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
        with pytest.raises(FileNotFoundError, match=r"no Chromium was found .*apt-get install chromium"):
            run(BrowserExecuteStep(model), "Book a berth for Ada")
        assert server.requests == []


def test_secrets_are_taken_out_of_the_result(site: Site) -> None:
    secrets = {"ship_name": "Queen of Sheba"}

    def script(request: ScriptedRequest) -> Answer:
        page = harbour.page_of(request)
        if "Berth 7" in page:
            return acting(harbour.done("Berth 7 is for Queen of Sheba.", success=True))
        indexes = [int(line.split("]")[0]) for line in page.split("[") if line[:1].isdigit() and "<" in line]
        return acting(
            {"input": {"index": indexes[-2], "text": "<secret>ship_name</secret>", "clear": True}},
            {"click": {"index": indexes[-1]}},
        )

    with ScriptedServer(script) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(), sensitive_data=secrets)
        task = f"Book a berth for my ship (Queen of Sheba) at {site.address}/plain please"
        result = run(step, Sample(task, context="Say Queen of Sheba at the gate."))
    assert site.booked == ["Queen of Sheba"]
    assert "my ship (<secret>ship_name</secret>)" in result.task
    assert result.context == "Say <secret>ship_name</secret> at the gate."
    assert result.output == "Berth 7 is for <secret>ship_name</secret>."
    told = json.dumps([result.chronological_steps, result.problems])
    assert "ship=<secret>ship_name</secret>" in told
    assert "Sheba" not in told


def test_the_trace_of_a_download_names_the_file(site: Site) -> None:
    def script(request: ScriptedRequest) -> Answer:
        page = harbour.page_of(request)
        if "berths of 2026.csv" in harbour.told_last(request).partition("<browser_state>")[0]:
            return acting(harbour.done("I have the list.", success=True))
        link = re.search(r"\[(\d+)\]<a", page)
        return acting({"click": {"index": int(link[1])}} if link else {"wait": {"seconds": 1}})

    with ScriptedServer(script) as server:
        step = BrowserExecuteStep(harbour.browser_llm(server), harbour.profile(), max_steps=6)
        result = run(step, f"Fetch the list at {site.address}/files please")
    assert result.success, result.error
    for trace in (result_to_trace(result), history_to_trace(result.raw_history)):
        told = [event for event in trace["steps"] if event["name"] == "download"]
        assert [(event["kind"], event["content"]) for event in told] == [
            ("message", "The file berths of 2026.csv was downloaded.")
        ]
