"""A folder with skillbooks."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from ace.skill import InsightSource
from ace.skillbook import Skillbook
from tests.support.command_line import Run

NOW = 1767225600

PLAYBOOK = """## STRATEGIES
[str-00001] helpful=5 harmful=0 :: Read the question twice.

## maths
- Check the units before you add.
"""


@pytest.fixture
def folder(tmp_path: Path, here: Run) -> Path:
    """The current folder, which is the home folder too; there are no settings in it."""
    return tmp_path


@pytest.fixture
def run(here: Run) -> Run:
    """Run `ace skillbook` in this process."""
    return partial(here, "skillbook")


@pytest.fixture
def store(folder: Path) -> Path:
    """A store of five versions: a helpful skill, a harmful one, one of the same wording, one never judged."""
    path = folder / "skills.db"
    source = InsightSource("runs.jsonl#3", "2 m + 3 ft?", 1, 3, "trace", "Added metres to feet", "Convert first")
    with Skillbook.open(path, clock=lambda: datetime(2025, 12, 1, tzinfo=UTC)) as book:
        book.add_skill("maths", "Check the units before you add.", metadata={"helpful": 3}, insight_source=source)
        book.add_skill("maths", "Guess quickly.", metadata={"harmful": 2})
        book.add_skill("maths", "Check the units before you add", metadata={"neutral": 2})
        book.add_skill("geography", "Name the country first.")
        book.tag_skill("maths-00001", "helpful")
    return path


@pytest.fixture
def json_book(folder: Path) -> Path:
    """A JSON file with one good and one harmful skill."""
    path = folder / "skills.json"
    book = Skillbook(clock=lambda: datetime(2025, 12, 1, tzinfo=UTC))
    book.add_skill("maths", "Estimate the result first.", metadata={"helpful": 1})
    book.add_skill("maths", "Never check.", metadata={"harmful": 1})
    book.save_to_file(path)
    return path


@pytest.fixture
def playbook(folder: Path) -> Path:
    """A playbook text with a skill that the store has, and one that it has not."""
    path = folder / "play.txt"
    path.write_text(PLAYBOOK, encoding="utf-8")
    return path


def contents(path: Path, *, with_invalid: bool = False) -> dict[str, str]:
    """The texts of a skillbook by their ids."""
    with Skillbook.open(path) as book:
        return {skill.id: skill.content for skill in book.skills(include_invalid=with_invalid)}
