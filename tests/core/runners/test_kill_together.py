"""A run that requests the updates of several samples in one call, killed again and again, and each time resumed."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.core.runners.ahead_learner_process import TRACES, traces
from tests.core.runners.test_kill import learner, store_of
from tests.core.runners.test_kill_ahead import conflicting_lessons, different_lessons, job_of
from tests.core.runners.together_learner_process import TOGETHER
from tests.support.held_script import HeldScript
from tests.support.learning_script import parts_of
from tests.support.scripted_server import Answer, Script, ScriptedRequest, ScriptedServer

KILLS = 12
LEFT = 60
"""So many reflections are left after the kills, and more: a process may get a good deal further than its share."""
OMITTED = 7
"""An answer about several omits the jobs that are divisible by it."""
SEVERAL = "skill_manager_together"
ROLES = {
    "Reflector": "reflector",
    "SkillManager": "skill_manager",
    "SkillManager again": "skill_manager",
    "SkillManager together": SEVERAL,
}


def parts(request: ScriptedRequest) -> Iterator[tuple[int, ScriptedRequest]]:
    """Yield the parts of a request about several reflections, as requests about one."""
    for number, text in parts_of(request.text).items():
        alone = text.replace("\n- updates (", "\n- operations (")
        body = {"messages": [{"role": "user", "content": alone}]}
        yield number, ScriptedRequest(request.number, request.path, request.headers, body)


def grouped(script: Script, *, omits: bool = False) -> Script:
    """Return a script that answers requests about several reflections like requests about one."""

    def answer(request: ScriptedRequest) -> Any:
        if request.role != SEVERAL:
            return script(request)
        updates = []
        for number, part in parts(request):
            if omits and job_of(part) % OMITTED == 0:
                continue
            reply = script(part)
            assert isinstance(reply, Answer) and isinstance(reply.content, dict)
            updates.append({"reflection": number, **reply.content})
        return Answer({"updates": updates}, delay=0.012)

    return answer


def paid(path: Path) -> dict[str, Counter[int]]:
    """Return about which jobs there are recorded answers, by role."""
    found: dict[str, Counter[int]] = {}
    if not path.exists():
        return found
    for key, entry in store_of(path).recorded_answers():
        _, _, sample, _, role, _ = json.loads(key)
        samples = json.loads(entry).get("samples", [sample])
        found.setdefault(role, Counter()).update(int(text.rpartition("#")[2]) for text in samples)
    return found


def calls(path: Path) -> Counter[str]:
    """Return how many answers of the model are recorded, by role; a group is noted before it is asked about."""
    keys = [key for key, _ in store_of(path).recorded_answers()] if path.exists() else []
    return Counter(ROLES[name] for key in keys if (name := json.loads(key)[4]) != "SkillManager group")


@pytest.mark.parametrize(("name", "workers"), [("different", 0), ("conflicting", 4), ("omitted", 4)])
def test_every_trace_is_learned_once_with_requests_about_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, workers: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setenv("LEARNER_WORKERS", str(workers))
    answer = grouped(conflicting_lessons if name == "conflicting" else different_lessons, omits=name == "omitted")
    script = HeldScript(answer)
    unbroken, broken = tmp_path / "unbroken.db", tmp_path / "broken.db"
    under_way = (workers or 3) + max(1, workers)
    with (
        ScriptedServer(script) as server,
        learner(server, "tests.core.runners.together_learner_process") as process,
    ):
        process.start(unbroken)
        assert process.status() == 0
        assert server.by_role(SEVERAL)
        server.clear()
        lost = 0
        for kill in range(KILLS):
            # Every third kill is inside a request about several, which only few requests are. A process that has
            # learned more than its share is killed at its first request, so that enough is left for the later kills.
            is_fast = paid(broken).get("Reflector", Counter()).total() * KILLS > (TRACES - LEFT) * kill
            if is_fast or kill == 0:
                script.hold_from(1)
            elif kill % 3 == 0:
                script.hold_from(1, role=SEVERAL)
            else:
                script.hold_from(chance.randint(1, 6), more=chance.randint(0, 4))
            child = process.start(broken)
            script.wait()
            time.sleep(chance.random() * 0.01)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            script.release()
            server.wait_until_idle()
            unanswered = len(server.requests) - lost - calls(broken).total()
            assert 0 <= unanswered <= under_way, "more calls were lost than those that were under way"
            lost += unanswered
        process.start(broken)
        assert process.status() == 0
        assert len(server.requests) == calls(broken).total() + lost, "a call was made again though it had been answered"
        inside = Counter(request.role for request in server.requests) - calls(broken)
    found = paid(broken)
    print(f"kills inside {dict(inside)}; {lost} calls lost; {len(server.requests)} calls")
    assert inside[SEVERAL] and inside["reflector"]
    every_job = Counter(range(1, TRACES + 1))
    assert found["Reflector"] == every_job
    together, alone = found["SkillManager together"], found.get("SkillManager", Counter())
    assert max(together.values()) == 1, "no job is asked about in two answered calls about several"
    omitted = Counter({job: 1 for job in together if name == "omitted" and job % OMITTED == 0})
    assert together + alone == every_job + omitted
    assert bool(found.get("SkillManager again")) == (name == "conflicting")
    sizes = [len(json.loads(entry).get("samples", [])) for _, entry in store_of(broken).recorded_answers()]
    assert 1 < max(sizes) <= TOGETHER

    with Skillbook.open(unbroken) as whole, Skillbook.open(broken) as resumed:
        assert resumed.dumps() == whole.dumps()
        learned = [entry.key.sample for entry in resumed.history() if entry.key and "/" not in entry.key.sample]
        assert [sample.partition("@")[2] for sample in learned] == [trace.place for trace in traces()]
        assert [entry.events for entry in resumed.history()] == [entry.events for entry in whole.history()]
        for skill in resumed:
            job = skill.sources[0].trace_id.rpartition("#")[2]
            assert skill.content.startswith(f"Alpha{job} "), "its first source is the job that taught it"
