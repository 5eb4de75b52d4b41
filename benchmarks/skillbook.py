"""Measures a skillbook of 10,000 skills against plain loops in the same process, in turns with them.

It prints CPU times and the ratios to a baseline. It exits with 1 if a result is wrong, never because of time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ace._internal.gc_pause import gc_paused
from ace.skill import InsightSource, Skill
from ace.skillbook import SampleKey, Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from benchmarks.options import add_markdown, parser_of
from benchmarks.ratios import Ratio, cpu_ms, in_turns, show

SIZE = 10_000
LARGE = 50_000
DIMENSIONS = 384
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


def check(right: bool, what: str) -> None:
    if not right:
        PROBLEMS.append(what)


def lines(skills: list[Skill]) -> str:
    return "\n".join([f"- [{skill.id}] {skill.content} ({skill.helpful}, {skill.harmful})" for skill in skills])


def prompts(book: Skillbook) -> list[Ratio]:
    skills = book.skills()
    document = book.dumps()
    copies = [Skillbook.loads(document) for _ in range(10)]
    fresh, plain = iter(copies[:5]), iter([copy.skills() for copy in copies[5:]])
    cold, loop = in_turns(lambda: next(fresh).as_prompt(), lambda: lines(next(plain)))
    ready = lines(skills).split("\n")
    book.as_prompt()
    after, joins = [], []
    for number in range(9):
        book.tag_skill(skills[number * 7].id, "helpful")
        after.append(cpu_ms(book.as_prompt))
        joins.append(cpu_ms(lambda: "\n".join(ready)))
    check(book.as_prompt() == Skillbook.loads(book.dumps()).as_prompt(), "cached prompt differs from a fresh one")
    return [
        Ratio("as_prompt of a fresh book, 10,000 skills", cold, "f-string loop over a fresh book", loop, 2.4),
        Ratio("as_prompt after one change", min(after), "join of ready lines", min(joins), 1.9),
    ]


def single_operations(book: Skillbook, large: Skillbook) -> list[Ratio]:
    count = 20_000

    def repeated(action: object) -> None:
        assert callable(action)
        for _ in range(count):
            action()

    length, bare = in_turns(lambda: repeated(lambda: len(book)), lambda: repeated(lambda: len(())))
    rows = [Ratio("len(book), 10,000 skills", length / count * 1e6, "len(())", bare / count * 1e6, 4, unit="ns")]
    everything = large.skills()
    listing, copying = in_turns(large.skills, everything.copy)
    check(large.skills() == everything, "the list of skills differs from one reading to the next")
    rows.append(Ratio("skills() of an unchanged book, 50,000 skills", listing, "copy of a list", copying))
    small = Skillbook()
    small.add_skill("a", "b")
    for name, target in (("1 skill", small), ("50,000 skills", large)):
        size = len(target)
        added: list[str] = []

        def add(target: Skillbook = target, added: list[str] = added) -> None:
            added.extend(target.add_skill("section 3", "Check it.").id for _ in range(count))

        def remove(target: Skillbook = target, added: list[str] = added) -> None:
            for _ in range(count):
                target.remove_skill(added.pop())

        def stamp() -> None:
            for _ in range(count):
                datetime.now(UTC).isoformat(timespec="microseconds")

        adding, stamps = in_turns(add, stamp, 3)
        check(len(target) == size + len(added) == size + len(set(added)), "adds were lost")
        removing, _ = in_turns(remove, lambda: None, 3)
        check(len(target) == size and not added, "removes were lost")
        for what, measured, most in (("add_skill to", adding, 5), ("remove_skill from", removing, 2)):
            one, one_stamp = measured / count * 1e3, stamps / count * 1e3
            rows.append(Ratio(f"{what} {name}", one, "one timestamp", one_stamp, most, unit="µs"))
    return rows


def batch_of(number: int, changed: list[str]) -> UpdateBatch:
    return UpdateBatch(
        "",
        [
            # A text of its own: the same text in the same section joins the skill that has it.
            UpdateOperation("ADD", section="new", content=f"Read form {number} first."),
            UpdateOperation("UPDATE", skill_id=changed[0], content="Count the crates first."),
            UpdateOperation("TAG", skill_id=changed[1], metadata={"helpful": 1}),
        ],
    )


def changes(large: Skillbook) -> list[Ratio]:
    count = 20_000
    everything = large.skills()
    changed = [skill.id for skill in everything[:200]]
    check(large.get_skill(changed[0]) == everything[0], "a skill differs from the one in the list")

    def update() -> None:
        for number in range(count):
            large.update_skill(changed[number % 200], content=f"Changed in round {number}.")

    def stamp() -> None:
        for _ in range(count):
            datetime.now(UTC).isoformat(timespec="microseconds")

    rounds = 3
    batches = iter([batch_of(number, changed) for number in range(rounds * (count // 10))])

    def apply() -> None:
        for _ in range(count // 10):
            large.apply_update(next(batches))

    updating, updates_stamp = in_turns(update, stamp, 3)
    before = len(large)
    applying, _ = in_turns(apply, lambda: None, rounds)
    check(len(large) == before + rounds * (count // 10), "additions of a batch were lost")
    check(large.skills()[0].content == "Count the crates first.", "a change of a batch was lost")
    stamp_time = updates_stamp / count * 1e3
    rows = [
        Ratio(
            "update_skill of 50,000 skills",
            updating / count * 1e3,
            "one timestamp",
            stamp_time,
            most_measured=3,
            unit="µs",
        ),
        Ratio(
            "apply_update of 3 operations, 50,000 skills",
            applying / count * 1e4,
            "one timestamp",
            stamp_time,
            most_measured=10,
            unit="µs",
        ),
    ]
    for skill in large.skills()[LARGE:]:
        large.remove_skill(skill.id)
    return rows


def files(book: Skillbook, folder: Path) -> list[Ratio]:
    document = book.to_dict()
    compact = json.dumps(document, separators=(",", ":"))
    path = folder / "book.json"
    save, encode = in_turns(lambda: book.save_to_file(path), lambda: json.dumps(document))
    load, decode = in_turns(lambda: Skillbook.load_from_file(path), lambda: json.loads(compact), 9)
    check(Skillbook.load_from_file(path).dumps() == book.dumps(), "a saved book reads back differently")
    return [
        Ratio("save as JSON, 10,000 skills", save, "json.dumps of a ready dict", encode, 1.5),
        Ratio("load from JSON, 10,000 skills", load, "json.loads, compact", decode, 1.1),
    ]


def vectors(source: Skillbook, folder: Path) -> list[Ratio]:
    data = {skill.id: os.urandom(4 * DIMENSIONS) for skill in source.skills()}
    raw = b"".join(data.values())

    def write() -> None:
        with (folder / "raw").open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())

    settings = []
    for number in range(3):
        path = folder / f"vectors-{number}.db"
        with Skillbook.open(path) as book:
            book.import_skills(source)
            before = size_of(path)
            settings.append(cpu_ms(partial(book.set_embeddings, data)))
            grown = size_of(path) - before
    plain = min(cpu_ms(write) for _ in range(5))
    with Skillbook.open(path) as again:
        check({skill.id: skill.embedding for skill in again} == data, "vectors read back differently")
    mebibyte = 2**20
    return [
        Ratio("set 10,000 vectors in a store", min(settings), "one write of the same bytes", plain, most_measured=40),
        Ratio(
            "10,000 vectors on the disk",
            grown / mebibyte,
            "their bytes",
            len(raw) / mebibyte,
            most_measured=16,
            unit="MiB",
        ),
    ]


def opening(source: Skillbook, folder: Path) -> Ratio:
    path = folder / "opened.db"
    with Skillbook.open(path) as book:
        book.import_skills(source)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        texts = [text for (text,) in connection.execute("SELECT data FROM skill")]
    with Skillbook.open(path) as again:
        check(again.dumps() == source.dumps(), "an opened store differs from what was written to it")

    def open_it() -> None:
        Skillbook.open(path).close()

    with gc_paused():
        opened, parsed = in_turns(open_it, lambda: json.loads(f"[{','.join(texts)}]"))
    return Ratio(f"open a store of {len(source):,} skills", opened, "json.loads of its rows", parsed, most_measured=300)


def size_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    connection.close()
    return path.stat().st_size


def commits(books: dict[int, Skillbook], folder: Path) -> list[Ratio]:
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
    return [
        Ratio(f"commit of 3 operations, {size:,} skills", measured, "the same with 100 skills", smallest)
        for size, measured in times.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("skillbook", __doc__)
    add_markdown(parser)
    options = parser.parse_args(arguments)
    book = filled(SIZE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [*prompts(book), *files(book, folder), *vectors(book, folder)]
        large = filled(LARGE)
        rows += [opening(large, folder), *single_operations(book, large), *changes(large)]
        rows += commits({100: filled(100), SIZE: book, LARGE: large}, folder)
    show(rows, markdown=options.markdown)
    for problem in PROBLEMS:
        print(f"WRONG: {problem}")
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
