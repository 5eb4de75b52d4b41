"""README and front page carry the same program, and the table of the README has all distributions."""

from docs.layer_drawing import ROOT
from tests.docs.markdown_examples import Example, examples_in
from tests.workspace.project import distributions

README = (ROOT / "README.md").read_text(encoding="utf-8")
FRONT_PAGE = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def program(text: str) -> tuple[str, str | None]:
    first: Example = examples_in(text)[0]
    return first.source, first.expected


def test_both_carry_the_same_program_and_its_output() -> None:
    assert program(README) == program(FRONT_PAGE)
    assert program(README)[1]


def test_both_begin_with_the_same_sentences() -> None:
    assert README.split("\n\n")[1] == FRONT_PAGE.split("\n\n")[1]


def test_both_warn_of_the_names_on_the_public_index() -> None:
    for text in (README, FRONT_PAGE):
        assert "**Do not `pip install ace-core` from the public index.**" in text


def test_the_table_of_the_readme_has_every_distribution_once() -> None:
    rows = [line for line in README.splitlines() if line.startswith("| ") and "| [`ace-" in line]
    assert sorted(row.split("`")[1] for row in rows) == sorted(folder.name for folder in distributions())


def test_both_show_the_installation_and_the_first_commands_first() -> None:
    for text in (README, FRONT_PAGE):
        [block] = [fenced for fenced in text.split("```")[1:2] if fenced.startswith("text\n")]
        lines = [line.split(" ")[1:3] for line in block.splitlines() if line.startswith("$ ")]
        assert lines[:3] == [["python", "-m"], ["ace", "inspect"], ["ace", "learn"]]


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) <= 150


def test_the_how_to_guides_have_at_most_twelve_pages_on_the_first_level() -> None:
    index = (ROOT / "docs/how-to/index.md").read_text(encoding="utf-8")
    [pages] = [block for block in index.split("```") if block.startswith("{toctree}")]
    first_level = [line for line in pages.splitlines()[1:] if line and not line.startswith(":")]
    assert 0 < len(first_level) <= 12
