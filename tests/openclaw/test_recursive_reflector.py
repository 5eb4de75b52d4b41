"""The recursive reflector explores stored sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.roles import SkillManager
from ace_openclaw import OpenClaw
from tests.openclaw.samples import V4, events_of, make_database
from tests.support.clients import client_for
from tests.support.reflection_script import Explorer, is_turn, python, submit
from tests.support.scripted_server import ScriptedServer

pytest.importorskip("pydantic_monty")


def test_stored_sessions_are_explored_with_code(tmp_path: Path) -> None:
    from ace.rr import RRStep

    make_database(tmp_path / "agents/main/agent/openclaw-agent.sqlite", [events_of(V4)])
    with ScriptedServer(Explorer([python("print('steps:', len(trace))"), submit()])) as server:
        client = client_for(server)
        runner = OpenClaw.from_roles(
            reflector=RRStep(client), skill_manager=SkillManager(client), state_dir=tmp_path, unproven="keep"
        )
        results = runner.run()
        turns = [request for request in server.requests if is_turn(request)]
    assert results and [result.error for result in results] == [None] * len(results)
    assert len(turns) == 2 * len(results)
    told = [str(request.messages[-1]["content"]) for request in turns]
    assert all("steps: 0" not in text for text in told)
    assert sum("Output:\nsteps: " in text for text in told) == len(results)
    assert "Write the unit next to each number." in {skill.content for skill in runner.skillbook}
