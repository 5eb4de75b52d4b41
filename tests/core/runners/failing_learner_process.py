"""A learner in children, like `learner_process`, whose samples may fail: it resumes its run with whatever is left."""

from __future__ import annotations

from ace.providers import LiteLLMClient
from ace.runners import RecordedTrace, TraceAnalyser
from tests.core.runners.learner_process import main, opened

TRACES = 40


def traces() -> list[RecordedTrace]:
    """Return the input, the same in every process."""
    return [RecordedTrace({"task": f"Do job {number}."}, f"jobs.jsonl#{number}") for number in range(1, TRACES + 1)]


def learn(path: str, api_base: str) -> None:
    """Learn from what is left, three traces at once."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9, max_retries=0)
    runner = TraceAnalyser.from_client(client, skillbook=opened(path), unproven="keep")
    runner.run(traces(), resume=True, once=True)


if __name__ == "__main__":
    main(learn)
