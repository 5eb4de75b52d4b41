"""A process that learns with a reflection window, and can kill itself at the third sample.

Its arguments are the address of the model, the path of the store, and when it dies.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from ace.context import ACEStepContext
from ace.pipeline import Pipeline
from ace.providers import LiteLLMClient
from ace.roles import Reflector, SkillManager
from ace.runners import RecordedTrace, TraceAnalyser
from ace.skillbook import Skillbook

COUNT = 6


@dataclass(frozen=True)
class Killer:
    """Kills the process at a sample."""

    index: int
    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        if ctx.global_sample_index == self.index:
            os.kill(os.getpid(), signal.SIGKILL)
        return ctx


def main(api_base: str, path: str, die: str) -> None:
    """Start the run or resume it.

    Args:
        api_base: The address of the model.
        path: The store.
        die: `before the commit` or `after the commit` of the third sample, or `never`.
    """
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    book = Skillbook.open(path, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    steps = TraceAnalyser.build_steps(reflector=Reflector(client), skill_manager=SkillManager(client), skillbook=book)
    names = [type(step).__name__ for step in steps]
    place = {"before the commit": names.index("ApplyStep"), "after the commit": names.index("ApplyStep") + 1}.get(die)
    if place is not None:
        steps.insert(place, Killer(3))
    runner = TraceAnalyser(Pipeline[ACEStepContext]([*steps, Killer(0)]), book)
    traces = [RecordedTrace({"task": f"Do job {number}"}, f"jobs#{number}") for number in range(COUNT)]
    results = runner.run(traces, max_in_flight=1, reflection_window=3, resume=True)
    assert [result.error for result in results] == [None] * COUNT


if __name__ == "__main__":
    main(*sys.argv[1:])
