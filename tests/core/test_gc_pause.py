"""The garbage collector rests while a book is read, and is found as it was."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace import Skillbook


@pytest.fixture
def file(tmp_path: Path) -> Path:
    book = Skillbook()
    for number in range(6_000):
        book.add_skill("maths", f"Check step {number}.")
    book.save_to_file(tmp_path / "skills.json")
    return tmp_path / "skills.json"


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Leave the collector of the other tests as it was. What they imported is frozen, as in no program of a user."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


def young_objects() -> set[int]:
    generations = (0, 1) if sys.version_info < (3, 14) else (0,)  # the second one is old, too, from 3.14 on
    return {id(tracked) for generation in generations for tracked in gc.get_objects(generation)}


def test_the_skills_of_a_large_file_count_as_old(file: Path) -> None:
    gc.collect()
    skills = Skillbook.load_from_file(file).skills()
    assert not young_objects() & {id(skill) for skill in skills}
    assert gc.isenabled()


def test_a_small_book_makes_nothing_old(tmp_path: Path) -> None:
    Skillbook().save_to_file(tmp_path / "skills.json")
    gc.collect()
    mine: list[object] = [[]]
    Skillbook.load_from_file(tmp_path / "skills.json")
    assert id(mine) in young_objects()


def test_a_collector_that_was_off_stays_off(file: Path) -> None:
    gc.disable()
    Skillbook.load_from_file(file)
    assert not gc.isenabled()


def test_objects_that_somebody_froze_stay_frozen(file: Path) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    Skillbook.load_from_file(file)
    assert 0 < gc.get_freeze_count() <= frozen


def test_a_file_that_is_refused_leaves_the_collector_on(file: Path) -> None:
    file.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"skills\.json"):
        Skillbook.load_from_file(file)
    assert gc.isenabled()
