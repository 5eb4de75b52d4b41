"""`RRStep`: a reflection, turn by turn."""

from __future__ import annotations

import pytest

from ace import ACELiteLLM, LiteLLMClient
from ace.outputs import AgentOutput, ReflectorOutput
from ace.rr import SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT, RRConfig, RRStep
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.reflection_script import LOOK, REFLECTION, TRACE, Explorer, Turn, is_turn, python, submit
from tests.support.scripted_server import ScriptedServer

pytest.importorskip("pydantic_monty")


def reflect(step: RRStep, trace: object = TRACE, book: Skillbook | None = None) -> ReflectorOutput:
    return step.reflect(
        question="How tall is the tower in metres?",
        agent_output=AgentOutput(reasoning="", final_answer="9 m"),
        skillbook=Skillbook() if book is None else book,
        feedback="Wrong: it is 30 m.",
        trace=trace,
    )


def test_the_model_looks_at_the_trace_with_code_and_submits_a_reflection() -> None:
    def read(message: str) -> str:
        assert "98 feet, which is 30 m" in message
        return submit()

    turns: list[Turn] = [python("print(len(trace)); print(trace.find_steps('feet')[0].content)"), read]
    with ScriptedServer(Explorer(turns)) as server:
        reflection = reflect(RRStep(client_for(server)))
    assert reflection.key_insight == REFLECTION["key_insight"]
    assert reflection.extracted_learnings[0].evidence == "place 2"
    first, second = server.requests
    assert first.messages[-1]["content"].startswith("[Iteration 1/20]\n")
    assert "How tall is the tower in metres?" in first.text
    assert second.messages[-1]["content"].startswith("[Iteration 2/20]\nOutput:\n3\n98 feet")


def test_the_reflection_tells_how_it_came_about() -> None:
    turns = [python("print(ask_llm('Which unit?', 'feet', mode='deep_dive'))"), python("1 / 0"), submit()]
    with ScriptedServer(Explorer(turns, sub_answer=lambda request: "Feet.")) as server:
        reflection = reflect(RRStep(client_for(server)))
    told = reflection.raw["rr_trace"]
    assert [iteration["iteration"] for iteration in told["iterations"]] == [1, 2, 3]
    assert [iteration["terminated"] for iteration in told["iterations"]] == [False, False, True]
    assert told["iterations"][0]["stdout"] == "Feet.\n"
    assert "ZeroDivisionError" in told["iterations"][1]["stderr"]
    assert "FINAL" in told["iterations"][2]["code"]
    assert told["total_iterations"] == 3
    assert told["timed_out"] is False
    turn_requests = [request for request in server.requests if is_turn(request)]
    assert [iteration["input_tokens"] for iteration in told["iterations"]] == [
        request.input_tokens for request in turn_requests
    ]
    assert [iteration["output_tokens"] for iteration in told["iterations"]] == [
        request.output_tokens for request in turn_requests
    ]
    (question,) = told["subagent_calls"]
    assert question.pop("seconds") >= 0
    assert question == {
        "call_number": 1,
        "question": "Which unit?",
        "context_length": 4,
        "response_length": 5,
        "mode": "deep_dive",
    }
    assert told["usage"]["calls"] == 4
    assert told["usage"]["input_tokens"] == server.input_tokens
    assert told["usage"]["output_tokens"] == server.output_tokens


def test_ace_learns_a_skill_with_it() -> None:
    with ScriptedServer(Explorer()) as server:
        llm = client_for(server)
        ace = ACELiteLLM(llm, reflector=RRStep(llm, config=RRConfig(max_iterations=10)), prove=False)
        results = ace.learn_from_traces([TRACE])
        assert results[0].error is None
    assert [skill.content for skill in ace.skillbook.skills()] == ["Write the unit next to each number."]
    assert [is_turn(request) for request in server.requests[:2]] == [True, True]
    assert "[Iteration 2/10]" in server.requests[1].text
    assert LOOK in server.requests[1].text


@pytest.mark.parametrize(
    ("turns", "refused_in", "told"),
    [
        ([submit(), LOOK, submit()], 1, "FINAL was not accepted: look at the data first."),
        ([python("x = 1"), submit(), LOOK, submit()], 2, "FINAL was not accepted: look at the data first."),
        (
            [LOOK, submit() + python("1 / 0"), submit()],
            2,
            "FINAL was not accepted, because the code ended with an error",
        ),
        ([LOOK, submit({"reasoning": "r", "key_insight": "k"}), submit()], 2, "- correct_approach: Field required"),
        ([LOOK, python("FINAL('done')"), submit()], 2, "The value must be a dict with the fields of a reflection"),
        (["I would rather not.", LOOK, submit()], 1, "Your answer contains no Python code."),
    ],
    ids=["without a look", "without output", "after an error", "a field is missing", "not a dict", "no code"],
)
def test_what_cannot_be_accepted_is_explained_to_the_model(turns: list[Turn], refused_in: int, told: str) -> None:
    with ScriptedServer(Explorer(turns)) as server:
        reflection = reflect(RRStep(client_for(server)))
    assert reflection.raw["rr_trace"]["total_iterations"] == len(turns)
    assert len(server.requests) == len(turns)
    assert told in server.requests[refused_in].messages[-1]["content"]
    assert server.requests[refused_in].messages[-1]["content"].startswith(f"[Iteration {refused_in + 1}/20]")


class SmallModel:
    """The client of a scripted model that says that its model is small."""

    is_small_model = True

    def __init__(self, client: LiteLLMClient) -> None:
        self.complete_messages = client.complete_messages


SHORT = {"reasoning": "It mixed feet and metres.", "correct_approach": "Write units.", "key_insight": "Units matter."}


def test_a_small_model_is_told_how_to_submit_after_it_has_looked() -> None:
    looks = [
        python("print(trace.summary())"),
        python("print(trace[1].preview(99))"),
        python("print(trace.summary())"),
        submit(SHORT),
    ]
    with ScriptedServer(Explorer(looks)) as server:
        reflection = reflect(RRStep(SmallModel(client_for(server))))
    assert reflection.key_insight == "Units matter." and reflection.extracted_learnings == []
    first, second, third, fourth = (request.messages[-1]["content"] for request in server.requests)
    # Otherwise it would submit at once what it reads here.
    assert "FINAL" not in first and "feet" not in first and "ask_llm" not in first
    assert "How tall is the tower in metres?" in first and "it is 30 m" in first
    assert "3 steps (1 call, 1 result, 1 thought)" in first and "print(trace.summary())" in first
    assert len(first) < 1200
    for reply in (second, third):
        assert "Otherwise submit what the output shows, in this form:\n\n```python\nFINAL(" in reply
        assert "extracted_learnings" not in reply
    assert "You have sent this code before." in fourth and "FINAL(" in fourth


def test_a_model_that_repeats_itself_or_has_one_turn_left_is_told_how_to_submit() -> None:
    turns = [LOOK, python("print(len(trace))"), LOOK, python("print(trace[0].place)"), submit()]
    with ScriptedServer(Explorer(turns)) as server:
        reflect(RRStep(client_for(server), RRConfig(max_iterations=5)))
    replies = [request.messages[-1]["content"] for request in server.requests[1:]]
    assert ["FINAL(" in reply for reply in replies] == [False, False, True, True]
    assert "You have sent this code before. Look at something else, or submit" in replies[2]
    assert "Submit what you have found out, in this form:" in replies[3]
    assert "extracted_learnings" in replies[3]


def test_the_prompt_of_a_small_model_can_be_replaced_and_is_not_used_for_a_batch() -> None:
    with ScriptedServer(Explorer([python("print(item_ids)"), submit()])) as server:
        small = SmallModel(client_for(server))
        step = RRStep(small)
        assert step.prompt_template == SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT
        assert RRStep(small, prompt_template="Look. {overview}").prompt_template == "Look. {overview}"
        reflect(step, {"items": {"a": TRACE}})
    first = server.requests[0].messages[-1]["content"]
    assert "batch_items" in first and "FINAL(" in first
