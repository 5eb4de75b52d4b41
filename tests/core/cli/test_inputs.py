"""What is found in files, folders, globs and standard input, and what is reported instead."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ace import read_trace
from ace.cli.errors import UsageError
from ace.cli.inputs import ChangedRecordError, GatheredTraces, StoredRecord, gather_traces, readable_records
from ace.protocols.trace_converters import TraceConverter, register_trace_converter, unregister_trace_converter
from tests.support.subprocesses import run_python
from tests.support.users import ordinary_user

MESSAGES = [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]
ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "Look it up."}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "x"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "found"}]},
]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, content: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def lines(records: Sequence[object]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def records(gathered: GatheredTraces) -> list[tuple[str, object]]:
    found = []
    for trace in gathered.traces:
        assert isinstance(trace.record, StoredRecord)
        found.append((trace.place, trace.record.load()))
    return found


def problems(gathered: GatheredTraces) -> dict[str, str]:
    return {problem.place: problem.reason for problem in gathered.problems}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", lines([{"task": "1"}, MESSAGES]), [("a.jsonl#1", {"task": "1"}), ("a.jsonl#2", MESSAGES)]),
        ("no_suffix", lines([{"task": "1"}, MESSAGES]), [("no_suffix#1", {"task": "1"}), ("no_suffix#2", MESSAGES)]),
        ("one.jsonl", '{"task": "1"}', [("one.jsonl#1", {"task": "1"})]),
        ("mark.jsonl", b"\xef\xbb\xbf" + lines([{"task": "1"}]).encode(), [("mark.jsonl#1", {"task": "1"})]),
        ("separator.jsonl", '{"task": "a\u2028b"}\n', [("separator.jsonl#1", {"task": "a\u2028b"})]),
        ("windows.jsonl", '{"task": "1"}\r\n\r\n{"task": "2"}\r\n', None),
        ("object.json", json.dumps({"task": "1"}, indent=2), [("object.json", {"task": "1"})]),
        ("list.json", json.dumps([{"task": "ä"}, {"task": "2"}], indent=1, ensure_ascii=False), None),
        ("chat.json", json.dumps(MESSAGES), [("chat.json", MESSAGES)]),
        ("chat.log", lines(MESSAGES), [("chat.log", MESSAGES)]),
        ("anthropic.json", json.dumps({"messages": ANTHROPIC}), [("anthropic.json", {"messages": ANTHROPIC})]),
        ("chats.jsonl", lines([{"messages": MESSAGES}, {"messages": ANTHROPIC}]), None),
        ("note.txt", "It went wrong.\n", [("note.txt", "It went wrong.\n")]),
        ("server.log", "[2026-01-01] started\n[INFO] done\n", [("server.log", "[2026-01-01] started\n[INFO] done\n")]),
        ("wide.txt", "Grüße".encode("utf-16"), [("wide.txt", "Grüße")]),
    ],
)
def test_a_file_is_recognised_by_its_content(
    name: str, content: str | bytes, expected: list[tuple[str, object]] | None
) -> None:
    write(name, content)
    with gather_traces([name]) as gathered:
        assert gathered.problems == []
        found = records(gathered)
    assert found == expected if expected is not None else len(found) == 2


TRACES = [{"task": str(number), "answer": "Four. " * 20} for number in range(12)]
LOG_LINES = [f"2026-01-01 12:00:{number:02} worker {number} has started" for number in range(20)]
COMMENTS = [f"# {line}" for line in LOG_LINES]


@pytest.mark.parametrize(
    ("name", "before", "traces"),
    [
        ("few.log", COMMENTS, TRACES[:2]),
        ("many.log", COMMENTS, TRACES),
        ("slashes.txt", [f"// {line}" for line in LOG_LINES], TRACES[:2]),
        ("no_suffix", ["", *COMMENTS, ""], TRACES[:2]),
        ("same.jsonl", COMMENTS, TRACES[:2]),
        ("log.log", LOG_LINES, TRACES),
        ("brackets.log", [f"[INFO] {line}" for line in LOG_LINES], TRACES),
        ("braces.log", [f"{{{line}" for line in LOG_LINES], TRACES),
        ("long.log", LOG_LINES, TRACES * 100),
    ],
)
def test_lines_after_a_beginning_that_is_not_json_are_records(
    name: str, before: list[str], traces: list[dict[str, str]]
) -> None:
    write(name, "".join(f"{line}\n" for line in before) + lines(traces))
    with gather_traces([name]) as gathered:
        assert [record for _, record in records(gathered)] == traces
        assert next(trace.place for trace in gathered.traces) == f"{name}#{len(before) + 1}"
        reported = [f"{name}#{number}" for number, line in enumerate(before, 1) if line]
        assert list(problems(gathered)) == reported


@pytest.mark.parametrize(
    "content",
    [
        "".join(f"{line}\n" for line in [*LOG_LINES, *COMMENTS]),
        "".join(f"{line}\n" for line in LOG_LINES * 4) + lines(TRACES[:2]),  # what an agent has printed at its end
        "".join(f"{line}\n" for line in LOG_LINES) + lines(TRACES) + "2026-01-01 12:01:00 has ended\n",
        "".join(f"{line}\n{json.dumps(trace)}\n" for line, trace in zip(LOG_LINES, TRACES, strict=False)),
        "# Plan\n\n" + "\n".join(LOG_LINES),
        "# Plan\n" + lines(TRACES[:1]),
    ],
)
def test_a_text_with_lines_of_json_is_one_trace(content: str) -> None:
    write("agent.log", content)
    with gather_traces(["agent.log"]) as gathered:
        assert gathered.problems == []
        assert records(gathered) == [("agent.log", content)]


@pytest.mark.parametrize(
    ("name", "content", "place", "reason"),
    [
        ("empty.jsonl", "", "empty.jsonl", "empty"),
        ("blank.json", " \n ", "blank.json", "only whitespace"),
        ("cut.json", '{"task": "1", "answer": "so', "cut.json", "truncated, or not JSON"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "picture.png", "a PNG image"),
        ("noise.jsonl", bytes(range(256)) * 8, "noise.jsonl", "binary data"),
        ("number.jsonl", "17\n", "number.jsonl#1", "17 is not a trace"),
        ("nothing.jsonl", "{}\n", "nothing.jsonl#1", "the record is empty"),
        ("deep.json", '{"a":' + "[" * 200_000, "deep.json", "nested too deeply"),
        ("deep_list.json", "[" * 200_000, "deep_list.json#1", "nested too deeply"),
        ("cut_list.json", "[", "cut_list.json#1", "the list is truncated"),
        ("none.json", "[]", "none.json", "the list is empty"),
        ("null.json", "null", "null.json", "null is not a trace"),
        ("seventeen.json", "17", "seventeen.json", "17 is not a trace"),
        ("nothing.txt", " null\n", "nothing.txt", "null is not a trace"),
        ("true.jsonl", "true\n", "true.jsonl#1", "true is not a trace"),
        ("no_suffix", "-1e3", "no_suffix", "-1000.0 is not a trace"),
        ("page.json", "<html>502</html>", "page.json", "an HTML page, not a trace"),
        ("page.txt", "\n<!DOCTYPE html>\n<title>Error</title>", "page.txt", "an HTML page, not a trace"),
        ("page.jsonl", "<HTML lang=en>", "page.jsonl", "an HTML page, not a trace"),
        ("words.json", "It went wrong.", "words.json", "truncated, or not JSON"),
        ("digits.json", f'{{"task": "x", "n": {"1" * 4301}}}', "digits.json", "a number has too many digits"),
        ("digits.jsonl", f'{{"n": -{"1" * 4301}}}\n', "digits.jsonl#1", "a number has too many digits"),
        ("digits", "9" * 5000, "digits", "a number has too many digits"),
        ("bytes.jsonl", b'{"task": "\xff\xfe and on and on and on"}\n', "bytes.jsonl#1", "not UTF-8"),
    ],
)
def test_a_bad_file_is_reported_and_the_good_one_beside_it_taken(
    name: str, content: str | bytes, place: str, reason: str
) -> None:
    write(f"logs/{name}", content)
    write("logs/zz_good.jsonl", lines([{"task": "1"}]))
    with gather_traces(["logs"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["logs/zz_good.jsonl#1"]
        assert list(problems(gathered)) == [f"logs/{place}"]
        assert reason in problems(gathered)[f"logs/{place}"]


def test_a_list_goes_on_after_a_number_with_too_many_digits() -> None:
    write("list.json", f'[{{"n": {"1" * 4301}}}, {{"task": "2"}}, {"7" * 5000}, {{"task": "4"}}]')
    with gather_traces(["list.json"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["list.json#2", "list.json#4"]
        assert list(problems(gathered)) == ["list.json#1", "list.json#3"]
        assert set(problems(gathered).values()) == {"a number has too many digits"}


def test_what_stands_before_a_cut_is_taken() -> None:
    write("cut.jsonl", lines([{"task": "1"}, {"task": "2"}]) + '{"task": "3')
    write("list.json", '[{"task": "1"}, {"task": "2"}, {"tas')
    write("chat.jsonl", lines(MESSAGES) + '{"role": "us')
    with gather_traces(["cut.jsonl", "list.json", "chat.jsonl"]) as gathered:
        assert [trace.place for trace in gathered.traces] == [
            *("cut.jsonl#1", "cut.jsonl#2", "list.json#1", "list.json#2", "chat.jsonl")
        ]
        assert list(problems(gathered)) == ["cut.jsonl#3", "list.json#3", "chat.jsonl#3"]
        assert records(gathered)[-1] == ("chat.jsonl", MESSAGES)


def test_folders_are_searched_by_name_and_globs_and_files_are_taken_once() -> None:
    for name in ("logs/b/2.jsonl", "logs/a.jsonl", "logs/.hidden/3.jsonl", "other/4.jsonl"):
        write(name, lines([{"task": name}]))
    with gather_traces(["logs", "*/a.jsonl", "other/*"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["logs/a.jsonl#1", "logs/b/2.jsonl#1", "other/4.jsonl#1"]


def test_links_that_lead_nowhere_or_in_circles_are_reported() -> None:
    write("logs/good.jsonl", lines([{"task": "1"}]))
    for name, target in {"loop": "loop", "up": "../logs", "to_nothing": "gone"}.items():
        Path("logs", name).symlink_to(target)
    write("logs/skills.db", "left out")
    with gather_traces(["logs"], left_out={Path("logs/skills.db").resolve()}) as gathered:
        assert len(gathered.traces) == 1
        reasons = problems(gathered)
    assert set(reasons) == {"logs/loop", "logs/up", "logs/to_nothing"}
    assert "itself" in reasons["logs/loop"]
    assert "above" in reasons["logs/up"]
    assert "nothing" in reasons["logs/to_nothing"]


def test_a_file_without_permission_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder, ordinary_user(Path(folder)):
        monkeypatch.chdir(folder)
        write("logs/good.jsonl", lines([{"task": "1"}]))
        write("logs/secret.jsonl", lines([{"task": "2"}])).chmod(0)
        write("logs/closed/hidden.jsonl", lines([{"task": "3"}])).parent.chmod(0)
        with gather_traces(["logs"]) as gathered:
            assert [trace.place for trace in gathered.traces] == ["logs/good.jsonl#1"]
            assert problems(gathered) == dict.fromkeys(("logs/closed", "logs/secret.jsonl"), "no permission to read it")
        Path("logs/closed").chmod(0o700)


def test_a_record_that_is_too_large_is_reported_and_the_next_one_taken() -> None:
    large = json.dumps({"task": "x" * 17_000_000})
    write("logs/lines.jsonl", f'{{"task": "1"}}\n{large}\n{{"task": "3"}}\n')
    write("logs/object.json", large)
    write("logs/text.txt", "word " * 4_000_000)
    with gather_traces(["logs"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["logs/lines.jsonl#1", "logs/lines.jsonl#3"]
        assert {place: "16 MB" in reason for place, reason in problems(gathered).items()} == {
            "logs/lines.jsonl#2": True,
            "logs/object.json": True,
            "logs/text.txt": True,
        }


@pytest.mark.parametrize("arguments", [["nowhere"], ["*.jsonl"], ["empty_folder"], ["picture"]])
def test_nothing_to_learn_from_is_wrong_usage(arguments: list[str]) -> None:
    Path("empty_folder").mkdir()
    write("picture", b"\x89PNG\r\n\x1a\n\x00")
    with pytest.raises(UsageError, match=r"nowhere|jsonl|empty_folder|picture.*PNG"):
        gather_traces(arguments)


def test_limit_and_shuffle_choose_and_order() -> None:
    write("a.jsonl", lines([{"task": str(number)} for number in range(20)]))

    def places(limit: int | None = None, shuffle: int | None = None) -> list[str]:
        with gather_traces(["a.jsonl"], limit=limit, shuffle=shuffle) as gathered:
            return [trace.place for trace in gathered.traces]

    assert places(3) == ["a.jsonl#1", "a.jsonl#2", "a.jsonl#3"]
    assert places(shuffle=1) == places(shuffle=1) != places(shuffle=2)
    assert sorted(places(shuffle=1)) == sorted(places())
    assert places(3, shuffle=1) == places(shuffle=1)[:3]


def test_standard_input_and_pipes_are_read(in_folder: Path) -> None:
    code = (
        "import sys\nfrom ace.cli.inputs import gather_traces\n"
        "with gather_traces(sys.argv[1:]) as gathered:\n"
        "    for trace in gathered.traces: print(trace.place.replace('/dev/fd/', 'fd'), trace.record.load())\n"
    )
    command = f"printf '%s\\n' '{{\"task\": 1}}' | '{sys.executable}' -c \"$0\" - <(echo '{{\"task\": 2}}')"
    done = subprocess.run(["bash", "-c", command, code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "stdin {'task': 1}"
    assert second.endswith("{'task': 2}")


def test_the_trace_reader_looks_through_a_stored_record() -> None:
    write("a.jsonl", lines([{"task": "1", "answer": "2"}]))
    with gather_traces(["a.jsonl"]) as gathered, readable_records():
        assert read_trace(gathered.traces[0].record)["question"] == "1"


def test_a_file_that_was_changed_meanwhile_is_no_silent_mix_up() -> None:
    path = write("a.jsonl", lines([{"task": "1"}]))
    with gather_traces(["a.jsonl"]) as gathered:
        path.write_text(lines([{"task": "2"}]), encoding="utf-8")
        with pytest.raises(ChangedRecordError, match=r"a\.jsonl was changed"):
            records(gathered)


def test_a_plugin_that_recognises_a_file_takes_it_first() -> None:
    write("session.bin", b"\x00ACME\x00")
    converter = TraceConverter(
        name="acme",
        recognises=lambda trace: float(isinstance(trace, Path) or (isinstance(trace, bytes) and b"ACME" in trace)),
        convert=lambda trace: {"question": f"read {trace}"},
    )
    register_trace_converter(converter)
    try:
        with gather_traces(["session.bin"]) as gathered, readable_records():
            assert read_trace(gathered.traces[0].record)["question"] == "read session.bin"
    finally:
        unregister_trace_converter("acme")


@pytest.mark.parametrize("form", ["lines", "list"])
def test_a_file_of_200_megabytes_and_ten_thousand_files_take_little_memory(form: str) -> None:
    record = json.dumps({"task": "x" * 100_000, "answer": "y"})
    before, between, after = ("[", ",\n", "]") if form == "list" else ("", "\n", "\n")
    with Path("large").open("w", encoding="utf-8") as file:
        file.write(before + record)
        file.writelines(between + record for _ in range(1_999))
        file.write(after)
    folder = Path("many")
    folder.mkdir()
    for number in range(10_000 if form == "lines" else 10):
        (folder / f"{number:05}.json").write_text('{"task": "1"}', encoding="utf-8")
    done = run_python(
        "import resource\nfrom ace.cli.inputs import gather_traces\n"
        "import ace.roles.trace_reading\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with gather_traces(['large', 'many']) as gathered:\n"
        "    print(len(gathered.traces), len(gathered.problems))\n"
        "    for trace in gathered.traces: trace.record.load()\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    counts, megabytes = done.stdout.splitlines()
    assert counts == ("12000 0" if form == "lines" else "2010 0")
    assert int(megabytes) < 60


def test_a_plugin_tells_which_parts_of_a_file_belong_to_one_trace() -> None:
    def parts(value: Any) -> list[tuple[str | None, object]]:
        held = value if isinstance(value, list) else [value]
        return [(record.get("run"), record) for record in held]

    converter = TraceConverter(
        name="acme", recognises=lambda trace: float(isinstance(trace, bytes)), convert=lambda trace: {}, parts=parts
    )
    events = [{"run": "a", "n": 1}, {"run": "b", "n": 2}, {"n": 3}, {"run": "a", "n": 4}]
    joined = [[events[0], events[3]], events[1], events[2]]
    write("a.jsonl", lines(events[:2]) + "{cut\n" + lines(events[2:]))
    write("a.json", json.dumps(events))
    register_trace_converter(converter)
    try:
        found = gather_traces(["a.jsonl"])
        assert records(found) == list(zip(["a.jsonl#1", "a.jsonl#2", "a.jsonl#4"], joined, strict=True))
        assert problems(found)["a.jsonl#3"].startswith("truncated, or not JSON")
        whole = gather_traces(["a.json"])
        assert records(whole) == list(zip(["a.json#1", "a.json#2", "a.json#3"], joined, strict=True))
        assert [dict(trace.record) for trace in whole.traces] == [dict(trace.record) for trace in found.traces]  # type: ignore[call-overload]  # stored records are mappings
        write("a.json", json.dumps(events[:1]))
        assert isinstance(whole.traces[1].record, StoredRecord)
        with pytest.raises(ChangedRecordError, match="was changed during the run"):
            whole.traces[1].record.load()
    finally:
        unregister_trace_converter("acme")
