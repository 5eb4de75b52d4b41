"""A process that learns in children of its own, which a test can kill.

It imports what they need once, so that a child starts at once. Each line of its input is the path of a store; it
answers with the process id of the child that learns into it and then, when that has ended, with its exit status.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ace.context import ACEStepContext
from ace.outputs import SkillManagerOutput
from ace.protocols import DeduplicationConfig, LLMCallError
from ace.providers import LiteLLMClient
from ace.roles import Reflector, SkillManager
from ace.runners import RecordedTrace, TraceAnalyser
from ace.skillbook import Skillbook

TRACES = 100
BEFORE_COMMIT, AFTER_COMMIT = ".before", ".after"
"""A file named like the store with such a suffix asks for a pause there; it is removed when that is reached."""
START = datetime(2026, 1, 1, tzinfo=UTC)


def pause_if_asked(request: Path) -> None:
    """Remove the file that asks for a pause and wait to be killed, if there is one."""
    if request.exists():
        request.unlink()
        signal.pause()


class PausingSkillManager(SkillManager):
    """A skill manager that pauses when its answer is recorded, and nothing is committed yet."""

    def __init__(self, client: LiteLLMClient, store: Path) -> None:
        super().__init__(client)
        self._pause = store.with_suffix(BEFORE_COMMIT)

    def update_skills(self, *args: Any, **options: Any) -> SkillManagerOutput:
        output = super().update_skills(*args, **options)
        pause_if_asked(self._pause)
        return output


class TakesItsTime:
    """A slow step after the commit, such as one that records each sample elsewhere; it can pause, too."""

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()

    def __init__(self, store: Path) -> None:
        self._pause = store.with_suffix(AFTER_COMMIT)

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        time.sleep(0.008)
        pause_if_asked(self._pause)
        return ctx


def traces() -> list[RecordedTrace]:
    """Return the input, the same in every process."""
    return [RecordedTrace({"task": f"Do job {number}."}, f"jobs.jsonl#{number}") for number in range(1, TRACES + 1)]


def opened(path: str | Path) -> Skillbook:
    """Open a store whose clock follows its versions, so that a resumed run has the same times."""
    books: list[Skillbook] = []
    book = Skillbook.open(path, clock=lambda: START + timedelta(seconds=books[0].version or 0))
    books.append(book)
    return book


def learn(path: str, api_base: str) -> None:
    """Learn from all traces strictly online, or resume that run."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    runner = TraceAnalyser.from_roles(
        reflector=Reflector(client),
        skill_manager=PausingSkillManager(client, Path(path)),
        skillbook=opened(path),
        dedup_config=DeduplicationConfig(embedding_provider="lexical", similarity_threshold=1.0),
        dedup_interval=10,
        checkpoint_dir=Path(path).with_suffix(".checkpoints"),
        checkpoint_interval=7,
        extra_steps=[TakesItsTime(Path(path))],
        unproven="keep",
    )
    results = runner.run(traces(), max_in_flight=1, resume=True)
    assert [result.error for result in results] == [None] * TRACES
    assert [result.sample for result in results] == traces()


def warm_up() -> None:
    """Make a call that is refused, so that what it imports need not be imported by each child."""
    client = LiteLLMClient("openai/scripted", api_base="http://127.0.0.1:9", api_key="k" * 9, max_retries=0)
    with contextlib.suppress(LLMCallError):
        client.complete("Hello?")


def main(learn: Callable[[str, str], None]) -> None:
    """Serve until the input ends.

    Args:
        learn: What a child does, with the path of a store and the address of the model.
    """
    api_base = sys.argv[1]
    warm_up()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                learn(line.strip(), api_base)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main(learn)
