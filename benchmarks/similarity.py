"""Measures the searches for similar and for relevant skills against this machine's matrix product.

It prints CPU times, each with its baseline in the same process: sgemm for the pairs, one product of all rows with one
vector for the retrieval. It exits with 1 if a result is wrong, never because of time.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from ace.deduplication.resident_vectors import ResidentVectors, near_rows, one_blas_thread
from ace.retrieval import LexicalRanker, VectorRanker
from ace.skill import Skill
from benchmarks.options import add_quick, parser_of
from benchmarks.wrong_result import WrongResult, require

Rows = NDArray[np.float32]

LENGTH = 384
THRESHOLD = 0.85
OPERATIONS = 2 * LENGTH


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("similarity", __doc__)
    add_quick(parser, "2,000 to 10,000 vectors")
    quick = parser.parse_args(arguments).quick
    random_numbers = np.random.default_rng(11)
    try:
        speed = sgemm_speed(random_numbers)
        print(f"sgemm, one thread, 2,048 x 2,048 x {LENGTH}: {speed / 1e9:.0f} GFLOP/s")
        check_against_brute_force(random_numbers)
        for count in (2_000, 10_000) if quick else (10_000, 50_000):
            all_pairs(rows_with_twins(random_numbers, count), speed)
        count = 5_000 if quick else 50_000
        rows = rows_with_twins(random_numbers, count)
        few_new(rows, random_numbers, speed)
        retrieval(rows, random_numbers)
        lexical(count)
    except WrongResult as problem:
        print(f"WRONG: {problem}")
        return 1
    return 0


def sgemm_speed(random_numbers: np.random.Generator) -> float:
    """Return the operations of one second of CPU time in a product of two blocks."""
    left = random_numbers.standard_normal((2048, LENGTH), dtype=np.float32)
    right = random_numbers.standard_normal((LENGTH, 2048), dtype=np.float32)
    with one_blas_thread():
        return 2048 * 2048 * OPERATIONS / cpu_seconds(lambda: [left @ right for _ in range(10)]) * 10


def check_against_brute_force(random_numbers: np.random.Generator) -> None:
    rows = rows_with_twins(random_numbers, 2_500)
    expected = set(
        zip(*(places.tolist() for places in np.nonzero(np.triu(rows @ rows.T >= THRESHOLD, 1))), strict=True)
    )
    require(pairs(rows) == expected, "the pairs are not those of brute force")


def all_pairs(rows: Rows, speed: float) -> None:
    operations = len(rows) * (len(rows) - 1) / 2 * OPERATIONS
    tracemalloc.start()
    found = pairs(rows)
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    require(len(found) == len(rows) // 100, f"{len(found)} pairs of {len(rows)} rows")
    quiet = cpu_seconds(lambda: pairs(rows), rounds=2)
    show(f"all pairs of {len(rows):,}", quiet, operations / speed, f"{memory:.0f} MiB above the vectors")
    with_busy_core = busy_elsewhere(lambda: cpu_seconds(lambda: pairs(rows), rounds=2))
    show("  with another process on each core", with_busy_core, quiet, "to the run before")


def few_new(rows: Rows, random_numbers: np.random.Generator, speed: float) -> None:
    vectors = {f"old-{place}": row.tobytes() for place, row in enumerate(rows)}
    resident = ResidentVectors(THRESHOLD)
    before = len(resident.near_pairs(vectors))
    times = []
    for number in range(3):
        new = rows_with_twins(random_numbers, 100)
        vectors |= {f"new-{number}-{place}": row.tobytes() for place, row in enumerate(new)}
        start = time.process_time()
        found = len(resident.near_pairs(vectors))
        times.append(time.process_time() - start)
        require(found == before + number + 1, f"{found} pairs after {number + 1} times 100 new")
    show(f"100 new against {len(rows):,}", min(times), 100 * len(rows) * OPERATIONS / speed, "to sgemm")


def retrieval(rows: Rows, random_numbers: np.random.Generator) -> None:
    skills = [
        Skill(f"a-{place:05d}", "a", f"Skill {place}.", embedding=row.tobytes()) for place, row in enumerate(rows)
    ]
    question = random_numbers.standard_normal(LENGTH, dtype=np.float32)

    class Model:
        def embed(self, texts: object) -> list[list[float]]:
            return [question.tolist()]

    ranker = VectorRanker(Model())
    best = [skill.id for skill in ranker.best("", skills, 20)]
    order = np.argsort(-(rows @ (question / np.linalg.norm(question))), kind="stable")[:20]
    require(best == [skills[place].id for place in order], "these are not the nearest 20")
    product = cpu_seconds(lambda: [rows @ question for _ in range(20)]) / 20
    found = cpu_seconds(lambda: [ranker.best("", skills, 20) for _ in range(20)]) / 20
    show(f"top 20 of {len(rows):,} by vectors", found, product, "to one product of all rows")
    show_after_changes(partial(ranker.best, "", skills, 20), skills)
    best = [skill.id for skill in ranker.best("", skills, 20)]
    require(best == [skill.id for skill in VectorRanker(Model()).best("", skills, 20)], "a changed book differs")


def lexical(count: int) -> None:
    words = random.Random(12)
    rare = [f"word{number}" for number in range(20_000)]
    common = ["check", "the", "units", "before", "you", "answer", "when", "case"]
    skills = [
        Skill(f"a-{place:05d}", f"s {place % 20}", " ".join(words.choices(rare, k=8) + words.choices(common, k=4)))
        for place in range(count)
    ]
    question = " ".join([*words.choices(rare, k=8), *common[:4]])
    ranker = LexicalRanker()
    scores = ranker(question, skills)
    order = sorted(range(count), key=lambda place: (-scores[place], place))[:20]
    best = [skill.id for skill in ranker.best(question, skills, 20)]
    require(best == [skills[place].id for place in order], "these are not the best 20 by words")
    every = cpu_seconds(lambda: ranker(question, skills))
    found = cpu_seconds(lambda: [ranker.best(question, skills, 20) for _ in range(20)]) / 20
    show(f"top 20 of {count:,} by 12 words", found, every, "to scoring every skill")
    show_after_changes(partial(ranker.best, question, skills, 20), skills)
    best = [skill.id for skill in ranker.best(question, skills, 20)]
    require(best == [skill.id for skill in LexicalRanker().best(question, skills, 20)], "a changed book differs")


def show_after_changes(best: Callable[[], object], skills: list[Skill]) -> None:
    """Search after each change, and once more, in turns."""
    times = [(cpu_seconds(best, rounds=1), cpu_seconds(best, rounds=1)) for _ in changes(skills)]
    changed, unchanged = (median(column) for column in zip(*times, strict=True))
    show("  after each tag, new text or removal", changed, unchanged, "to the next search")


def changes(skills: list[Skill]) -> Iterator[None]:
    """Tag, rewrite and remove skills of the list, one after the other."""
    for number in range(30):
        place = number * len(skills) // 31
        skill = skills[place]
        if number % 3 == 0:
            skills[place] = skill.replace(helpful=skill.helpful + number)
        elif number % 3 == 1:
            skills[place] = skill.replace(content=f"Check case {number} first.")
        else:
            del skills[place]
        yield


def rows_with_twins(random_numbers: np.random.Generator, count: int) -> Rows:
    """Rows of length 1 that are far from each other, but that each hundredth has a twin."""
    rows = random_numbers.standard_normal((count, LENGTH), dtype=np.float32)
    rows[1::100] = rows[::100]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def pairs(rows: Rows) -> set[tuple[int, int]]:
    return {
        pair
        for first, second, _ in near_rows(rows, THRESHOLD)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    }


def busy_elsewhere(action: Callable[[], float]) -> float:
    """Call the action while other processes keep all cores busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        return action()
    finally:
        for other in others:
            other.kill()
            other.wait()


def cpu_seconds(action: Callable[[], object], rounds: int = 5) -> float:
    """Return the smallest CPU time of the process for one call."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def show(what: str, measured: float, baseline: float, note: str) -> None:
    print(f"{what:<40} {measured * 1e3:11.2f} ms {measured / baseline:7.2f} x baseline; {note}")


if __name__ == "__main__":
    sys.exit(main())
