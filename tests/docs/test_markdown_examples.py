"""Every Python block of the documentation runs."""

import traceback
from pathlib import Path

import pytest

from examples.scripted_model import ScriptedModel
from tests.docs.carrier_model import carrier_model
from tests.docs.markdown_examples import OutputDiffers, examples_in, run_examples

ROOT = Path(__file__).resolve().parents[2]
FILES = [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *sorted((ROOT / "docs").rglob("*.md"))]
FILES_WITH_EXAMPLES = [file for file in FILES if examples_in(file.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("file", FILES_WITH_EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_examples_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ScriptedModel(carrier_model) as model:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
        monkeypatch.setenv("OPENAI_BASE_URL", model.api_base)
        run_examples(file)


def test_the_readme_has_an_example() -> None:
    assert ROOT / "README.md" in FILES_WITH_EXAMPLES


def page(folder: Path, text: str) -> Path:
    file = folder / "page.md"
    file.write_text(text, encoding="utf-8")
    return file


def test_blocks_of_a_file_share_one_namespace_and_their_output_is_compared(tmp_path: Path) -> None:
    run_examples(
        page(
            tmp_path,
            "```python\nx = 2\n```\nand\n```python\nprint(x)\nprint(id(x))\n```\nprints\n```text output\n2\n...\n```\n",
        )
    )


def test_other_output_than_the_file_says_is_an_error(tmp_path: Path) -> None:
    wrong = page(tmp_path, "```python\nprint(2)\n```\n\n```text output\n3\n```\n")
    with pytest.raises(OutputDiffers, match=r"page\.md:2: the example printed\n2\n\nbut the file says\n3\n"):
        run_examples(wrong)


def test_a_failure_shows_the_line_of_the_file(tmp_path: Path) -> None:
    wrong = page(tmp_path, "A title\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as raised:
        run_examples(wrong)
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (Path(last.filename), last.lineno, last.line) == (wrong, 5, "x / 0")


def test_blocks_of_other_languages_are_left_alone() -> None:
    text = "```bash\nmake test\n```\n````text\n```python\n1 / 0\n```\n````\n```text output\nx\n```\n"
    assert examples_in(text) == []


def test_a_plain_text_block_is_not_compared() -> None:
    (example,) = examples_in("```python\nprint(1)\n```\n```text\nanything\n```\n")
    assert example.expected is None
