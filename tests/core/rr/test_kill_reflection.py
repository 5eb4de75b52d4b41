"""A run that is killed again and again inside its reflections, and resumed each time."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import pytest

from ace.skill import Skill
from ace.skillbook import Skillbook
from tests.core.rr.exploring_process import TRACES
from tests.core.runners.test_kill import body, learner, recorded, store_of
from tests.support.held_script import HeldScript
from tests.support.reflection_script import is_turn, python
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")
KILLS = 12
CALLS_PER_TRACE = 11
"""Five turns, five sub-questions and the skill manager."""
KINDS = ("turn", "question", "several questions")
"""A run is killed in each of them, one after the other, so it gets through a trace in three kills at most."""

ASK = """\
failed = trace.get_errors()[0]
print('FINDING', ask_llm('What failed?', failed.content))
print(llm_query('Repeat: ' + failed.place))
"""
ASK_MANY = """\
answers = ask_llm_many([{'question': 'Which region?', 'context': step.content} for step in trace if step.index > 2])
print(answers)
"""
SUBMIT = """\
FINAL({
    'reasoning': answers[0],
    'correct_approach': 'Ask for quota.',
    'key_insight': 'Quota',
    'extracted_learnings': [{'learning': 'Check the quota of ' + traces['question'], 'evidence': failed.place}],
})
"""
TURNS = [python(code) for code in ("print(trace.summary())", ASK, "del failed", ASK_MANY, SUBMIT)]


def script(request: ScriptedRequest) -> Answer:
    if is_turn(request):
        found = re.match(r"\[Iteration (\d)/8\]", request.messages[-1]["content"])
        assert found is not None
        return Answer(TURNS[int(found[1]) - 1], delay=0.004)
    if request.role == "skill_manager":
        (lesson,) = re.findall(r'"learning": "(Check the quota of Do job \d\.)"', request.text)
        operations = [{"type": "ADD", "section": "quota", "content": lesson}]
        return Answer({"reasoning": "", "operations": operations}, delay=0.004)
    return Answer(f"I was told: {request.messages[-1]['content'][:200]}", delay=0.004)


def kind(request: ScriptedRequest) -> str:
    """What a request asks for; the questions that are asked at once are a kind of their own."""
    if is_turn(request):
        return "turn"
    return request.role or ("several questions" if "Which region?" in request.text else "question")


def skills(path: Path) -> list[Skill]:
    with Skillbook.open(path) as book:
        return book.skills()


def test_no_answered_turn_is_paid_for_again_wherever_the_process_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    unbroken, broken = tmp_path / "unbroken.db", tmp_path / "broken.db"
    lost = 0
    killed_in: Counter[str] = Counter()
    held = HeldScript(script, kind)
    with ScriptedServer(held) as server, learner(server, "tests.core.rr.exploring_process") as process:
        process.start(unbroken)
        assert process.status() == 0
        assert len(server.requests) == TRACES * CALLS_PER_TRACE
        all_bodies = {body(request) for request in server.requests}
        server.clear()
        for kill, wanted in enumerate(islice(cycle(KINDS), KILLS)):
            before = len(server.requests)
            # The first kill of each kind is before the answer, the others before or after it.
            held.hold_from(1, more=2 * (kill >= len(KINDS)), role=wanted)
            child = process.start(broken)
            held.wait()
            time.sleep(chance.random() * 0.01)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            held.release()
            server.wait_until_idle()
            unanswered = len(server.requests) - lost - recorded(store_of(broken)).total()
            assert 0 <= unanswered <= 3, "more calls were lost than the questions that were asked at once"
            lost += unanswered
            killed_in[kind(server.requests[before:][-1])] += 1
        process.start(broken)
        assert process.status() == 0
        assert len(server.requests) == TRACES * CALLS_PER_TRACE + lost
        assert {body(request) for request in server.requests} == all_bodies
    print(dict(killed_in), f"{lost} answers lost")
    assert set(killed_in) >= set(KINDS)
    assert skills(broken) == skills(unbroken)
    assert len(skills(broken)) == TRACES
