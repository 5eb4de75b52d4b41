"""What the commands of coding agents share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.integrations import print_spend, skill_count
from ace.runners import Spend
from ace.skillbook import Skillbook


def test_a_book_that_cannot_be_read_counts_as_empty(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("tides", "Look at the table.")
        book.add_skill("tides", "Write 14h30.")
    (tmp_path / "broken.db").write_text("not a database")
    assert skill_count([tmp_path / "broken.db", tmp_path / "skills.db"]) == 2


def test_the_limit_and_unknown_prices_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_spend("today", Spend(calls=3, cost_usd=0.25, input_tokens=1200, output_tokens=80, unpriced_calls=1), 2.0)
    print_spend("in 30 days", Spend())
    assert capsys.readouterr().out.splitlines() == [
        "Spent today: 0.2500 of 2 USD, 3 calls, 1,200 tokens in, 80 out; the price of 1 calls is not known.",
        "Spent in 30 days: 0.0000 USD, 0 calls, 0 tokens in, 0 out.",
    ]
