"""A deep agent and its sub-agents see their skills and are recorded, through the middleware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace_langchain import records_in, result_to_trace, skillbook_middleware
from tests.langchain.models import calls, in_turn, text_of
from tests.langchain.steps import SKILL, book, run

deepagents = pytest.importorskip("deepagents", reason="deepagents is not among the tools of the workspace")
OWN = "Read the almanac first."


def test_a_deep_agent_and_its_sub_agent(tmp_path: Path) -> None:
    skills = book(SKILL)
    skills.add_skill("agent:researcher", OWN)
    path = tmp_path / "runs.jsonl"
    outer = in_turn(calls("task", description="High water?", subagent_type="researcher"), "By [sea-00001], at nine.")
    inner = in_turn("It is nine.")
    researcher: Any = {
        "name": "researcher",
        "description": "Knows the tides.",
        "system_prompt": "You look things up.",
        "model": inner,
        "tools": [],
        "middleware": [skillbook_middleware(skills, agent="researcher", record=path)],
    }
    agent: Any = deepagents.create_deep_agent(
        outer, subagents=[researcher], middleware=[skillbook_middleware(skills, record=path)]
    )
    result = run(agent, "When is high water?", skills, inject="middleware")
    assert (result.success, result.skill_ids) == (True, ("sea-00001",))
    for seen, own in ((outer.seen[0], 0), (inner.seen[0], 1)):
        assert [message.type for message in seen].count("system") == 1
        assert (text_of(seen).count(SKILL), text_of(seen).count(OWN)) == (1, own)
    told = [result_to_trace(record) for record in records_in(path)]
    assert {each["question"] for each in told} == {"High water?", "When is high water?"}
