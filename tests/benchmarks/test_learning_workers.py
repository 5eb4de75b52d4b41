"""Learning with several workers, measured with a model that takes its time."""

from __future__ import annotations

import pytest

from benchmarks import learning_workers


def test_sixteen_workers_learn_what_one_does() -> None:
    rows = learning_workers.measured(quick=True)
    assert [row.what.split(",")[0] for row in rows] == ["different lessons", "repeated rules", "proven lessons"]


def test_a_wrong_skillbook_ends_the_benchmark_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lessons = iter(range(10_000))
    monkeypatch.setattr(learning_workers, "SECONDS", 0.0)
    monkeypatch.setattr(learning_workers, "different_lesson", lambda number: f"Lesson {next(lessons)} is new.")
    assert learning_workers.main(["--quick"]) == 1
    assert capsys.readouterr().out.startswith("WRONG: ")
