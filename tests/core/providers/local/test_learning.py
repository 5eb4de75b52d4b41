"""One short run with the real model that is the default: what it learns is valid, cited and stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace import Skillbook, TraceAnalyser
from ace.implementations import agent_for
from ace.providers.local import DEFAULT_MODEL, LocalLLMClient
from tests.support.local_models import needed_model

pytestmark = pytest.mark.thorough

TRACE = Path(__file__).resolve().parents[4] / "examples" / "traces" / "branch-name.json"


def test_the_default_model_learns_from_a_trace_and_answers_with_the_skill(tmp_path: Path) -> None:
    client = LocalLLMClient(needed_model(DEFAULT_MODEL), max_tokens=256, context_tokens=4096, slots=1)
    trace = json.loads(TRACE.read_text(encoding="utf-8"))
    path = tmp_path / "skills.db"
    runner = TraceAnalyser.from_client(client, skillbook_path=path)
    (result,) = runner.run([trace])
    assert result.error is None

    (skill,) = Skillbook.open(path).skills()
    assert skill.section and skill.content.strip()
    (source,) = skill.sources
    assert source.trace_id and source.sample_question == trace["question"]

    question = "Ticket 731: the settings page gets a dark mode. Name the git branch. Answer with the name alone."
    output = agent_for(client).generate(question, "", runner.skillbook)
    assert output.final_answer.strip()
    assert set(output.skill_ids) <= {skill.id}
    assert client.usage.calls >= 3 and client.usage.failed_requests == 0
