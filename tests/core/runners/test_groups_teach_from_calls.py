"""Traces that are reflected on together teach from their failed calls as each of them does alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ace import TraceAnalyser
from ace.logs.run import Run, Step
from ace.roles import Agent, SkillManager
from ace.rr import RRStep
from ace.runners import RecordedTrace, TraceGroup
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.reflection_script import Explorer, is_turn, python
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")

ROOMS = "When calling rooms, pass the hall as room."
TRAINS = "When calling trains, pass the station as stop."
RIGHT = {"rooms": "rooms(room={number})", "trains": "trains(stop={number})"}
FAILED = {"rooms": "rooms(hall={number})", "trains": "trains(station={number})"}
RULES = {"rooms": ROOMS, "trains": TRAINS}


def steps_of(tool: str, failed: str, error: str, worked: str) -> list[Step]:
    return [
        Step(kind="call", speaker="agent", name=tool, content=failed, place="2"),
        Step(kind="result", speaker="tool", name=tool, content=error, place="3", is_error=True),
        Step(kind="call", speaker="agent", name=tool, content=worked, place="4"),
        Step(kind="result", speaker="tool", name=tool, content="free", place="5"),
    ]


def rooms(hall: int) -> Run:
    steps = steps_of("rooms", f'{{"hall": {hall}}}', "unknown field hall: use room", f'{{"room": {hall}}}')
    return Run(task=f"Is hall {hall} free?", steps=tuple(steps), answer="Yes.")


TRAIN = Run(
    task="Is there a train at station 9?",
    steps=tuple(steps_of("trains", '{"station": 9}', "unknown field station: use stop", '{"stop": 9}')),
    answer="Yes.",
)
CLEAN = Run(
    task="Say hello.",
    steps=(Step(kind="message", speaker="agent", content="Hello.", place="2"),),
    answer="Hello.",
)


def runs() -> list[RecordedTrace]:
    return [
        RecordedTrace(run, f"{name}.json")
        for name, run in (("a", rooms(4)), ("b", TRAIN), ("c", CLEAN), ("d", rooms(7)))
    ]


LOOK = python(
    """\
tools = {}
for item_id, item in (batch_items or {'': traces}).items():
    for step in item['steps']:
        if step['is_error']:
            tools.setdefault(step['name'], []).append(item_id)
print('FINDING', tools)"""
)
SUBMIT = python(
    f"""\
rules = {RULES!r}
FINAL({{
    'reasoning': 'Read.', 'correct_approach': 'Follow the rules.', 'key_insight': '',
    'extracted_learnings': [
        {{'learning': rules[tool], 'evidence': 'ids: ' + ', '.join(ids)}} for tool, ids in tools.items()
    ],
}})"""
)


def script(request: ScriptedRequest) -> Any:
    """Explore, make a skill of each learning, and follow a rule that is shown."""
    if is_turn(request):
        return Explorer([LOOK, SUBMIT])(request)
    if request.role == "skill_manager":
        rules = [rule for rule in RULES.values() if f'"learning": "{rule}"' in request.text]
        adds = [{"type": "ADD", "section": "tools", "content": rule} for rule in rules]
        return {"reasoning": "", "operations": adds}
    tool, number = re.findall(r"Write only the call of the tool (\w+).*?(\d)", request.text)[-1]
    calls = RIGHT if RULES[tool] in request.text else FAILED
    return {"reasoning": "", "final_answer": calls[tool].format(number=number)}


def learned(*inputs: object) -> Skillbook:
    with ScriptedServer(script) as server:
        client = client_for(server)
        analyser = TraceAnalyser.from_roles(
            reflector=RRStep(client),
            skill_manager=SkillManager(client),
            skillbook=Skillbook(),
            prove=True,
            proof_agent=Agent(client),
        )
        results = analyser.run(inputs)
        assert [result.error for result in results] == [None] * len(inputs)
    return analyser.skillbook


def cases(book: Skillbook) -> dict[str, tuple[str, dict[str, tuple[object, ...]]]]:
    """Return the proof of each skill, and what its cases ask, check and answer, by the trace."""
    return {
        skill.content: (
            skill.proof,
            {
                case.trace_id.partition("@")[2]: (case.question, case.check, case.evidence, case.expected, case.answer)
                for case in skill.cases
            },
        )
        for skill in book.skills()
    }


def test_a_group_teaches_the_cases_that_its_traces_teach() -> None:
    alone = cases(learned(*runs()))
    together = cases(learned(TraceGroup(tuple(runs()))))
    assert {rule: (proof, list(found)) for rule, (proof, found) in together.items()} == {
        ROOMS: ("proven", ["a.json", "d.json"]),
        TRAINS: ("proven", ["b.json"]),
    }
    assert together == alone


def test_a_group_is_not_skipped_because_one_trace_of_it_is_known() -> None:
    known = RecordedTrace(rooms(4), "a.json")
    with ScriptedServer(script) as server:
        client = client_for(server)
        analyser = TraceAnalyser.from_roles(
            reflector=RRStep(client),
            skill_manager=SkillManager(client),
            skillbook=Skillbook(),
            prove=True,
            proof_agent=Agent(client),
        )
        analyser.run([known])
        server.clear()
        analyser.run([TraceGroup((RecordedTrace(rooms(7), "d.json"), RecordedTrace(CLEAN, "c.json")))])
        assert sum(is_turn(request) for request in server.requests) == 2
        server.clear()
        analyser.run([TraceGroup((RecordedTrace(rooms(5), "e.json"), RecordedTrace(rooms(6), "f.json")))])
        assert not any(is_turn(request) for request in server.requests), "all of its traces are known"
    (skill,) = analyser.skillbook.skills()
    found = [case.trace_id.partition("@")[2] for case in skill.cases]
    assert found == ["a.json", "d.json", "e.json", "f.json"]
