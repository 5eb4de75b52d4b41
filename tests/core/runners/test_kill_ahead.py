"""A run that requests updates ahead, killed again and again, and each time resumed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.runners.ahead_learner_process import TRACES, WORKERS, traces
from tests.core.runners.test_kill import learner, recorded, store_of
from tests.support.held_script import HeldScript
from tests.support.scripted_server import Answer, Script, ScriptedRequest, ScriptedServer

KILLS = 12
LEFT = 100
"""So many calls are left after the kills, or about that: a process may get somewhat further than its share."""
EVERY = 8
"""Of so many jobs in a row, the last one extends the first skill, which jobs behind it may have been asked about."""
FIRST_CHANGE = 3 * EVERY
"""No earlier job extends the first skill: it may be requested before that skill exists."""


def job_of(request: ScriptedRequest) -> int:
    return int(re.findall(r"job (\d+)\.", request.text)[-1])


def lesson(number: int) -> str:
    return f"Alpha{number} beta{number} gamma{number} delta{number}"


def different_lessons(request: ScriptedRequest) -> Answer:
    """Every job teaches something else, and praises the first skill."""
    number = job_of(request)
    if request.role == "reflector":
        return _reflection(number)
    return _operation({"type": "ADD", "section": "jobs", "content": lesson(number)})


def conflicting_lessons(request: ScriptedRequest) -> Answer:
    """Some jobs extend the first skill by their number, two after each other."""
    number = job_of(request)
    if request.role == "reflector":
        return _reflection(number)
    if number % EVERY > 1 or number < FIRST_CHANGE:
        return _operation({"type": "ADD", "section": "jobs", "content": lesson(number)})
    text = re.findall(rf"\[jobs-00001\] ({lesson(1)}[ \d]*)", request.text)[-1]
    return _operation({"type": "UPDATE", "skill_id": "jobs-00001", "content": f"{text} {number}"})


def _reflection(number: int) -> Answer:
    texts = dict.fromkeys(("reasoning", "error_identification", "root_cause_analysis", "correct_approach"), "r")
    tags = [{"id": "jobs-00001", "tag": "helpful"}] if number > 2 * WORKERS else []
    return Answer({**texts, "key_insight": lesson(number), "skill_tags": tags}, delay=0.004)


def _operation(operation: dict[str, object]) -> Answer:
    return Answer({"reasoning": "", "operations": [operation]}, delay=0.012)


def answered(path: Path) -> Counter[tuple[str, int]]:
    """Return how many answers are recorded, by role and job."""
    if not path.exists():
        return Counter()
    keys = [json.loads(key) for key, _ in store_of(path).recorded_answers()]
    roles = {"Reflector": "reflector", "SkillManager": "skill_manager", "SkillManager again": "skill_manager"}
    return Counter((roles[role], int(sample.rpartition("#")[2])) for _, _, sample, _, role, _ in keys)


def check_that_nothing_is_paid_for_again(life: list[ScriptedRequest], known: Counter[tuple[str, int]]) -> None:
    """Check the requests of one process, given the answers that were recorded before it was started."""
    asked = Counter((request.role, job_of(request)) for request in life)
    for (role, number), count in asked.items():
        most = 1 if role == "reflector" else 2
        assert count + known[role, number] <= most, f"the {role} was asked again about job {number}"


@pytest.mark.parametrize("script", [different_lessons, conflicting_lessons])
def test_every_trace_is_learned_once_with_requests_ahead(tmp_path: Path, script: Script) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    unbroken, broken = tmp_path / "unbroken.db", tmp_path / "broken.db"
    held = HeldScript(script)
    with (
        ScriptedServer(held) as server,
        learner(server, "tests.core.runners.ahead_learner_process") as process,
    ):
        process.start(unbroken)
        assert process.status() == 0
        first_calls = Counter((request.role, job_of(request)) for request in server.requests)
        assert set(first_calls) == {(role, n) for role in ("reflector", "skill_manager") for n in range(1, TRACES + 1)}
        assert max(first_calls.values()) <= (1 if script is different_lessons else 2)
        server.clear()
        lost = 0
        for kill in range(KILLS):
            before, known = len(server.requests), answered(broken)
            is_fast = known.total() * KILLS > (2 * TRACES - LEFT) * kill
            held.hold_from(1 if is_fast else chance.randint(1, 2 * WORKERS), more=0 if is_fast else WORKERS)
            child = process.start(broken)
            held.wait()
            time.sleep(chance.random() * 0.01)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            held.release()
            server.wait_until_idle()
            check_that_nothing_is_paid_for_again(server.requests[before:], known)
            unanswered = len(server.requests) - lost - sum(answered(broken).values())
            assert 0 <= unanswered <= 2 * WORKERS, "more calls were lost than those that were under way"
            lost += unanswered
        before, known = len(server.requests), answered(broken)
        process.start(broken)
        assert process.status() == 0
        check_that_nothing_is_paid_for_again(server.requests[before:], known)
        paid = recorded(store_of(broken))
        assert len(server.requests) == paid.total() + lost
        again = paid.pop("SkillManager again", 0)
        assert paid == {"Reflector": TRACES, "SkillManager": TRACES}
        assert (again == 0) == (script is different_lessons)
        print(f"{lost} calls were under way at a kill; {again} updates were requested again")

    with Skillbook.open(unbroken) as whole, Skillbook.open(broken) as resumed:
        assert resumed.dumps() == whole.dumps()
        learned = [entry.key.sample for entry in resumed.history() if entry.key and "/" not in entry.key.sample]
        assert [name.partition("@")[2] for name in learned] == [trace.place for trace in traces()]
        assert [entry.events for entry in resumed.history()] == [entry.events for entry in whole.history()]
