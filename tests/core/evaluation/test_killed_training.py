"""A gated training that is killed again and again ends like one that was not, and pays no recorded answer twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from itertools import cycle, islice
from pathlib import Path

from ace.skillbook import Skillbook
from examples.scripted_conventions import task_of
from tests.core.evaluation.test_training import misled_by_iron
from tests.core.evaluation.trainer_process import TRAIN, VALIDATE
from tests.core.evaluation.world import conventions
from tests.core.runners.test_kill import body, learner
from tests.support.held_script import HeldScript
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

KILLS = 12
PLACES = ("agent", "reflector", "skill_manager", "validation")
"""A training is killed in each of them, one after the other, so it gets through two samples in four kills at most."""


def script(request: ScriptedRequest) -> Answer:
    """As in the house, but every sample teaches something, so that every validation has to ask."""
    found = misled_by_iron(request) or conventions(request)
    if request.role == "skill_manager" and isinstance(found, Mapping):
        kind, value = task_of(request.text)
        note = {"type": "ADD", "section": "notes", "content": f"There was a {kind} with {value} in it."}
        found = {**found, "operations": [*found["operations"], note]}
    return Answer(found, delay=0.004)


def place_of(request: ScriptedRequest) -> str:
    is_validation = request.role == "agent" and any(sample.question in request.text for sample in VALIDATE)
    return "validation" if is_validation else request.role


def test_a_training_ends_the_same_whenever_it_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    unbroken, broken = tmp_path / "unbroken.db", tmp_path / "broken.db"
    killed_in: Counter[str] = Counter()
    held = HeldScript(script, place_of)
    with ScriptedServer(held) as server, learner(server, "tests.core.evaluation.trainer_process") as process:
        process.start(unbroken)
        assert process.status() == 0
        expected = Counter(map(body, server.requests))
        server.clear()
        for kill, place in enumerate(islice(cycle(PLACES), KILLS)):
            # The first kill at each place is before the answer, the others before or after it.
            held.hold_from(1, more=int(kill >= len(PLACES)), role=place)
            child = process.start(broken)
            held.wait()
            time.sleep(chance.random() * 0.02)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            held.release()
            server.wait_until_idle()
            killed_in[place_of(server.requests[-1])] += 1
        process.start(broken)
        assert process.status() == 0
        asked = Counter(map(body, server.requests))
    print(dict(killed_in))
    assert set(killed_in) == set(PLACES)
    assert not expected - asked
    assert (asked - expected).total() <= KILLS, "more than the call that was under way was asked again"

    scores = unbroken.with_suffix(".scores").read_text(encoding="utf-8")
    assert "False" in scores, "the gate has something to take back"
    assert broken.with_suffix(".scores").read_text(encoding="utf-8") == scores
    with Skillbook.open(unbroken) as whole, Skillbook.open(broken) as resumed:
        assert resumed.dumps() == whole.dumps()
        learned = [entry.key.sample for entry in resumed.history() if entry.key and "/" not in entry.key.sample]
        assert len(learned) == len(set(learned)) == len(TRAIN)
