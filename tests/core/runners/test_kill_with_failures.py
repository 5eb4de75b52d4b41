"""A run whose server fails now and then, killed again and again and resumed: no answer is paid for twice."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path

from ace.runners import unfinished_runs
from ace.skillbook import Skillbook
from tests.core.runners.failing_learner_process import TRACES
from tests.core.runners.test_kill import learner, recorded, store_of
from tests.core.runners.test_kill import script as good_script
from tests.core.runners.test_kill_ahead import answered
from tests.support.held_script import HeldScript
from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer

KILLS = 12
LEFT = 30
"""So many answers are left after the kills, or about that: a process may get somewhat further than its share."""
MOST_IN_FLIGHT = 4
"""Three reflections and one update."""


def about(request: ScriptedRequest) -> tuple[str, int]:
    return request.role, int(re.findall(r"job (\d+)\.", request.text)[-1])


def test_no_answer_is_paid_for_twice_although_samples_fail_and_the_process_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, outages = random.Random(seed), random.Random(seed + 1)
    failing = [True]

    def script(request: ScriptedRequest) -> Answer | HttpError:
        if failing[0] and outages.random() < 0.25:
            return HttpError(503)
        return good_script(request)

    path = tmp_path / "s.db"
    kills = 0
    held = HeldScript(script)
    with (
        ScriptedServer(held) as server,
        learner(server, "tests.core.runners.failing_learner_process") as process,
    ):
        while kills < KILLS:
            # A run that has got further than its share is killed at its first request, so that enough is left to kill.
            is_fast = len(server.answered) * KILLS > (2 * TRACES - LEFT) * kills
            held.hold_from(1 if is_fast else chance.randint(1, 6), more=0 if is_fast else chance.randint(0, 3))
            before, known = len(server.requests), answered(path)
            child = process.start(path)
            held.wait(2.0)
            time.sleep(chance.random() * 0.02)
            with contextlib.suppress(ProcessLookupError):  # it has ended itself, such as after failures in a row
                os.kill(child, signal.SIGKILL)
            kills += os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            held.release()
            server.wait_until_idle()
            assert not known & Counter(map(about, server.requests[before:])), "a recorded answer was paid for again"
            assert recorded(store_of(path)).total() < 2 * TRACES, "nothing is left for the other kills"
        failing[0] = False
        process.start(path)
        assert process.status() == 0
        paid = Counter(about(request) for request in server.answered)
        assert set(paid) == {(role, n) for role in ("reflector", "skill_manager") for n in range(1, TRACES + 1)}
        twice = paid.total() - len(paid)
        print(f"{twice} answers were on their way at a kill; {len(server.requests) - len(server.answered)} failures")
        assert twice <= KILLS * MOST_IN_FLIGHT, "more than what was on its way at each kill was paid for twice"
        before = len(server.requests)
        process.start(path)
        assert process.status() == 0
        assert len(server.requests) == before, "there was nothing left to pay for"
    # Each answer is recorded once: one that was paid for twice had not been recorded when the process was killed.
    assert recorded(store_of(path)) == {"Reflector": TRACES, "SkillManager": TRACES}
    with Skillbook.open(path) as book:
        assert unfinished_runs(book) == []
        learned = [entry.key.sample for entry in book.history() if entry.key and "/" not in entry.key.sample]
        assert len(learned) == len(set(learned)) == TRACES
