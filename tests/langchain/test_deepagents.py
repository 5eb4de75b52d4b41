"""A deep agent and its sub-agents see their skills and are recorded, through the middleware."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ace_langchain import LangChain, records_in, result_to_trace, skillbook_middleware
from tests.langchain import harbour
from tests.langchain.models import calls, in_turn, text_of
from tests.langchain.steps import SKILL, book, run
from tests.langchain.test_learning import chat_model, trace_of
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

OWN = "Read the almanac first."
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "learn-with-langchain.md"


@pytest.fixture(scope="module")
def deepagents() -> Any:
    """Its import takes seconds, so only the worker that runs these tests makes it."""
    return pytest.importorskip("deepagents", reason="deepagents is not installed: run `make`")


def test_a_deep_agent_and_its_sub_agent(deepagents: Any, tmp_path: Path) -> None:
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
    assert {trace["question"] for trace in told} == {"High water?", "When is high water?"}


def test_the_recipe_of_the_guide(deepagents: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(request: ScriptedRequest) -> Any:
        if request.role:
            return harbour.script(request)
        if "You look things up." in request.text:
            return "It is nine."
        if any(message["role"] == "tool" for message in request.messages):
            return "At nine."
        return Answer({"description": "When is high water?", "subagent_type": "researcher"}, tool="task")

    [block] = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    skills = book(SKILL)
    skills.add_skill("agent:researcher", OWN)
    with ScriptedServer(script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
        page: dict[str, Any] = {
            "LangChain": LangChain,
            "model": chat_model(server),
            "runner": SimpleNamespace(skillbook=skills),
            "skillbook_middleware": skillbook_middleware,
        }
        exec(compile(block, str(PAGE), "exec"), page)
        [result] = page["runner"].run(["When is high water?"])
        inner = [request for request in server.requests if "You look things up." in request.text]
        outer = [request for request in server.requests if not request.role and request not in inner]
    assert (trace_of(result)["answer"], trace_of(result)["success"]) == ("At nine.", True)
    assert (len(inner), len([request for request in outer if SKILL in request.text])) == (1, 2)
    for request in (*inner, *outer[-2:]):
        assert [message["role"] for message in request.messages].count("system") == 1
        assert (request.text.count(SKILL), request.text.count(OWN)) == (1, int(request in inner))
