"""Tables of the command line, where the output is not a terminal."""

import pytest

from ace.cli.console import print_table


def test_columns_of_numbers_are_aligned_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["geo-00001", "5", "-", "2, of which 1 failed"], ["m-2", "1,234.5 %", "12", "10"]]
    print_table(["id", "helpful", "epoch", "note"], rows, title="Skills:")
    assert capsys.readouterr().out.splitlines() == [
        "Skills:",
        "id           helpful  epoch  note",
        "geo-00001          5      -  2, of which 1 failed",
        "m-2        1,234.5 %     12  10",
    ]
