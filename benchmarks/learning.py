"""Measures what learning costs beside the model: 1,000 recorded traces, with a model that answers at once.

A run asks the model twice for each trace. The baseline asks it the same questions in a plain loop, in the same
process. Two models: a function in this process, which shows our own share, and a server on loopback in another
process, through the real client.

    $ python -m benchmarks.learning [--quick] [--markdown]

Exits 1 if something else was learned than the model taught, never because of time.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ace.protocols import LLMClientLike, LLMResponse
from ace.protocols.llm import StructuredAnswer
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from benchmarks.ratios import Ratio, show

TRACES = 1_000
NEW_EVERY = 20
ROUNDS = 2
SERVER = "--serve"
Question = tuple[str, type[Any]]


def answer_to(prompt: str, model_name: str) -> str:
    """Return what the model says, which depends on the trace that stands in the prompt."""
    found = re.search(r"case (\d+)", prompt)
    number = int(found.group(1)) if found else -1
    if model_name == "ReflectorOutput":
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach")
        return json.dumps({**dict.fromkeys(texts, "Read."), "key_insight": f"Remember case {number}."})
    if model_name == "AgentOutput":
        return json.dumps({"reasoning": "Known.", "final_answer": "4"})
    operation = {"type": "TAG", "skill_id": "cases-00001", "metadata": {"helpful": 1}}
    if number % NEW_EVERY == 0:
        operation = {"type": "ADD", "section": "cases", "content": f"Check number {number} before you answer."}
    return json.dumps({"reasoning": "Taught.", "operations": [operation]})


class InstantClient:
    """A model in this process. It notes what it was asked."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        return LLMResponse(answer_to(prompt, ""))

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        self.questions.append((prompt, response_model))
        return response_model.model_validate_json(answer_to(prompt, response_model.__name__))


def learn(client: LLMClientLike, count: int, skillbook: Skillbook) -> list[str]:
    """Learn from the traces. Returns what is wrong with the outcome."""
    traces = [{"question": f"What of case {number}?", "answer": "Nothing."} for number in range(count)]
    results = TraceAnalyser.from_client(client, skillbook=skillbook).run(traces)
    failed = [result.error for result in results if result.error is not None]
    if failed:
        return [f"{len(failed)} traces failed: {failed[0]!r}"]
    new = len(range(0, count, NEW_EVERY))
    helped = sum(skill.helpful for skill in skillbook)
    if (len(skillbook), helped) != (new, count - new):
        return [f"{len(skillbook)} skills with {helped} tags, instead of {new} with {count - new}"]
    return []


def ask(client: LLMClientLike, questions: list[Question]) -> None:
    for prompt, response_model in questions:
        client.complete_structured(prompt, response_model)


def measured(action: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and the CPU seconds of the process."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


@contextmanager
def model_server() -> Iterator[str]:
    """Run the server in another process, and yield its address."""
    command = [sys.executable, "-m", "benchmarks.learning", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def serve() -> None:
    """Answer until the standard input ends."""
    from tests.support.scripted_server import ScriptedRequest, ScriptedServer

    names = {"reflector": "ReflectorOutput", "skill_manager": "SkillManagerOutput"}

    def script(request: ScriptedRequest) -> str:
        return answer_to(request.text, names.get(request.role, ""))

    with ScriptedServer(script) as server:
        print(server.api_base, flush=True)
        sys.stdin.read()


def rows_of(
    name: str, client: LLMClientLike, questions: list[Question], books: dict[str, Callable[[], Skillbook]]
) -> tuple[list[Ratio], list[str]]:
    count = len(questions) // 2
    problems: list[str] = []
    best: dict[str, tuple[float, float]] = {}

    def note(what: str, action: Callable[[], object]) -> None:
        wall, cpu = measured(action)
        old = best.get(what, (wall, cpu))
        best[what] = min(wall, old[0]), min(cpu, old[1])

    def learn_once(kind: str) -> None:
        with books[kind]() as book:
            note(kind, lambda: problems.extend(learn(client, count, book)))

    for _ in range(ROUNDS):
        note("alone", lambda: ask(client, questions))
        for kind in books:
            learn_once(kind)
    rows = []
    for place, unit in enumerate(("wall", "CPU")):
        alone = best["alone"][place] / count * 1e3
        rows += [
            Ratio(
                f"{name}, {kind}: {unit} of a trace",
                best[kind][place] / count * 1e3,
                f"its two calls alone, {unit}",
                alone,
            )
            for kind in books
        ]
    return rows, problems


def main() -> int:
    if SERVER in sys.argv[1:]:
        serve()
        return 0
    from ace.providers import LiteLLMClient

    count = 100 if "--quick" in sys.argv[1:] else TRACES
    recording = InstantClient()
    problems = learn(recording, count, Skillbook())
    questions = list(recording.questions)
    with tempfile.TemporaryDirectory() as folder, model_server() as api_base:
        numbers = iter(range(100))
        books: dict[str, Callable[[], Skillbook]] = {
            "book in memory": Skillbook,
            "book in a store": lambda: Skillbook.open(Path(folder) / f"{next(numbers)}.db"),
        }
        rows, wrong = rows_of("function", InstantClient(), questions, books)
        client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="sk-none")
        client.complete_structured(*questions[0])
        more, wrong_too = rows_of("server", client, questions, books)
    show([*rows, *more], markdown="--markdown" in sys.argv[1:])
    problems += wrong + wrong_too
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
