"""A trace of 50 MB, in which one line decides."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ace.outputs import AgentOutput
from ace.rr import RRConfig, RRStep
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.reflection_script import REFLECTION, Explorer, conversation_length, python, submit
from tests.support.scripted_server import ScriptedServer

pytest.importorskip("pydantic_monty")

STEPS = 100_000
DECISIVE = "the lock of order 4711 was never released"


def long_trace() -> dict[str, Any]:
    """Return a trace whose text has some 50 MB; the place of the decisive line is not known beforehand."""
    filler = "the worker took the next order and waited for the lock\n" * 8
    steps = [
        {
            "kind": "result",
            "name": "worker",
            "content": f"order {number}\n{filler}",
            "is_error": False,
            "place": str(number),
        }
        for number in range(STEPS)
    ]
    steps[71_234]["content"] = f"order 71234\n{filler}{DECISIVE}\n{filler}"
    return {"question": "Why do orders wait?", "steps": steps}


def test_the_decisive_line_of_50_mb_is_found_with_short_prompts() -> None:
    trace = long_trace()
    assert len(json.dumps(trace)) > 50_000_000

    def search(message: str) -> str:
        """Ask for lines of another kind than the first step shows."""
        assert "100000 steps" in message and DECISIVE not in message
        assert "the worker took the next order" in message
        found = "trace.find_steps_regex(r'(?m)^the (?!worker)')"
        return python(f"for step in {found}:\n    print('step', step.index, step.content[-500:])")

    def read(message: str) -> str:
        assert DECISIVE in message
        (place,) = re.findall(r"step (\d+)", message)
        return python(f"print('FINDING', trace[{place}].place, trace.search_raw('^the lock'))\nprint(skillbook)")

    def finish(message: str) -> str:
        (place,) = re.findall(r"FINDING (\d+)", message)
        assert "Look at the locks." in message
        learning = {"learning": f"Release a lock: {DECISIVE}.", "evidence": f"place {place}"}
        return submit({**REFLECTION, "extracted_learnings": [learning]})

    book = Skillbook()
    book.add_skill("locks", "Look at the locks.")
    with ScriptedServer(Explorer([search, read, finish])) as server:
        step = RRStep(client_for(server), RRConfig(max_memory=512 * 1024 * 1024, timeout=600))
        reflection = step.reflect("", AgentOutput(reasoning="", final_answer=""), book, trace=trace)
        assert max(conversation_length(request) for request in server.requests) < 50_000
        assert len(server.requests) == 3
    (learning,) = reflection.extracted_learnings
    assert (learning.learning, learning.evidence) == (f"Release a lock: {DECISIVE}.", "place 71234")
