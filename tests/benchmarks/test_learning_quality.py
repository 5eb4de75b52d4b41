"""The benchmark of learning, with a scripted model: it knows one rule as soon as the prompt shows it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace import read_trace
from ace.outputs import AgentOutput
from ace.providers import LiteLLMClient
from ace.skill import Skill
from benchmarks.learning_quality.__main__ import main
from benchmarks.learning_quality.adapters import program_method
from benchmarks.learning_quality.comparing import Pairing, pairing
from benchmarks.learning_quality.methods import Bench, lost_skills
from benchmarks.learning_quality.programs.job import Example
from benchmarks.learning_quality.sets import HeldOutQuestions, corrected_examples, load_set, set_names, shuffled
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer

SETS_OF_CALLS = {"nursery", "theatre"}
RULE = "Letters to sponsors close with Fair winds."
LETTERS = 3
"""How many questions of the set the rule decides."""


def script(request: ScriptedRequest) -> Reply | str | dict[str, Any]:
    """Answer as a model that follows what the prompt shows, and learns one rule."""
    text = request.text
    if request.role == "reflector":
        learnings = [{"learning": RULE}] if "Fair winds" in text.replace(RULE, "") else []
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
        return {**dict.fromkeys(texts, "Read."), "extracted_learnings": learnings, "skill_tags": []}
    if request.role == "skill_manager":
        is_new = RULE in text and f"-00001] {RULE}" not in text
        add = {"type": "ADD", "section": "letters", "content": RULE}
        return {"reasoning": "Taught.", "operations": [add] if is_new else []}
    answer = "Fair winds" if "Fair winds" in text else "I do not know"
    return {"reasoning": "", "final_answer": answer} if request.role == "agent" else answer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as server:
        yield server


def run(server: ScriptedServer, folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    out = folder / "out.json"
    common = ["--model", "openai/scripted", "--api-base", server.api_base, "--sets", "corrections", "--out", str(out)]
    code = main([*common, *arguments])
    return code, json.loads(out.read_text(encoding="utf-8"))


def outcomes_of(document: dict[str, Any], method: str) -> list[dict[str, Any]]:
    return [outcome for outcome in document["outcomes"] if outcome["method"] == method]


def test_each_method_is_measured_on_the_same_questions(
    server: ScriptedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    code, document = run(server, tmp_path, "--orders", "2")
    assert code == 0
    [nothing], [memory] = outcomes_of(document, "no-skills"), outcomes_of(document, "raw-memory")
    [everything], learned = outcomes_of(document, "all-corrections"), outcomes_of(document, "proven")
    unproven = outcomes_of(document, "unproven")
    assert nothing["right"] == 0
    # Raw memory shows the rule with the questions that are similar to its example; the others show it always.
    assert memory["right"] == LETTERS
    assert everything["right"] == LETTERS
    assert [(row["order"], row["right"]) for row in learned] == [(1, LETTERS), (2, LETTERS)]
    assert [(row["right"], row["learned"]["proven"]) for row in unproven] == [(LETTERS, 0), (LETTERS, 0)]
    assert not any("Prove" in row["learned"]["calls_by_role"] for row in unproven)
    assert all(row["learned"]["calls_by_role"]["Prove"] > 0 for row in learned)
    assert {len(outcome["answers"]) for outcome in document["outcomes"]} == {24}
    assert [(row["learned"]["skills"], row["learned"]["proven"]) for row in learned] == [(1, 1), (1, 1)]
    assert all(row["learned"]["cases_passing"] == row["learned"]["cases"] > 0 for row in learned)
    assert all(row["learned"]["calls"] == sum(row["learned"]["calls_by_role"].values()) > 16 for row in learned)
    assert everything["answering"]["input_tokens"] > memory["answering"]["input_tokens"]
    printed = capsys.readouterr().out
    assert "| corrections | proven skills (`ace learn`) | 3, 3 of 24 | 12 % [4, 31] | +0 -0, p = 1 |" in printed


def test_a_second_run_with_the_cache_asks_nothing_and_counts_the_same(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    methods = ["--orders", "1", "--methods", "raw-memory", "proven"]
    arguments = [*methods, "--workers", "1", "--cache", str(tmp_path / "cache.db")]
    _, first = run(server, tmp_path, *arguments)
    asked = len(server.requests)
    _, second = run(server, tmp_path, *arguments)
    assert len(server.requests) == asked
    assert (second["answers_asked"], second["answers_from_cache"]) == (
        0,
        first["answers_asked"] + first["answers_from_cache"],
    )
    for before, after in zip(first["outcomes"], second["outcomes"], strict=True):
        assert after["answering"] == before["answering"]
        assert after["learned"] == before["learned"]
        assert [answer["answer"] for answer in after["answers"]] == [answer["answer"] for answer in before["answers"]]


def test_a_failed_trace_is_a_wrong_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")

    def refusing(request: ScriptedRequest) -> Reply | str | dict[str, Any]:
        if request.role == "reflector" and "sponsor" in request.text:
            return HttpError(400, "refused")
        return script(request)

    with ScriptedServer(refusing) as server:
        code, _ = run(server, tmp_path, "--orders", "1", "--methods", "proven")
    assert code == 1
    assert "WRONG: corrections, proven, order 1: a trace failed" in capsys.readouterr().out


def test_a_lost_and_a_changed_skill_are_named() -> None:
    before = [Skill("a-00001", "a", "One."), Skill("a-00002", "a", "Two.")]
    assert lost_skills(before, before) == []
    assert lost_skills(before, before[:1]) == ["the store has lost the skills a-00002"]
    assert lost_skills(before, [before[0].replace(content="1"), before[1]]) == [
        "the store has changed the skills a-00001"
    ]


def test_a_method_whose_package_is_missing_is_skipped_with_the_reason(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    code, document = run(server, tmp_path, "--orders", "1", "--methods", "no-skills", "dspy-bootstrap")
    [skipped] = outcomes_of(document, "dspy-bootstrap")
    assert code == 0
    assert "dspy is not installed" in skipped["skipped"]
    assert skipped["answers"] == []


def test_a_program_asks_the_same_model_and_its_calls_are_counted(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    client = LiteLLMClient("openai/scripted", api_base=server.api_base)
    learning_set = load_set("corrections")
    method = program_method("program", "a program", "tests.benchmarks.answering_program")
    outcome = method.run(Bench(client), learning_set, shuffled(learning_set.traces, 1), 1)
    assert sum(outcome.right) == LETTERS
    assert (outcome.learned.calls, outcome.answering.calls) == (1, 24)
    assert outcome.answering.input_tokens + outcome.learned.input_tokens == sum(
        request.input_tokens for request in server.requests
    )
    assert "Fair winds" in outcome.learned.text


@pytest.mark.parametrize("name", sorted({*set_names()} - SETS_OF_CALLS))
def test_each_set_has_two_chats_and_three_questions_for_each_of_eight_rules(name: str) -> None:
    learning_set = load_set(name)
    rules = [trace.place.rpartition("/")[2].rpartition("-")[0] for trace in learning_set.traces]
    asked = [(sample.id or "").rpartition("-")[0] for sample in learning_set.questions]
    assert {rule: rules.count(rule) for rule in rules} == dict.fromkeys(sorted(set(rules)), 2)
    assert len(set(rules)) == 8
    assert {rule: asked.count(rule) for rule in asked} == dict.fromkeys(set(rules), 3)
    assert len({sample.question for sample in learning_set.questions}) == 24
    assert len(corrected_examples(learning_set.traces)) == 16


@pytest.mark.parametrize("name", sorted(SETS_OF_CALLS))
def test_each_set_of_calls_has_twelve_failures_and_two_questions_for_each_of_them(name: str) -> None:
    learning_set = load_set(name)
    rules = [trace.place.rpartition("/")[2].rpartition("-")[0] for trace in learning_set.traces]
    asked = [(sample.id or "").rpartition("-")[0] for sample in learning_set.questions]
    assert (rules.count("clean"), len(set(rules))) == (4, 13)
    assert {rule: asked.count(rule) for rule in asked} == dict.fromkeys(set(rules) - {"clean"}, 2)
    judge = HeldOutQuestions()
    for sample in learning_set.questions:
        right = AgentOutput(reasoning="", final_answer=sample.ground_truth or "")
        assert judge.evaluate(sample, right).metrics == {"correct": 1.0}
        wrong = right.model_copy(update={"final_answer": "I do not know."})
        assert judge.evaluate(sample, wrong).metrics == {"correct": 0.0}
    runs = [read_trace(trace.record)["steps"] for trace in learning_set.traces]
    assert sum(any(step["is_error"] for step in steps) for steps in runs) == 12


def test_orders_differ_and_repeat() -> None:
    traces = load_set("formats").traces
    first, second = shuffled(traces, 1), shuffled(traces, 2)
    assert first != second
    assert first == shuffled(traces, 1)
    assert sorted(trace.place for trace in first) == [trace.place for trace in traces]


def test_a_question_counts_by_the_majority_of_the_orders() -> None:
    before = [[True, False, False, False]]
    after = [[False, True, True, False], [False, True, False, False], [True, True, True, False]]
    assert pairing(before, after) == Pairing(gained=2, lost=1, p=1.0)


def test_the_check_that_other_methods_learn_with_is_bounded() -> None:
    example = Example("?", "4711", "", "4711-ML", ("4711-ML",))
    assert example.passes("It is 4711-ML.")
    assert not example.passes("4711-MLX")
    assert not example.passes("4711")
