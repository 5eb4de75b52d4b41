"""Measures a skillbook of 10,000 skills against plain loops in the same process.

Prints CPU milliseconds and the ratio to a baseline. Exits 1 if a result is wrong, never because of time.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ace.skill import InsightSource, Skill
from ace.skillbook import SampleKey, Skillbook
from ace.updates import UpdateBatch, UpdateOperation

SIZE = 10_000
LARGE = 50_000
PROBLEMS: list[str] = []


def filled(size: int) -> Skillbook:
    book = Skillbook()
    for number in range(size):
        source = InsightSource(
            trace_id=f"runs.jsonl#{number}",
            sample_question="Which of the given numbers is the largest prime below one hundred?",
            epoch=1,
            step=number,
            integration="ace",
            error_identification="The answer named a composite number.",
            learning_text="Check each candidate by trial division before answering the question.",
        )
        book.add_skill(
            f"section {number % 20}",
            f"When case {number} comes up, check each candidate by trial division before you answer, twice.",
            metadata={"helpful": number % 3},
            justification="The agent failed on this kind of question and the environment said why.",
            evidence=f"Line {number} of the trace shows the wrong step and its consequence.",
            insight_source=source,
        )
    return book


def cpu_ms(action: Callable[[], object], rounds: int = 5, before: Callable[[int], object] | None = None) -> float:
    """Return the smallest CPU time of the process for one call, in milliseconds."""
    times = []
    for round_number in range(rounds):
        if before is not None:
            before(round_number)
        gc.collect()
        start = time.process_time_ns()
        action()
        times.append((time.process_time_ns() - start) / 1e6)
    return min(times)


def check(right: bool, what: str) -> None:
    if not right:
        PROBLEMS.append(what)


def show(goal: str, what: str, measured: float, baseline_name: str, baseline: float, goal_ratio: str) -> None:
    ratio = measured / baseline if baseline else float("inf")
    print(f"{goal:>4}  {what:<40} {measured:10.4f} ms {ratio:8.2f} x {baseline_name}; {goal_ratio}")


def prompts(book: Skillbook) -> None:
    skills = book.skills()

    def lines(skills: list[Skill]) -> str:
        return "\n".join([f"- [{skill.id}] {skill.content} ({skill.helpful}, {skill.harmful})" for skill in skills])

    ready = lines(skills).split("\n")
    join = cpu_ms(lambda: "\n".join(ready))
    document = book.dumps()
    copies = [Skillbook.loads(document) for _ in range(10)]
    plain = [copy.skills() for copy in copies[5:]]
    loop = cpu_ms(lambda: lines(plain.pop()))
    unused = iter(copies[:5])
    cold = cpu_ms(lambda: next(unused).as_prompt())
    book.as_prompt()
    changed = cpu_ms(book.as_prompt, before=lambda number: book.tag_skill(skills[number * 7].id, "helpful"), rounds=9)
    show("14", "as_prompt cold, 10,000", cold, "f-string loop over a fresh book", loop, "goal 2.4 x")
    show("14", "as_prompt after one change", changed, "join of ready lines", join, "goal 1.9 x")
    check(
        book.as_prompt() == Skillbook.loads(book.dumps()).as_prompt(),
        "cached prompt differs from a fresh one",
    )


def single_operations(book: Skillbook, large: Skillbook) -> None:
    count = 20_000

    def per_call(action: Callable[[], object]) -> float:
        return cpu_ms(lambda: [action() for _ in range(count)]) / count

    stamps = per_call(lambda: book._clock().isoformat())
    bare = per_call(lambda: len(()))
    show("15", "len(book), 10,000", per_call(lambda: len(book)), "len(())", bare, "goal 4 x")
    small = Skillbook()
    small.add_skill("a", "b")
    for name, target in (("1", small), ("50,000", large)):
        ids: list[str] = []

        def add(target: Skillbook = target, ids: list[str] = ids) -> None:
            ids.append(target.add_skill("section 3", "Check it.").id)

        size = len(target)
        adding = per_call(add)
        show("15", f"add_skill to {name}", adding, "timestamp", stamps, "goal 5 us")
        check(len(target) == size + len(ids) == size + len(set(ids)), "adds were lost")
        start = time.process_time_ns()
        for id in ids:
            target.remove_skill(id)
        removing = (time.process_time_ns() - start) / 1e6 / len(ids)
        show("15", f"remove_skill from {name}", removing, "timestamp", stamps, "goal 2 us")
        check(len(target) == size, "removes were lost")


def files(book: Skillbook, folder: Path) -> None:
    document = book.to_dict()
    encode = cpu_ms(lambda: json.dumps(document))
    path = folder / "book.json"
    save = cpu_ms(lambda: book.save_to_file(path))
    show("16", "save, 10,000, atomic", save, "json.dumps of a ready dict", encode, "goal 1.5 x")
    compact = json.dumps(document, separators=(",", ":"))
    decode = cpu_ms(lambda: json.loads(compact))
    load = cpu_ms(lambda: Skillbook.load_from_file(path))
    show("17", "load, 10,000, to objects", load, "json.loads, compact", decode, "goal 1.1 x")
    check(Skillbook.load_from_file(path).dumps() == book.dumps(), "a saved book reads back differently")


def commits(books: dict[int, Skillbook], folder: Path) -> None:
    times = {}
    for size, source in books.items():
        path = folder / f"{size}.db"
        with Skillbook.open(path) as book:
            book.import_skills(source)
            ids = [skill.id for skill in book.skills()[:40]]
            start = time.process_time_ns()
            for number in range(200):
                batch = UpdateBatch(
                    "",
                    [
                        UpdateOperation("ADD", section="new", content=f"Case {number}."),
                        UpdateOperation("UPDATE", skill_id=ids[number % 40], content=f"Changed {number}."),
                        UpdateOperation("TAG", skill_id=ids[number % 40], metadata={"helpful": 1}),
                    ],
                )
                book.apply_update(batch, key=SampleKey("bench", 1, str(number)))
            times[size] = (time.process_time_ns() - start) / 200 / 1e6
            expected = book.dumps()
        with Skillbook.open(path) as again:
            check(again.dumps() == expected, f"the store of {size} reads back differently")
            check(again.version == 201, f"the store of {size} has version {again.version}")
    smallest = times[min(times)]
    for size, measured in times.items():
        show(
            "18",
            f"commit of 3 operations, {size:,} skills",
            measured,
            "the smallest book",
            smallest,
            "goal 1 x",
        )


def main() -> int:
    book = filled(SIZE)
    with tempfile.TemporaryDirectory() as name:
        prompts(book)
        files(book, Path(name))
        large = filled(LARGE)
        single_operations(book, large)
        commits({100: filled(100), SIZE: book, LARGE: large}, Path(name))
    for problem in PROBLEMS:
        print(f"WRONG: {problem}")
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
