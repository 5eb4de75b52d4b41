"""Runs `ace learn --watch` again and again, and kills it at a chosen place each time. Started as a program.

The arguments are the folder of the project, the seed, the number of kills, and those of `ace learn`. Each run is a fork
of this process, which has run a watch before and so has imported everything; it ends by itself when the log has nothing
new. The last run is not killed. The places of the kills are printed, one JSON list in each line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import ace.cli.commands.learn
import ace.deduplication
import ace.evaluation
import ace.logs.trace
import ace.loop.artifacts
import ace.loop.insights
import ace.loop.trace_log
import ace.outputs
import ace.providers.direct_requests
import ace.providers.litellm_client
import ace.roles
import ace.skillbook.sqlite_store
from ace.cli import main
from ace.steps import ApplyStep, ArtifactStep, InsightOutcomeStep, InsightStep, PersistStep, ReflectStep

STEPS = ("reflect", "insights", "before the commit", "after the commit", "artifact", "block")
WRITES = {"append": 2, "half a file": 5}
"""How often one attempt appends to the log of insights, and writes a file of an artifact."""
FIRST = [*((place, 1) for place in STEPS), *((place, n + 1) for place, most in WRITES.items() for n in range(most))]
"""The places of the first kills, and the number of the call. The others are chosen at random."""


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def dying(function: Callable[..., Any], after: int, *, is_late: bool) -> Callable[..., Any]:
    """Return a function that kills the process at its nth call, before it or when it has returned."""
    calls = 0

    def call(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after and not is_late:
            die()
        result = function(*args, **options)
        if calls == after:
            die()
        return result

    return call


def torn(write: Callable[..., None], after: int) -> Callable[..., None]:
    """Return a function that kills the process when its nth call has written half of the data."""
    calls = 0

    def write_half(file: Any, data: bytes, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls < after:
            write(file, data, **options)
            return
        write(file, data[: len(data) // 2], **options)
        die()

    return write_half


def arm(place: str, after: int) -> None:
    """Kill this process at a place."""
    steps: dict[str, tuple[Any, bool]] = {
        "reflect": (ReflectStep, True),
        "insights": (InsightStep, True),
        "before the commit": (ApplyStep, False),
        "after the commit": (InsightOutcomeStep, False),
        "artifact": (ArtifactStep, True),
        "block": (PersistStep, True),
    }
    if place == "append":
        insights: Any = ace.loop.insights
        insights.append_whole = torn(insights.append_whole, after)
        return
    if place == "half a file":
        artifacts: Any = ace.loop.artifacts
        artifacts._write = torn(artifacts._write, after)
        return
    step, is_late = steps[place]
    step.__call__ = dying(step.__call__, after, is_late=is_late)


def end_when_idle() -> None:
    """Let a watch end by itself when the log has nothing new."""
    log: Any = ace.loop.trace_log

    def is_cancelled_within(seconds: float, token: Any) -> bool:
        token.cancel()
        return True

    log._is_cancelled_within = is_cancelled_within


def run(folder: Path, arguments: list[str], place: str | None, after: int) -> int:
    """Run one watch in a fork, and return how it ended."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    output = os.open(folder.parent / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if place is not None:
        arm(place, after)
    os._exit(watch(folder, arguments))


def watch(folder: Path, arguments: list[str]) -> int:
    """Run one watch in this process, and return its exit code."""
    os.chdir(folder)
    sys.argv = ["ace", *arguments]
    try:
        return main()
    except SystemExit as error:
        return int(error.code or 0)


def program() -> int:
    folder, seed, kills, arguments = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    chosen = random.Random(seed)
    done = 0
    end_when_idle()
    empty = folder.with_name("empty")  # what this loads, the forks need not load again
    empty.mkdir()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        watch(empty, arguments)
    for number in range(kills):
        place = chosen.choice([*STEPS, *WRITES])
        after = chosen.randint(1, WRITES.get(place, 2))
        if number < len(FIRST):
            place, after = FIRST[number]
        code = run(folder, arguments, place, after)
        done += code == -signal.SIGKILL
        print(json.dumps([place, after, code]), flush=True)
    code = run(folder, arguments, None, 0)
    print(json.dumps(["end", done, code]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(program())
