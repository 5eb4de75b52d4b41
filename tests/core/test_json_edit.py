"""A member of ours in the configuration file of another program."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace._internal.json_edit import (
    InsertedMember,
    JsonTextError,
    check_json,
    insert_member,
    remove_member,
    string_at,
    value_at,
)
from tests.support.json_texts import COMMENTED_TEXTS, JSON_TEXTS

PATH = ("servers", "ours", "ace")
ENTRY = {"command": "/opt/ace venv/bin/python", "args": ["-m", 'a "quoted" name'], "env": {}}


def parsed(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"))


@given(JSON_TEXTS)
def test_a_member_comes_out_of_any_json_again(text: str) -> None:
    changed, inserted = insert_member(text, PATH, ENTRY)
    check_json(changed)
    wanted = parsed(text)
    wanted.setdefault("servers", {}).setdefault("ours", {})["ace"] = ENTRY
    assert parsed(changed) == wanted
    assert inserted.value == ENTRY
    assert remove_member(changed, PATH, inserted) == text


@given(COMMENTED_TEXTS)
def test_a_member_comes_out_of_any_json_with_comments_again(text: str) -> None:
    check_json(text, comments=True)
    changed, inserted = insert_member(text, PATH, ENTRY)
    check_json(changed, comments=True)
    assert json.loads(value_at(changed, PATH) or "") == ENTRY
    assert remove_member(changed, PATH, inserted) == text


@given(JSON_TEXTS, st.sampled_from([None, 2, 4, "\t"]), st.booleans())
def test_it_comes_out_of_a_text_that_was_written_anew(text: str, indent: int | str | None, other: bool) -> None:
    changed, inserted = insert_member(text, PATH, ENTRY)
    data, wanted = parsed(changed), parsed(text)
    if other:
        data = {"first": 0, **data, "last": 1}
        data["servers"]["theirs"] = wanted.setdefault("servers", {})["theirs"] = {"command": "x"}
        wanted |= {"first": 0, "last": 1}
    anew = json.dumps(data, indent=indent)
    assert parsed(remove_member(anew, PATH, inserted)) == wanted


@given(COMMENTED_TEXTS)
def test_an_edited_entry_comes_out_without_a_trace(text: str) -> None:
    changed, inserted = insert_member(text, PATH, ENTRY)
    edited = changed.replace('"env": {}', '"env": {"EDITED": "1"}')
    assert edited != changed
    assert remove_member(edited, PATH, inserted) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// first", "// the first, edited"),
        ('"a": 1', '"z": 0, "a": 1'),
        ("\n  }\n}\n", '\n  },\n  "last": true\n}\n'),
        ('"x": {}', '"x": {"command": "y"}'),
    ],
)
def test_what_the_user_edited_elsewhere_stays(old: str, new: str) -> None:
    text = '{\n  "a": 1, // first\n  "servers": {\n    "x": {} // theirs\n  }\n}\n'
    changed, inserted = insert_member(text, ("servers", "ace"), ENTRY)
    edited = changed.replace(old, new)
    assert edited != changed
    assert remove_member(edited, ("servers", "ace"), inserted) == text.replace(old, new) != text


def test_members_and_commas_that_were_added_after_ours_stay() -> None:
    text = '{\n  "a": 1\n}'
    changed, inserted = insert_member(text, ("ace",), 2)
    assert changed == '{\n  "a": 1,\n  "ace": 2\n}'
    assert remove_member(changed.replace("2\n", '2,\n  "b": 3\n'), ("ace",), inserted) == '{\n  "a": 1,\n  "b": 3\n}'
    assert remove_member(changed.replace('"a": 1,\n', ""), ("ace",), inserted) == "{\n}"
    changed, inserted = insert_member("{}", ("ace",), 2)
    before = changed.replace('"ace"', '"b": 3, // theirs\n  "ace"')
    assert remove_member(before, ("ace",), inserted) == '{\n  "b": 3 // theirs\n}'
    commented = changed.replace('"ace"', '// "theirs"\n  "ace"')
    assert remove_member(commented, ("ace",), inserted) == '{\n  // "theirs"\n}'
    commented = changed.replace('"ace": 2\n', '// "theirs"\n"ace":2').replace("2}", "2 }")
    assert remove_member(commented, ("ace",), inserted) == '{\n  // "theirs"\n }'


def test_an_object_that_we_made_stays_if_it_holds_something_else() -> None:
    changed, inserted = insert_member("{}\n", ("servers", "ace"), 1)
    assert changed == '{\n  "servers": {\n    "ace": 1\n  }\n}\n'
    commented = changed.replace('"ace"', '// mine\n    "ace"')
    assert remove_member(commented, ("servers", "ace"), inserted) == '{\n  "servers": {\n    // mine\n  }\n}\n'


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{}", '{\n  "n": {\n    "ace": 1\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "n": {"ace": 1}}'),
        ('{"n": {}}', '{"n": {"ace": 1}}'),
        ('{\r\n\t"n": {\r\n\t}\r\n}', '{\r\n\t"n": {\r\n\t\t"ace": 1\r\n\t}\r\n}'),
        ('{\n    "n": {}\n}', '{\n    "n": {\n        "ace": 1\n    }\n}'),
        ('{\n  "a": 1, // one\n}', '{\n  "a": 1, // one\n  "n": {\n    "ace": 1\n  }\n}'),
        ('{"n": {"b": 2 /* two */ }}', '{"n": {"b": 2, /* two */ "ace": 1 }}'),
        ('{"n": 1, "\\u006e": {}}', '{"n": 1, "\\u006e": {"ace": 1}}'),
    ],
)
def test_a_member_is_laid_out_like_the_rest(text: str, changed: str) -> None:
    found, inserted = insert_member(text, ("n", "ace"), 1)
    assert found == changed
    assert remove_member(found, ("n", "ace"), inserted) == text


def test_what_an_earlier_release_inserted_after_the_brace_comes_out() -> None:
    text = '{"plugins": {"entries": {"b": {}}, "x": [1, {"y": "}"}]}, /* {*/ }'
    entry = InsertedMember(' "ace": {"enabled": true},', 0)
    changed = text.replace('"entries": {', '"entries": { "ace": {"enabled": true},')
    assert entry.value == {"enabled": True}
    assert remove_member(changed, ("plugins", "entries", "ace"), entry) == text


def test_json5_is_read() -> None:
    text = "// mine\n{a: 'it\\'s', \"b\": {c: .5, d: +1,},}"
    assert string_at(text, ("a",)) == "it\\'s"
    assert string_at(text, ("b",)) == string_at(text, ("c",)) == ""
    changed, inserted = insert_member(text, ("b", "ace"), 1)
    assert value_at(changed, ("b", "ace")) == "1"
    assert remove_member(changed, ("b", "ace"), inserted) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("[]", 1),
        ("{a}", 1),
        ("{a: 1\nb: 2}", 2),
        ("{a: {", 1),
        ("{a: ,}", 1),
        ("{\n  a: 1,\n  : 2}", 3),
        ("{a: ]}", 1),
        ("{}\n{}", 2),
        ('{"n": []}', 1),
        ('{\n"n": {"ace": 1}}', 2),
    ],
)
def test_what_is_not_an_object_is_rejected_with_its_line(text: str, line: int) -> None:
    with pytest.raises(JsonTextError) as caught:
        insert_member(text, ("n", "ace"), 1)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}, column ")


@pytest.mark.parametrize(
    ("text", "line", "comments"),
    [
        ('{\n  "a": 1,\n  2\n}', 3, False),
        ('{\n  // note\n  "a": 1}', 2, False),
        ('{"b": "NaN",\n"a": NaN}', 2, True),
        ('{\n"a": "tab\t"}', 2, True),
        ("{\n  /* never closed\n}", 2, True),
        ('// "only"\n[1]', 2, True),
        ('{"a": 1}\n}', 2, True),
        ('{"a": ' + "[" * 200_000, 1, True),
    ],
)
def test_broken_json_is_rejected_with_its_line(text: str, line: int, comments: bool) -> None:
    with pytest.raises(JsonTextError) as caught:
        check_json(text, comments=comments)
    assert caught.value.line == line


def test_numbers_of_any_length_are_json() -> None:
    check_json('{"a": ' + "9" * 10_000 + "}")
