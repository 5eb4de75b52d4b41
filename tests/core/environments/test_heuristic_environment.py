"""Learning from answers whose ground truth is not known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ace import ACE, LiteLLMClient, Sample, SimpleEnvironment, Skillbook, TaskEnvironment, TraceAnalyser
from ace.cli.learning.run_report import RunCounts, report_as_json
from ace.environments import HeuristicCheck, HeuristicEnvironment, cites_skill, json, max_chars, not_empty
from ace.outputs import AgentOutput
from ace.protocols.observers import observing
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


class Total(BaseModel):
    total: int


def answer(text: str, skill_ids: tuple[str, ...] = ()) -> AgentOutput:
    return AgentOutput(reasoning="", final_answer=text, skill_ids=list(skill_ids))


@pytest.mark.parametrize(
    ("check", "output", "passes"),
    [
        (not_empty(), answer("4"), True),
        (not_empty(), answer(" \n"), False),
        (max_chars(3), answer("abc"), True),
        (max_chars(3), answer("abcd"), False),
        (json(), answer("[1, null]"), True),
        (json(), answer("[1, null"), False),
        (json(), answer('Here: {"total": 1}'), False),
        (json(Total), answer('{"total": 1}'), True),
        (json(Total), answer('{"total": "many"}'), False),
        (json(dict[str, int]), answer('{"a": 1}'), True),
        (cites_skill(), answer("4", ("maths-00001",)), True),
        (cites_skill(), answer("4"), False),
    ],
)
def test_each_check_gives_a_metric_of_its_name(check: HeuristicCheck, output: AgentOutput, passes: bool) -> None:
    result = HeuristicEnvironment([check]).evaluate(Sample("2+2?"), output)
    assert result.metrics == {check.name: float(passes), "confidence": float(passes)}
    assert result.ground_truth is None and not result.verified
    assert result.feedback.startswith("Nothing was verified")


def test_confidence_is_the_share_of_checks_that_passed_and_the_feedback_names_the_others() -> None:
    environment = HeuristicEnvironment([not_empty(), max_chars(3), json(), cites_skill()])
    result = environment.evaluate(Sample("2+2?", ground_truth="four"), answer("four"))
    assert result.metrics == {"not_empty": 1.0, "max_chars": 0.0, "json": 0.0, "cites_skill": 0.0, "confidence": 0.25}
    assert "has 4 characters, more than 3" in result.feedback and "cites no skill" in result.feedback
    assert "correct" not in result.metrics


@pytest.mark.parametrize(
    ("checks", "problem"),
    [
        ([], "at least one check"),
        ([not_empty(), not_empty()], "'not_empty' twice"),
        ([HeuristicCheck("correct", lambda *_: "")], "may not be named 'correct'"),
    ],
)
def test_checks_that_cannot_be_used_are_rejected(checks: list[HeuristicCheck], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        HeuristicEnvironment(checks)


def changing(request: ScriptedRequest) -> Mapping[str, Any]:
    """Tag, change and remove a skill, and add one."""
    if request.role == "agent":
        return {"reasoning": "By [rules-00001].", "final_answer": "4", "skill_ids": ["rules-00001"]}
    if request.role == "reflector":
        return {
            "reasoning": "r",
            "correct_approach": "c",
            "key_insight": "k",
            "skill_tags": [{"id": "rules-00001", "tag": "helpful"}],
        }
    return {
        "reasoning": "",
        "operations": [
            {"type": "ADD", "section": "rules", "content": "Count on your fingers."},
            {"type": "UPDATE", "skill_id": "rules-00001", "content": "Add slowly."},
            {"type": "REMOVE", "skill_id": "rules-00002"},
            {"type": "TAG", "skill_id": "rules-00002", "metadata": {"neutral": 1}},
        ],
    }


def book_with_rules(folder: Path) -> Skillbook:
    book = Skillbook.open(folder / "skills.db")
    book.add_skill("rules", "Add the numbers.")
    book.add_skill("rules", "Check the sum.")
    return book


REASON = "the answer was not verified, so it only leads to tags (learn_without_truth)"


def test_an_unverified_answer_only_leads_to_tags_and_the_rest_is_recorded_with_a_reason(tmp_path: Path) -> None:
    counts = RunCounts()
    book = book_with_rules(tmp_path)
    with ScriptedServer(changing) as server, observing(counts):
        environment = HeuristicEnvironment([not_empty()])
        runner = ACE.from_client(client_for(server), environment=environment, skillbook=book, prove=False)
        [result] = runner.run([Sample("2+2?")])
        assert result.error is None
        [request] = server.by_role("reflector")
    assert "Nothing was verified" in request.text
    assert [skill.content for skill in book.skills()] == ["Add the numbers.", "Check the sum."]
    assert [(skill.helpful, skill.neutral) for skill in book.skills()] == [(1, 0), (0, 1)]
    assert [each["reason"] for each in book.history()[-1].skipped] == [REASON] * 3
    report = report_as_json(counts.report(book, read=1, problems=[], failed=[]))
    assert report["judged_by"] == {"HeuristicEnvironment": 1}


@pytest.mark.parametrize(
    ("environment", "truth", "options"),
    [
        (HeuristicEnvironment([not_empty()]), None, {"learn_without_truth": True}),
        (HeuristicEnvironment([not_empty()]), "4", {}),
        (SimpleEnvironment(), None, {}),
        (None, None, {}),
    ],
)
def test_skills_are_learned_if_that_is_wanted_or_something_is_known(
    tmp_path: Path, environment: TaskEnvironment | None, truth: str | None, options: dict[str, bool]
) -> None:
    book = book_with_rules(tmp_path)
    with ScriptedServer(changing) as server:
        client: LiteLLMClient = client_for(server)
        learn_without_truth = options.get("learn_without_truth", False)
        runner = ACE.from_client(
            client, environment=environment, skillbook=book, prove=False, learn_without_truth=learn_without_truth
        )
        [result] = runner.run([Sample("2+2?", ground_truth=truth)])
    assert result.error is None
    assert sorted(skill.content for skill in book.skills()) == ["Add slowly.", "Count on your fingers."]


def test_a_recorded_trace_that_was_not_verified_is_treated_alike(tmp_path: Path) -> None:
    book = book_with_rules(tmp_path)
    with ScriptedServer(changing) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book)
        runner.run([{"question": "2+2?", "answer": "4", "verified": False}])
    assert [skill.content for skill in book.skills()] == ["Add the numbers.", "Check the sum."]
