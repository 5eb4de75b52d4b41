"""A browser agent learns: the skill that the first failure taught makes the second run pass."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ace import ACEStepContext, Sample, SampleResult, TraceAnalyser
from ace.pipeline import CancellationToken
from ace.plugins import get_runner
from ace.roles import Reflector, SkillManager
from ace_browser_use import BrowserUse
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

HISTORIES = Path(__file__).parent / "histories"


def trace_of(result: SampleResult[ACEStepContext]) -> dict[str, Any]:
    assert result.error is None
    assert result.output is not None
    trace = result.output.trace
    assert isinstance(trace, dict)
    return trace


@pytest.mark.usefixtures("no_browser_is_left")
def test_the_second_run_does_what_the_first_one_taught(site: Site, tmp_path: Path) -> None:
    sample = Sample(f"Book a berth for Ada at {site.address}/ please", ground_truth="Berth 7")
    path = tmp_path / "skills.json"
    with ScriptedServer(harbour.script) as server:
        runner = BrowserUse.from_model(
            harbour.browser_llm(server),
            ace_llm=client_for(server),
            browser=harbour.profile(),
            skillbook_path=path,
        )
        first, second = map(trace_of, runner.run([sample], epochs=2))
        reflections = server.by_role("reflector")
        assert not server.by_role("agent"), "the model that learns cannot book a berth, so it is not asked to"
    assert (first["success"], first["answer"]) == (False, "I see no form to book a berth.")
    assert (second["success"], second["answer"]) == (True, "Berth 7 is for Ada.")
    assert [trace["skill_ids"] for trace in (first, second)] == [[], ["cookies-00001"]]
    assert {trace["ground_truth"] for trace in (first, second)} == {"Berth 7"}
    assert site.booked == ["Ada"]
    (skill,) = runner.skillbook.skills()
    assert (skill.content, skill.helpful, skill.sources[0].integration) == (harbour.RULE, 1, "browser_use")
    assert (skill.cases, skill.proof) == ((), "unproven")
    assert harbour.RULE in path.read_text(encoding="utf-8")
    # What a page says reaches the reflector as data.
    for reflection in reflections:
        fenced = re.findall(r"<(data-[^>]+)>(.*?)</\1>", reflection.text, re.DOTALL)
        assert any("This site uses cookies." in text for _, text in fenced)
        assert "This site uses cookies." not in re.sub(r"<(data-[^>]+)>.*?</\1>", "", reflection.text, flags=re.DOTALL)


@pytest.mark.usefixtures("no_browser_is_left")
def test_two_browsers_at_once_do_not_mix(site: Site) -> None:
    both = threading.Barrier(2)
    begun: set[str] = set()

    def script(request: ScriptedRequest) -> Any:
        task = harbour.task_of(request)
        if harbour.is_of_browser(request) and task not in begun:
            begun.add(task)
            both.wait(300)
        return harbour.script(request)

    ships = ["Ada", "Bee"]
    with ScriptedServer(script) as server:
        model = harbour.browser_llm(server)
        # The browser that starts first waits for the other one; by default, its agent asks again after a minute.
        patient: dict[str, Any] = {"llm_timeout": 600, "step_timeout": 600}
        runner = BrowserUse.from_model(model, ace_llm=client_for(server), browser=harbour.profile(), **patient)
        tasks = [f"Book a berth for {ship} at {site.address}/plain please" for ship in ships]
        traces = list(map(trace_of, runner.run(tasks, workers=2)))
        asked = [request for request in server.requests if harbour.is_of_browser(request)]
    assert not both.broken
    assert [trace["answer"] for trace in traces] == ["Berth 7 is for Ada.", "Berth 7 is for Bee."]
    assert sorted(site.booked) == ships
    for trace, ship, other in zip(traces, ships, reversed(ships), strict=True):
        assert other not in json.dumps(trace)
        mine = [request for request in asked if f"berth for {ship} " in harbour.task_of(request)]
        assert trace["metrics"]["model_calls"] == len(mine) >= 2
        assert all(other not in harbour.told_last(request) for request in mine)


@pytest.mark.usefixtures("no_browser_is_left")
def test_a_cancelled_run_leaves_no_browser_and_teaches_nothing(site: Site, browsers: Callable[[], list[int]]) -> None:
    token = CancellationToken()

    def script(request: ScriptedRequest) -> Any:
        if harbour.is_of_browser(request):
            token.cancel()
            return Answer("", delay=30)
        return harbour.script(request)

    with ScriptedServer(script) as server:
        model = harbour.browser_llm(server)
        runner = BrowserUse.from_model(model, ace_llm=client_for(server), browser=harbour.profile())
        tasks = [f"Book a berth for {ship} at {site.address}/ please" for ship in ("Ada", "Bee", "Cat")]
        results = runner.run(tasks, workers=2, cancel_token=token)
        assert not server.by_role("reflector")
    assert browsers() == []
    assert [type(result.error).__name__ for result in results] == ["PipelineCancelled"] * 3
    assert len(runner.skillbook) == 0


@pytest.mark.usefixtures("no_browser_is_left")
def test_a_model_string_drives_the_browser(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(harbour.script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
        runner: Any = get_runner("browser_use")
        runner = runner.from_model("openai/scripted", ace_model="openai/learner", browser=harbour.profile())
        (result,) = runner.run([f"Book a berth for Ada at {site.address}/plain please"])
        assert {request.model for request in server.requests} == {"scripted", "learner"}
    assert trace_of(result)["answer"] == "Berth 7 is for Ada."


def test_stored_histories_are_learned_from_without_a_browser() -> None:
    with ScriptedServer(harbour.script) as server:
        client = client_for(server)
        analyser = TraceAnalyser.from_roles(reflector=Reflector(client), skill_manager=SkillManager(client))
        analyser.skillbook.add_skill("cookies", harbour.RULE)
        (result,) = analyser.run([json.loads((HISTORIES / "booked.json").read_text(encoding="utf-8"))])
        (reflection,) = server.by_role("reflector")
    assert result.error is None
    assert "Berth 7 is for Ada." in reflection.text
    assert "by the agent's own word, the task was done" in reflection.text.lower()
    (skill,) = analyser.skillbook.skills()
    assert skill.helpful == 1


def test_a_skillbook_is_saved_and_loaded(tmp_path: Path) -> None:
    with ScriptedServer(harbour.script) as server:
        model, client = harbour.browser_llm(server), client_for(server)
        runner = BrowserUse.from_roles(
            browser_llm=model, reflector=Reflector(client), skill_manager=SkillManager(client), max_steps=3
        )
        runner.skillbook.add_skill("cookies", harbour.RULE)
        runner.save_skillbook(tmp_path / "skills.json")
        other = BrowserUse.from_model(browser_llm=model, ace_llm=client)
        other.load_skillbook(tmp_path / "skills.json")
    assert other.get_strategies() == runner.get_strategies()
    assert harbour.RULE in other.get_strategies()
