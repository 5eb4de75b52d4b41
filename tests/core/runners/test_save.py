"""`save` at the end of a program: what was paid for is never lost, whatever is at the path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ace import ACELiteLLM, LiteLLMClient, TraceAnalyser
from ace.skillbook import Skillbook, SkillbookChangedError, SkillbookError

PROGRAM = """
from ace import ACELiteLLM, LiteLLMClient
ace = ACELiteLLM(LiteLLMClient("openai/none"))
ace.skillbook.add_skill("geography", "Name the country first.")
ace.save("geography.json")
"""
Make = Callable[[Skillbook], ACELiteLLM | TraceAnalyser]


def facade(book: Skillbook) -> ACELiteLLM:
    return ACELiteLLM(LiteLLMClient("openai/none"), skillbook=book)


def analyser(book: Skillbook) -> TraceAnalyser:
    return TraceAnalyser.from_client(LiteLLMClient("openai/none"), skillbook=book, prove=False)


def taught() -> Skillbook:
    book = Skillbook()
    book.add_skill("geography", "Name the country first.")
    return book


def test_a_program_that_runs_twice_in_a_folder_loses_nothing(tmp_path: Path) -> None:
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
        for _ in range(3)
    ]
    assert [run.returncode for run in runs] == [0, 1, 1]
    assert runs[1].stderr.splitlines()[-1] == "The skillbook was saved to 'geography-2.json' instead."
    assert "merge=True" in runs[1].stderr
    for name in ("geography.json", "geography-2.json", "geography-3.json"):
        assert len(Skillbook.load_from_file(tmp_path / name)) == 1


@pytest.mark.parametrize("make", [facade, analyser])
@pytest.mark.parametrize("name", ["other.json", "notes.json", "store.db", "book.md"])
def test_what_cannot_be_saved_there_is_saved_beside_it(tmp_path: Path, make: Make, name: str) -> None:
    Skillbook().save_to_file(tmp_path / "other.json")
    (tmp_path / "notes.json").write_text('{"my": "notes"}')
    Skillbook.open(tmp_path / "store.db").close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises((SkillbookError, FileExistsError, ValueError)) as raised:
        make(taught()).save(tmp_path / name)
    beside = tmp_path / f"{Path(name).stem}-2.json"
    assert raised.value.__notes__ == [f"The skillbook was saved to {str(beside)!r} instead."]
    assert [skill.content for skill in Skillbook.load_from_file(beside).skills()] == ["Name the country first."]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path != beside} == before


def test_a_program_that_handles_the_conflict_can_still_merge(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    Skillbook().save_to_file(path)
    runner = analyser(Skillbook.load_from_file(path))
    runner.skillbook.add_skill("geography", "Name the country first.")
    other = Skillbook.load_from_file(path)
    other.add_skill("geography", "Write the name in full.")
    other.save_to_file(path)
    with pytest.raises(SkillbookChangedError):
        runner.save(path)
    runner.save(path, merge=True)
    assert len(Skillbook.load_from_file(path)) == 2


def test_an_empty_skillbook_is_not_saved_elsewhere(tmp_path: Path) -> None:
    taught().save_to_file(tmp_path / "skills.json")
    with pytest.raises(SkillbookChangedError) as raised:
        analyser(Skillbook()).save(tmp_path / "skills.json")
    assert not hasattr(raised.value, "__notes__")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == ["skills.json"]
