"""The recursive reflector explores the history of a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ace import TraceAnalyser
from ace.roles import SkillManager
from ace_browser_use import BrowserUse
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.support.clients import client_for
from tests.support.reflection_script import REFLECTION, Explorer, is_turn, python, submit
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")

HISTORIES = Path(__file__).parent / "histories"


def test_a_stored_history_is_explored_with_code() -> None:
    from ace.rr import RRStep

    turns = [python("print(trace.summary())\nprint(traces['answer'])"), submit()]
    with ScriptedServer(Explorer(turns)) as server:
        client = client_for(server)
        analyser = TraceAnalyser.from_roles(
            reflector=RRStep(client), skill_manager=SkillManager(client), unproven="keep"
        )
        (result,) = analyser.run([json.loads((HISTORIES / "booked.json").read_text(encoding="utf-8"))])
        second = [request for request in server.requests if is_turn(request)][1]
    assert result.error is None
    assert "Berth 7 is for Ada." in second.messages[-1]["content"]
    assert [skill.content for skill in analyser.skillbook.skills()] == ["Write the unit next to each number."]


@pytest.mark.usefixtures("no_browser_is_left")
def test_the_run_of_a_browser_is_explored_with_code(site: Site) -> None:
    from ace.rr import RRStep

    look = "print(trace.search_raw('cookies'))\nprint(traces['answer'])"
    explorer = Explorer([python(look), submit({**REFLECTION, "extracted_learnings": [{"learning": harbour.RULE}]})])

    def script(request: ScriptedRequest) -> Any:
        return explorer(request) if is_turn(request) else harbour.script(request)

    with ScriptedServer(script) as server:
        client = client_for(server)
        runner = BrowserUse.from_roles(
            browser_llm=harbour.browser_llm(server),
            browser=harbour.profile(),
            reflector=RRStep(client),
            skill_manager=SkillManager(client),
        )
        (result,) = runner.run([f"Book a berth for Ada at {site.address}/ please"])
        second = [request for request in server.requests if is_turn(request)][1].messages[-1]["content"]
    assert result.error is None
    assert "This site uses cookies." in second and "I see no form to book a berth." in second
    assert [skill.content for skill in runner.skillbook.skills()] == [harbour.RULE]
