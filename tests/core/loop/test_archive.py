"""Archiving moves old traces to another file, and loses none."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ace.loop import ArchiveReport, ExecutionTrace, TraceLog

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
from ace.loop import TraceLog
try:
    TraceLog(sys.argv[1]).archive(keep_per_task=1)
except OSError as error:
    print(error.strerror)
"""


def filled(path: Path) -> TraceLog:
    """A log of two tasks, with twelve traces each, one for each tenth day until today."""
    log = TraceLog(path)
    now = datetime.now(UTC)
    for number in range(12):
        for task in ("bd-1", "bd-2"):
            time = now - timedelta(days=10 * (11 - number))
            log.append(ExecutionTrace(task_id=task, trace_id=str(number), outcome="success", timestamp=time))
    return log


def ids(log: TraceLog, task: str) -> list[int]:
    return [int(found.trace.trace_id) for found in log.read([task])]


@pytest.mark.parametrize(
    ("keep_per_task", "keep_days", "moved"),
    [(10, 30, 2), (10, 1000, 0), (1, 35, 8), (0, 0, 12), (20, 0, 0)],
)
def test_a_trace_is_moved_if_it_is_old_and_enough_later_ones_are_kept(
    tmp_path: Path, keep_per_task: int, keep_days: float, moved: int
) -> None:
    log = filled(tmp_path / "logs" / "execution_traces.jsonl")
    before = log.path.read_bytes().splitlines()
    report = log.archive(keep_per_task=keep_per_task, keep_days=keep_days)
    assert (report.archived, report.kept) == (2 * moved, 24 - 2 * moved)
    for task in ("bd-1", "bd-2"):
        assert ids(log, task) == list(range(moved, 12))
    if report.path is None:
        assert moved == 0
        assert not (tmp_path / "logs" / "archive").exists()
        return
    assert report.path.parent == tmp_path / "logs" / "archive"
    assert ids(TraceLog(report.path), "bd-1") == list(range(moved))
    assert [*report.path.read_bytes().splitlines(), *log.path.read_bytes().splitlines()] == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in (report.path, log.path)} == {0o600}


def test_what_is_not_a_trace_or_has_no_time_is_kept(tmp_path: Path) -> None:
    log = TraceLog(tmp_path / "log.jsonl")
    assert log.archive() == ArchiveReport(0, 0, None)
    odd = [b"no JSON\r\n", b"\n", b'{"bead_id": "bd-1", "outcome": "success"}\n', b'{"bead_id": "bd-1", "outc']
    log.path.write_bytes(b"".join(odd))
    assert log.archive(keep_per_task=0, keep_days=0) == ArchiveReport(0, 4, None)
    assert log.path.read_bytes() == b"".join(odd)


def test_a_full_disk_moves_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path / "log.jsonl")
    before = log.path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(log.path), "1000"], stdout=subprocess.PIPE, check=True, cwd=tmp_path
    )
    assert done.stdout == b"File too large\n"
    assert log.path.read_bytes() == before
    assert [name for _, _, names in os.walk(tmp_path) for name in names] == ["log.jsonl"]


@pytest.mark.parametrize(("keep_per_task", "keep_days"), [(-1, 30), (10, -1), (10, float("nan"))])
def test_a_negative_number_is_rejected(tmp_path: Path, keep_per_task: int, keep_days: float) -> None:
    with pytest.raises(ValueError, match="must be at least 0"):
        TraceLog(tmp_path / "log.jsonl").archive(keep_per_task=keep_per_task, keep_days=keep_days)
