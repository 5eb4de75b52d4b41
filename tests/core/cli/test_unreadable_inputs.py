"""Inputs of which none can be read: each is named with its reason."""

from pathlib import Path

import pytest

from tests.support.command_line import Run

NO_QUESTION = "no question; put it into the field question or task"


@pytest.fixture
def bad(tmp_path: Path) -> list[str]:
    (tmp_path / "cut.json").write_text("{bad", encoding="utf-8")
    (tmp_path / "empty.json").touch()
    (tmp_path / "noise.txt").write_bytes(bytes(range(256)))
    return ["cut.json", "empty.json", "noise.txt"]


@pytest.mark.parametrize("command", ["learn", "train", "eval"])
def test_each_unreadable_input_has_its_reason(here: Run, bad: list[str], command: str) -> None:
    done = here(command, *bad)
    assert (done.code, done.out) == (2, "")
    first, *lines = done.err.splitlines()
    assert first.startswith("ace: nothing in 'cut.json', 'empty.json', 'noise.txt' can be used; give files, folders")
    assert [line.partition(", or")[0] for line in lines] == [
        "    cut.json, line 1: a damaged record is lost",
        "    empty.json: an empty file",
        "    noise.txt: binary data",
    ]


def test_a_single_unreadable_input_is_one_line(here: Run, bad: list[str]) -> None:
    done = here("learn", "empty.json")
    assert done.err.startswith("ace: nothing in 'empty.json' can be used; empty.json: an empty file; give")
    assert done.err.count("\n") == 1


def test_many_unreadable_inputs_do_not_fill_the_screen(here: Run, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.json").touch()
    done = here("learn", *(f"{number:02}.json" for number in range(30)))
    first, *lines = done.err.splitlines()
    assert "nothing in '00.json', '01.json', '02.json' and 27 more can be used" in first
    assert (len(lines), lines[-1]) == (11, "    ... and 20 more")


@pytest.mark.parametrize("command", ["learn", "train", "eval"])
def test_all_missing_inputs_are_named(here: Run, bad: list[str], command: str) -> None:
    done = here(command, "a.json", "cut.json", "b.json")
    assert (done.code, done.err) == (2, "ace: no such file or folder: 'a.json', 'b.json'; check the path\n")


def test_each_sample_that_cannot_be_evaluated_has_its_reason(here: Run, bad: list[str], tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text('{"question": "2+2?", "target": "4"}\n{"answer": 4}\n', encoding="utf-8")
    done = here("eval", "good.jsonl", "empty.json")
    assert done.code == 2
    assert done.err == (
        "ace: every sample of an evaluation must be readable\n"
        "    empty.json: an empty file\n"
        f"    good.jsonl#2: {NO_QUESTION}\n"
    )
    done = here("eval", "good.jsonl")
    assert done.err == (f"ace: good.jsonl#2: {NO_QUESTION}; every sample of an evaluation must be readable\n")
