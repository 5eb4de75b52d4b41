"""Several processes, threads and sudden deaths on one store."""

from __future__ import annotations

import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from ace.skillbook.vectors import pack_vector
from tests.core.skillbook.clocks import run_python, start_python, ticking

LEARNING = """
import sys
from ace.skillbook import SampleKey, Skillbook
from ace.updates import UpdateBatch, UpdateOperation
path, name = sys.argv[1:]
book = Skillbook.open(path)
for number in range(60):
    book.refresh()
    operations = [
        UpdateOperation("ADD", section="made", content=f"{name} {number}"),
        UpdateOperation("TAG", skill_id="shared-00001", metadata={"helpful": 1}),
    ]
    report = book.apply_update(UpdateBatch("", operations), key=SampleKey(name, 1, str(number)))
    assert not report.skipped, report
    added = book.get_skill(report.applied[0].skill_id)
    assert added is not None and added.content == f"{name} {number}", (report, added)
print(book.version)
"""


def test_six_processes_of_60_updates_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path, clock=ticking()) as book:
        book.add_skill("shared", "Shared.")
    processes = [start_python(LEARNING, str(path), f"learner{number}") for number in range(6)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    with Skillbook.open(path) as book:
        made = [skill.content for skill in book if skill.section == "made"]
        assert sorted(made) == sorted(f"learner{one} {number}" for one in range(6) for number in range(60))
        assert [skill.helpful for skill in book if skill.section == "shared"] == [360]
        assert book.version == 361
        assert book.as_of(361).dumps() == book.dumps()


ADDING = """
import sys
from ace.skillbook import Skillbook
path, section = sys.argv[1:]
book = Skillbook.open(path)
for number in range(60):
    skill = book.add_skill(section, f"{section} {number}")
    assert book.get_skill(skill.id) == skill and skill.content == f"{section} {number}"
"""


def test_processes_that_add_in_different_sections_share_one_counter(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    sections = ("maths", "style", "tools", "words")
    processes = [start_python(ADDING, str(path), section) for section in sections]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    with Skillbook.open(path) as book:
        numbers = sorted(int(skill.id.rpartition("-")[2]) for skill in book)
        assert numbers == list(range(1, 60 * len(sections) + 1))
        assert book.as_of(book.version or 0).dumps() == book.dumps()


OPENING = """
import sys, time
from ace.skillbook import Skillbook
folder, start = sys.argv[1], float(sys.argv[2])
for number in range(30):
    time.sleep(max(0, start + number / 20 - time.time()))
    with Skillbook.open(f"{folder}/{number}.db") as book:
        book.add_skill("a", "x")
"""


def test_processes_that_begin_a_store_at_once_share_it(tmp_path: Path) -> None:
    start = str(time.time() + 2)
    processes = [start_python(OPENING, str(tmp_path), start) for _ in range(4)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    for number in range(30):
        with Skillbook.open(tmp_path / f"{number}.db") as book:
            assert [skill.id for skill in book] == ["a-00001", "a-00002", "a-00003", "a-00004"]


LEARNING_UNTIL_KILLED = """
import os, signal, sys
from dataclasses import replace
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import SampleKey, Skillbook
from ace.updates import UpdateBatch, UpdateOperation
path, run, place, last = sys.argv[1:]
shared = SkillCase.make("Shared?", CaseCheck("contains", "yes"))
book = Skillbook.open(path)

def die(statement="COMMIT"):
    if statement == "COMMIT":
        os.kill(os.getpid(), signal.SIGKILL)

print("ready", flush=True)
for number in range(100_000):
    print("begin", flush=True)
    with book.deferred_commits():
        book.tag_skill("a-00001", "helpful")
        book.set_embeddings({"a-00001": [float(number)] * 4})
        case = SkillCase.make(f"{run} {number}?", CaseCheck("numeric", str(number)))
        book.note_results({"a-00001": [replace(shared, last_result="passed", last_run_at=f"{run} {number}")]})
        batch = UpdateBatch("", [UpdateOperation("ADD", section="a", content=f"{run} {number}", cases=[case])])
        print("commit", flush=True)
        if place == "before" and number == int(last):
            book.store._file._connection.set_trace_callback(die)
        book.apply_update(batch, key=SampleKey(run, 1, str(number)), progress="done")
        if place == "after" and number == int(last):
            die()
    print("end", flush=True)
"""


def test_a_kill_loses_at_most_the_batch_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path, clock=ticking()) as book:
        book.add_skill("a", "Shared.", cases=[SkillCase.make("Shared?", CaseCheck("contains", "yes"))])
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    fell: Counter[str] = Counter()
    total = 0
    chosen = [(place, last) for place in ("before", "after") for last in range(5)]
    for attempt, (place, last) in enumerate([*chosen, *[("anywhere", 0)] * 15]):
        process = start_python(LEARNING_UNTIL_KILLED, str(path), f"run{attempt}", place, str(last))
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        if place == "anywhere":
            time.sleep(chance.random() * 0.05)
            process.send_signal(signal.SIGKILL)
        told = process.stdout.read().split("\n")[:-1]
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert integrity(path) == "ok"
        with Skillbook.open(path) as book:
            assert book.store is not None
            notes = book.store.progress(f"run{attempt}")
            committed = [skill for skill in book if skill.content.startswith(f"run{attempt} ")]
            ended = told.count("end")
            in_commit = told[-1:] == ["commit"]
            assert ended <= len(committed) <= ended + in_commit
            assert len(notes) == len(committed)
            assert all(note.version is not None for note in notes)
            assert all([case.question for case in skill.cases] == [f"{skill.content}?"] for skill in committed)
            total += len(committed)
            shared = book.get_skill("a-00001")
            assert shared is not None and shared.helpful == total
            if committed:
                assert [case.last_run_at for case in shared.cases] == [committed[-1].content]
                assert shared.embedding == pack_vector([float(len(committed) - 1)] * 4)
        survived = len(committed) > ended
        fell[f"in the commit, {'kept' if survived else 'lost'}" if in_commit else (told or ["start"])[-1]] += 1
    assert fell["in the commit, lost"] >= 5 and fell["in the commit, kept"] >= 5, fell
    with Skillbook.open(path) as book:
        assert book.as_of(book.version or 0).dumps() == book.dumps()


PUTTING = """
import sys
from dataclasses import replace
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
path, name = sys.argv[1:]
book = Skillbook.open(path)
made = [SkillCase.make(f"{name} {number}?", CaseCheck("numeric", str(number))) for number in range(40)]
for number, case in enumerate(made):
    book.put_cases("a-00001", [case])
    book.note_results({"a-00001": [replace(case, last_result="passed", model=name)]})
    if number % 4 == 3:
        book.remove_cases("a-00001", [case.id])
"""


def test_processes_that_put_cases_into_one_skill_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path, clock=ticking()) as book:
        book.add_skill("a", "Shared.")
    names = ("first", "second", "third")
    processes = [start_python(PUTTING, str(path), name) for name in names]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    with Skillbook.open(path) as book:
        [skill] = book.skills()
        wanted = {f"{name} {number}?": name for name in names for number in range(40) if number % 4 != 3}
        assert {case.question: case.model for case in skill.cases} == wanted
        assert skill.proof == "proven"
        assert book.version == 1 + len(names) * (40 + 40 + 10)
        assert book.as_of(book.version).dumps() == book.dumps()


def integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        result: str = connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()
    return result


@pytest.mark.parametrize("name", ["skills.db", "skills.json"])
def test_threads_share_a_book(tmp_path: Path, name: str) -> None:
    book = Skillbook.open(tmp_path / name)
    book.add_skill("shared", "Shared.")
    problems: list[BaseException] = []

    def learn(thread: int) -> None:
        try:
            for number in range(60):
                skill = book.add_skill(f"section{thread}", f"{thread} {number}")
                book.tag_skill("shared-00001", "helpful")
                assert skill.id in book.as_prompt()
                assert book.as_prompt(100, "shared").startswith("- [shared-00001]")
                if number % 3 == 0:
                    book.remove_skill(skill.id)
                assert book.stats()["skills"] and book.dumps()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(book) == 1 + 4 * 40
    assert [skill.helpful for skill in book if skill.section == "shared"] == [240]
    assert book.as_prompt() == Skillbook.loads(book.dumps()).as_prompt()


FORKING = """
import os, sys
from ace.skillbook import Skillbook
book = Skillbook.open(sys.argv[1])
book.add_skill("a", "Parent.")
child = os.fork()
for number in range(100):
    book.add_skill("a", f"{child == 0} {number}")
if child == 0:
    book.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
book.refresh()
assert len(book) == 201, len(book)
"""


def test_a_forked_process_and_its_parent_lose_nothing(tmp_path: Path) -> None:
    run_python(FORKING, str(tmp_path / "skills.db"))
    book = Skillbook.open(tmp_path / "skills.db")
    assert len(book) == 201
    assert book.as_of(201).dumps() == book.dumps()
