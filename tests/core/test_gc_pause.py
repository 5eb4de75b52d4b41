"""The garbage collector rests while a book is read, and is found as it was."""

from __future__ import annotations

import gc
import weakref
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
    gc.enable()


def test_garbage_is_collected_in_a_program_that_reads_its_skillbook_again_and_again(file: Path) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

    gc.collect()
    made = [weakref.ref(Cycle()) for _ in range(100)]
    for _ in range(3):
        Skillbook.load_from_file(file)
    _ = [[number] for number in range(2 * gc.get_threshold()[0])]
    assert not any(reference() for reference in made)


def test_a_collector_that_was_off_stays_off(file: Path) -> None:
    gc.disable()
    Skillbook.load_from_file(file)
    assert not gc.isenabled()


def test_a_file_that_is_refused_leaves_the_collector_on(file: Path) -> None:
    file.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"skills\.json"):
        Skillbook.load_from_file(file)
    assert gc.isenabled()
