"""A learner in children, like `learner_process`, that requests the updates of several samples at once."""

from __future__ import annotations

from ace.providers import LiteLLMClient
from ace.roles import Reflector, SkillManager
from ace.runners import RecordedTrace, TraceAnalyser
from tests.core.runners.learner_process import main, opened

TRACES = 120
WORKERS = 6


def traces() -> list[RecordedTrace]:
    """Return the input, the same in every process."""
    return [RecordedTrace({"task": f"Do job {number}."}, f"jobs.jsonl#{number}") for number in range(1, TRACES + 1)]


def learn(path: str, api_base: str) -> None:
    """Learn from what is left."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    runner = TraceAnalyser.from_roles(
        reflector=Reflector(client), skill_manager=SkillManager(client), skillbook=opened(path), unproven="keep"
    )
    results = runner.run(traces(), workers=WORKERS, resume=True)
    assert [result.error for result in results] == [None] * TRACES


if __name__ == "__main__":
    main(learn)
