"""The page on the checks of the conformance kit is what their source says."""

from docs.conformance_table import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.conformance_table"


def test_every_check_stands_beside_a_mutant() -> None:
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    assert all(mutants.strip("| ") for _, _, mutants in rows)
