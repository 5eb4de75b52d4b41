"""Measures what a command does before its first result: CPU time, modules and memory, each in a process of its own.

`ace ask` and `ace learn` are measured until they connect to the server of the model, alternating between direct
requests and LiteLLM. It prints the ratios to a baseline. It exits with 1 if a result is wrong, never because of time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from ace.skillbook import Skillbook
from benchmarks.options import add_markdown, add_quick, parser_of
from benchmarks.ratios import Ratio, show
from benchmarks.wrong_result import WrongResult, require

SKILLS = 200
LARGE = 50_000
ROUNDS = 5
PROGRAM = """
import json, pathlib, resource, sys, time
sent = []

def megabytes():
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    # The other figure includes the memory of the process that has started this one.
    return next(int(line.split()[1]) / 2**10 for line in status.read_text().splitlines() if line.startswith("VmHWM"))

def watch(event, arguments):
    if event == "socket.connect" and not sent:
        sent.append(time.process_time())

sys.addaudithook(watch)
line_times = []
write = sys.stderr.write

def noted(text):
    line_times.append(time.process_time())
    return write(text)

sys.stderr.write = noted
if sys.argv[2:]:
    from ace.cli import main
    code = main(sys.argv[2:])
else:
    code = 0
figures = {
    "code": code,
    "sent": sent[0] * 1000 if sent else None,
    "first_line": line_times[0] * 1000 if line_times else None,
    "cpu": time.process_time() * 1000,
    "modules": len(sys.modules),
    "megabytes": megabytes(),
}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(figures, file)
"""
"""Runs a command of `ace`, or nothing without arguments, and writes its figures to a file."""


@dataclass(frozen=True)
class Figures:
    """What one process took."""

    printed: str
    cpu: float
    """Milliseconds, until the process ended."""
    sent: float | None
    """Milliseconds, until it connected to the server; None if it did not."""
    first_line: float | None
    """Milliseconds, until it printed a line for the user; None if it did not."""
    modules: int
    megabytes: float


def run(folder: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> Figures:
    """Run a command of `ace` and measure it; without arguments, measure an empty process."""
    report = folder / "figures.json"
    command = [sys.executable, "-c", PROGRAM, str(report), *arguments]
    variables = {**os.environ, "ACE_MODEL_CLIENT": "", **(environ or {})}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"{arguments} failed: {done.stderr[-500:]}")
    figures = json.loads(report.read_text(encoding="utf-8"))
    require(figures.pop("code") == 0, f"{arguments} ended with an error: {done.stderr[-500:]}")
    return Figures(printed=done.stdout, **figures)


ANSWERS: dict[str, dict[str, object]] = {
    "final_answer": {"reasoning": "I know.", "final_answer": "Paris", "skill_ids": []},
    "key_insight": {
        "reasoning": "It was right.",
        "correct_approach": "The same.",
        "key_insight": "Name it.",
        "skill_tags": [],
    },
    "operations": {"reasoning": "Nothing is new.", "operations": []},
}
"""The answer to a role, by a field of it that the prompt describes."""


class Server:
    """Speaks OpenAI's protocol on loopback, answers immediately, and keeps the bodies of all requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self.api_base = f"http://127.0.0.1:{self.http.server_address[1]}/v1"


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.http.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()


def _handler_for(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.bodies.append(body)
            asked = "\n".join(message["content"] for message in body["messages"])
            answer = next((text for field, text in ANSWERS.items() if f"\n- {field} (" in asked), {})
            message = {"role": "assistant", "content": json.dumps(answer) if answer else "ready"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
            content = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


LITELLM = {"ACE_MODEL_CLIENT": "litellm"}
TRACE = {"question": "What is the capital of France?", "answer": "Paris", "feedback": "Correct."}


def of_a_model(folder: Path, server: Server, arguments: Sequence[str], rounds: int) -> tuple[list[Figures], ...]:
    """Run a command with both ways to send a request, in turns; the requests must be the same."""
    options = ("--model", "openai/m", "--api-base", server.api_base)
    direct, litellm = [], []
    for _ in range(rounds):
        server.bodies.clear()
        direct.append(run(folder, *arguments, *options))
        first = list(server.bodies)
        server.bodies.clear()
        litellm.append(run(folder, *arguments, *options, environ=LITELLM))
        require(bool(first) and first == server.bodies, f"{arguments[0]} sends other requests through LiteLLM")
        require(direct[-1].printed == litellm[-1].printed, f"{arguments[0]} prints something else through LiteLLM")
    return direct, litellm


def middle(figures: Sequence[Figures], name: str) -> float:
    return float(median(getattr(figure, name) for figure in figures))


def rows_of_a_model(what: str, direct: Sequence[Figures], litellm: Sequence[Figures]) -> list[Ratio]:
    through = "through LiteLLM"
    return [
        Ratio(
            f"{what}, until the request is sent", middle(direct, "sent"), through, middle(litellm, "sent"), None, 500.0
        ),
        Ratio(f"{what}, modules", middle(direct, "modules"), through, middle(litellm, "modules"), unit="modules"),
        Ratio(f"{what}, memory", middle(direct, "megabytes"), through, middle(litellm, "megabytes"), unit="MB"),
    ]


def row_of_first_line(what: str, figures: Sequence[Figures], skills: int) -> Ratio:
    require(all(figure.first_line is not None for figure in figures), f"{what} prints no line for the user")
    name = f"{what}, {skills:,} skills in a store, until its first line"
    return Ratio(name, middle(figures, "first_line"), "its end", middle(figures, "cpu"), None, 300.0)


def rows_of_a_command(
    what: str, figures: Sequence[Figures], bare: Sequence[Figures], most: float | None
) -> list[Ratio]:
    start = "an interpreter alone"
    return [
        Ratio(what, middle(figures, "cpu"), start, middle(bare, "cpu"), None, most),
        Ratio(f"{what}, modules", middle(figures, "modules"), start, middle(bare, "modules"), unit="modules"),
    ]


def skillbook_of(count: int) -> Skillbook:
    book = Skillbook()
    for number in range(count):
        book.add_skill(f"section {number % 10}", f"In case {number}, name the capital before its country, once.")
    return book


def measure(folder: Path, rounds: int, large_count: int) -> list[Ratio]:
    """Measure everything.

    Raises:
        WrongResult: A command has not done what it should have.
    """
    skillbook_of(SKILLS).save_to_file(folder / "skills.json")
    (folder / "traces.jsonl").write_text(json.dumps(TRACE) + "\n", encoding="utf-8")
    with Skillbook.open(folder / "large.db") as stored:
        stored.import_skills(skillbook_of(large_count))
    of_book, asking = ("--skillbook", "skills.json"), ("ask", "What is the capital of France?")
    with serving() as server:
        asked = of_a_model(folder, server, (*asking, *of_book), rounds)
        learning = ("learn", "traces.jsonl", "--again", "--no-merge")
        learned = of_a_model(folder, server, (*learning, *of_book), rounds)
        of_large = ("--skillbook", "large.db", "--model", "openai/m", "--api-base", server.api_base)
        large_asked = [run(folder, *asking, *of_large) for _ in range(rounds)]
        large_learned = [run(folder, *learning, *of_large) for _ in range(rounds)]
    require(asked[0][0].printed == "Paris\n", f"ask printed {asked[0][0].printed!r}")
    bare, helped, shown = [], [], []
    for _ in range(rounds * 2):
        bare.append(run(folder))
        helped.append(run(folder, "--help"))
        shown.append(run(folder, "skillbook", "show", *of_book))
    require("skillbook" in helped[0].printed, "--help does not list the commands")
    require(shown[0].printed.count("name the capital") == SKILLS, "skillbook show does not show every skill")
    return [
        *rows_of_a_model("`ace ask`", *asked),
        row_of_first_line("`ace ask`", large_asked, large_count),
        *rows_of_a_model("`ace learn`", *learned),
        row_of_first_line("`ace learn`", large_learned, large_count),
        *rows_of_a_command("`ace --help`", helped, bare, 60.0),
        *rows_of_a_command(f"`ace skillbook show`, {SKILLS} skills", shown, bare, 100.0),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("first_result", __doc__)
    add_quick(parser, "one round")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows = measure(Path(folder), *((1, 1000) if options.quick else (ROUNDS, LARGE)))
        except WrongResult as wrong:
            print(f"wrong result: {wrong}", file=sys.stderr)
            return 1
    show(rows, markdown=options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
