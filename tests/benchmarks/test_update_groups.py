"""The benchmark of requests about several reflections."""

from __future__ import annotations

import pytest

from benchmarks import update_groups


def test_every_way_of_learning_learns_each_rule_once() -> None:
    rows = update_groups.measured(quick=True)
    assert [(row.together, row.at_once) for row in rows] == list(update_groups.WAYS)
    separate, joint = rows[:2]
    assert joint.update_calls < separate.update_calls == update_groups.RULES * update_groups.REPEATS
    assert joint.input_tokens < separate.input_tokens


def test_a_wrong_skillbook_ends_the_benchmark_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(update_groups, "SECONDS", 0.0)
    monkeypatch.setattr(update_groups, "_update", lambda number, known: {"reasoning": "", "operations": []})
    assert update_groups.main(["--quick"]) == 1
    assert capsys.readouterr().out.startswith("WRONG: ")
