"""Learning from answers whose ground truth is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from ace import ACE, Agent, LiteLLMClient, Sample, SimpleEnvironment, Skillbook, TaskEnvironment, TraceAnalyser
from ace.cli.learning.run_report import RunCounts, report_as_json
from ace.environments import (
    EnvironmentResult,
    HeuristicCheck,
    HeuristicEnvironment,
    agrees,
    cites_skill,
    json,
    max_chars,
    not_empty,
)
from ace.evaluation import Evaluator
from ace.outputs import AgentOutput
from ace.protocols.observers import observing
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer


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
    assert result.feedback.startswith("The answer was not verified, so it may be wrong. ")


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
    assert "The answer was not verified" in request.text
    assert [skill.content for skill in book.skills()] == ["Add the numbers.", "Check the sum."]
    assert [(skill.helpful, skill.neutral) for skill in book.skills()] == [(1, 0), (0, 1)]
    assert [change["reason"] for change in book.history()[-1].skipped] == [REASON] * 3
    report = report_as_json(counts.report(book, read=1, problems=[], failed=[]))
    assert report["judged_by"] == {"HeuristicEnvironment": 1}


@pytest.mark.parametrize(
    ("environment", "truth", "options"),
    [
        (HeuristicEnvironment([not_empty()]), None, {"learn_without_truth": True}),
        (HeuristicEnvironment([not_empty()]), "4", {}),
        (SimpleEnvironment(), "4", {}),
        (None, "4", {}),
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
            client,
            environment=environment,
            skillbook=book,
            prove=False,
            learn_without_truth=learn_without_truth,
            unproven="keep",
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


@pytest.mark.parametrize(
    ("match", "first", "others", "passes"),
    [
        ("exact", "Paris", ["paris ", "PARIS"], True),
        ("exact", "Paris", ["Paris", "Lyon"], False),
        ("contains", "Paris", ["It is Paris.", "Paris"], True),
        ("numeric", "It is 1,200.", ["1200", "About 1200.0"], True),
        ("numeric", "It is 1,200.", ["1200", "120"], False),
        ("numeric", "unknown", ["unknown", "Unknown"], True),
        ("numeric", "unknown", ["unknown", "4"], False),
        ("strict", "pier C", ["To pier C.", "pier C"], True),
        ("strict", "pier C", ["pier C", "pier CC"], False),
        ("exact", " ", ["", ""], True),
        ("exact", "", ["", "4"], False),
    ],
)
def test_answers_that_agree(
    match: Literal["contains", "exact", "numeric", "strict"], first: str, others: list[str], passes: bool
) -> None:
    environment = HeuristicEnvironment([agrees(3, match)])
    assert environment.further_answers == 2
    result = environment.evaluate(Sample("To which pier?"), answer(first), [answer(text) for text in others])
    assert result.metrics == {"agrees": float(passes), "confidence": float(passes)}
    assert not result.verified and ("further answers" in result.feedback) is not passes


def test_the_feedback_says_how_many_answers_differ_and_missing_answers_are_an_error() -> None:
    environment = HeuristicEnvironment([agrees(3), not_empty(), max_chars(9)])
    result = environment.evaluate(Sample("2+2?"), answer("4"), [answer("4"), answer("5")])
    assert "differs from 1 of 2 further answers to the question" in result.feedback
    assert result.metrics["confidence"] == pytest.approx(2 / 3)
    pair = HeuristicEnvironment([agrees(2)]).evaluate(Sample("2+2?"), answer("4"), [answer("4"), answer("5")])
    assert pair.metrics["agrees"] == 1.0, "it compares two answers, although a third one is there"
    with pytest.raises(ValueError, match="'agrees' compares 3 answers, got 2"):
        environment.evaluate(Sample("2+2?"), answer("4"), [answer("4")])
    for n, match in ((1, "exact"), (2, "regex")):
        with pytest.raises(ValueError, match=r"n must|match must"):
            agrees(n, match)  # type: ignore[arg-type]  # wrong on purpose


def answering_in_turn(
    answers: list[str], down: list[bool]
) -> Callable[[ScriptedRequest], Mapping[str, Any] | HttpError]:
    """Return a script in which the agent gives these answers in turn, and the reflector may be down."""
    waiting = iter(answers)

    def script(request: ScriptedRequest) -> Mapping[str, Any] | HttpError:
        if request.role == "agent":
            return {"reasoning": "r", "final_answer": next(waiting)}
        if request.role == "reflector" and down[0]:
            return HttpError(500)
        return changing(request)

    return script


def test_the_agent_is_asked_again_for_answers_to_compare_and_a_resumed_run_does_not_pay_for_them_again(
    tmp_path: Path,
) -> None:
    book = book_with_rules(tmp_path)
    down = [True]
    with ScriptedServer(answering_in_turn(["4", "4", "5"], down)) as server:
        environment = HeuristicEnvironment([agrees(3)])
        runner = ACE.from_client(
            client_for(server, max_retries=0), environment=environment, skillbook=book, prove=False
        )
        [failed] = runner.run([Sample("2+2?", id="sum")], run_id="monday")
        assert failed.error is not None and len(server.by_role("agent")) == 3
        down[0] = False
        [result] = runner.run([Sample("2+2?", id="sum")], run_id="monday", resume=True)
        assert result.error is None and len(server.by_role("agent")) == 3
        assert result.output is not None and isinstance(result.output.trace, dict)
        assert result.output.trace["answer"] == "4" and result.output.trace["metrics"]["agrees"] == 0.0
        assert [further.final_answer for further in result.output.further_answers] == ["4", "5"]
        assert "differs from 1 of 2" in server.by_role("reflector")[-1].text


class Majority(TaskEnvironment):
    """An environment of a user that compares three answers."""

    further_answers = 2

    def evaluate(
        self, sample: Sample, agent_output: AgentOutput, further_answers: Sequence[AgentOutput] = ()
    ) -> EnvironmentResult:
        votes = Counter(output.final_answer for output in (agent_output, *further_answers))
        return EnvironmentResult(f"The most frequent answer is {votes.most_common(1)[0][0]}.", metrics=dict(votes))


def test_an_environment_of_a_user_can_compare_answers_in_runs_and_evaluations(tmp_path: Path) -> None:
    with ScriptedServer(answering_in_turn(["4", "5", "4", "5", "5", "4"], [False])) as server:
        client = client_for(server)
        runner = ACE.from_client(client, environment=Majority(), skillbook=book_with_rules(tmp_path), prove=False)
        [result] = runner.run([Sample("2+2?")])
        assert result.output is not None and isinstance(result.output.trace, dict)
        assert result.output.trace["feedback"] == "The most frequent answer is 4."
        Evaluator(Agent(client), Majority()).evaluate([Sample("2+2?")], Skillbook())
        assert len(server.by_role("agent")) == 6


def correcting(request: ScriptedRequest) -> Mapping[str, Any]:
    """Learn the rule of a correction."""
    if request.role == "skill_manager":
        operation = {"type": "ADD", "section": "piers", "content": "Boats of members go to pier C."}
        return {"reasoning": "", "operations": [operation]}
    if request.role == "reflector":
        learned = [{"learning": "Boats of members go to pier C.", "evidence": "no, to pier C"}]
        judged = [{"message": "3", "quote": "it goes to pier C", "wrong": "To pier A.", "right": "pier C"}]
        return {
            "reasoning": "r",
            "correct_approach": "c",
            "key_insight": "k",
            "extracted_learnings": learned,
            "judgements": judged,
        }
    return {"reasoning": "r", "final_answer": "pier C"}


@pytest.mark.parametrize("verified", [True, False])
def test_what_is_not_applied_for_lack_of_truth_is_not_proven_either(tmp_path: Path, verified: bool) -> None:
    trace = {
        "messages": [
            {"role": "user", "content": "To which pier does the boat of a member go?"},
            {"role": "assistant", "content": "To pier A."},
            {"role": "user", "content": "No, it goes to pier C."},
            {"role": "assistant", "content": "It goes to pier C."},
        ],
        "verified": verified,
    }
    book = Skillbook.open(tmp_path / "skills.db")
    with ScriptedServer(correcting) as server:
        client = client_for(server)
        runner = TraceAnalyser.from_client(client, skillbook=book, proof_agent=Agent(client), prove=True)
        [result] = runner.run([trace])
        assert result.error is None
        assert bool(server.by_role("agent")) is verified
    assert bool(book.skills()) is verified


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    },
}
TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.mark.parametrize(
    ("schema", "text", "said"),
    [
        (TOTAL, '{"total": 3}', ""),
        (TOTAL, '{"total": "3"}', "total: '3' is not of type 'integer'"),
        (TOTAL, "{}", "'total' is a required property"),
        (TOTAL, 'Here: {"total": 3}', "it is not JSON: Expecting value"),
        (TOTAL, '{"total": NaN}', "it is not JSON: JSON has no NaN"),
        (TOTAL, "[" * 100_000, "it is not JSON: "),
        (TREE, '{"below": [{"below": []}]}', ""),
        (TREE, '{"below": [{"below": [3]}]}', "below.0.below.0: 3 is not of type 'object'"),
        (TREE, '{"below": [' * 300 + "]}" * 300, "it is nested too deeply"),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, '"a"', "'a' is too short"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "const": 1}, "1.0", ""),
    ],
)
def test_an_answer_is_checked_against_a_json_schema(schema: dict[str, Any], text: str, said: str) -> None:
    result = HeuristicEnvironment([json(schema)]).evaluate(Sample("?"), answer(text))
    assert result.metrics["json"] == float(not said)
    assert said in result.feedback and ("is not the expected JSON" in result.feedback) == bool(said)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "int"}, "the JSON schema is not valid at type: 'int' is not valid"),
        ({"properties": {"a": {"minLength": -1}}}, "not valid at properties/a/minLength: -1 is less than the minimum"),
    ],
)
def test_a_json_schema_that_is_not_valid_is_rejected_at_once(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        json(schema)


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/schema.json", "#/$defs/missing"])
def test_a_reference_to_another_schema_is_not_fetched(reference: str) -> None:
    environment = HeuristicEnvironment([json({"$ref": reference})])
    with pytest.raises(ValueError, match="which it does not contain"):
        environment.evaluate(Sample("?"), answer("1"))
