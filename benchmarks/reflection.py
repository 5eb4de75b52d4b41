"""Measures the sandbox of the recursive reflector: starting a session, running code, a trace of 50 MB, eight at once.

Times are wall-clock times, because the work is done in another process; run it on an idle machine. It prints the ratios
to baselines. It exits with 1 if a result is wrong, never because of time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from ace.rr import TraceSandbox
from benchmarks.options import add_markdown, add_quick, parser_of
from benchmarks.ratios import Ratio, show
from benchmarks.wrong_result import WrongResult, require

STEPS = 100_000
ROUNDS = 5
TURNS = 200
AT_ONCE = 8
WAIT = 0.3
"""Seconds in which a model would answer a sub-question."""
DECISIVE = "the lock of order 4711 was never released"
CODE = "found = [step.place for step in trace.steps if 'make' in step.content]\nprint(len(found))"


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def steps(count: int) -> list[dict[str, object]]:
    """Steps of some 500 characters; one of them has the decisive line."""
    filler = "the worker took the next order and waited for the lock\n" * 8
    return [
        {
            "kind": "call" if number % 2 else "result",
            "name": "bash",
            "content": f"make order {number}\n{DECISIVE if number == count * 7 // 10 else filler}",
            "is_error": False,
            "place": str(number),
        }
        for number in range(count)
    ]


def of_turns(rounds: int, turns: int) -> list[Ratio]:
    """Start sessions with a short trace, and run a short piece of code again and again."""
    records = steps(20)
    starts, executions, processes = [], [], []
    for _ in range(rounds):
        sandbox = TraceSandbox({"question": "Why?", "steps": records})
        starts.append(milliseconds(partial(first_turn, sandbox)))
        for _ in range(turns):
            start = time.perf_counter()
            printed = sandbox.execute(CODE).stdout
            executions.append((time.perf_counter() - start) * 1000)
            require(printed == "20\n", f"the code printed {printed!r}")
        sandbox.__exit__(None, None, None)
        processes.append(milliseconds(partial(subprocess.run, [sys.executable, "-S", "-c", "pass"], check=True)))
    plain = "found = [step['place'] for step in records if 'make' in step['content']]\nlen(found)"
    bare = [milliseconds(partial(exec, plain, {"records": records})) for _ in range(turns)]
    empty = "an empty Python process"
    return [
        Ratio("a turn", median(executions), "the same in CPython", median(bare), most_measured=5),
        Ratio("a session and its first turn", median(starts), empty, median(processes), most_measured=20),
    ]


def first_turn(sandbox: TraceSandbox) -> None:
    printed = sandbox.__enter__().execute("print(len(trace))").stdout
    require(printed == "20\n", f"the first turn printed {printed!r}")


def of_a_long_trace(rounds: int, count: int) -> list[Ratio]:
    """Load a long trace and find one line in it."""
    trace = {"question": "Why?", "steps": steps(count)}
    text = json.dumps(trace, ensure_ascii=False)
    megabytes = len(text.encode()) / 1e6
    loads, parses, searches, memory = [], [], [], []
    for _ in range(rounds):
        sandbox = TraceSandbox(trace)
        loads.append(milliseconds(sandbox.__enter__))
        memory.append(max(workers().values()))
        searches.append(milliseconds(partial(find_the_line, sandbox, count)))
        sandbox.__exit__(None, None, None)
        parses.append(milliseconds(partial(json.loads, text)))
    size = f"{megabytes:.0f} MB"
    return [
        Ratio(f"loading {size}", median(loads), "json.loads", median(parses), most_measured=2000),
        Ratio(f"searching {size}", median(searches), "json.loads", median(parses)),
        Ratio(f"memory for {size}", median(memory), "its size", megabytes, most=4, unit="MB"),
    ]


def find_the_line(sandbox: TraceSandbox, count: int) -> None:
    printed = sandbox.execute(f"print(trace.search_raw({DECISIVE!r}))").stdout
    require(printed == f"['steps[{count * 7 // 10}].content: {DECISIVE}']\n", f"the search printed {printed!r}")


def workers() -> dict[int, float]:
    """The worker processes of this process, each with its memory in MB."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 3) for line in listing.stdout.splitlines()]
    return {
        int(pid): int(kilobytes) / 976.5625
        for pid, parent, kilobytes, name in rows
        if (int(parent) == os.getpid() and "monty" in name)
    }


def of_sessions_at_once(rounds: int) -> list[Ratio]:
    """Sessions that wait for a model, one and several at once."""

    def ask_llm(question: str) -> str:
        time.sleep(WAIT)
        return "yes"

    printed: list[str] = []

    def reflect() -> None:
        with TraceSandbox({"steps": steps(20)}, functions={"ask_llm": ask_llm}) as sandbox:
            printed.append(sandbox.execute("print(ask_llm('Why?'))").stdout)

    def several() -> None:
        threads = [threading.Thread(target=reflect) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together = [milliseconds(several) for _ in range(rounds)]
    alone = [milliseconds(reflect) for _ in range(rounds)]
    require(printed == ["yes\n"] * len(printed), f"the sessions printed {printed}")
    return [Ratio(f"{AT_ONCE} sessions at once", median(together), "one session", median(alone), most=2)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("reflection", __doc__)
    add_quick(parser, "one round, a trace of 1 MB")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    rounds, turns, count = (1, 10, STEPS // 50) if options.quick else (ROUNDS, TURNS, STEPS)
    try:
        rows = [*of_turns(rounds, turns), *of_a_long_trace(rounds, count), *of_sessions_at_once(rounds)]
    except WrongResult as wrong:
        print(f"wrong result: {wrong}", file=sys.stderr)
        return 1
    show(rows, markdown=options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
