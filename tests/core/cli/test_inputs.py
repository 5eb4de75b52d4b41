"""What is found in files, folders, globs and standard input, and what is reported instead."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ace.cli.errors import UsageError
from ace.cli.inputs import GatheredTraces, RunFilter, gather_traces, problem_lines
from ace.logs import LogHead, Problem, Run, Source, register_log_reader, unregister_log_reader
from ace.logs.spool import StoredTrace
from tests.support.subprocesses import run_python
from tests.support.users import ordinary_user

MESSAGES = [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]


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


def traces(gathered: GatheredTraces) -> dict[str, dict[str, Any]]:
    found = {}
    for trace in gathered.traces:
        assert isinstance(trace.record, StoredTrace)
        found[trace.place] = trace.record.load()
    return found


def problems(gathered: GatheredTraces) -> dict[str, str]:
    return {problem.place: problem.reason for problem in gathered.problems}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", lines([{"task": "1"}, {"task": "2"}]), {"a.jsonl#1": "1", "a.jsonl#2": "2"}),
        ("no_suffix", lines([{"task": "1"}, {"task": "2"}]), {"no_suffix#1": "1", "no_suffix#2": "2"}),
        ("one.jsonl", '{"task": "1"}', {"one.jsonl#1": "1"}),
        ("object.json", json.dumps({"task": "1"}, indent=2), {"object.json": "1"}),
        ("chat.json", json.dumps(MESSAGES), {"chat.json": "Two and two?"}),
        ("chat.log", lines(MESSAGES), {"chat.log": "Two and two?"}),
        ("rows.csv", "Task;Answer\n1+1?;2\n2+2?;4\n", {"rows.csv#2": "1+1?", "rows.csv#3": "2+2?"}),
        ("note.txt", "It went wrong.\n", {"note.txt": ""}),
        ("wide.jsonl", lines([{"task": "Grüße"}]).encode("utf-16"), {"wide.jsonl#1": "Grüße"}),
    ],
)
def test_a_file_is_recognised_by_its_content(name: str, content: str | bytes, expected: dict[str, str]) -> None:
    write(name, content)
    with gather_traces([name]) as gathered:
        assert gathered.problems == []
        assert {place: trace["question"] for place, trace in traces(gathered).items()} == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.jsonl", "", "empty"),
        ("blank.json", " \n ", "empty"),
        ("cut.json", '{"task": "1", "answer": "so', "damaged"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "an image"),
        ("noise.jsonl", bytes(range(256)) * 8, "binary data"),
        ("page.json", "<html>502</html>", "an HTML page"),
        ("page.txt", "\n<!DOCTYPE html>\n<title>Error</title>", "an HTML page"),
    ],
)
def test_a_bad_file_is_reported_and_the_good_one_beside_it_taken(name: str, content: str | bytes, reason: str) -> None:
    write(f"logs/{name}", content)
    write("logs/zz_good.jsonl", lines([{"task": "1"}]))
    with gather_traces(["logs"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["logs/zz_good.jsonl#1"]
        [problem] = gathered.problems
        assert problem.file == f"logs/{name}"
        assert reason in problem.reason


def test_what_is_before_a_cut_is_taken() -> None:
    write("logs/cut.jsonl", lines([{"task": "1"}, {"task": "2"}]) + '{"task": "3')
    write("logs/list.json", '[{"task": "1"}, {"task": "2"}, {"tas')
    with gather_traces(["logs"]) as gathered:
        assert [trace["question"] for trace in traces(gathered).values()] == ["1", "2", "1", "2"]
        assert {problem.file for problem in gathered.problems} == {"logs/cut.jsonl", "logs/list.json"}


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
    with gather_traces(["logs"], wanted=RunFilter(left_out={Path("logs/skills.db").resolve()})) as gathered:
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


@pytest.mark.parametrize("arguments", [["nowhere"], ["*.jsonl"], ["empty_folder"], ["picture"]])
def test_nothing_to_learn_from_is_wrong_usage(arguments: list[str]) -> None:
    Path("empty_folder").mkdir()
    write("picture", b"\x89PNG\r\n\x1a\n\x00")
    with pytest.raises(UsageError, match=r"nowhere|jsonl|empty_folder|picture.*an image"):
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
        "    for trace in gathered.traces: print(trace.place, trace.record.load()['question'])\n"
    )
    command = f'printf \'%s\\n\' \'{{"task": "1"}}\' | \'{sys.executable}\' -c "$0" - <(echo \'{{"task": "2"}}\')'
    done = subprocess.run(["bash", "-c", command, code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "stdin 1"
    assert second.startswith("/dev/fd/") and second.endswith(" 2")


def test_a_trace_does_not_change_with_its_file() -> None:
    path = write("a.jsonl", lines([{"task": "1"}]))
    with gather_traces(["a.jsonl"]) as gathered:
        path.unlink()
        assert traces(gathered)["a.jsonl#1"]["question"] == "1"


def test_a_reader_of_a_plugin_reads_its_files() -> None:
    class Acme:
        name = "acme"
        title = "Acme sessions"
        places: Sequence[str] = ()
        side_files: Sequence[str] = ("*.meta",)
        note = ""

        def recognises(self, head: LogHead) -> float:
            return float(head.text.startswith("ACME"))

        def runs(self, source: Source) -> Iterator[Run | Problem]:
            yield Run(task=source.text().split()[1], place="first")
            yield source.problem("a line of Acme that is not known", 2)

    write("logs/session.acme", "ACME one")
    write("logs/session.meta", "no run")
    write("logs/other.jsonl", lines([{"task": "2"}]))
    register_log_reader("acme", Acme)
    try:
        with gather_traces(["logs"]) as gathered:
            assert {place: trace["question"] for place, trace in traces(gathered).items()} == {
                "logs/other.jsonl#1": "2",
                "first": "one",
            }
            assert problems(gathered) == {"logs/session.acme#2": "a line of Acme that is not known"}
            assert (gathered.summary.side_files, list(gathered.summary.formats)) == (1, ["unknown", "acme"])
        with gather_traces(["logs/other.jsonl"], wanted=RunFilter(format="unknown")) as gathered:
            assert len(gathered.traces) == 1
        with pytest.raises(UsageError, match=r"--format: no reader is called 'acne'; there are acme, .*unknown"):
            gather_traces(["logs"], wanted=RunFilter(format="acne"))
    finally:
        unregister_log_reader("acme")


def test_runs_that_began_earlier_are_skipped_and_those_of_unknown_time_are_not() -> None:
    write("a.jsonl", lines([{"task": str(day), "timestamp": f"2026-01-0{day}T10:00:00Z"} for day in range(1, 5)]))
    write("b.jsonl", lines([{"task": "unknown"}]))
    with gather_traces(["a.jsonl", "b.jsonl"], wanted=RunFilter(since=datetime(2026, 1, 3, tzinfo=UTC))) as gathered:
        assert [trace["question"] for trace in traces(gathered).values()] == ["3", "4", "unknown"]


def test_only_some_problems_are_listed() -> None:
    text = problem_lines([Problem(f"{number}.json", 2, "wrong") for number in range(30)])
    assert text.splitlines()[1] == "    0.json, line 2: wrong"
    assert (len(text.splitlines()), text.splitlines()[-1]) == (12, "    ... and 20 more")


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
        "import ace.logs.unknown, ace.logs.formats\nace.logs.formats.built_in()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with gather_traces(['large', 'many']) as gathered:\n"
        "    print(len(gathered.traces), len(gathered.problems))\n"
        "    for trace in gathered.traces: trace.record.load()\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    counts, megabytes = done.stdout.splitlines()
    assert counts == ("12000 0" if form == "lines" else "2010 0")
    assert int(megabytes) < 60
