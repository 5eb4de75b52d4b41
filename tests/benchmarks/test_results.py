"""Benchmarks whose results would be wrong if what they measure did something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import first_result, skillbook
from benchmarks.paired_runs import Load, run


def test_no_operation_on_a_skillbook_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(skillbook, "SIZE", 300)
    monkeypatch.setattr(skillbook, "LARGE", 600)
    assert skillbook.main([]) == 0, capsys.readouterr().out


def test_a_run_that_sends_spans_or_nothing_learns_from_each_sample() -> None:
    assert run(Load(samples=3, call_seconds=0.0)).wall > 0


def test_commands_send_the_same_requests_with_and_without_litellm(tmp_path: Path) -> None:
    rows = first_result.measure(tmp_path, rounds=1, large_count=20)
    assert all(row.measured > 0 for row in rows)
