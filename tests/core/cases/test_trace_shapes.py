"""Every kind of trace that is read yields the case that a correction in it teaches."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from ace import ACE, AgentOutput, ReflectorOutput, Sample, SimpleEnvironment, SkillManagerOutput, UpdateBatch
from ace.cases import answer_passes, cases_of, judged_trace, replies_in, worked_example
from ace.environments import EnvironmentResult, TaskEnvironment
from ace.logs.trace import StandardTrace, read_trace
from ace.outputs import Judgement
from ace.redaction import Redactor
from ace.skill import CaseCheck, SkillCase

QUESTION = "Which currency is on the bill of a guest from Sweden?"
WRONG = "EUR"
SAID = "No, guests from Sweden pay in SEK."
RIGHT = "SEK"
CALL = {"id": "c1", "type": "function", "function": {"name": "guests", "arguments": "{}"}}

CORRECTED: dict[str, Any] = {
    "OpenAI messages": [
        {"role": "system", "content": "You help the office."},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": WRONG},
        {"role": "user", "content": SAID},
        {"role": "assistant", "content": RIGHT},
    ],
    "OpenAI messages with tool calls between": [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "Lindqvist, Uppsala, EUR account"},
        {"role": "assistant", "content": WRONG},
        {"role": "user", "content": [{"type": "text", "text": SAID}]},
        {"role": "assistant", "content": "I look again.", "tool_calls": [{**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "changed"},
        {"role": "assistant", "content": RIGHT},
    ],
    "Anthropic messages": [
        {"role": "user", "content": QUESTION},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "A bill.", "signature": "s"},
                {"type": "tool_use", "id": "t1", "name": "guests", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Uppsala"}]},
        {"role": "assistant", "content": [{"type": "text", "text": WRONG}]},
        {"role": "user", "content": SAID},
        {"role": "assistant", "content": [{"type": "text", "text": f"You're right, sorry! {RIGHT}"}]},
    ],
    "LangChain messages": [
        {"type": "human", "content": QUESTION, "additional_kwargs": {}},
        {"type": "ai", "content": WRONG, "usage_metadata": {"input_tokens": 3}},
        {"type": "human", "content": SAID},
        {"type": "ai", "content": RIGHT},
    ],
    "messages in a field": {
        "messages": [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": WRONG},
            {"role": "user", "content": SAID},
            {"role": "assistant", "content": RIGHT},
        ],
        "model": "m",
    },
    "a conversation": {
        "conversation": [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": WRONG},
            {"role": "user", "content": SAID},
            {"role": "assistant", "content": RIGHT},
        ]
    },
    "lines of JSON": "\n".join(
        json.dumps({"role": role, "content": text})
        for role, text in (("user", QUESTION), ("assistant", WRONG), ("user", SAID), ("assistant", RIGHT))
    ),
    "a dialogue as text": f"User: {QUESTION}\nAssistant: {WRONG}\nUser: {SAID}\nAssistant: {RIGHT}\n",
    "a dialogue in Markdown": f"**Human:** {QUESTION}\n\n**AI:** {WRONG}\n\n**Human:** {SAID}\n\n**AI:** {RIGHT}\n",
    "a transcript in a field": {"transcript": f"User: {QUESTION}\nBot: {WRONG}\nUser: {SAID}\nBot: {RIGHT}"},
    "fields with feedback": {"question": QUESTION, "answer": WRONG, "feedback": SAID},
    "fields with feedback and a ground truth": {
        "task": QUESTION,
        "output": WRONG,
        "feedback": SAID,
        "expected": RIGHT,
    },
    "fields with a correction": {"prompt": QUESTION, "response": WRONG, "correction": SAID},
    "feedback without an objecting word": {"question": QUESTION, "answer": WRONG, "feedback": "It should be SEK."},
    "feedback after messages": {
        "messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": WRONG}],
        "feedback": SAID,
    },
    "a row of a table": next(
        iter(csv.DictReader(io.StringIO(f'question,answer,feedback\n{QUESTION},{WRONG},"{SAID}"\n')))
    ),
}


def judged(trace: Any, right: str = RIGHT) -> StandardTrace:
    """Read a trace in which a model has named the last reply of a person as a judgement."""
    read = read_trace(trace)
    named = [
        Judgement(message=reply.place, quote=reply.text, wrong=reply.answer, right=right)
        for reply in replies_in(read)[-1:]
    ]
    return judged_trace(read, named, Redactor())


@pytest.mark.parametrize("trace", CORRECTED.values(), ids=CORRECTED)
def test_the_case_of_a_corrected_trace(trace: Any) -> None:
    [case] = cases_of(judged(trace), trace_id="t", made_at="2026-01-01T00:00:00+00:00")
    assert (case.question, case.wrong) == (QUESTION, WRONG)
    assert case.check == CaseCheck("contains", "SEK")
    assert case.expected == RIGHT
    assert "SEK" in case.correction
    assert (case.trace_id, case.made_at) == ("t", "2026-01-01T00:00:00+00:00")


UNCORRECTED: dict[str, Any] = {
    "a plain answer": {"question": QUESTION, "answer": RIGHT},
    "praise": {"question": QUESTION, "answer": RIGHT, "feedback": "Perfect, thanks!"},
    "the judgement that all is well": {"question": QUESTION, "answer": RIGHT, "feedback": "Correct."},
    "the judgement of SimpleEnvironment": {
        "question": QUESTION,
        "answer": RIGHT,
        "feedback": "Correct: the answer contains 'SEK'.",
    },
    "a follow-up": f"User: {QUESTION}\nAssistant: {RIGHT}\nUser: And from Norway?\nAssistant: NOK\n",
    "a text": "The run was wrong. It should be SEK.",
    "feedback without an answer": {"question": QUESTION, "feedback": SAID},
    "a log": "INFO: user: logged in\nERROR: wrong password, it should be longer",
    "what a converter said about a run": {
        "schema": 1,
        "question": "Fix the tests.",
        "answer": "Done.",
        "feedback": "bash failed at 7: FAILED, not found. The user's next message: it should be 3.",
        "corrections": [],
    },
    "nothing": None,
}


@pytest.mark.parametrize("trace", UNCORRECTED.values(), ids=UNCORRECTED)
def test_a_trace_without_a_correction_yields_no_case(trace: Any) -> None:
    assert read_trace(trace)["corrections"] == []
    assert cases_of(read_trace(trace)) == ()


def test_a_correction_that_only_a_judge_can_check_says_what_to_look_for() -> None:
    feedback = "No, far too dry. Sponsors want a warm and personal tone."
    [case] = cases_of(judged({"question": "Thank the sponsor.", "answer": "Thank you.", "feedback": feedback}))
    assert case.check.kind == "judge"
    assert feedback in case.check.value


def test_what_a_tool_said_after_a_correction_is_not_a_case() -> None:
    messages = [
        {"role": "user", "content": "How many open tickets are there?"},
        {"role": "assistant", "content": "17"},
        {"role": "user", "content": "No, count those of the last week only."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "assistant", "content": "5"},
    ]
    trace = judged(messages, "5")
    assert [correction["right"] for correction in trace["corrections"]] == ["5"]
    assert cases_of(trace) == ()


WITH_A_TOOL: dict[str, Any] = {
    "steps": [
        {"role": "user", "content": "Book a berth for Ada."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "no form"},
        {"role": "assistant", "content": "I see no form."},
    ],
}


@pytest.mark.parametrize(
    "judgement",
    [
        {"ground_truth": "Berth 7"},
        {"ground_truth": "Berth 7", "feedback": "Incorrect, it should be Berth 7."},
        {"check": {"kind": "environment", "value": "Harbour"}, "feedback": "No berth was booked."},
        {"check": {"kind": "exact", "value": "Berth 7"}, "ground_truth": "Berth 7", "metrics": {"correct": 0.0}},
    ],
    ids=["ground truth", "ground truth and feedback", "environment", "check"],
)
def test_a_judged_answer_that_needed_tools_is_a_case_only_for_the_agent_that_has_them(
    judgement: dict[str, Any],
) -> None:
    trace = read_trace({**WITH_A_TOOL, **judgement})
    assert cases_of(trace) == ()
    [case] = cases_of(trace, can_be_asked_again=True)
    assert (case.question, case.wrong) == ("Book a berth for Ada.", "I see no form.")
    without_tools = [step for step in WITH_A_TOOL["steps"] if step["role"] != "tool" and step["content"]]
    assert len(cases_of(read_trace({**judgement, "steps": without_tools}))) == 1


def test_what_a_person_corrects_is_a_case_also_where_the_run_was_judged_and_used_tools() -> None:
    said = [
        {"role": "user", "content": "No, boats of 9 metres get berth B4."},
        {"role": "assistant", "content": "B4"},
    ]
    trace = judged(
        {"steps": [*WITH_A_TOOL["steps"], *said], "check": {"kind": "environment", "value": "Harbour"}}, "B4"
    )
    [case] = cases_of(trace)
    assert (case.wrong, case.check) == ("I see no form.", CaseCheck("contains", "B4"))


def test_a_trace_that_is_read_again_keeps_corrections_and_check() -> None:
    trace = judged({**CORRECTED["messages in a field"], "check": {"kind": "exact", "value": "SEK"}})
    assert len(trace["corrections"]) == 1
    assert trace["check"] == {"kind": "exact", "value": "SEK"}
    assert read_trace(trace) == trace


@pytest.mark.parametrize("check", ["exact", {"kind": "exact"}, {"kind": "fuzzy", "value": "x"}, {"a": 1}, [1]])
def test_a_field_named_check_that_is_something_else_stays(check: object) -> None:
    trace = read_trace({"question": "q", "check": check})
    assert (trace["check"], trace["rest"]) == (None, {"check": check})


class Agent:
    def generate(self, **kwargs: Any) -> AgentOutput:
        return AgentOutput(reasoning="", final_answer="pier A")


class Reflector:
    def __init__(self) -> None:
        self.traces: list[Any] = []

    def reflect(self, **kwargs: Any) -> ReflectorOutput:
        self.traces.append(kwargs["trace"])
        return ReflectorOutput(reasoning="", correct_approach="", key_insight="")


class Manager:
    def update_skills(self, **kwargs: Any) -> SkillManagerOutput:
        return SkillManagerOutput(update=UpdateBatch("", []))


class Harbour(TaskEnvironment):
    def evaluate(self, *, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        return EnvironmentResult("It blocked the lane there.", None, {"correct": 0.0})


class Elsewhere:
    """An environment that does not inherit."""

    def evaluate(self, *, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        return EnvironmentResult("Refused.", "pier C", {"correct": 0.0})


@pytest.mark.parametrize(
    ("environment", "truth", "check"),
    [
        (SimpleEnvironment("strict"), "pier C", CaseCheck("contains", "pier C")),
        (SimpleEnvironment("exact"), "pier C", CaseCheck("exact", "pier C")),
        (Harbour(), None, CaseCheck("environment", "Harbour")),
        (Elsewhere(), None, CaseCheck("environment", "Elsewhere")),
    ],
    ids=["strict", "exact", "custom", "not inherited"],
)
def test_a_judged_sample_yields_a_case_with_the_check_of_its_environment(
    environment: Any, truth: str | None, check: CaseCheck
) -> None:
    reflector = Reflector()
    runner = ACE.from_roles(agent=Agent(), environment=environment, reflector=reflector, skill_manager=Manager())
    runner.run([Sample("Pier A or pier C?", "A boat of 11 metres", ground_truth=truth)])
    [trace] = reflector.traces
    [case] = cases_of(read_trace(trace))

    assert (case.question, case.context, case.wrong) == ("Pier A or pier C?", "A boat of 11 metres", "pier A")
    assert case.check == check
    assert case.correction == trace["feedback"]


def test_each_conversation_of_the_benchmark_yields_a_case() -> None:
    folder = Path(__file__).parents[3] / "benchmarks" / "learning_quality" / "sets"
    if not folder.is_dir():
        pytest.skip("the benchmark is not beside the tests")
    found: dict[str, list[SkillCase]] = {}
    calls: dict[str, list[SkillCase]] = {}
    for path in sorted(folder.glob("*/traces/*.json")):
        trace = read_trace(json.loads(path.read_text("utf-8")))
        if path.parts[-3] in ("theatre", "nursery"):
            calls[f"{path.parts[-3]}/{path.stem}"] = list(cases_of(trace))
            continue
        right = replies_in(trace)[0].next_answer
        named = [
            Judgement(message=reply.place, quote=reply.text, wrong=reply.answer, right=right)
            for reply in replies_in(trace)[:1]
        ]
        found[f"{path.parts[-3]}/{path.stem}"] = list(cases_of(judged_trace(trace, named, Redactor())))
    assert [len(calls), sum(len(cases) == 1 for cases in calls.values())] == [32, 23]
    assert {case.check.kind for cases in calls.values() for case in cases} == {"call"}
    assert len(found) == 80
    assert {name for name, cases in found.items() if len(cases) != 1} == set()
    assert {name for name, [case] in found.items() if case.check.kind == "judge"} == set()


@pytest.mark.parametrize("filler", ["a.b", "no, ", "8 ", "K7-", "sorry ", "or ", "\n", "it is "])
@pytest.mark.parametrize("place", range(4))
def test_texts_without_end_are_read(filler: str, place: int) -> None:
    turns = [QUESTION, WRONG, SAID, RIGHT]
    turns[place] += " " + filler * (60_000 // len(filler))
    speakers = ("user", "assistant", "user", "assistant")
    trace = judged([{"role": who, "content": text} for who, text in zip(speakers, turns, strict=True)], turns[3])
    for case in cases_of(trace):
        assert len(worked_example(case)) < 1000
        assert answer_passes(case, case.expected) in (True, None)
    fields = read_trace({"question": turns[0], "answer": turns[1], "feedback": turns[2], "expected": turns[3]})
    assert len(cases_of(fields)) <= 1
