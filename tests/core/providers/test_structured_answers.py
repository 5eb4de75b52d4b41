"""Structured answers of `LiteLLMClient`: what is accepted, what is asked for again, what is refused."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from ace.calls import AnswerProblem, answer_budget
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.protocols import UnusableAnswerError
from ace.providers.structured_answers import described, read_answer
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer, in_turn

pytestmark = pytest.mark.usefixtures("each_transport")

GOOD = {"reasoning": "because", "final_answer": "42"}
TEXT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "answer",
    [
        TEXT,
        f"\ufeff\n {TEXT} \n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```\n",
        f"Of course! Here is the JSON:\n{TEXT}\nLet me know if you need more.",
        f"In set notation {{x | x > 1}} it is:\n{TEXT}",
        f'<think>Maybe {{"reasoning": "no", "final_answer": "41"}}?</think>{TEXT}',
        f"{TEXT}\n{TEXT}",
        '{"reasoning": "because", "final_answer": 42}',
        '{"reasoning": "because", "final_answer": "42", "confidence": 0.9, "extra": {"a": [1]}}',
        '{"final_answer": "42", "reasoning": "because"} {"unrelated": 1}',
        f'{{"AgentOutput": {TEXT}}}',
        f'{{"type": "object", "properties": {TEXT}, "required": ["final_answer"]}}',
        "{'reasoning': 'because', 'final_answer': '42'}",
        "Here it is: {'reasoning': \"because\", 'final_answer': '42', 'sure': True}.",
        f'Perhaps {{"reasoning": "no", "final_answer": "41"}}?</think>{TEXT}',
    ],
)
def test_an_unambiguous_answer_is_accepted(answer: str) -> None:
    output = read_answer(answer, AgentOutput)
    assert (output.reasoning, output.final_answer) == ("because", "42")


def test_a_raw_line_break_in_a_text_is_accepted() -> None:
    assert read_answer('{"reasoning": "a\nb", "final_answer": "1"}', AgentOutput).reasoning == "a\nb"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "the answer is empty"),
        ("   \n", "the answer is empty"),
        ("I would say 42.", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"reasoning": "because", "final_answer": "4', "the JSON is broken"),
        ("{'reasoning': 'because', 'final_answer': 4 2}", "the JSON is broken"),
        ('{"AgentOutput": {"reasoning": "because"}, "other": {}}', "final_answer: Field required"),
        ('{"reasoning": "because"}', "final_answer: Field required"),
        ('{"reasoning": ["a"], "final_answer": {}}', "reasoning: Input should be a valid string"),
        (f'{TEXT} or {{"reasoning": "b", "final_answer": "43"}}', "2 different JSON objects"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("{" * 300_000, "the JSON is broken"),
        ("x" * 300_000, "no JSON object"),
    ],
    ids=lambda value: value[:30],
)
def test_anything_else_is_a_problem_that_can_be_told(answer: str, problem: str) -> None:
    with pytest.raises(AnswerProblem, match=problem):
        read_answer(answer, AgentOutput)


@pytest.mark.parametrize(
    "answer",
    [
        {"reasoning": "r", "operations": [{"type": "ADD", "section": "s", "content": "c"}]},
        {"update": {"reasoning": "r", "operations": [{"type": "add", "section": "s", "content": "c"}]}},
        {"reasoning": "r", "update": {"operations": [{"type": "Add", "section": "s", "content": "c"}]}},
    ],
)
def test_both_shapes_of_an_update_are_accepted(answer: dict[str, object]) -> None:
    update = read_answer(json.dumps(answer), SkillManagerOutput).update
    assert update.reasoning == "r"
    assert [(op.type, op.section, op.content) for op in update.operations] == [("ADD", "s", "c")]


def test_an_unknown_operation_is_a_problem() -> None:
    answer = json.dumps({"reasoning": "", "operations": [{"type": "EXPLODE"}]})
    with pytest.raises(AnswerProblem, match=r"operations\[0\]: unknown operation type 'EXPLODE'"):
        read_answer(answer, SkillManagerOutput)
    with pytest.raises(AnswerProblem, match="'operations'"):
        read_answer('{"foo": 1}', SkillManagerOutput)


@given(st.text(max_size=200))
def test_no_text_does_anything_but_validate_or_tell_its_problem(text: str) -> None:
    try:
        read_answer(text, AgentOutput)
    except AnswerProblem as problem:
        assert str(problem)  # noqa: PT017  (either outcome is right; this one has to say something)


@given(before=st.text(alphabet=st.characters(exclude_characters="{}<>"), max_size=50), value=st.text())
def test_a_good_object_is_found_in_any_prose(before: str, value: str) -> None:
    held = json.dumps({"reasoning": value, "final_answer": "1"})
    assert read_answer(f"{before}{held}{before}", AgentOutput).reasoning == value


def test_the_prompt_describes_the_fields_of_the_answer() -> None:
    with ScriptedServer(in_turn(GOOD)) as server:
        output = client_for(server).complete_structured("What is it?", AgentOutput)
        assert output.raw == GOOD
        text = server.requests[0].text
        assert text.startswith("What is it?")
        assert "- final_answer (text): The answer alone, without the reasoning." in text
        assert "- raw" not in text
        assert "- skill_ids" not in text


class Part(BaseModel):
    share: float = Field(ge=0, le=1)
    kind: Literal["wood", "glass"] | None = None
    parts: list[Part] = []


def test_an_answer_that_contains_itself_is_described_once() -> None:
    assert described(Part).splitlines()[1:] == [
        "- share (number from 0 to 1)",
        '- kind ("wood" or "glass" or null)',
        "- parts (list, may be empty)",
    ]


def test_the_error_is_shown_to_the_model_which_then_does_better() -> None:
    def script(request: ScriptedRequest) -> str | dict[str, str]:
        return GOOD if "final_answer: Field required" in request.text else '{"reasoning": "first try"}'

    with ScriptedServer(script) as server:
        assert client_for(server).complete_structured("x", AgentOutput).final_answer == "42"
        assert [message["role"] for message in server.requests[1].messages] == ["user", "assistant", "user"]
        assert "first try" in server.requests[1].text


def test_a_huge_broken_answer_is_shown_to_the_model_in_part_only() -> None:
    with ScriptedServer(in_turn("x" * 300_000, GOOD)) as server:
        client_for(server).complete_structured("x", AgentOutput)
        assert len(server.requests[1].text) < 10_000
        assert "296000 characters omitted" in server.requests[1].text


def test_when_nothing_validates_the_error_carries_every_raw_answer() -> None:
    with ScriptedServer(in_turn("one", "two", '{"reasoning": 3}')) as server:
        client = client_for(server)
        with pytest.raises(UnusableAnswerError, match="after 3 answers: final_answer") as raised:
            client.complete_structured("x", AgentOutput)
        assert raised.value.raw_answers == ("one", "two", '{"reasoning": 3}')
        assert raised.value.raw_answer == '{"reasoning": 3}'
        assert len(server.requests) == client.usage.calls == 3
        assert client.usage.input_tokens == server.input_tokens


def test_an_answer_that_was_cut_off_says_so() -> None:
    cut = Answer('{"reasoning": "and so', finish_reason="length")
    with (
        ScriptedServer(in_turn(cut)) as server,
        pytest.raises(UnusableAnswerError, match="raise max_tokens"),
    ):
        client_for(server, validation_retries=0).complete_structured("x", AgentOutput)


def test_a_budget_bounds_the_answers() -> None:
    with ScriptedServer(in_turn("never any JSON")) as server:
        client = client_for(server, validation_retries=10)
        with answer_budget(2) as budget, pytest.raises(UnusableAnswerError, match="after 2 answers"):
            client.complete_structured("x", AgentOutput)
        assert budget.left == 0
        assert len(server.requests) == 2


def test_shares_are_read_in_the_ways_they_are_written() -> None:
    base = dict.fromkeys(
        ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight"), ""
    )
    scores = [0.9, "0.9", "90%", 90, " 90 % ", 1, None]
    learnings = [{"learning": "l", "atomicity_score": score} for score in scores]
    answer = {**base, "error_identification": None, "skill_tags": None, "extracted_learnings": learnings}
    output = read_answer(json.dumps(answer), ReflectorOutput)
    assert [learning.atomicity_score for learning in output.extracted_learnings] == [0.9] * 5 + [1.0, 0.0]
    assert (output.error_identification, output.skill_tags) == ("", [])
    for wrong in (-1, 1000, "much", "NaN", [1]):
        with pytest.raises(AnswerProblem, match="atomicity_score"):
            read_answer(
                json.dumps({**base, "extracted_learnings": [{"learning": "l", "atomicity_score": wrong}]}),
                ReflectorOutput,
            )
