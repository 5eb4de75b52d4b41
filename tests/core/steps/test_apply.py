"""How much one answer of a skill manager may add."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace import ApplyStep, Skillbook, TraceAnalyser
from ace.pipeline import Pipeline
from ace.protocols.observers import Event, SkillsChanged, observing
from ace.roles import Reflector, SkillManager
from ace.steps import learning_tail
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

JUDGED = {"question": "How many rules are there?", "answer": "7", "reward": 1.0}


def adding(request: ScriptedRequest) -> Mapping[str, Any]:
    """A script whose skill manager adds 1,000 skills, with other operations in between."""
    if request.role == "reflector":
        return REFLECTION
    operations: list[dict[str, Any]] = [
        {"type": "ADD", "section": "a", "content": f"Rule {number} of {number * 7}."} for number in range(1000)
    ]
    operations[500:500] = [{"type": "TAG", "skill_id": "a-00001", "metadata": {"helpful": 1}}]
    return {"reasoning": "", "operations": operations}


@pytest.mark.parametrize(("options", "added"), [({}, 50), ({"max_adds": 3}, 3), ({"max_adds": None}, 1000)])
def test_one_answer_adds_so_many_skills_and_the_rest_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, int | None], added: int
) -> None:
    events: list[Event] = []
    with ScriptedServer(adding) as server, observing(events.append):
        runner = TraceAnalyser.from_client(
            client_for(server), skillbook_path=tmp_path / "skills.db", max_adds=options.get("max_adds", 50)
        )
        if not options:
            runner = TraceAnalyser.from_client(client_for(server), skillbook=runner.skillbook)
        [result] = runner.run([JUDGED])
    assert result.error is None
    assert len(runner.skillbook) == added
    assert runner.skillbook.skills()[0].helpful == 1, "operations of other kinds are not limited"
    reason = f"one answer may add at most {added} skills (max_adds)"
    [changes] = [event for event in events if isinstance(event, SkillsChanged)]
    assert [change.reason for change in changes.skipped] == [reason] * (1000 - added)
    [entry] = runner.skillbook.history()
    assert len(entry.skipped) == 1000 - added
    if added < 1000:
        assert f"{1000 - added} operations, from {added} to 1000, were skipped: {reason}" in caplog.messages
        assert not any(message.startswith("Operation ") for message in caplog.messages)


def test_the_limit_goes_through_the_tail(tmp_path: Path) -> None:
    book = Skillbook()
    with ScriptedServer(adding) as server:
        client = client_for(server)
        steps = learning_tail(Reflector(client), SkillManager(client), book, max_adds=2)
        TraceAnalyser(Pipeline(steps), book).run([JUDGED])
    assert len(book) == 2


def test_a_limit_that_is_no_limit_is_refused() -> None:
    for limit in (0, -1, True):
        with pytest.raises(ValueError, match="max_adds"):
            ApplyStep(Skillbook(), max_adds=limit)
        with pytest.raises(ValueError, match="max_adds"):
            TraceAnalyser.from_roles(reflector=None, skill_manager=None, max_adds=limit)  # type: ignore[arg-type]  # refused first
