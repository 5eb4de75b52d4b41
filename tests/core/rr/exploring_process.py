"""A process whose children learn from traces with the recursive reflector, and which a test can kill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ace.providers import LiteLLMClient
from ace.roles import SkillManager
from ace.rr import RRConfig, RRStep
from ace.runners import RecordedTrace, TraceAnalyser
from tests.core.runners.learner_process import main, opened

TRACES = 6


def trace(number: int) -> Mapping[str, Any]:
    """Return a trace with one failed step, which contains an address that is redacted."""
    steps = [
        {
            "kind": "result",
            "name": "deploy",
            "content": f"job {number}: quota of region {step} {'exceeded, ask ann@acme.com' if step == 3 else 'ok'}",
            "is_error": step == 3,
            "place": f"{number}.{step}",
        }
        for step in range(6)
    ]
    return {"question": f"Do job {number}.", "answer": "done", "steps": steps}


def traces() -> list[RecordedTrace]:
    """Return the input, the same in every process."""
    return [RecordedTrace(trace(number), f"jobs.jsonl#{number}") for number in range(1, TRACES + 1)]


def learn(path: str, api_base: str) -> None:
    """Learn from all traces strictly online, or resume that run."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    runner = TraceAnalyser.from_roles(
        reflector=RRStep(client, RRConfig(max_iterations=8)),
        skill_manager=SkillManager(client),
        skillbook=opened(path),
        unproven="keep",
    )
    results = runner.run(traces(), max_in_flight=1, resume=True)
    assert [result.error for result in results] == [None] * TRACES


if __name__ == "__main__":
    main(learn)
