"""CSV and TSV: each row is a trace with the names of the header; what is not a row is listed with its line."""

import json
from pathlib import Path

import pytest

from ace import read_trace
from ace.cli.inputs import GatheredTraces, StoredRecord, gather_traces, readable_records
from tests.support.command_line import ace
from tests.support.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, content: str | bytes) -> None:
    Path(name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def rows(gathered: GatheredTraces) -> dict[str, object]:
    found = {}
    for trace in gathered.traces:
        assert isinstance(trace.record, StoredRecord)
        found[trace.place] = trace.record.load()
    return found


def problems(gathered: GatheredTraces) -> dict[str, str]:
    return {problem.place: problem.reason for problem in gathered.problems}


TWO = [{"task": "1+1?", "answer": "2"}, {"task": "2+2?", "answer": "4"}]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "task,answer\n1+1?,2\n2+2?,4\n", TWO),
        ("a.tsv", "task\tanswer\n1+1?\t2\n2+2?\t4", TWO),
        ("excel.csv", "\ufeffTask;Answer\r\n1+1?;2\r\n2+2?;4\r\n", TWO),
        ("bars.csv", "task|answer\n1+1?|2\n\n2+2?|4\n\n", TWO),
        ("blanks.csv", "task, answer\n1+1?, 2\n2+2?, 4\n", TWO),
        ("quoted.csv", '"task","answer"\n"1+1?","2"\n"2+2?","4"\n', TWO),
        ("no_suffix", "task,answer\n1+1?,2\n2+2?,4\n", TWO),
        ("CAPITALS.CSV", "TASK,ANSWER\n1+1?,2\n2+2?,4\n", TWO),
        (
            "names.csv",
            "Final Answer,ground-truth,Note\n4,5,x\n",
            [{"final_answer": "4", "ground_truth": "5", "Note": "x"}],
        ),
        ("lines.csv", 'task,answer\n"one\ntwo, ""three""",2\r\n', [{"task": 'one\ntwo, "three"', "answer": "2"}]),
        ("inch.csv", 'task,answer\na 5" pipe,2\n', [{"task": 'a 5" pipe', "answer": "2"}]),
        ("same.csv", "task,task,\n1,2,3\n", [{"task": "1", "task (column 2)": "2", "column 3": "3"}]),
        (
            "named.csv",
            "task,task (column 3),task\n1,2,3\n",
            [{"task": "1", "task (column 3)": "2", "task (column 3) (column 3)": "3"}],
        ),
        ("one.csv", "task\nfirst\nsecond\n", [{"task": "first"}, {"task": "second"}]),
        ("bytes.csv", b"task,answer\ncaf\xe9,2\n", [{"task": "caf\\xe9", "answer": "2"}]),
        (
            "success.csv",
            "task,success\na,True\nb,no\n",
            [{"task": "a", "success": True}, {"task": "b", "success": "no"}],
        ),
    ],
)
def test_each_row_is_a_trace(name: str, content: str | bytes, expected: list[object]) -> None:
    write(name, content)
    with gather_traces([name]) as gathered:
        assert problems(gathered) == {}
        assert list(rows(gathered).values()) == expected


def test_a_text_with_commas_is_not_a_table() -> None:
    for name, content in [
        ("note.txt", "First, it failed.\nThen, it worked.\n"),
        ("prompt.txt", "prompt, then\nnothing of it\n"),
        ("log.log", "task,answer\n"),
    ]:
        write(name, content)
        with gather_traces([name]) as gathered:
            assert rows(gathered) == {name: content}


def test_steps_may_be_json_and_the_usual_names_are_understood() -> None:
    messages = [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]
    cell = json.dumps(messages).replace('"', '""')
    write("a.csv", f'Messages,Expected Output,Feedback\n"{cell}",4,right\n')
    with gather_traces(["a.csv"]) as gathered, readable_records():
        trace = read_trace(gathered.traces[0].record)
    assert (trace["question"], trace["answer"], trace["ground_truth"]) == ("Two and two?", "Four.", "4")
    assert [step["content"] for step in trace["steps"]] == ["Two and two?", "Four."]


def test_what_is_not_a_row_is_listed_with_its_line_and_the_rest_taken() -> None:
    bad = 'task,answer\ngood,1\nshort\n"two\nlines",2\na,b,c\n"never closed,3\n\nfine,4\n"x"y,5\n,\nlast,6\n'
    write("a.csv", bad)
    with gather_traces(["a.csv"]) as gathered:
        assert list(rows(gathered)) == ["a.csv#2", "a.csv#4", "a.csv#9", "a.csv#12"]
        assert [row["task"] for row in rows(gathered).values()] == ["good", "two\nlines", "fine", "last"]  # type: ignore[index]  # dicts
        assert problems(gathered) == {
            "a.csv#3": "the row has 1 field, the header has 2",
            "a.csv#6": "the row has 3 fields, the header has 2",
            "a.csv#7": "',' expected after '\"'",
            "a.csv#10": "',' expected after '\"'",
            "a.csv#11": "the record is empty",
        }


def test_a_mark_that_is_never_closed_costs_its_own_row_only() -> None:
    write("a.csv", 'task,answer\n"open,1\n' + "".join(f"t{number},{number}\n" for number in range(2000)))
    with gather_traces(["a.csv"]) as gathered:
        assert len(gathered.traces) == 2000
        assert problems(gathered) == {"a.csv#2": "unexpected end of data"}


def test_huge_fields_are_taken_and_larger_ones_listed() -> None:
    many_lines = ("z" * 1_000_000 + "\n") * 18
    huge = [f'long,"{"x" * 1_000_000}"', f"too long,{'y' * 17_000_000}", f'"{many_lines}",1', "last,2"]
    write("a.csv", "task,answer\n" + "\n".join(huge))
    with gather_traces(["a.csv"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["a.csv#2", "a.csv#23"]
        assert [problems(gathered)[f"a.csv#{line}"] for line in (3, 4)] == ["the row is larger than 16 MB"] * 2
        assert rows(gathered)["a.csv#2"] == {"task": "long", "answer": "x" * 1_000_000}


@pytest.mark.parametrize("content", ["task,answer\n", "task,answer", "\n\n", "\ufefftask\n\n\n"])
def test_a_table_without_rows_is_named(content: str) -> None:
    write("a.csv", content)
    write("good.csv", "task\nx\n")
    with gather_traces(["a.csv", "good.csv"]) as gathered:
        assert list(rows(gathered)) == ["good.csv#2"]
        assert list(problems(gathered)) == ["a.csv"]


def test_rows_are_learned_and_answered(tmp_path: Path, server: ScriptedServer, model: list[str]) -> None:
    write("rows.csv", "Task;Answer;Note\nt1;LESSON one;a\nt2;LESSON two;b\n")
    done = ace("learn", "rows.csv", "--json", *model, folder=tmp_path)
    assert done.code == 0, done.err
    assert {skill["content"] for skill in done.data["new_skills"]} == {"Remember LESSON one.", "Remember LESSON two."}
    write("samples.tsv", "Question\tTarget\nWhat about one?\tLESSON one\nWhat about two?\tLESSON two\n")
    done = ace("train", "samples.tsv", "--json", *model, folder=tmp_path)
    assert done.code == 0, done.err
    assert [answer["of"] for answer in done.data["answers"]] == [2]
