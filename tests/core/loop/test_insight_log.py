"""The log of insights: what is read back, which insights show the same, and what damage it survives."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from ace.loop import Insight, InsightLog, confidence


def insight(task: str, text: str, **fields: object) -> Insight:
    return Insight.from_record({"task_id": task, "trace_id": "t1", "recommendation": text, **fields})


@pytest.fixture
def log(tmp_path: Path) -> InsightLog:
    return InsightLog(tmp_path / "logs" / "insights.jsonl")


def test_the_confidence_depends_on_the_number_of_tasks() -> None:
    table = {1: 0.5, 2: 0.7, 3: 0.8, 4: 0.85, 5: 0.9, 6: 0.91, 14: 0.99, 1000: 0.99}
    assert {tasks: confidence(tasks) for tasks in table} == table
    assert [confidence(tasks, critical=True) for tasks in (1, 2, 3, 4)] == [0.8, 0.8, 0.8, 0.85]


def test_the_fields_are_those_that_other_tools_read(log: InsightLog) -> None:
    log.record([insight("bd-1", "Run tsc first.", pattern="tsc failed", evidence=["a.ts:1"], confidence=0.8)])
    [line] = log.path.read_text(encoding="utf-8").splitlines()
    record = json.loads(line)
    assert record.pop("timestamp").endswith("Z")
    assert record == {
        "id": Insight.id_of("bd-1", "t1", "Run tsc first."),
        "task_id": "bd-1",
        "trace_id": "t1",
        "pattern": "tsc failed",
        "evidence": ["a.ts:1"],
        "recommendation": "Run tsc first.",
        "confidence": 0.8,
        "tasks": ["bd-1"],
        "online_eligible": True,
        "section": "",
        "delta": None,
        "status": "pending",
        "reason": "",
    }
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_an_insight_that_is_recorded_twice_is_the_same_one_and_the_last_line_counts(log: InsightLog) -> None:
    first = insight("bd-1", "Run tsc first.")
    log.record([first])
    log.record([first, insight("bd-1", "run tsc first")])
    assert len(log.path.read_text(encoding="utf-8").splitlines()) == 2  # the wording has changed once
    log.record([insight("bd-1", "Run tsc first.", status="accepted", delta="[Bullet #b-1] Run tsc first.")])
    for read in (log, InsightLog(log.path)):
        [found] = read.insights()
        assert (found.status, found.delta) == ("accepted", "[Bullet #b-1] Run tsc first.")
    assert log.insights(status="pending") == [] == log.insights(tasks=["bd-2"]) == log.insights(min_confidence=0.6)


def test_insights_of_other_writers_are_seen(log: InsightLog) -> None:
    log.record([insight("bd-1", "Run tsc first.")])
    InsightLog(log.path).record([insight("bd-2", "Run tsc first.")])
    assert [logged.task_id for logged in log.same_pattern("run TSC first")] == []  # a name is written as it is
    assert [logged.task_id for logged in log.same_pattern("run tsc first")] == ["bd-1", "bd-2"]
    log.path.unlink()
    assert log.insights() == []
    log.record([insight("bd-3", "Run tsc first.")])
    assert [logged.task_id for logged in log.insights()] == ["bd-3"]


def test_several_writers_at_a_time_know_all_insights(log: InsightLog) -> None:
    logs = [InsightLog(log.path) for _ in range(4)]
    start = Barrier(4)

    def write(number: int) -> None:
        start.wait()
        for task in range(150):
            logs[number].record([insight(f"bd-{number}-{task}", "Run tsc first.")], is_durable=False)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(write, range(4)))
    finally:
        sys.setswitchinterval(interval)
    expected = {f"bd-{number}-{task}" for number in range(4) for task in range(150)}
    for opened in (*logs, log):
        found = [insight.task_id for insight in opened.insights()]
        assert (len(found), set(found), opened.problems) == (600, expected, [])


@pytest.mark.parametrize(
    "other", ["Wait 30 seconds.", "Never wait 3 seconds.", "Wait 3 seconds for Petersen.", "wait 3 minutes"]
)
def test_texts_with_other_values_or_words_are_other_patterns(log: InsightLog, other: str) -> None:
    log.record([insight("bd-1", "Wait 3 seconds.")])
    assert log.same_pattern(other) == []


class Vectors:
    """An embedder to which all texts are the same."""

    similarity_threshold = 0.9

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.embedded += texts
        return [[1.0, 0.0] for _ in texts]


def test_an_embedder_finds_the_same_in_other_words_but_never_a_contradiction(tmp_path: Path) -> None:
    vectors = Vectors()
    log = InsightLog(tmp_path / "insights.jsonl", embedder=vectors)
    log.record(
        [
            insight("bd-1", "Compile everything, and then run the tests."),
            insight("bd-2", "Compile everything 2 times, and then run the tests."),
            insight("bd-3", "Never compile everything, run the tests."),
        ]
    )
    wanted = "Compile the whole project for the tests."
    assert [logged.task_id for logged in log.same_pattern(wanted)] == []  # "then" depends on the order of words
    log.record([insight("bd-4", "Compile each module for the tests.")])
    assert [logged.task_id for logged in log.same_pattern(wanted)] == ["bd-4"]
    assert len(vectors.embedded) == len(set(vectors.embedded))
    assert log.same_pattern("Compile the whole project for the tests of Petersen.") == []


def test_damaged_lines_are_listed_and_the_others_are_read(log: InsightLog) -> None:
    log.record([insight("bd-1", "Run tsc first.")])
    whole = log.path.read_bytes()
    log.path.write_bytes(b'nonsense\n[1]\n{"task_id": "bd-1"}\n\n' + whole + whole[:40])
    read = InsightLog(log.path)
    assert [logged.task_id for logged in read.insights()] == ["bd-1"]
    assert [problem.partition(": ")[0] for problem in read.problems] == [f"{log.path}:{line}" for line in (1, 2, 3)]
    read.record([insight("bd-2", "Run tsc first.")])  # after the incomplete line
    assert [logged.task_id for logged in InsightLog(log.path).insights()] == ["bd-1", "bd-2"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"status": "done"}, "status must be pending, accepted or refused, got 'done'"),
        ({"confidence": 7}, "confidence must be from 0 to 1, got 7"),
        ({"confidence": "high"}, "confidence must be a number, got 'high'"),
        ({"trace_id": ""}, "an insight needs the fields task_id, trace_id and recommendation"),
    ],
)
def test_what_is_not_an_insight_is_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        insight("bd-1", "Run tsc first.", **fields)
