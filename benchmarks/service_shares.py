"""Measures how much slower the service answers a user while another one attacks it.

The attacker has a key of scope `feedback` for one book and sends traces on several connections without a pause: with
5,000,000 values, which are refused; with nearly as many values as are accepted, which are learned from; and with 15 MB
of text. The other user asks about another book. Blocks of questions with and without the attack alternate. The model
answers at once, so the latency is that of the service. It exits with 1 if a question is not answered; never because of
time.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles

import httpx
import psutil

from benchmarks.options import add_quick, parser_of
from benchmarks.service_memory import address_of
from benchmarks.wrong_result import WrongResult, require
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

BODIES = (
    b"[" + b"{}," * 5_000_000 + b"{}]",
    json.dumps([{"question": "Why?", "answer": "So."}] * 60_000).encode(),
    json.dumps({"question": "Why?", "answer": "word " * 3_000_000}).encode(),
)
IDLE = 20.0
"""In percent of a core: what the service may use when a block without the attack begins."""
LONGEST_WAIT = 60.0


def attack(url: str, key: str, connections: int) -> None:
    """Send traces until the process is ended."""

    def send(number: int) -> None:
        with httpx.Client(headers={"authorization": f"Bearer {key}"}, timeout=600, trust_env=False) as http:
            for body in itertools.islice(itertools.cycle(BODIES), number, None):
                with contextlib.suppress(httpx.HTTPError):  # it is an attack, whether or not it is answered
                    http.post(f"{url}/v1/traces", params={"book": "attacked"}, content=body)

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(send, range(connections)))


@contextlib.contextmanager
def attacked(url: str, key: str, connections: int) -> Iterator[None]:
    """Let another process attack while the block runs."""
    code = f"from benchmarks.service_shares import attack; attack({url!r}, {key!r}, {connections})"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        time.sleep(2)
        yield
        process.kill()


@contextlib.contextmanager
def service(folder: Path, api_base: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run the service with two books, and yield its address and its process."""
    log = folder / "stderr.txt"
    environ = {**os.environ, "HOME": str(folder), "NO_COLOR": "1", "OPENAI_API_KEY": "none"}
    options = ["--port", "0", "--model", "openai/scripted", "--api-base", api_base]
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            [_ace(), "server", "run", *options], cwd=folder, env=environ, stderr=stream, stdin=subprocess.DEVNULL
        ) as process,
    ):
        try:
            yield address_of(process, log), psutil.Process(process.pid)
        finally:
            process.kill()  # it would finish the batches that it learns from


def _ace() -> str:
    return str(Path(sys.executable).with_name("ace"))


def _run(folder: Path, *arguments: str) -> str:
    """Run a command of the service, and return what it prints."""
    command = [_ace(), "server", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def measure(folder: Path, *, blocks: int, questions: int, connections: int) -> None:
    """Print the latency of answers without and with the attack.

    Raises:
        WrongResult: A question was not answered.
    """
    found: dict[bool, list[float]] = {False: [], True: []}
    with ScriptedServer(learning_script()) as model, service(folder, model.api_base) as (url, process):
        _run(folder, "books", "add", "attacked")
        attacker = _run(folder, "keys", "add", "attacker", "--scope", "feedback", "--book", "attacked")
        user = _run(folder, "keys", "add", "user", "--scope", "infer", "--book", "default")
        _wait_until_accepted(url, attacker)
        with httpx.Client(headers={"authorization": f"Bearer {user}"}, timeout=600, trust_env=False) as http:
            _ask(http, url, questions)  # warms up
            for _ in range(blocks):
                _wait_until_idle(process)
                found[False] += _ask(http, url, questions)
                with attacked(url, attacker, connections):
                    found[True] += _ask(http, url, questions)
                model.clear()
        print(f"{process.memory_info().rss / 1e6:.0f} MB resident at the end\n")
    rows = {name: [_at(found[is_attacked], share) for is_attacked in found] for name, share in SHARES.items()}
    print("| latency | without the attack | with it | ratio |\n|---|---|---|---|")
    for name, (calm, under) in rows.items():
        print(f"| {name} of {len(found[True])} | {calm:.1f} ms | {under:.1f} ms | {under / calm:.2f} |")


SHARES = {"median": 50, "95th percentile": 95}


def _at(times: Sequence[float], share: int) -> float:
    return median(times) if share == 50 else quantiles(times, n=100)[share - 1]


def _ask(http: httpx.Client, url: str, count: int) -> list[float]:
    """Return the latency of some questions, in milliseconds."""
    times = []
    for number in range(count):
        started = time.perf_counter()
        response = http.post(f"{url}/v1/answers", json={"question": f"What about w{number}x?"})
        times.append((time.perf_counter() - started) * 1e3)
        require(response.is_success, f"status {response.status_code}: {response.text[:200]}")
        time.sleep(0.02)
    return times


def _wait_until_accepted(url: str, key: str) -> None:
    """Wait until the service has loaded the book that is attacked, so that it takes traces for it."""
    end = time.monotonic() + LONGEST_WAIT
    send = {"params": {"book": "attacked"}, "headers": {"authorization": f"Bearer {key}"}, "content": b'[{"a": 1}]'}
    while not (response := httpx.post(f"{url}/v1/traces", trust_env=False, **send)).is_success:
        require(time.monotonic() < end, f"status {response.status_code}: {response.text[:200]}")
        time.sleep(0.5)


def _wait_until_idle(process: psutil.Process) -> None:
    end = time.monotonic() + LONGEST_WAIT
    while process.cpu_percent(1.0) > IDLE and time.monotonic() < end:
        pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = parser_of("service_shares", __doc__)
    add_quick(parser, "1 block of 5 questions")
    parser.add_argument("--connections", type=int, default=6, help="of the attacker (default: %(default)s)")
    options = parser.parse_args(arguments)
    blocks, questions = (1, 5) if options.quick else (5, 40)
    with tempfile.TemporaryDirectory(prefix="ace-shares-") as folder:
        try:
            measure(Path(folder), blocks=blocks, questions=questions, connections=options.connections)
        except WrongResult as error:
            print(f"WRONG: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
