"""The steps that read and write files."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.skillbook import Skillbook, SkillbookChangedError
from ace.steps import ExportSkillbookMarkdownStep, LoadTracesStep, PersistStep, SaveSkillbookStep


def book() -> Skillbook:
    found = Skillbook()
    found.add_skill("geography", "Name the country before the city: Zürich, 東京.")
    return found


def context(skillbook: Skillbook) -> ACEStepContext:
    return ACEStepContext(skillbook=SkillbookView(skillbook))


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_persist_changes_only_its_block(name: str, newline: bytes, tmp_path: Path) -> None:
    target = tmp_path / name
    before = newline.join([b"# Rules", b"", b"Be kind. \xff\xfe", b"\ttabs  "])
    target.write_bytes(before)
    skillbook = book()
    step = PersistStep(target, skillbook)
    step(context(skillbook))
    first = target.read_bytes()
    assert first.startswith(before)
    assert skillbook.skills()[0].content.encode() in first
    target.write_bytes(first + b"after" + newline + b"the block")
    skillbook.add_skill("maths", "Check the units.")
    step(context(skillbook))
    second = target.read_bytes()
    assert second.startswith(before)
    assert second.endswith(b"after" + newline + b"the block")
    assert b"Check the units." in second
    assert second.count(b"ace:skills begin") == second.count(b"ace:skills end") == 1
    assert (second.count(b"\r\n") == second.count(b"\n")) is (newline == b"\r\n")
    step(context(skillbook))
    assert target.read_bytes() == second


def test_a_book_that_is_slow_to_save_has_no_more_unsaved_samples_than_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("ace.steps.checkpoint.time", SimpleNamespace(monotonic=lambda: now))

    class Slow(Skillbook):
        saves = 0

        def save_to_file(self, *args: Any, **options: Any) -> None:
            nonlocal now
            self.saves += 1
            now += 0.2  # twice what counts as short; the next save is not due for ten times as long
            super().save_to_file(*args, **options)

    slow = Slow()
    step = SaveSkillbookStep(tmp_path / "book.json", slow, interval=3)
    saves = []
    for _ in range(7):
        step(context(slow))
        saves.append(slow.saves)
    assert saves == [1, 1, 1, 2, 2, 2, 3]


def test_persist_creates_the_file(tmp_path: Path) -> None:
    skillbook = book()
    PersistStep(tmp_path / "new" / "AGENTS.md", skillbook)(context(skillbook))
    assert "geography-00001" in (tmp_path / "new" / "AGENTS.md").read_text(encoding="utf-8")


def test_persist_to_json_writes_the_skillbook(tmp_path: Path) -> None:
    skillbook = book()
    step = PersistStep(tmp_path / "skills.json", skillbook)
    step(context(skillbook))
    skillbook.remove_skill("geography-00001")
    step(context(skillbook))
    assert (tmp_path / "skills.json").read_text(encoding="utf-8") == skillbook.dumps()


def test_persist_to_json_replaces_another_skillbook_only_if_told_to(tmp_path: Path) -> None:
    target = tmp_path / "skills.json"
    skillbook, other = book(), Skillbook()
    other.add_skill("maths", "Check the units.")
    other.save_to_file(target)
    with pytest.raises(SkillbookChangedError, match=r"skills\.json.*overwrite=True"):
        PersistStep(target, skillbook)
    assert target.read_text(encoding="utf-8") == other.dumps()
    for _ in range(2):
        other.save_to_file(target, overwrite=True)
        step = PersistStep(target, skillbook, overwrite=True)
        step(context(skillbook))
        assert target.read_text(encoding="utf-8") == skillbook.dumps()
    loaded = Skillbook.load_from_file(target)
    PersistStep(target, loaded)(context(loaded))


def test_persist_leaves_what_it_does_not_understand(tmp_path: Path) -> None:
    skillbook = book()
    for name, text in {"package.json": '{"name": "x"', "CLAUDE.md": "<!-- ace:skills begin -->\nno end"}.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=name):
            PersistStep(tmp_path / name, skillbook)(context(skillbook))
        assert (tmp_path / name).read_text() == text


def test_export_writes_markdown(tmp_path: Path) -> None:
    skillbook = book()
    ExportSkillbookMarkdownStep(tmp_path / "a" / "skills.md", skillbook)(context(skillbook))
    text = (tmp_path / "a" / "skills.md").read_text(encoding="utf-8")
    assert text == f"{skillbook.as_markdown()}\n"
    assert len(Skillbook.from_text(text)) == 1


def test_traces_are_read_and_bad_lines_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "runs.jsonl"
    good = [{"task": "a\u2028b"}, {"task": "ü"}, {"task": "last"}]
    lines = [json.dumps(record, ensure_ascii=False).encode() for record in good]
    bad = [b"{", b"[1]", b"null", b'"text"', b"\xff\xfe", b'{"a": ' + b"[" * 100_000]
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join([lines[0], b"", b"  \r", *bad, lines[1] + b"\r", lines[2]]))
    ctx = LoadTracesStep()(ACEStepContext(sample=str(path), metadata={"kept": 1}))  # type: ignore[arg-type]  # a dict is taken
    assert ctx.trace == good
    assert dict(ctx.metadata) == {"kept": 1, "skipped_lines": len(bad)}
    [warning] = [record.getMessage() for record in caplog.records]
    assert str(path) in warning and "6 bad lines" in warning


@pytest.mark.parametrize("exists", [False, True])
def test_a_missing_or_empty_file_gives_no_traces(exists: bool, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    if exists:
        path.touch()
    ctx = LoadTracesStep()(ACEStepContext(sample=path))
    assert (ctx.trace, ctx.metadata["skipped_lines"]) == ([], 0)
