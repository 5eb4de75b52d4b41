"""The page on the engine says which file does what."""

import re
from pathlib import Path

import ace.pipeline

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "pipeline-engine.md"


def test_each_file_of_the_engine_is_on_the_page_and_no_other() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Which file does what")[2]
    assert ace.pipeline.__file__ is not None
    files = {path.name for path in Path(ace.pipeline.__file__).parent.glob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", table)) == files
