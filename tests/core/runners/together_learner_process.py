"""A learner in children, like `learner_process`, that requests the updates of up to eight samples in one call.

The environment variable `LEARNER_WORKERS` is the number of calls at once; 0 leaves it to the runner.
"""

from __future__ import annotations

import os

from ace.providers import LiteLLMClient
from ace.roles import Reflector, SkillManager
from ace.runners import TraceAnalyser
from tests.core.runners.ahead_learner_process import TRACES, traces
from tests.core.runners.learner_process import main, opened

TOGETHER = 8


def learn(path: str, api_base: str) -> None:
    """Learn from what is left."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    runner = TraceAnalyser.from_roles(
        reflector=Reflector(client),
        skill_manager=SkillManager(client),
        skillbook=opened(path),
        reflections_per_call=TOGETHER,
        unproven="keep",
    )
    workers = int(os.environ["LEARNER_WORKERS"]) or None
    results = runner.run(traces(), workers=workers, resume=True)
    assert [result.error for result in results] == [None] * TRACES


if __name__ == "__main__":
    main(learn)
