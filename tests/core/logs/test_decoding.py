"""What is valid in a log is read, whatever else is in the file, and each kind of damage is named once."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sqlite3
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ace.logs import json_lines, json_lists, json_values
from ace.logs.decoding import NotALogError, head_of, records, text
from ace.logs.json_values import first_keys
from ace.logs.run import Problem
from ace.logs.source import file_source

DATA = Path(__file__).parent / "data"
A, B, C = ({"id": name, "messages": [{"role": "user", "content": f"Task {name}"}], "done": True} for name in "abc")
LINE_A, LINE_B, LINE_C = (json.dumps(value).encode() for value in (A, B, C))


class Read(NamedTuple):
    shape: str
    values: list[Any]
    lines: list[int]
    problems: list[str]


def read(folder: Path, data: bytes, name: str = "log.jsonl") -> Read:
    path = folder / name
    path.write_bytes(data)
    return read_path(path)


def read_path(path: Path) -> Read:
    head = head_of(path, 50)
    problems: list[Problem] = []
    found = list(records(path, path.name, head.shape, problems))
    return Read(head.shape, [record.value for record in found], [r.line for r in found], [str(p) for p in problems])


# Shapes


@pytest.mark.parametrize(
    ("data", "name", "shape"),
    [
        (LINE_A + b"\n" + LINE_B + b"\n", "x.log", "lines"),
        (LINE_A + b"\n", "x.jsonl", "lines"),
        (LINE_A, "x.json", "object"),
        (json.dumps(A, indent=2).encode(), "x.jsonl", "object"),
        (b"[" + LINE_A + b",\n" + LINE_B + b"]", "x.jsonl", "list"),
        (b"[\n" + LINE_A + b",\n" + LINE_B + b"\n]", "x", "list"),
        (b"[]", "x.json", "list"),
        (json.dumps(A, indent=2).encode() + b"\n" + json.dumps(B, indent=2).encode(), "x.jsonl", "values"),
        (LINE_A + LINE_B, "x.json", "values"),
        (b"# made by a tool\n" + LINE_A + b"\n" + LINE_B + b"\n", "x.txt", "lines"),
        (b"starting\n" + LINE_A + b"\n" + LINE_B + b"\n", "x.log", "lines"),
        (b"app-1  | " + LINE_A + b"\napp-1  | " + LINE_B + b"\n", "x.log", "lines"),
        (b"[INFO] go\n[INFO] done\n", "x.log", "text"),
        (b"[2026-01-01] go\n[2026-01-02] done\n", "x.log", "text"),
        (b"User: Two and two?\nAssistant: Five.\n", "x.txt", "text"),
        (b"Hello, world\nfoo, bar\n", "x.txt", "text"),
        (b"question,answer\n2+2?,5\n", "x.csv", "table"),
        (b"question\tanswer\n2+2?\t5\n", "x.txt", "table"),
        (b"question;answer\n2+2?;5\n", "x", "table"),
        (b"sep=|\nquestion|answer\n2+2?|5\n", "x.txt", "table"),
    ],
)
def test_the_content_decides_what_a_file_is(data: bytes, name: str, shape: str, tmp_path: Path) -> None:
    assert read(tmp_path, data, name).shape == shape


def test_a_long_first_line_is_a_line_if_another_one_follows(tmp_path: Path) -> None:
    long = json.dumps({"id": "long", "text": "x" * 600_000}).encode()
    assert read(tmp_path, long + b"\n" + LINE_A, "log").shape == "lines"
    assert read(tmp_path, long, "log").shape == "object"
    assert read(tmp_path, long + b"\n\n", "log").shape == "object"


def test_the_keys_of_a_large_object_are_known(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"tasks": ["x" * 400_000], "simulations": [{"id": 1}]}), encoding="utf-8")
    assert head_of(path, 50).keys == {"tasks", "simulations"}


def test_the_keys_of_a_large_element_are_known(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"title": "x" * 400_000, "mapping": {}}]), encoding="utf-8")
    head = head_of(path, 50)
    assert head.keys == {"title", "mapping"}
    assert len(head.records) == 1


def test_the_keys_of_a_cut_object_are_known_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b'{"id": 1, "messages": [{"role": "us')
    assert head_of(path, 50).keys == {"id", "messages"}


def test_the_head_has_some_records_and_not_all(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes((LINE_A + b"\n") * 60)
    assert len(head_of(path, 50).records) == 50
    path.write_bytes((json.dumps({"text": "x" * 100_000}).encode() + b"\n") * 60)
    assert 1 <= len(head_of(path, 50).records) < 10


# Files that are no text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\x00" * 20, "an image"),
        (b"%PDF-1.7 text", "a PDF document"),
        (b"PAR1" + b"\x15\x04" * 9, "Parquet"),
        (b"\n<!DOCTYPE html><html></html>", "an HTML page"),
        (b"\x00\x01\x02\x03\x04\x05" * 90 + b"text", "binary data"),
        (os.urandom(5000), "binary data"),
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"\x00" * 100, "empty"),
        (b"PK\x03\x04 and no archive", "damaged or cut off"),
        (b"SQLite format 3\x00 and no database", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_a_log_is_refused_with_the_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(NotALogError, match=reason):
        head_of(path, 50)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotALogError, match="not a regular file"):
        head_of(tmp_path / "pipe", 50)


def test_the_tables_of_a_database_are_its_names(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE message (id)")
    connection.close()
    head = head_of(path, 50)
    assert (head.shape, head.names) == ("sqlite", ["message"])
    assert [child.name for child in tmp_path.iterdir()] == ["x.db"]


def test_the_members_of_an_archive_are_its_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.eval", "w") as archive:
        archive.writestr("header.json", "{}")
    head = head_of(tmp_path / "x.eval", 50)
    assert (head.shape, head.names) == ("zip", ["header.json"])


def test_the_names_in_a_folder_are_its_names(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    head = head_of(tmp_path, 50)
    assert (head.shape, head.names) == ("folder", ["a", "b"])


# Compression


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bz2", "xz"])
def test_a_compressed_log_is_read(packed: Any, tmp_path: Path) -> None:
    found = read(tmp_path, packed(LINE_A + b"\n"), "log.jsonl.gz")
    assert (found.shape, found.values, found.problems) == ("lines", [A], [])


def test_a_cut_archive_is_read_up_to_its_end(tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"id": os.urandom(50).hex()}).encode() + b"\n" for _ in range(9000))
    found = read(tmp_path, gzip.compress(lines)[:-200_000], "log.jsonl.gz")
    assert found.values == [json.loads(line) for line in lines.splitlines()[: len(found.values)]]
    assert 100 < len(found.values) < 9000
    assert "log.jsonl.gz: the compressed data is damaged or cut off; what comes before was read" in found.problems


def test_what_cannot_be_unpacked_says_how_to_do_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"\x00" * 20)
    monkeypatch.setattr("importlib.import_module", lambda name: exec("raise ImportError"))
    with pytest.raises(NotALogError, match=r"compressed; unpack it first: zstd -d rollout\.jsonl\.zst"):
        head_of(path, 50)


# Encodings


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_of_another_encoding_is_read(encoding: str, end: str, tmp_path: Path) -> None:
    values = [{"question": "Größe?", "answer": "5 €"}, A]
    data = "".join(json.dumps(value, ensure_ascii=False) + end for value in values).encode(encoding)
    assert read(tmp_path, data) == ("lines", values, [1, 2], [])
    data = json.dumps(values, ensure_ascii=False).encode(encoding)
    assert read(tmp_path, data).values == values


@pytest.mark.parametrize("before", ["", "[", '{"a": 1}\n'])
def test_bytes_that_are_not_utf_8_are_read_as_windows_1252_and_named(before: str, tmp_path: Path) -> None:
    end = "]" if before == "[" else ""
    data = (before + '{"answer": "5 € für 3 Tage"}' + end).encode("cp1252")
    found = read(tmp_path, data)
    assert found.values[-1] == {"answer": "5 € für 3 Tage"}
    assert [problem.partition("; ")[0].partition(": ")[2] for problem in found.problems] == [
        "bytes that are not UTF-8 are read as Windows-1252"
    ]


def test_characters_are_whole_where_a_part_of_the_file_ends(tmp_path: Path) -> None:
    values = [{"text": "€" * 10} for _ in range(30_000)]
    assert read(tmp_path, json.dumps(values, ensure_ascii=False).encode()).values == values


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    data = b'{"a": "cut \\ud83d", "\\uDE00": ["\\ud83d\\ude00"]}'
    for name, text_of_file in {"x.jsonl": data, "x.json": b"[" + data + b"]"}.items():
        found = read(tmp_path, text_of_file, name)
        assert found.values == [{"a": "cut \ufffd", "\ufffd": ["\U0001f600"]}]
        assert not found.problems


# Lines


def test_what_only_python_accepts_as_json_is_read(tmp_path: Path) -> None:
    data = b'{"a": NaN, "b": -Infinity, "c": 123456789012345678901234567890, "a": 1.5}\n' + LINE_A
    found = read(tmp_path, data)
    assert found.values[0] == {"a": 1.5, "b": float("-inf"), "c": 123456789012345678901234567890}
    assert not found.problems


def test_a_number_of_too_many_digits_is_read_as_a_float(tmp_path: Path) -> None:
    for name in ("x.jsonl", "x.json"):
        assert read(tmp_path, b'[{"n": ' + b"9" * 5000 + b"}]", name).values == [{"n": float("inf")}]


@pytest.mark.parametrize(
    ("damaged", "values", "problems"),
    [
        pytest.param(LINE_B + b"\x00" * 9000, [B], ["value"], id="NUL bytes after a record"),
        pytest.param(b"\x00" * 9000 + LINE_B, [B], ["value"], id="NUL bytes before a record"),
        pytest.param(LINE_B[:20] + b"\x00\x00" + LINE_B[20:], [B], ["value"], id="NUL bytes in a record"),
        pytest.param(b"\x00" * 90, [], [], id="nothing but NUL bytes"),
        pytest.param(b'{"a": "x\x07\x1b[1my"}', [{"a": "x\x07\x1b[1my"}], ["value"], id="control characters"),
        pytest.param(LINE_B + LINE_C, [B, C], ["value"], id="two records"),
        pytest.param(LINE_B + b"  " + LINE_C, [B, C], ["value"], id="two records with blanks"),
        pytest.param(LINE_B + b",", [B], [], id="a comma after a record"),
        pytest.param(b"\x1e" + LINE_B, [B], [], id="a record separator"),
        pytest.param(LINE_B[:-1], [], ["lost"], id="cut after a part"),
        pytest.param(LINE_B[:-20], [], ["lost"], id="cut in a string"),
        pytest.param(LINE_B[:30] + LINE_C, [C], ["lost", "value"], id="torn before a whole one"),
        pytest.param(LINE_B[: LINE_B.index(b"[")] + LINE_C, [C], ["lost", "value"], id="torn where a value may begin"),
        pytest.param(LINE_B[30:], [], ["not JSON"], id="the end of a record"),
        pytest.param(LINE_B + LINE_C[:30], [B], ["lost", "value"], id="torn after a whole one"),
        pytest.param(b"2026-01-01 INFO " + LINE_B, [B], ["value"], id="a time before a record"),
        pytest.param(b"npm warn deprecated", [], ["not JSON"], id="a line of a log"),
        pytest.param(b"# comment", [], [], id="a comment"),
        pytest.param(b"// comment", [], [], id="another comment"),
        pytest.param(b"  \t ", [], [], id="blanks"),
        pytest.param(b"[" * 100_000, [], ["deeply"], id="opening brackets"),
        pytest.param(b'{"a":' * 600 + b"1" + b"}" * 600, [], ["deeply"], id="many levels"),
        pytest.param(json.dumps(B, indent=2).encode(), [B], [], id="a pretty-printed record"),
        pytest.param(b'{"a": "x\ny\n\nz"}', [{"a": "x\ny\n\nz"}], [], id="raw line breaks"),
    ],
)
def test_the_lines_around_a_damaged_one_are_read(
    damaged: bytes, values: list[object], problems: list[str], tmp_path: Path
) -> None:
    found = read(tmp_path, b"\n".join([LINE_A, damaged, LINE_A]))
    assert found.shape == "lines"
    assert found.values == [A, *values, A]
    assert found.lines == [1, *(2 for _ in values), 3 + damaged.count(b"\n")]
    assert len(found.problems) == len(problems)
    for problem, word in zip(found.problems, problems, strict=True):
        assert problem.startswith("log.jsonl, line 2: ")
        assert word in problem


@pytest.mark.parametrize(
    "torn",
    [
        b'{"id":"x","mess\n ages":"14"}],"done":true}}]}',
        b'{"id":"x","at":"10:\n"\n,"done":true}}, "b": 1}\n{"id"\nnote',
    ],
)
def test_torn_lines_that_are_an_object_together_do_not_hide_the_lines_after_them(tmp_path: Path, torn: bytes) -> None:
    found = read(tmp_path, b"\n".join([torn, LINE_A, LINE_B, LINE_C]))

    assert found.shape == "lines"
    assert found.values == [A, B, C]


def test_a_record_between_a_torn_one_and_a_stray_mark_is_read(tmp_path: Path) -> None:
    torn = b'{"id":"x","mess\nages":"14","done":true}'

    found = read(tmp_path, b"\n".join([torn, LINE_A, LINE_A[:-30], LINE_B, b'"', b'{"id', LINE_C]))

    assert [value for value in found.values if value in (A, B, C)] == [A, B, C]


def test_parts_of_a_torn_record_are_not_records(tmp_path: Path) -> None:
    for end in range(1, len(LINE_B) - 1):
        assert read(tmp_path, LINE_A + b"\n" + LINE_B[:end] + b"\n" + LINE_A).values == [A, A]


def test_a_kind_of_damage_is_named_once(tmp_path: Path) -> None:
    found = read(tmp_path, b"\n".join([LINE_A, b"one", LINE_A[:-5], b"two", LINE_B, LINE_A[:-7], b"three"]))
    assert found.problems == [
        "log.jsonl, line 2: 3 lines that are not JSON are skipped, the first here",
        "log.jsonl, line 3: 2 damaged records are lost, the first here",
    ]


def test_reading_twice_names_damage_once(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(LINE_A + b"\nnoise\n" + LINE_B)
    source = file_source(tmp_path / "log.jsonl")
    assert [len(list(source.records())) for _ in range(2)] == [2, 2]
    assert [problem.line for problem in source.problems] == [2]


def test_many_damaged_lines_are_not_read_ahead_again_and_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoded: list[int] = []
    decode = json_values.decode

    def counted(text: str, at: int) -> tuple[Any, int]:
        decoded.append(len(text))
        return decode(text, at)

    monkeypatch.setattr(json_lines, "decode", counted)
    data = LINE_A + b"\n" + b'{"torn": "' + b"x" * 90 + b"\n"
    lines = b'{"torn": "' + b"x" * 90 + b"\n"
    found = read(tmp_path, data + lines * 20_000)
    assert found.values == [A]
    assert sum(decoded) < 10 * 20_000 * len(lines)


def test_a_record_that_is_too_large_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(json_lines, "LARGEST_VALUE", 1_000_000)
    monkeypatch.setattr(json_lists, "LARGEST_VALUE", 1_000_000)
    large = json.dumps({"id": "x" * 3_000_000}).encode()
    for data in (b"\n".join([LINE_A, large, LINE_B]), b"[" + b",\n".join([LINE_A, large, LINE_B]) + b"]"):
        found = read(tmp_path, data)
        assert found.values == [A, B]
        assert found.problems == [
            "log.jsonl, line 2: a record larger than 256 MB is skipped; split it, for example with jq"
        ]


# Lists, values in a row, objects


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda piece: piece[: len(piece) // 2], id="torn"),
        pytest.param(lambda piece: piece.replace(b'"role"', b"role"), id="a part damaged"),
        pytest.param(lambda piece: piece.replace(b'"done"', b'"done'), id="a quotation mark is missing"),
        pytest.param(lambda piece: piece[:-1], id="not closed"),
        pytest.param(lambda piece: piece[1:], id="not opened"),
        pytest.param(lambda piece: b"", id="missing"),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_elements_around_a_damaged_one_are_read(damage: Any, at: int, indent: int | None, tmp_path: Path) -> None:
    values = [A, B, C, A]
    pieces = [json.dumps(value, indent=indent).encode() for value in values]
    pieces[at] = damage(pieces[at])
    between = b"," if indent is None else b",\n"
    found = read(tmp_path, b"[" + b"\n" * bool(indent) + between.join(pieces) + b"\n]", "log.json")
    assert found.values == values[:at] + values[at + 1 :]
    assert all("lost" in problem or "cut off" in problem for problem in found.problems)
    assert bool(found.problems) == bool(pieces[at])


def test_a_list_is_read_up_to_where_it_is_cut(tmp_path: Path) -> None:
    found = read(tmp_path, b"[" + LINE_A + b",\n" + LINE_B + b",\n" + LINE_C[:30], "log.json")
    assert found.values == [A, B]
    assert found.problems == [
        "log.json, line 3: a damaged record is lost",
        "log.json, line 3: the list is cut off at its end",
    ]
    assert read(tmp_path, b"[" + LINE_A + b",\n" + LINE_B, "log.json").problems == [
        "log.json, line 2: the list is cut off at its end"
    ]


def test_elements_of_any_kind_are_read_with_their_lines(tmp_path: Path) -> None:
    found = read(tmp_path, b'[\n{"a": 1},\n\n[1, [2]],\n"text",\n12345\n, null]', "log.json")
    assert found.values == [{"a": 1}, [1, [2]], "text", 12345, None]
    assert found.lines == [2, 4, 5, 6, 7]
    assert not found.problems


def test_a_large_list_is_read_through_a_window(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes: list[int] = []
    more = json_lists._Window.more

    def measured(window: Any) -> bool:
        is_more = more(window)
        sizes.append(len(window.text))
        return is_more

    monkeypatch.setattr(json_lists._Window, "more", measured)
    values = [{"n": number, "text": "x" * 1000} for number in range(5000)]
    assert read(tmp_path, json.dumps(values).encode(), "log.json").values == values
    assert max(sizes) < 600_000


def test_values_in_a_row_are_read(tmp_path: Path) -> None:
    pretty = [json.dumps(value, indent=2).encode() for value in (A, B, C)]
    assert read(tmp_path, b"\n".join(pretty)) == ("values", [A, B, C], [1, 11, 21], [])
    assert read(tmp_path, LINE_A + LINE_B + LINE_C, "log.json") == ("values", [A, B, C], [1, 1, 1], [])
    pretty[1] = pretty[1][:60]
    assert read(tmp_path, b"\n".join(pretty)).values == [A, C]
    pretty = [pretty[0][:60], pretty[2], pretty[2]]
    assert read(tmp_path, b"\n".join(pretty)).values == [C, C]


def test_large_values_in_a_row_are_read(tmp_path: Path) -> None:
    large = {"id": "x", "messages": [{"content": "x" * 1000}] * 500}
    data = json.dumps(large, indent=1).encode() + b"\n" + json.dumps(A, indent=1).encode()
    assert read(tmp_path, data, "log.json")[:2] == ("values", [large, A])


@pytest.mark.parametrize("indent", [None, 2])
def test_no_part_of_a_damaged_object_is_a_record(indent: int | None, tmp_path: Path) -> None:
    whole = json.dumps({"results": [{"id": 1, "q": "x"}, {"id": 2, "q": {"y": "z"}}], "n": 1}, indent=indent).encode()
    for end in range(2, len(whole) - 1):
        found = read(tmp_path, whole[:end], "log.json")
        assert (found.values, found.problems) == ([], ["log.json, line 1: a damaged record is lost"])


def test_a_whole_object_is_parsed_once_for_the_head_and_the_records(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(LINE_A)
    source = file_source(tmp_path / "x.json")
    assert next(source.records()).value is source.head.records[0]


# Tables


def test_the_rows_of_a_table_are_read_as_texts(tmp_path: Path) -> None:
    data = b'id,question,steps,note\r\n1,"2,\r\n2?","[{""a"": 1}]",\r\n\r\n02,"He said ""x""",{broken,[1] x\r\n'
    found = read(tmp_path, data, "log.csv")
    assert found.values == [
        {"id": "1", "question": "2,\r\n2?", "steps": [{"a": 1}], "note": ""},
        {"id": "02", "question": 'He said "x"', "steps": "{broken", "note": "[1] x"},
    ]
    assert found.lines == [2, 5]
    assert not found.problems


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_by_which_rows_agree(delimiter: str, tmp_path: Path) -> None:
    rows = [["question", "answer", "rating"], ["a, b; c?", "x", "1"], ["d", "y, z, w; v", "0"]]
    buffer = io.StringIO()
    buffer.writelines(delimiter.join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    found = read(tmp_path, buffer.getvalue().encode(), "log.csv")
    assert found.values == [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def test_a_line_of_excel_names_the_delimiter(tmp_path: Path) -> None:
    data = "sep=;\r\nFrage;Antwort\r\nWie groß, bitte?;3,5\r\n".encode("utf-16")
    found = read(tmp_path, data, "log.csv")
    assert (found.values, found.lines) == ([{"Frage": "Wie groß, bitte?", "Antwort": "3,5"}], [3])


@pytest.mark.parametrize("bad", [b"only one", b"1,2,3", b'"never closed,x', b'"a"b,c'])
def test_the_rows_around_a_bad_one_are_read(bad: bytes, tmp_path: Path) -> None:
    found = read(tmp_path, b"q,a\n1,2\n" + bad + b"\n3,4\n5,6\n", "log.csv")
    assert found.values == [{"q": "1", "a": "2"}, {"q": "3", "a": "4"}, {"q": "5", "a": "6"}]
    assert found.lines == [2, 4, 5]
    assert found.problems == ["log.csv, line 3: a row that does not fit the header is skipped"]


def test_empty_cells_that_fill_up_a_row_are_ignored(tmp_path: Path) -> None:
    assert read(tmp_path, b"q,a\n1,2,,\n", "log.csv").values == [{"q": "1", "a": "2"}]


def test_the_columns_of_a_table_have_different_names(tmp_path: Path) -> None:
    [value] = read(tmp_path, b"q, ,q\n1,2,3\n", "log.csv").values
    assert value == {"q": "1", "column 2": "2", "q (column 3)": "3"}


# Text


def test_a_text_is_decoded_as_a_whole(tmp_path: Path) -> None:
    problems: list[Problem] = []
    (tmp_path / "x.md").write_bytes("# Größe\r\n\x00done".encode("cp1252"))
    assert text(tmp_path / "x.md", "x.md", problems) == "# Größe\ndone"
    assert [problem.line for problem in problems] == [1]


def test_first_keys_of_what_is_no_object() -> None:
    assert first_keys("[1]") == first_keys("") == first_keys("{") == first_keys("{,:") == []


@pytest.mark.parametrize(
    "path", sorted(path for path in DATA.rglob("*.json*")), ids=lambda path: str(path.relative_to(DATA))
)
def test_the_sample_files_are_read_without_loss(path: Path) -> None:
    found = read_path(path)
    assert found.values
    assert not [problem for problem in found.problems if "lost" in problem or "skipped" in problem]


@pytest.mark.parametrize(
    "opening", ['{\n  "messages": [\n', '{"id": 1, "messages": [\n', '{\n "id": 1,\n "messages": [\n']
)
@pytest.mark.parametrize("count", [3, 5000])
def test_an_object_whose_inner_objects_are_lines_is_one_object(opening: str, count: int, tmp_path: Path) -> None:
    message = json.dumps({"role": "user", "content": "word " * 20})
    path = tmp_path / "chat.json"
    path.write_text(opening + ",\n".join(f"    {message}" for _ in range(count)) + "\n  ]\n}\n", encoding="utf-8")
    source = file_source(path)
    [record] = source.records()
    assert (source.shape, len(record.value["messages"]), source.problems) == ("object", count, [])
