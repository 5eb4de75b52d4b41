"""A process that learns in children of its own, which a test can kill.

It imports what they need once. Each line of its input is the location of a skillbook; it answers with the process id of
the child that learns into it and then, when that has ended, with its exit status.
"""

from __future__ import annotations

import os
import sys
import traceback

from ace.providers import LiteLLMClient
from ace.roles import Reflector, SkillManager
from ace.runners import RecordedTrace, TraceAnalyser
from ace.skillbook import Skillbook

TRACES = 40


def traces() -> list[RecordedTrace]:
    """Return the input, the same in every process."""
    return [
        RecordedTrace({"task": f"t{number}", "answer": f"LESSON w{number}", "success": False}, f"#{number}")
        for number in range(TRACES)
    ]


def learn(location: str, api_base: str) -> None:
    """Learn from all traces strictly online, or resume that run."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    with Skillbook.open(location) as book:
        runner = TraceAnalyser.from_roles(
            reflector=Reflector(client), skill_manager=SkillManager(client), skillbook=book
        )
        results = runner.run(traces(), max_in_flight=1, resume=True)
    assert [result.error for result in results] == [None] * TRACES


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                learn(line.strip(), sys.argv[1])
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)
