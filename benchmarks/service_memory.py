"""Watches the memory of the service while users ask and correct, with a model that answers at once.

Prints a line every half minute, and at the end how much larger the process is than after ten minutes. It exits with 1
if a correction that was accepted has not been learned from at the end; never because of memory.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from ace import Skillbook
from benchmarks.options import parser_of
from benchmarks.wrong_result import WrongResult, require
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

MINUTE = 60.0
WARM_UP = 10 * MINUTE
WORDS = 1_200
"""As many different lessons can be learned."""
TEXT = "I bought the lamp in the shop at the harbour last week and would like to know more about it. " * 6


@dataclass
class Users:
    """People who ask, and perhaps correct, at a steady rate, each over a connection of their own.

    Counters are changed by their own thread only: one list item for each user.
    """

    url: str
    key: str
    count: int
    pause: float
    end: float
    corrects: bool
    corrected: list[set[str]] = field(default_factory=list)

    def start(self) -> None:
        """Start one thread for each user."""
        self.corrected = [set() for _ in range(self.count)]
        for number in range(self.count):
            threading.Thread(target=self._use, args=(number,), daemon=True).start()

    def _use(self, number: int) -> None:
        choose = random.Random(number)
        due = time.monotonic() + choose.random() * self.pause
        with httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {self.key}"}, timeout=120, trust_env=False
        ) as http:
            while (now := time.monotonic()) < self.end:
                time.sleep(max(0.0, due - now))
                due += self.pause
                word = f"w{choose.randrange(WORDS)}x"
                asked = http.post("/v1/answers", json={"question": f"{TEXT} What about {word}?"})
                if self.corrects and asked.is_success:
                    correction = f"No. LESSON {word} is right."
                    body = {"request_id": asked.json()["request_id"], "correction": correction}
                    if http.post("/v1/feedback", json=body).is_success:
                        self.corrected[number].add(word)


def watch(folder: Path, *, minutes: float, users: int, rate: float, asks_only: bool) -> None:
    """Run the service under load, and print its memory.

    Args:
        folder: Where the service keeps its files.
        minutes: How long.
        users: How many there are.
        rate: How many questions they ask a minute together.
        asks_only: Whether nobody corrects an answer.

    Raises:
        WrongResult: A correction was not learned from.
    """
    with ScriptedServer(learning_script()) as model, (folder / "stderr.txt").open("wb") as log:
        command = [str(Path(sys.executable).with_name("ace")), "server", "run", "--port", "0"]
        environ = {
            **os.environ,
            "HOME": str(folder),
            "NO_COLOR": "1",
            "OPENAI_API_KEY": "none",
            "ACE_SERVER_BATCH_SIZE": "50",
            "ACE_SERVER_PUBLISH": "always",
        }
        options = ["--model", "openai/scripted", "--api-base", model.api_base]
        process = subprocess.Popen([*command, *options], cwd=folder, env=environ, stderr=log, stdin=subprocess.DEVNULL)
        try:
            url = address_of(process, folder / "stderr.txt")
            key = (folder / "ace-server" / "admin.key").read_text(encoding="utf-8").strip()
            end = time.monotonic() + minutes * MINUTE
            people = Users(url, key, users, MINUTE * users / rate, end, corrects=not asks_only)
            people.start()
            _print_memory(psutil.Process(process.pid), model, minutes)
            _check(folder / "ace-server" / "books" / "default.db", set().union(*people.corrected), model)
        finally:
            process.terminate()
            process.wait()


def address_of(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if found := re.search(r"at (http://[\d.]+:\d+)", log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.2)
    raise WrongResult(f"the service did not start: {log.read_text(encoding='utf-8')}")


def _print_memory(process: psutil.Process, model: ScriptedServer, minutes: float) -> None:
    began, warm = time.monotonic(), 0
    step = min(MINUTE / 2, minutes * MINUTE / 4)
    while (passed := time.monotonic() - began) < minutes * MINUTE:
        time.sleep(step)
        model.clear()
        resident = process.memory_info().rss
        print(
            f"{passed + step:5.0f} s: {resident / 1e6:.0f} MB, {process.num_threads()} threads, "
            f"{process.num_fds()} files, {sum(process.cpu_times()[:2]):.0f} s of CPU",
            flush=True,
        )
        if passed < WARM_UP:
            warm = resident
    print(f"at the end {resident / warm:.2f} times the memory after {min(minutes, WARM_UP / MINUTE):g} minutes")


def _check(book: Path, words: set[str], model: ScriptedServer) -> None:
    """Wait until what was corrected is in the book; every minute, more of it has to be."""
    missing = words
    while missing:
        before = len(missing)
        learned = {skill.content.split()[-1].strip(".") for skill in Skillbook.load_from_file(book).skills()}
        missing = words - learned
        if missing:
            time.sleep(MINUTE)
            model.clear()
            require(len(missing) < before or before == len(words), f"not learned: {sorted(missing)[:5]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = parser_of("service_memory", __doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: %(default)s)")
    parser.add_argument("--users", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=400.0, help="questions a minute of all users (default: 400)")
    parser.add_argument("--asks-only", action="store_true", help="nobody corrects an answer, so nothing is learned")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ace-memory-") as folder:
        try:
            watch(
                Path(folder),
                minutes=options.minutes,
                users=options.users,
                rate=options.rate,
                asks_only=options.asks_only,
            )
        except WrongResult as error:
            print(f"WRONG: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
