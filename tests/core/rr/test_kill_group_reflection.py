"""`ace learn --group`, killed again and again inside the reflections on groups, and resumed each time."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections import Counter
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import pytest

from ace.skill import Skill
from ace.skillbook import Skillbook
from tests.core.rr.group_process import SIZE
from tests.core.runners.test_kill import body, learner, recorded, store_of
from tests.support.held_script import HeldScript
from tests.support.reflection_script import is_turn, python
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")
GROUPS = 6
KILLS = 12
KINDS = ("turn", "question", "several questions")
"""A run is killed in each of them, one after the other, so it gets through a group in three kills at most."""
TOO_WIDE = "job 7 "
"""The group with this trace can only be explored in halves."""

ASK = f"""\
assert len(item_ids) < {SIZE} or all({TOO_WIDE!r} not in batch_items[item]['question'] for item in item_ids)
failed = {{item: batch_items[item]['steps'][1]['content'] for item in item_ids}}
print('FINDING', ask_llm('What failed?', ' '.join(failed.values())))
"""
ASK_MANY = """\
answers = ask_llm_many([{'question': 'Which region?', 'context': text} for text in failed.values()])
print(answers)
"""
SUBMIT = """\
FINAL({
    'reasoning': answers[0],
    'correct_approach': 'Ask for quota.',
    'key_insight': 'Quota',
    'extracted_learnings': [
        {'learning': 'Check the quota of ' + item_ids[0] + '.', 'evidence': 'ids: ' + ', '.join(item_ids[:2])}
    ],
})
"""
TURNS = [python(code) for code in ("print(item_ids)", ASK, ASK_MANY, SUBMIT)]


def script(request: ScriptedRequest) -> Answer:
    if is_turn(request):
        found = re.match(r"\[Iteration (\d)/6\]", request.messages[-1]["content"])
        assert found is not None
        return Answer(TURNS[min(int(found[1]), len(TURNS)) - 1], delay=0.004)
    if request.role == "skill_manager":
        lessons = dict.fromkeys(re.findall(r'"learning": "(Check the quota of [^"]+)"', request.text))
        operations = [{"type": "ADD", "section": "quota", "content": lesson} for lesson in lessons]
        return Answer({"reasoning": "", "operations": operations}, delay=0.004)
    return Answer(f"I was told: {request.messages[-1]['content'][:200]}", delay=0.004)


READY = "Answer with the word: ready"
"""The command asks this before it learns into a new skillbook."""


def kind(request: ScriptedRequest) -> str:
    """What a request asks for; the questions that are asked at once are a kind of their own."""
    if READY in request.text:
        return "ready"
    if is_turn(request):
        return "turn"
    if request.role == "skill_manager":
        return "update"
    return "several questions" if "Which region?" in request.text else "question"


def asked(server: ScriptedServer) -> list[ScriptedRequest]:
    """Return the requests without the one with which the command checks the model before it learns."""
    return [request for request in server.requests if kind(request) != "ready"]


def lay_out(folder: Path) -> Path:
    """Write the traces, and return where the store of the folder is."""
    (folder / "runs").mkdir(parents=True)
    for number in range(GROUPS * SIZE):
        steps = [
            {"kind": "call", "name": "deploy", "content": f"job {number}", "is_error": False, "place": "1"},
            {
                "kind": "result",
                "name": "deploy",
                "content": f"region {number}: no quota",
                "is_error": True,
                "place": "2",
            },
        ]
        trace = {"question": f"Do job {number} now.", "answer": "done", "success": False, "steps": steps}
        (folder / "runs" / f"{number:02d}.json").write_text(json.dumps(trace), encoding="utf-8")
    return folder / "skills.db"


def skills(path: Path) -> list[Skill]:
    """Return the skills without the times at which they were learned."""
    with Skillbook.open(path) as book:
        return [replace(skill, created_at="", updated_at="") for skill in book.skills()]


def test_no_answered_turn_of_a_group_is_paid_for_again_wherever_the_process_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    unbroken, broken = lay_out(tmp_path / "unbroken"), lay_out(tmp_path / "broken")
    lost = 0
    held = HeldScript(script, kind)
    with ScriptedServer(held) as server, learner(server, "tests.core.rr.group_process") as process:
        process.start(unbroken)
        assert process.status() == 0
        once = Counter(body(request) for request in asked(server))
        server.clear()
        for kill, wanted in enumerate(islice(cycle(KINDS), KILLS)):
            # The first kill of each kind is before the answer, the others before or after it.
            held.hold_from(1, more=2 * (kill >= len(KINDS)), role=wanted)
            child = process.start(broken)
            held.wait()
            time.sleep(chance.random() * 0.008)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            held.release()
            server.wait_until_idle()
            unanswered = len(asked(server)) - lost - recorded(store_of(broken)).total()
            assert 0 <= unanswered <= SIZE, "more calls were lost than the questions that were asked at once"
            lost += unanswered
        process.start(broken)
        assert process.status() == 0
        total = Counter(body(request) for request in asked(server))
        assert total.keys() == once.keys(), "a resumed run asked something else"
        assert (total - once).total() == lost, f"asked again: {(total - once).most_common()}"
    print(f"{once.total()} calls, {lost} answers lost")
    assert skills(broken) == skills(unbroken)
    assert len(skills(broken)) == GROUPS + 1
    assert all(len(skill.sources) in (1, 2) for skill in skills(broken))
