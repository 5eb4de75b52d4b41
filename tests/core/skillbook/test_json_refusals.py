"""Files that are no skillbook: each is refused with file, place and reason, and left untouched."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ace.skill import InsightSource
from ace.skillbook import Skillbook, SkillbookFileError
from tests.core.skillbook.clocks import ticking


def good_text() -> str:
    book = Skillbook(clock=ticking())
    book.add_skill("a", "Grüße, 世界 🌍.", insight_source=InsightSource("t1", "Which?", 1, 1, "ace"))
    book.add_skill("b", "Two\nlines.")
    book.keep_apart("a-00001", "b-00002", similarity=0.9)
    return book.dumps()


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    data = json.loads(good_text())
    change(data)
    return json.dumps(data, indent=2).encode()


def replaced(old: str, new: str) -> bytes:
    text = good_text()
    assert old in text
    return text.replace(old, new, 1).encode("utf-8", "surrogatepass")


def skill(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["skills"]["a-00001"]
    return found


CORPUS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "line 1, column 1"),
    "cut": (good_text().encode()[:300], "not valid JSON"),
    "cut inside a character": (good_text().encode()[: good_text().encode().index(b"\xf0") + 2], "not UTF-8"),
    "text after the end": (good_text().encode() + b"{}", "Extra data"),
    "NUL bytes": (b"\x00" * 64, "line 1, column 1"),
    "NUL byte inside": (replaced("lines.", "li\x00es."), "Invalid control character"),
    "UTF-16": (good_text().encode("utf-16"), "byte 0: the file is not UTF-8"),
    "Latin-1": (good_text().replace("世界 🌍", "").encode("latin-1"), "the file is not UTF-8"),
    "raw surrogate": (replaced("lines.", "\udc80"), "the file is not UTF-8"),
    "lone surrogate": (replaced("lines.", "\\ud800"), "'content': lone surrogate at character 4"),
    "surrogates in the wrong order": (replaced("lines.", "\\udc00\\ud800"), "lone surrogate"),
    "lone surrogate in an id": (replaced('"b-00002": {', '"\\udfff": {'), "lone surrogate"),
    "deep nesting": (b'{"skills": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply nested"),
    "a number of 5,000 digits": (
        replaced('"helpful": 0', '"helpful": ' + "9" * 5000),
        "a number has too many digits",
    ),
    "a number of 40 digits": (
        changed(lambda data: skill(data).update(helpful=10**40)),
        "skills['a-00001'].helpful: must be from 0 to 9007199254740991, got 41 digits",
    ),
    "a negative number": (changed(lambda data: skill(data).update(harmful=-1)), "skills['a-00001'].harmful"),
    "a fraction": (changed(lambda data: skill(data).update(helpful=1.5)), "must be a whole number, got 1.5"),
    "infinity": (replaced('"helpful": 0', '"helpful": 1e999'), "must be a whole number, got inf"),
    "NaN": (replaced('"helpful": 0', '"helpful": NaN'), "NaN is not a JSON number"),
    "true for a number": (changed(lambda data: skill(data).update(helpful=True)), "whole number, got True"),
    "a number for a text": (changed(lambda data: skill(data).update(content=5)), "skills['a-00001'].content"),
    "an empty content": (changed(lambda data: skill(data).update(content=" ")), "must not be empty"),
    "null for a text": (changed(lambda data: skill(data).update(section=None)), "skills['a-00001'].section"),
    "an unknown status": (changed(lambda data: skill(data).update(status="gone")), "one of active, pending, invalid"),
    "a skill that is a list": (
        changed(lambda data: data["skills"].update({"a-00001": []})),
        "must be an object",
    ),
    "skills that are a text": (
        changed(lambda data: data.update(skills="x")),
        "skills: must be an object or",
    ),
    "sources that are an object": (
        changed(lambda data: skill(data).update(sources={})),
        "skills['a-00001'].sources",
    ),
    "a wrong source": (
        changed(lambda data: skill(data)["sources"][0].update(epoch="one")),
        "skills['a-00001'].sources[0].epoch",
    ),
    "an unknown field of a source": (
        changed(lambda data: skill(data)["sources"][0].update(colour="red")),
        "skills['a-00001'].sources[0].colour: unknown field",
    ),
    "an unknown field of a skill": (
        changed(lambda data: skill(data).update(colour="red")),
        "skills['a-00001'].colour: unknown field",
    ),
    "an unknown field of the book": (
        changed(lambda data: data.update(colour="red")),
        "'colour': unknown field",
    ),
    "an unknown field of a decision": (
        changed(lambda data: data["similarity_decisions"]["a-00001,b-00002"].update(colour="red")),
        "similarity_decisions['a-00001,b-00002'].colour: unknown field",
    ),
    "a missing section": (changed(lambda data: skill(data).pop("section")), "this field is missing"),
    "a missing content": (changed(lambda data: skill(data).pop("content")), "skills['a-00001'].content"),
    "an id twice": (replaced('"b-00002": {', '"a-00001": {'), "key 'a-00001': this key appears twice"),
    "a field twice": (
        replaced('"helpful": 0', '"helpful": 0, "helpful" : 5'),
        "key 'helpful': this key appears twice",
    ),
    "another id inside": (
        changed(lambda data: skill(data).update(id="x-1")),
        "the field id has a different value: 'x-1'",
    ),
    "an id listed twice": (
        changed(lambda data: data["sections"]["a"].append("a-00001")),
        "sections['a']: 'a-00001' is listed twice",
    ),
    "an id listed under a wrong section": (
        changed(lambda data: data.update(sections={"a": [], "b": ["a-00001", "b-00002"]})),
        "'a-00001' is in section 'a'",
    ),
    "an id listed and not there": (
        changed(lambda data: data["sections"]["a"].append("x-1")),
        "no such skill: 'x-1'",
    ),
    "an id not listed": (changed(lambda data: data["sections"].pop("a")), "'a-00001' is missing from all lists"),
    "sections that are a list": (
        changed(lambda data: data.update(sections=[])),
        "sections: must be an object",
    ),
    "a counter that is a text": (
        changed(lambda data: data.update(next_id="3")),
        "next_id: must be a whole number",
    ),
    "a huge counter": (changed(lambda data: data.update(next_id=10**18)), "next_id: must be from 0"),
    "a decision about one": (
        changed(lambda data: data.update(similarity_decisions={"a-00001": {}})),
        "the key must be two ids",
    ),
    "a list": (b"[]", "a skillbook is a JSON object, not []"),
    "another JSON file": (b'{"name": "package"}', "the object 'skills' is missing"),
    "a newer version": (changed(lambda data: data.update(schema_version=2)), "version 2"),
    "a version that is null": (changed(lambda data: data.update(schema_version=None)), "schema_version"),
}


@pytest.mark.parametrize("name", CORPUS)
def test_a_malformed_file_is_refused_and_left_alone(name: str, tmp_path: Path) -> None:
    data, reason = CORPUS[name]
    path = tmp_path / "book.json"
    path.write_bytes(data)
    with pytest.raises(SkillbookFileError) as caught:
        Skillbook.load_from_file(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    with pytest.raises(SkillbookFileError):
        Skillbook.open(path)
    book = Skillbook(clock=ticking())
    book.add_skill("a", "Mine.")
    for merge in (False, True):
        with pytest.raises(SkillbookFileError):
            book.save_to_file(path, merge=merge)
    assert path.read_bytes() == data
    assert [file.name for file in tmp_path.iterdir()] == ["book.json"]


def test_the_good_text_is_good() -> None:
    assert Skillbook.loads(good_text()).dumps() == good_text()
    assert json.dumps(json.loads(good_text()), indent=2, ensure_ascii=False) + "\n" == good_text()
    assert Skillbook.from_dict(json.loads(good_text())).dumps() == good_text()


def test_a_dict_is_checked_like_a_file_and_not_taken_over() -> None:
    data = json.loads(good_text())
    Skillbook.from_dict(data)
    assert data == json.loads(good_text())
    data["skills"]["a-00001"]["helpful"] = float("nan")
    with pytest.raises(SkillbookFileError, match="NaN"):
        Skillbook.from_dict(data)
    with pytest.raises(SkillbookFileError, match="not JSON-serializable"):
        Skillbook.from_dict({"skills": {1, 2}})


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such skillbook: '.*gone\.json'"):
        Skillbook.load_from_file(tmp_path / "gone.json")


@pytest.mark.parametrize("name", ["skills.json", "skills.md"])
def test_what_is_no_file_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    folder, pipe, device = (tmp_path / kind / name for kind in ("folder", "pipe", "device"))
    for path in (folder, pipe, device):
        path.parent.mkdir()
    folder.mkdir()
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path, what in ((folder, "a folder"), (pipe, "a device or a pipe"), (device, "a device or a pipe")):
        with pytest.raises(SkillbookFileError, match=f"{re.escape(str(path))}: this is {what}; a skillbook is a file"):
            Skillbook.load_from_file(path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root cannot write")
def test_a_folder_that_takes_no_file_is_told_with_the_name_of_the_file() -> None:
    with pytest.raises(OSError, match=r"'/proc/skills\.json'$"):
        Skillbook().save_to_file("/proc/skills.json")


def test_a_folder_is_not_saved_over(tmp_path: Path) -> None:
    (tmp_path / "skills.json").mkdir()
    with pytest.raises(SkillbookFileError, match="this is a folder"):
        Skillbook().save_to_file(tmp_path / "skills.json")


def test_hand_edited_files_are_read(tmp_path: Path) -> None:
    data = json.loads(good_text())
    for fields in data["skills"].values():
        for name in ("id", "helpful", "status", "sources", "created_at"):
            del fields[name]
    del data["sections"], data["similarity_decisions"]
    path = tmp_path / "book.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(data, ensure_ascii=False, indent="\t").encode())
    book = Skillbook.load_from_file(path)
    assert [(skill.id, skill.helpful) for skill in book] == [("a-00001", 0), ("b-00002", 0)]
