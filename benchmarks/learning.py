"""Measures what learning costs beside the model: 1,000 recorded traces, with a model that answers at once.

A run asks the model twice for each trace. The baseline asks it the same questions in a plain loop, in the same
process. Two models: a function in this process, which shows our own share, and a server on loopback in another
process, through the real client. The last rows are runs with an agent into books that have skills already, which show
what the skills cost that a sample neither shows nor changes.

It exits with 1 if something other than the model's answers was learned, or other skills are shown than the plain
ranking of all skills has, never because of time.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ace.environments import Sample, SimpleEnvironment
from ace.protocols import LLMClientLike, LLMResponse
from ace.protocols.llm import StructuredAnswer
from ace.retrieval import MeaningRanker
from ace.roles import Agent, Reflector, SkillManager
from ace.runners import ACE, TraceAnalyser
from ace.skillbook import Skillbook
from benchmarks.options import add_markdown, add_quick, parser_of
from benchmarks.ratios import Ratio, show

TRACES = 1_000
NEW_EVERY = 20
SIZES = (100, 1_000, 10_000, 50_000)
GROWTH_SAMPLES = 48
ROUNDS = 2
Question = tuple[str, type[Any]]


def answer_to(prompt: str, model_name: str) -> str:
    """Return what the model says, which depends on the trace that stands in the prompt."""
    found = re.search(r"case (\d+)", prompt)
    number = int(found.group(1)) if found else -1
    if model_name == "ReflectorOutput":
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach")
        return json.dumps({**dict.fromkeys(texts, "Read."), "key_insight": f"Remember case {number}."})
    if model_name == "Readiness":
        return json.dumps({"word": "ready"})
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
    traces = [
        {"question": f"What of case {number}?", "answer": "Nothing.", "success": False} for number in range(count)
    ]
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
    command = [sys.executable, "-c", "from benchmarks.learning import serve; serve()"]
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


class Yard:
    """A model that cites and tags a skill, adds one for each sample, and rewrites one for every third."""

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise AssertionError("the roles ask for structured answers only")

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        number = int(re.findall(r"does order (\d+) need", prompt)[-1])
        cited = f"skill-{number % 90 + 1:05}"
        answers: dict[str, dict[str, object]] = {
            "AgentOutput": {"reasoning": f"By [{cited}].", "final_answer": "12 crates"},
            "ReflectorOutput": {
                "reasoning": f"The answer follows [{cited}].",
                "correct_approach": "Count the crates.",
                "key_insight": f"Orders such as order {number} are counted.",
                "skill_tags": [{"id": cited, "tag": "helpful"}],
            },
            "SkillManagerOutput": {"reasoning": "As the reflection says.", "operations": list(self._taught(number))},
        }
        return response_model.model_validate(answers[response_model.__name__])

    def _taught(self, number: int) -> Iterator[dict[str, str]]:
        yield {"type": "ADD", "section": f"area {number % 10}", "content": f"Ask the yard first about order {number}."}
        if number % 3 == 0:
            changed = f"skill-{number * 3 % 90 + 1:05}"
            yield {"type": "UPDATE", "skill_id": changed, "content": f"Order {number} changed what the clerk checks."}


def yard_book(size: int) -> Skillbook:
    """Return a book in memory.

    Args:
        size: The number of its skills.
    """
    book = Skillbook()
    for number in range(size):
        text = f"In case {number}, check form {number % 89} before the yard counts the crates of lane {number % 13}."
        book.add_skill(f"area {number % 10}", text, f"skill-{number + 1:05}")
    return book


def yard_run(book: Skillbook, numbers: range) -> None:
    """Learn from samples, and raise the error of the first that fails."""
    model = Yard()
    runner = ACE.from_roles(
        agent=Agent(model),
        reflector=Reflector(model),
        skill_manager=SkillManager(model),
        environment=SimpleEnvironment(),
        skillbook=book,
        prove=False,
    )
    asked = [Sample(f"How many crates does order {number} need?", ground_truth="12") for number in numbers]
    for result in runner.run(asked, max_in_flight=1):
        if result.error is not None:
            raise result.error


def growth(quick: bool) -> tuple[list[Ratio], list[str]]:
    """Measure one sample in books of several sizes. Returns the rows and what is wrong."""
    rows: list[Ratio] = []
    problems: list[str] = []
    first: dict[str, float] = {}
    for kind in ("memory", "a store"):
        for size in SIZES[:2] if quick else SIZES:
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "skills.db"
                book = yard_book(size)
                if kind == "a store":
                    with Skillbook.open(place) as stored:
                        stored.import_skills(book)
                    book = Skillbook.open(place)
                yard_run(book, range(100, 113))  # reads the skills for the first time
                samples = range(200, 200 + (12 if quick else GROWTH_SAMPLES))
                _, seconds = measured(partial(yard_run, book, samples))
                first.setdefault(kind, seconds)
                rows.append(
                    Ratio(
                        f"sample into {size:,} skills in {kind}",
                        seconds / len(samples) * 1e3,
                        f"the same into {SIZES[0]}",
                        first[kind] / len(samples) * 1e3,
                        most_measured=10,
                    )
                )
                problems += [
                    f"{size:,} skills in {kind}: {problem}" for problem in wrong_with(book, size, samples, place)
                ]
                book.close()
    return rows, problems


def wrong_with(book: Skillbook, size: int, samples: range, place: Path) -> Iterator[str]:
    """Yield what is wrong with a book after the samples."""
    texts = {skill.content for skill in book.skills()}
    if len(book) != size + 13 + len(samples) or f"Ask the yard first about order {samples[-1]}." not in texts:
        yield f"{len(book)} skills, which lack what the samples taught"
    helped = sum(skill.helpful for skill in book.skills())
    if helped != 13 + len(samples) or book.stats()["tags"] != {"helpful": helped, "harmful": 0, "neutral": 0}:
        yield f"{helped} tags, and {book.stats()['tags']} counted"
    for query in ("Which form does order 250 need?", "the crates of lane 7"):
        if book.as_prompt(2000, query) != book.as_prompt(2000, query, ranker=lambda *asked: MeaningRanker()(*asked)):
            yield f"other skills for {query!r} than the plain ranking has"
        if book.version is not None:
            with Skillbook.open(place) as opened:
                if opened.prompt_parts(query, 20_000) != book.prompt_parts(query, 20_000):
                    yield "a process that opens the book shows other skills"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("learning", __doc__)
    add_quick(parser, "100 traces")
    add_markdown(parser)
    parser.add_argument("--growth", action="store_true", help="only measure the runs into books of several sizes")
    options = parser.parse_args(arguments)
    grown, problems_of_growth = growth(options.quick)
    if options.growth:
        show(grown, markdown=options.markdown)
        for problem in problems_of_growth:
            print(f"WRONG: {problem}")
        return 1 if problems_of_growth else 0
    from ace.providers import LiteLLMClient

    count = 100 if options.quick else TRACES
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
    show([*rows, *more, *grown], markdown=options.markdown)
    problems += wrong + wrong_too + problems_of_growth
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
