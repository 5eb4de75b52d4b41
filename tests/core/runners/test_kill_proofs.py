"""A run that proves what it learns is killed again and again, and each time resumed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from ace.skillbook import Skillbook
from tests.core.runners.proving_learner_process import CHATS, lesson
from tests.core.runners.test_kill import body, learner, recorded, store_of
from tests.support.corrected_chats import correcting_script
from tests.support.held_script import HeldScript
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

KILLS = 12
LEFT = 25
"""So many calls are left after the kills, or about that: a process may get somewhat further than its share."""
AT_ONCE = 3
"""How many questions of the final test are under way at once."""
LESSONS = [lesson(number) for number in range(1, CHATS + 1)]
# The last lesson makes the agent forget the shelf of a ware. It competes with all of them, and its proof asks about
# others, so it is the final test that finds this.
FORGOTTEN = LESSONS[3]
SCRIPT = correcting_script(*LESSONS, broken_by={FORGOTTEN.question: "K7-RED"})


def script(request: ScriptedRequest) -> Answer:
    reply = SCRIPT(request)
    assert isinstance(reply, dict)
    return Answer(reply, delay=0.004)


def test_a_killed_run_ends_with_the_same_book_and_pays_for_no_recorded_call_twice(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    unbroken, broken = tmp_path / "unbroken.db", tmp_path / "broken.db"
    fell_inside: Counter[str] = Counter()
    lost = 0
    lives: list[list[str]] = []
    held = HeldScript(script)
    with (
        ScriptedServer(held) as server,
        learner(server, "tests.core.runners.proving_learner_process") as process,
    ):
        process.start(unbroken)
        assert process.status() == 0
        calls = [body(request) for request in server.requests]
        roles = Counter(request.role for request in server.requests)
        last_reflection = max(place for place, request in enumerate(server.requests) if request.role == "reflector")
        one_at_a_time = set(calls[: last_reflection + 1])
        server.clear()
        for kill in range(KILLS):
            before = len(server.requests)
            # A run that has got further than its share is killed at its first request, so that enough is left to kill.
            is_fast = kill > 0 and recorded(store_of(broken)).total() * KILLS > (len(calls) - LEFT) * kill
            if is_fast:
                held.hold_from(1)
            elif kill % 3 == 0:
                held.hold_from(1, role="agent")
            else:
                held.hold_from(chance.randint(1, 5), more=chance.randint(0, 3))
            child = process.start(broken)
            held.wait()
            time.sleep(chance.random() * 0.03)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            held.release()
            server.wait_until_idle()
            life = server.requests[before:]
            lives.append([body(request) for request in life])
            unanswered = len(server.requests) - lost - recorded(store_of(broken)).total()
            assert 0 <= unanswered <= AT_ONCE, "more calls were lost than those that were under way"
            lost += unanswered
            if unanswered:
                fell_inside[life[-1].role] += 1
        before = len(server.requests)
        process.start(broken)
        assert process.status() == 0
        lives.append([body(request) for request in server.requests[before:]])
    print(dict(fell_inside), dict(roles))
    assert fell_inside["agent"]
    known: set[str] = set()
    for asked_in_life in lives:
        assert not known.intersection(asked_in_life), "a call was paid for again after the call that followed it"
        known |= one_at_a_time.intersection(asked_in_life[:-1])
    asked = Counter(request for life in lives for request in life)
    assert not Counter(calls) - asked and set(asked) == set(calls), "the resumed run made other calls"
    assert (asked - Counter(calls)).total() == lost, "a recorded call was paid for twice"
    with Skillbook.open(unbroken) as whole, Skillbook.open(broken) as resumed:
        assert resumed.dumps() == whole.dumps()
        assert [entry.events for entry in resumed.history()] == [entry.events for entry in whole.history()]
        contents = [skill.content for skill in whole.skills()]
        assert any("Example:" in content for content in contents)
        assert sum(len(skill.cases) for skill in whole.skills()) == CHATS
        [forgotten] = [skill for skill in whole.skills() if skill.cases[0].question == FORGOTTEN.question]
        assert forgotten.content == FORGOTTEN.rule
        assert forgotten.cases[0].last_result == "failed", "the final test found it"
