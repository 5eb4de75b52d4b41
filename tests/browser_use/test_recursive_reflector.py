"""The recursive reflector explores the history of a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace import TraceAnalyser
from ace.roles import SkillManager
from tests.support.clients import client_for
from tests.support.reflection_script import Explorer, is_turn, python, submit
from tests.support.scripted_server import ScriptedServer

pytest.importorskip("pydantic_monty")

HISTORIES = Path(__file__).parent / "histories"


def test_a_stored_history_is_explored_with_code() -> None:
    from ace.rr import RRStep

    turns = [python("print(trace.summary())\nprint(traces['answer'])"), submit()]
    with ScriptedServer(Explorer(turns)) as server:
        client = client_for(server)
        analyser = TraceAnalyser.from_roles(reflector=RRStep(client), skill_manager=SkillManager(client))
        (result,) = analyser.run([json.loads((HISTORIES / "booked.json").read_text(encoding="utf-8"))])
        second = [request for request in server.requests if is_turn(request)][1]
    assert result.error is None
    assert "Berth 7 is for Ada." in second.messages[-1]["content"]
    assert [skill.content for skill in analyser.skillbook.skills()] == ["Write the unit next to each number."]
