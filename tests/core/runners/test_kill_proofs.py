"""A run that proves what it learns is killed again and again, and each time resumed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.runners.proving_learner_process import CHATS, lesson
from tests.core.runners.test_kill import body, learner, recorded, store_of
from tests.support.corrected_chats import correcting_script
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

pytestmark = pytest.mark.thorough

KILLS = 40
AT_ONCE = 3
"""How many questions of the final test are under way at once."""
LESSONS = [lesson(number) for number in range(1, CHATS + 1)]
# The last lesson makes the agent forget the shelf of a ware. Its proof asks about another one, so it is the final test
# that finds this.
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
    with (
        ScriptedServer(script) as server,
        learner(server, "tests.core.runners.proving_learner_process") as process,
    ):
        process.start(unbroken)
        assert process.status() == 0
        calls = [body(request) for request in server.requests]
        roles = Counter(request.role for request in server.requests)
        server.clear()
        kills = 0
        while kills < KILLS:
            before = len(server.requests)
            child = process.start(broken)
            # A run that has got further than its share is killed at its first request, so that enough is left to kill.
            is_fast = recorded(store_of(broken)).total() * KILLS > len(calls) * kills if kills else False
            wanted = before + (1 if is_fast else chance.randint(1, 2 * len(calls) // (KILLS + 10)))
            deadline = time.monotonic() + 20
            while len(server.requests) < wanted and time.monotonic() < deadline:
                time.sleep(0.0005)
            time.sleep(chance.random() * (0.004 if is_fast else 0.03))
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(process.status())
            server.wait_until_idle()
            life = server.requests[before:]
            lives.append([body(request) for request in life])
            if code == 0:
                break
            kills += 1
            unanswered = len(server.requests) - lost - recorded(store_of(broken)).total()
            assert 0 <= unanswered <= AT_ONCE, "more calls were lost than those that were under way"
            lost += unanswered
            if unanswered:
                fell_inside[life[-1].role] += 1
        assert kills >= 30
        if code != 0:  # a further process would begin another run
            before = len(server.requests)
            process.start(broken)
            assert process.status() == 0
            lives.append([body(request) for request in server.requests[before:]])
    print(kills, dict(fell_inside), dict(roles))
    assert fell_inside["agent"]
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
        assert f"Example: {FORGOTTEN.question}" in forgotten.content, "the final test gave it its example"
