"""A run with tools that nobody corrected teaches from its failed call, with large and with small models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from ace import TraceAnalyser
from ace.logs.run import Run, Step
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

RULE = "When calling rooms, pass the hall as room."
ERROR = "unknown field hall: use room"


def script(request: ScriptedRequest, rule: str = RULE) -> Mapping[str, Any]:
    """Answer as a model that reads the error and follows the rule."""
    text = request.text
    if "Write only the call of the tool rooms" in text and "final_answer" in str(request.body):
        return {"reasoning": "", "final_answer": "rooms(room=4)" if rule in text else "rooms(hall=4)"}
    if "small" in request.model:
        return {"rule": rule if ERROR in text and "rooms(hall=4)" in text else ""}
    if request.role == "reflector":
        learnings = [{"learning": rule, "evidence": ERROR}] if ERROR in text else []
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
        return {**dict.fromkeys(texts, "Read."), "extracted_learnings": learnings, "skill_tags": []}
    add = {"type": "ADD", "section": "rooms", "content": rule}
    return {"reasoning": "", "operations": [add] if rule in text else []}


def run_of(*, fails: bool) -> Run:
    steps = [
        Step(kind="message", speaker="person", content="Is hall 4 free?", place="1"),
        Step(kind="call", speaker="agent", name="rooms", content='{"room": 4}', place="4"),
        Step(kind="result", speaker="tool", name="rooms", content="free", place="5"),
        Step(kind="message", speaker="agent", content="Yes.", place="6"),
    ]
    if fails:
        steps[1:1] = [
            Step(kind="call", speaker="agent", name="rooms", content='{"hall": 4}', place="2"),
            Step(kind="result", speaker="tool", name="rooms", content=ERROR, place="3", is_error=True),
        ]
    return Run(task="Is hall 4 free?", steps=tuple(steps), answer="Yes.")


def analysed(model: str, run: Run) -> tuple[Skillbook, ScriptedServer]:
    with ScriptedServer(script) as server:
        client = client_for(server, model=f"openai/{model}")
        client.is_small_model = model == "small"  # type: ignore[attr-defined]
        analyser = TraceAnalyser.from_client(client, skillbook=Skillbook(), prove=True)
        (result,) = analyser.run([run])
        assert result.error is None
    return analyser.skillbook, server


@pytest.mark.parametrize("model", ["large", "small"])
def test_a_repaired_call_gives_a_proven_skill(model: str) -> None:
    book, _ = analysed(model, run_of(fails=True))
    (skill,) = book.skills()
    assert (skill.content, skill.proof, skill.evidences) == (RULE, "proven", ("recovery",))
    (case,) = skill.cases
    assert case.check.value.splitlines() == ["rooms", "+room", "-hall"]
    assert case.answer == "rooms(room=4)"


@pytest.mark.parametrize("model", ["large", "small"])
def test_a_run_without_failures_gives_no_skill(model: str) -> None:
    book, _ = analysed(model, run_of(fails=False))
    assert book.skills() == []


def test_a_rule_that_shows_the_call_that_failed_is_pending() -> None:
    rule = "Read settings with the path as a text, such as rooms(path='/srv/inn/rooms.toml')."
    call = Step(kind="call", speaker="agent", name="rooms", content='{"path": "/srv/inn/rooms.toml"}', place="2")
    error = Step(
        kind="result", speaker="tool", name="rooms", content=f"{ERROR}; /srv has no file", place="3", is_error=True
    )
    run = Run(task="Is hall 4 free?", steps=(call, error), answer="I cannot tell.")

    with ScriptedServer(partial(script, rule=rule)) as server:
        analyser = TraceAnalyser.from_client(client_for(server), skillbook=Skillbook(), prove=True)
        (result,) = analyser.run([run])
    assert result.error is None
    (skill,) = analyser.skillbook.skills(include_invalid=True)
    assert (skill.content, skill.status) == (rule, "pending")
    assert "It shows the call that failed." in skill.reason


def test_a_case_about_a_call_is_not_given_to_a_skill_about_something_else() -> None:
    other = "Ask before you plan."

    with ScriptedServer(partial(script, rule=other)) as server:
        analyser = TraceAnalyser.from_client(client_for(server), skillbook=Skillbook(), prove=True, unproven="keep")
        analyser.run([run_of(fails=True)])
    (skill,) = analyser.skillbook.skills()
    assert (skill.content, skill.cases) == (other, ())


def test_a_small_model_is_shown_the_call_the_error_and_the_repair() -> None:
    _, server = analysed("small", run_of(fails=True))
    (asked,) = (request.text for request in server.requests if "A call of a tool failed" in request.text)
    record = re.findall(r"<(data-[0-9a-f]{8,})>\n(.*?)\n</\1>", asked, re.DOTALL)[-1][1]
    assert record.splitlines() == [
        "Task: Write only the call of the tool rooms, as rooms(name='value'), for this task: Is hall 4 free?",
        "Failed call: rooms(hall=4)",
        "Error: unknown field hall: use room",
        "Call that worked: rooms(room=4)",
        "Only in the failed call: hall",
        "Only in the call that worked: room",
    ]
