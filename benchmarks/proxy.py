"""Measures what `ace proxy` adds to a model call, against a bare reverse proxy of the same libraries in the same run.

The model server, the bare proxy and ours run in processes of their own, and the calls alternate between the two in
batches. With `--soak N`, it makes N calls instead, while learners are killed, the skillbook is locked and the disk is
full. It exits with 1 if a call is lost or changed; never because of time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ace.integrations import listening_socket
from ace.skillbook import Skillbook
from ace_proxy.app import Proxy
from ace_proxy.conversations import Conversations
from ace_proxy.learner import LearnerSettings, queue_runs
from ace_proxy.recording import Recorder
from ace_proxy.serving import serving
from ace_proxy.skills import SkillSource
from ace_proxy.upstream import Upstream
from benchmarks.options import add_quick, parser_of
from benchmarks.wrong_result import WrongResult, require

SKILLS = 100
EVENTS = 300
KILOBYTES = (2, 50, 500)
"""The sizes of conversations. The first is that of a new one; the others grow with each call, as those of agents do."""
KEY = "sk-benchmark-0123456789"
ANSWER = json.dumps({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 2_000}}]})


# The processes: each prints its port, and serves until its standard input ends.


def upstream() -> None:
    """A model server that answers at once: with JSON, or with a stream of events."""
    event = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "word "}}]})
    pieces = [f"data: {event}\n\n".encode()] * EVENTS + [b"data: [DONE]\n\n"]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        if b'"stream":true' not in await request.body():
            await Response(ANSWER, media_type="application/json")(scope, receive, send)
            return

        async def stream() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        await StreamingResponse(stream(), media_type="text/event-stream")(scope, receive, send)

    _serve(lambda _: app)


def bare(address: str) -> None:
    """A reverse proxy that only passes on."""

    def make(client: httpx.AsyncClient) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            request = Request(scope, receive)
            body = await request.body()
            headers = [(name, value) for name, value in scope["headers"] if name not in (b"host", b"connection")]
            sent = httpx.Request(request.method, address + request.url.path, headers=headers, content=body)
            response = await client.send(sent, stream=True)
            kept = {name: value for name, value in response.headers.items() if name != "transfer-encoding"}
            await StreamingResponse(response.aiter_raw(), response.status_code, kept)(scope, receive, send)
            await response.aclose()

        return app

    _serve(make)


def ours(address: str, folder: str, silence: float) -> None:
    """Our proxy with skills, recording and learners."""
    conversations = Conversations()
    book = Path(folder, "skills.db")

    def tell(sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    queue_folder = Path(folder, "proxy")
    learner = LearnerSettings(folder=folder, skillbook=str(book), model="openai/none", api_base="http://127.0.0.1:9/v1")
    from ace.integrations import JobQueue

    def hand_over(files: Any) -> None:
        queue_runs(JobQueue(queue_folder), files[:1], learner)

    recorder = Recorder(queue_folder, conversations, hand_over, silence=silence, tell=tell)
    source = SkillSource(str(book), lambda: Skillbook.open(book), budget=2000, tell=tell)
    source.start(30)
    source.text_for("warm")
    recorder.start()

    def make(client: httpx.AsyncClient) -> Any:
        chosen = Upstream.chosen(address, {})
        return Proxy(chosen, client, conversations=conversations, skills=source, recorder=recorder)

    _serve(make)
    recorder.close()
    Path(folder, "lost").write_text(str(recorder.lost))


def _serve(make: Callable[[httpx.AsyncClient], Any]) -> None:
    with listening_socket("127.0.0.1", 0) as listening, serving(make, listening):
        print(listening.getsockname()[1], flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def process(call: str, told: list[str] | None = None) -> Iterator[tuple[int, psutil.Process]]:
    """Run one of the functions above in a process of its own."""
    command = [sys.executable, "-c", f"from benchmarks.proxy import *; {call}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        yield int(child.stdout.readline()), psutil.Process(child.pid)
        child.stdin.close()
        assert child.stderr is not None
        lines = child.stderr.read().splitlines()
        if told is not None:
            told += lines


def make_book(folder: Path) -> None:
    """Write a skillbook whose skills fit the question."""
    with Skillbook.open(folder / "skills.db") as book:
        for number in range(SKILLS):
            topic = "Before a lamp is shipped" if number % 20 == 0 else f"In chapter {number}"
            book.add_skill("lessons", f"{topic}, look at list {number} and write the sum of page {number + 7} below.")


def body_of(kilobytes: int, *, is_stream: bool, number: int) -> bytes:
    """Return a request of the conversation with that number, whose messages have 1 kB each."""
    messages = [{"role": "system", "content": "You ship lamps."}, {"role": "user", "content": f"Ship order {number}."}]
    messages += [
        {"role": "user" if place % 2 else "assistant", "content": f"{number} {place} " + "lamp " * 190}
        for place in range(kilobytes - 1)
    ]
    return json.dumps({"model": "m", "messages": messages, "stream": is_stream}, separators=(",", ":")).encode()


class Caller:
    """Makes calls on one connection."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port)

    def call(self, body: bytes, path: str = "/v1/chat/completions") -> bytes:
        """Make a call and return the body of its response."""
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        require(response.status == 200, f"status {response.status}: {answer[:200]!r}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def cpu_of(child: psutil.Process) -> float:
    times = child.cpu_times()
    return float(times.user + times.system)


def measure(rounds: int, calls: int) -> None:
    """Print the CPU time and the latency of calls through both proxies."""
    with tempfile.TemporaryDirectory() as name, process("upstream()") as (port, _):
        folder = Path(name)
        make_book(folder)
        address = f"http://127.0.0.1:{port}"
        with process(f"bare({address!r})") as bare_one, process(f"ours({address!r}, {name!r}, 600.0)") as our_one:
            print("| call | bare: CPU, latency | ace proxy: CPU, latency | added CPU | added latency |")
            print("|---|---|---|---|---|")
            for kilobytes in KILOBYTES:
                for is_stream in (False, True):
                    found = compare([bare_one, our_one], kilobytes, is_stream=is_stream, rounds=rounds, calls=calls)
                    kind = "new conversation" if kilobytes == KILOBYTES[0] else "growing conversation"
                    print_row(f"{kind}, {kilobytes} kB, {f'{EVENTS} events' if is_stream else 'JSON'}", found)
            for label, (_, child) in (("bare", bare_one), ("ace proxy", our_one)):
                print(f"\n{label}: {child.memory_info().rss / 1e6:.0f} MB resident", end="")
    print()


def compare(
    proxies: list[tuple[int, psutil.Process]], kilobytes: int, *, is_stream: bool, rounds: int, calls: int
) -> list[tuple[float, float]]:
    """Return the median CPU time and latency of a call through each proxy, in milliseconds."""
    numbers = iter(range(10**9))
    callers = [Caller(port) for port, _ in proxies]
    cpu: list[list[float]] = [[], []]
    wall: list[list[float]] = [[], []]
    for turn in range(rounds + 1):
        for which, (_, child) in enumerate(proxies):
            bodies = bodies_of(kilobytes, calls, is_stream=is_stream, numbers=numbers)
            before = cpu_of(child)
            for body in bodies:
                started = time.perf_counter()
                answer = callers[which].call(body)
                wall[which].append((time.perf_counter() - started) * 1e3)
            require(answer.endswith(b"[DONE]\n\n") if is_stream else answer == ANSWER.encode(), "a changed response")
            time.sleep(0.1)  # what is recorded after the call counts too
            if turn:  # the first one warms up
                cpu[which].append((cpu_of(child) - before) * 1e3 / calls)
    return [(median(times), median(walls)) for times, walls in zip(cpu, wall, strict=True)]


def bodies_of(kilobytes: int, calls: int, *, is_stream: bool, numbers: Iterator[int]) -> list[bytes]:
    """Return the requests of new conversations, or of one that grows by 2 kB with each call."""
    if kilobytes == KILOBYTES[0]:
        return [body_of(kilobytes, is_stream=is_stream, number=next(numbers)) for _ in range(calls)]
    number = next(numbers)
    return [body_of(kilobytes + 2 * call, is_stream=is_stream, number=number) for call in range(calls)]


def print_row(label: str, found: list[tuple[float, float]]) -> None:
    [(cpu, wall), (our_cpu, our_wall)] = found
    print(
        f"| {label} | {cpu:.2f} ms, {wall:.2f} ms | {our_cpu:.2f} ms, {our_wall:.2f} ms | {our_cpu - cpu:+.2f} ms | "
        f"{our_wall - wall:+.2f} ms |",
        flush=True,
    )


# The soak.


def soak(calls: int) -> None:
    """Make calls through all faults, and print what came of them."""
    with tempfile.TemporaryDirectory() as name, process("upstream()") as (port, _):
        folder = Path(name)
        make_book(folder)
        command = f"ours('http://127.0.0.1:{port}', {name!r}, 1.0)"
        told: list[str] = []
        with process(command, told) as (our_port, child):
            phases = {"nothing": _nothing, "store locked": _locked, "disk full": _full, "learners killed": _killed}
            resident = [child.memory_info().rss]
            numbers = iter(range(10**9))
            for phase, fault in phases.items():
                with fault(child, folder):
                    for _ in range(calls // len(phases)):
                        number = next(numbers)
                        _soak_call(our_port, number)
                        if number % 100 == 0 and phase == "learners killed":
                            _kill_learners(folder)
                resident.append(child.memory_info().rss)
                print(f"{phase}: {resident[-1] / 1e6:.0f} MB resident", flush=True)
        lost = int((folder / "lost").read_text())
        files = list((folder / "proxy" / "runs").glob("*.jsonl"))
        require(len(files) + lost == calls, f"{len(files)} calls were recorded and {lost} lost, of {calls}")
        require(sum("runs are not recorded" in line for line in told) == 1, f"the loss was not reported once: {told}")
        print(f"{calls} calls, all answered; {len(files)} recorded, {lost} not (the disk was full); told: {told}")
        _kill_learners(folder)


def _soak_call(port: int, number: int) -> None:
    """Make a call on a connection of its own."""
    is_stream = number % 3 == 0
    caller = Caller(port)
    answer = caller.call(body_of(random.choice((2, 10)), is_stream=is_stream, number=number))
    is_whole = answer.endswith(b"[DONE]\n\n") if is_stream else answer == ANSWER.encode()
    require(is_whole, f"call {number} was changed")
    caller.close()


@contextlib.contextmanager
def _nothing(child: psutil.Process, folder: Path) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _locked(child: psutil.Process, folder: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(folder / "skills.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        yield


@contextlib.contextmanager
def _full(child: psutil.Process, folder: Path) -> Iterator[None]:
    """Let the process write nothing: its calls fail as on a full disk."""
    before = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    time.sleep(1)  # what waits for the disk is lost too
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def _killed(child: psutil.Process, folder: Path) -> Iterator[None]:
    yield


def _kill_learners(folder: Path) -> None:
    for found in psutil.process_iter(["cmdline", "cwd"]):
        if "ace_proxy.learner" in (found.info["cmdline"] or ()) and str(found.info["cwd"]).startswith(str(folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)


def main() -> int:
    """Measure, and return 1 if a call was lost or changed."""
    parser = parser_of("proxy", __doc__)
    add_quick(parser, "1 round of 5 calls")
    parser.add_argument("--soak", type=int, metavar="N", help="make N calls while everything around the proxy fails")
    options = parser.parse_args()
    try:
        if options.soak:
            soak(options.soak)
        else:
            measure(*((1, 5) if options.quick else (5, 60)))
    except WrongResult as error:
        print(f"wrong result: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
