"""A process that learns in children of its own, each of which kills itself at a named moment.

It imports what they need once, so that a child starts at once. Each line of its input is the moment, such as
`StepEnded ApplyStep`, or nothing; it answers with the exit status of the child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from pathlib import Path

from ace.protocols import LLMCallError
from ace.protocols.observers import StepEnded, StepStarted, observing
from ace.providers import LiteLLMClient
from ace_openclaw import OpenClaw


def learn(state: Path, api_base: str, moment: str) -> None:
    def see(event: object) -> None:
        if isinstance(event, StepStarted | StepEnded) and f"{type(event).__name__} {event.step}" == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    runner = OpenClaw.from_model(ace_llm=client, state_dir=state, skillbook_path=state / "skills.db", unproven="keep")
    with observing(see):
        runner.run(max_in_flight=1)
    assert runner.report.problems == []


def warm_up() -> None:
    """Make a call that is refused: what it imports, each child would import again."""
    client = LiteLLMClient("openai/scripted", api_base="http://127.0.0.1:9", api_key="k" * 9, max_retries=0)
    OpenClaw.from_model(ace_llm=client)
    with contextlib.suppress(LLMCallError):
        client.complete("Is anybody there?")


def main() -> None:
    state, api_base = Path(sys.argv[1]), sys.argv[2]
    warm_up()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                learn(state, api_base, line.strip())
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
