"""A followed log may be missing, grow, be truncated or replaced: each line is yielded or reported once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ace.loop import ExecutionTrace, LoggedTrace, TraceLog
from ace.pipeline import CancellationToken

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def trace(number: int, task: str = "bd-1") -> ExecutionTrace:
    return ExecutionTrace(
        task_id=task, trace_id=str(number), outcome="success", task_description="x" * 100, timestamp=TIME
    )


def line(number: int, task: str = "bd-1") -> str:
    return f"{json.dumps(trace(number, task).as_record())}\n"


class Follower:
    """Follows a log on a thread, and keeps what it has yielded."""

    def __init__(self, path: Path, *tasks: str) -> None:
        self.log = TraceLog(path)
        self.found: list[LoggedTrace] = []
        self.token = CancellationToken()
        self._has_more = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(tasks,))
        self._thread.start()

    def _run(self, tasks: tuple[str, ...]) -> None:
        for entry in self.log.follow(tasks, interval=0.01, cancel_token=self.token):
            with self._has_more:
                self.found.append(entry)
                self._has_more.notify()

    def ids_until(self, last: int) -> list[int]:
        """Wait until a trace was yielded, and return the ids of all so far."""
        with self._has_more:
            while str(last) not in (entry.trace.trace_id for entry in self.found):
                self._has_more.wait(1.0)
                assert self._thread.is_alive(), "the follower has ended"
            return [int(entry.trace.trace_id) for entry in self.found]

    def stop(self) -> None:
        self.token.cancel()
        self._thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "execution_traces.jsonl"


@pytest.fixture
def follower(path: Path) -> Iterator[Follower]:
    follower = Follower(path)
    yield follower
    follower.stop()


def test_a_log_that_does_not_exist_yet_is_waited_for(path: Path, follower: Follower) -> None:
    log = TraceLog(path)
    for number in range(3):
        log.append(trace(number))
        assert follower.ids_until(number) == list(range(number + 1))
    assert [entry.line for entry in follower.found] == [1, 2, 3]


def test_only_the_traces_of_the_tasks_are_yielded(path: Path) -> None:
    follower = Follower(path, "bd-2", "bd-3")
    log = TraceLog(path)
    for number in range(10):
        log.append(trace(number, f"bd-{number % 5}"))
    log.append(trace(99, "bd-3"))
    assert follower.ids_until(99) == [2, 3, 7, 8, 99]
    follower.stop()


def test_the_rest_of_an_incomplete_line_is_waited_for(path: Path, follower: Follower) -> None:
    TraceLog(path).append(trace(1))
    follower.ids_until(1)
    with path.open("a", encoding="utf-8") as file:
        file.write(line(2)[:50])
        file.flush()
        time.sleep(0.05)  # only so that it is probably looked at; the next test does so for certain
        file.write(f"{line(2)[50:]}{line(3)}")
    assert follower.ids_until(3) == [1, 2, 3]
    assert follower.log.problem_count == 0


def test_an_incomplete_line_is_neither_yielded_nor_reported(path: Path) -> None:
    log = TraceLog(path)
    log.append(trace(1))
    for incomplete in (line(2)[:50], line(2)[50:].rstrip()):
        with path.open("a", encoding="utf-8") as file:
            file.write(incomplete)
        token = CancellationToken()
        for found in log.follow(cancel_token=token):
            assert found.trace.trace_id == "1"
            token.cancel()  # what follows the first line has been looked at when the loop ends
        assert log.problem_count == 0


def test_a_truncated_log_is_read_from_its_start_and_known_traces_stay_known(path: Path, follower: Follower) -> None:
    log = TraceLog(path)
    for number in range(5):
        log.append(trace(number))
    follower.ids_until(4)
    path.write_text(line(7) + line(8), encoding="utf-8")  # shorter than it was
    assert follower.ids_until(8)[5:] == [7, 8]
    known = path.read_text(encoding="utf-8")
    path.write_text(known + "".join(line(number) for number in range(20, 30)), encoding="utf-8")
    assert follower.ids_until(29)[7:] == list(range(20, 30))


def test_a_log_that_was_rewritten_longer_is_read_from_its_start(path: Path, follower: Follower) -> None:
    TraceLog(path).append(trace(1))
    follower.ids_until(1)
    with path.open("r+", encoding="utf-8") as file:  # in place and in one write: it never is shorter
        file.write("".join(line(number) for number in range(10, 15)))
    assert follower.ids_until(14) == [1, 10, 11, 12, 13, 14]


def test_a_replaced_log_is_read_from_its_start_and_the_rest_of_the_old_one_first(
    path: Path, follower: Follower
) -> None:
    TraceLog(path).append(trace(1))
    follower.ids_until(1)
    with path.open("a", encoding="utf-8") as old:
        path.rename(path.with_suffix(".old"))
        time.sleep(0.1)  # the follower checks several times while the log does not exist
        old.write(line(2))  # a writer that had it open
    follower.ids_until(2)
    new = path.with_suffix(".new")
    new.write_text(f"{path.with_suffix('.old').read_text(encoding='utf-8')}{line(3)}", encoding="utf-8")
    new.rename(path)
    assert follower.ids_until(3) == [1, 2, 3]
    path.unlink()
    TraceLog(path).append(trace(4))
    assert follower.ids_until(4) == [1, 2, 3, 4]


def test_a_bad_line_is_reported_once_also_when_the_log_is_read_again(path: Path, follower: Follower) -> None:
    path.parent.mkdir(exist_ok=True)
    bad = ["no JSON\n", json.dumps({"bead_id": "--status"}) + "\n"]
    path.write_text("".join([line(1), *bad, line(2)]), encoding="utf-8")
    follower.ids_until(2)
    new = path.with_suffix(".new")
    new.write_text("".join([*bad, line(1), line(2), line(3)]), encoding="utf-8")
    new.rename(path)
    assert follower.ids_until(3) == [1, 2, 3]
    assert [problem.line for problem in follower.log.problems] == [2, 3]
    assert follower.log.problem_count == 2


def test_a_cancelled_token_ends_it_also_between_two_traces(path: Path) -> None:
    log = TraceLog(path)
    for number in range(5):
        log.append(trace(number))
    token = CancellationToken()
    found = []
    for entry in log.follow(cancel_token=token, interval=3600):
        found.append(entry.trace.trace_id)
        if len(found) == 2:
            token.cancel()
    assert found == ["0", "1"]


def test_no_trace_is_missed_or_repeated_while_the_log_is_appended_to_and_archived(path: Path) -> None:
    follower = Follower(path)
    log = TraceLog(path)
    for number in range(300):
        log.append(trace(number))
        if number % 50 == 49:
            follower.ids_until(number - 20)  # of the others, some may have to be read from the replaced file
            assert log.archive(keep_per_task=5).archived > 0
    assert follower.ids_until(299) == list(range(300))
    follower.stop()


@pytest.mark.parametrize("interval", [0, -1, float("nan")])
def test_an_interval_that_is_not_positive_is_rejected(path: Path, interval: float) -> None:
    with pytest.raises(ValueError, match="interval must be greater than 0 seconds"):
        TraceLog(path).follow(interval=interval)
