"""The cases of recorded runs as questions, their judge, and runs as they are as a memory."""

from collections.abc import Mapping
from typing import Any

from ace.environments import Sample, SimpleEnvironment
from ace.evaluation import CaseEnvironment, case_of, case_questions, memory_of
from ace.logs import read_trace
from ace.outputs import AgentOutput
from tests.support.clients import client_for
from tests.support.corrected_chats import judged
from tests.support.corrected_runs import chat
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


def said(text: str) -> AgentOutput:
    return AgentOutput(reasoning="", final_answer=text)


def test_the_case_of_a_question_is_that_of_the_run() -> None:
    [question] = case_questions(judged(chat("kettle"), "You have 14 days."), "a.json")
    case = case_of(question)
    assert case is not None
    assert (question.question, case.wrong) == ("How many days do I have to return the kettle?", "You have 30 days.")
    assert question.id == f"a.json:{case.id}"
    assert CaseEnvironment().check_of(question) == case.check


def test_a_case_that_only_its_environment_can_judge_is_not_asked() -> None:
    check = {"kind": "environment", "value": "Sandbox"}
    trace = {"question": "Sort the files.", "answer": "Done.", "check": check}
    assert case_questions(read_trace(trace), "a.json") == []


def test_samples_without_a_case_are_left_to_the_other_environment() -> None:
    sample = Sample("6*7?", ground_truth="42")
    both = CaseEnvironment(otherwise=SimpleEnvironment("exact"))
    assert both.evaluate(sample, said("42")).metrics == {"correct": 1.0}
    assert both.check_of(sample) == SimpleEnvironment("exact").check_of(sample)
    assert CaseEnvironment().evaluate(sample, said("42")).metrics == {}
    assert CaseEnvironment().check_of(sample).kind == "environment"


def test_what_code_cannot_judge_is_left_to_a_model() -> None:
    rubric = {"kind": "judge", "value": "Is the answer polite?"}
    trace = {"question": "Answer the customer.", "answer": "No.", "check": rubric}
    [question] = case_questions(read_trace(trace), "a.json")
    assert CaseEnvironment().evaluate(question, said("Gladly!")).metrics == {}

    def judge(request: ScriptedRequest) -> Mapping[str, Any]:
        return {"passes": "Gladly!" in request.text and rubric["value"] in request.text}

    with ScriptedServer(judge) as server:
        environment = CaseEnvironment(client_for(server))
        verdicts = [environment.evaluate(question, said(text)).metrics for text in ("Gladly!", "No.")]
    assert verdicts == [{"correct": 1.0}, {"correct": 0.0}]


def test_a_memory_holds_corrections_and_whole_runs() -> None:
    quiet = {"question": "Fetch the list.", "answer": "x" * 9_000, "feedback": "Slow."}
    corrected, whole = memory_of(
        [judged(chat("kettle"), "You have 14 days."), *map(read_trace, (quiet, {"answer": ""}))]
    ).skills()
    assert corrected.content.splitlines() == [
        "Task: How many days do I have to return the kettle?",
        "Wrong answer: You have 30 days.",
        "Correction: That is wrong, it is 14 days.",
        "Right answer: You have 14 days.",
    ]
    assert whole.content.startswith("Task: Fetch the list.\nAnswer: xxx")
    assert whole.content.endswith("x\nFeedback: Slow.")
    assert "\n...\n" in whole.content and len(whole.content) < 4_100
