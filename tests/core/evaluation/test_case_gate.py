"""`CaseGate` asks an agent the cases that a batch affects, before and after it; `AllGates` asks several gates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace import TraceAnalyser
from ace.evaluation import AllGates, CaseGate, CounterGate
from ace.outputs import AgentOutput
from ace.protocols import GateVerdict
from ace.protocols.observers import Event, ModelCalled, observing
from ace.roles import Agent
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION, update
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

TIDE = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"))
PIER = SkillCase.make("Which pier?", CaseCheck("contains", "B7"))


SECTIONS = {"When is high water?": "tides", "Which pier?": "piers", "Who is on duty?": "duty"}


class Reader:
    """An agent that answers with the skills of the section that a question is about, and counts the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def generate(self, *, question: str, skillbook: Any, **kwargs: Any) -> AgentOutput:
        self.asked.append(question)
        seen = [skill.content for skill in skillbook.skills() if skill.section == SECTIONS.get(question, skill.section)]
        return AgentOutput(reasoning="", final_answer=" ".join(seen))


@pytest.fixture
def book() -> Skillbook:
    book = Skillbook()
    book.put_cases(book.add_skill("tides", "High water is at 14h30.").id, [TIDE])
    book.put_cases(book.add_skill("piers", "Go to the pier.").id, [PIER])
    book.add_skill("rules", "Check the units.", metadata={"helpful": 2})
    return book


def judged(book: Skillbook, *operations: dict[str, Any], agent: Reader | None = None, **options: Any) -> GateVerdict:
    batch = UpdateBatch("", [UpdateOperation(**operation) for operation in operations])
    return CaseGate(agent or Reader(), **options).judge(skillbook=book, batch=batch)


def test_a_batch_that_breaks_a_case_is_refused(book: Skillbook) -> None:
    for change in (
        {"type": "REMOVE", "skill_id": "tides-00001"},
        {"type": "UPDATE", "skill_id": "tides-00001", "content": "High water is at noon."},
    ):
        verdict = judged(book, change)
        assert (verdict.accepted, verdict.reason) == (False, "1 case that passed fails")
        assert (verdict.before, verdict.after) == ({"passed": 1, "failed": 0}, {"passed": 0, "failed": 1})
    both = judged(
        book,
        {"type": "REMOVE", "skill_id": "tides-00001"},
        {"type": "UPDATE", "skill_id": "piers-00002", "content": "Go to pier B7."},
    )
    assert not both.accepted, "one that is fixed does not make up for one that breaks"


@pytest.mark.parametrize("blank", ["", " "])
def test_an_update_that_the_skillbook_skips_breaks_no_case(book: Skillbook, blank: str) -> None:
    verdict = judged(
        book,
        {"type": "UPDATE", "skill_id": "tides-00001", "content": blank},
        {"type": "UPDATE", "skill_id": "piers-00002", "content": "Go to pier B7."},
    )
    assert (verdict.accepted, verdict.reason) == (True, "1 case that failed passes")


def test_a_failing_case_must_be_fixed(book: Skillbook) -> None:
    better = {"type": "UPDATE", "skill_id": "piers-00002", "content": "Go to pier B7."}
    verdict = judged(book, better)
    assert (verdict.accepted, verdict.reason) == (True, "1 case that failed passes")
    verdict = judged(book, {**better, "content": "Go to another pier."})
    assert (verdict.accepted, verdict.reason) == (False, "1 case that failed still fails")


def test_a_new_skill_must_pass_its_own_case(book: Skillbook) -> None:
    case = SkillCase.make("Who is on duty?", CaseCheck("contains", "Petersen"))
    right = {"type": "ADD", "section": "duty", "content": "Ask for Petersen.", "cases": [case]}
    assert judged(book, right).reason == "1 case that failed passes"
    assert not judged(book, {**right, "content": "Ask for Mr Olsen."}).accepted


def test_a_rewording_that_keeps_the_cases_is_accepted_and_asked_once(book: Skillbook) -> None:
    agent = Reader()
    verdict = judged(
        book, {"type": "UPDATE", "skill_id": "tides-00001", "content": "14h30 is high water."}, agent=agent
    )
    assert (verdict.accepted, verdict.reason) == (True, "1 of 1 case passes, as before")
    # The pier is not affected, though its case fails.
    assert agent.asked == [TIDE.question] * 2


def test_the_cases_of_similar_skills_must_not_break() -> None:
    class FirstOnly(Reader):
        def generate(self, *, question: str, skillbook: Any, **kwargs: Any) -> AgentOutput:
            return AgentOutput(reasoning="", final_answer=skillbook.skills()[-1].content)

    book = Skillbook()
    book.put_cases(book.add_skill("tides", "High water at the pier is at 14h30.").id, [TIDE])
    verdict = judged(
        book, {"type": "ADD", "section": "tides", "content": "High water at the pier is early."}, agent=FirstOnly()
    )
    assert (verdict.accepted, verdict.reason) == (False, "1 case that passed fails")


def test_without_a_case_the_counters_decide(book: Skillbook) -> None:
    agent = Reader()
    verdict = judged(book, {"type": "REMOVE", "skill_id": "rules-00003"}, agent=agent)
    assert (verdict.accepted, verdict.reason) == (False, "no cases; net score 2 -> 0 (-2)")
    assert agent.asked == []


def test_at_most_so_many_cases_are_asked_those_that_passed_first(book: Skillbook) -> None:
    passed = SkillCase(**{**TIDE.__dict__, "last_result": "passed"})
    others = [SkillCase.make(f"Question {number}?", CaseCheck("contains", "?")) for number in range(5)]
    book.put_cases("tides-00001", [*others, passed])
    agent = Reader()
    judged(book, {"type": "REMOVE", "skill_id": "tides-00001"}, agent=agent, max_cases=2)
    assert agent.asked[:2] == [TIDE.question] * 2 and len(agent.asked) == 4


def test_all_gates_must_accept(book: Skillbook) -> None:
    batch = UpdateBatch("", [UpdateOperation("ADD", section="a", content="High water comes twice a day.")])
    agent = Reader()
    verdict = AllGates([CounterGate(), CaseGate(agent)]).judge(skillbook=book, batch=batch)
    assert verdict.accepted and verdict.reason.startswith("CounterGate: net score unchanged at 2, skills 3 -> 4 (+1); ")
    assert "CaseGate: " in verdict.reason and {"net", "passed"} <= verdict.after.keys()
    lost = UpdateBatch("", [UpdateOperation("REMOVE", skill_id="rules-00003")])
    asked = len(agent.asked)
    verdict = AllGates([CounterGate(), CaseGate(agent)]).judge(skillbook=book, batch=lost)
    assert (verdict.accepted, verdict.reason) == (False, "CounterGate: net score 2 -> 0 (-2)")
    assert len(agent.asked) == asked, "the later gate is not asked"
    with pytest.raises(ValueError, match="gates must contain at least one gate"):
        AllGates([])
    with pytest.raises(TypeError, match="judge"):
        AllGates([object()])  # type: ignore[list-item]


def test_its_calls_are_those_of_its_own_role_and_count_toward_the_cost(tmp_path: Path) -> None:
    def script(request: ScriptedRequest) -> Any:
        if request.role == "reflector":
            return {**REFLECTION, "extracted_learnings": [{"learning": "High water is at noon."}]}
        if request.role == "skill_manager":
            return update({"type": "UPDATE", "skill_id": "tides-00001", "content": "High water is at noon."})
        return {"reasoning": "", "final_answer": "14h30" if "14h30" in request.text else "noon"}

    events: list[Event] = []
    with (
        Skillbook.open(tmp_path / "skills.db") as book,
        ScriptedServer(script) as server,
        observing(events.append),
    ):
        book.put_cases(book.add_skill("tides", "High water is at 14h30.").id, [TIDE])
        client = client_for(server)
        runner = TraceAnalyser.from_client(client, skillbook=book, prove=False, gate=CaseGate(Agent(client)))
        runner.run(["a trace"])
        assert runner.failures == []
        assert [skill.content for skill in book.skills()] == ["High water is at 14h30."]
        assert [note["reason"] for note in book.history()[-1].skipped] == ["gate: 1 case that passed fails"]
    calls = [(event.role, bool(event.run_id)) for event in events if isinstance(event, ModelCalled)]
    assert calls == [("Reflector", True), ("SkillManager", True), ("CaseGate", True), ("CaseGate", True)]
