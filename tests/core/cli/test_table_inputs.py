"""Rows of tables are learned from, answered and evaluated, with the names of their header."""

import json
from pathlib import Path

import pytest

from ace.cli.inputs import gather_traces
from ace.logs import read_trace
from tests.support.command_line import ace
from tests.support.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, content: str) -> None:
    Path(name).write_text(content, encoding="utf-8")


def test_messages_in_a_cell_are_steps_and_the_usual_names_are_understood() -> None:
    messages = [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]
    cell = json.dumps(messages).replace('"', '""')
    write("a.csv", f'Messages,Expected Output,Feedback\n"{cell}",4,right\n')
    with gather_traces(["a.csv"]) as gathered:
        trace = read_trace(gathered.traces[0].record)
    assert (trace["question"], trace["answer"], trace["ground_truth"]) == ("Two and two?", "Four.", "4")
    assert [step["content"] for step in trace["steps"]] == ["Two and two?", "Four."]


def test_a_text_with_commas_is_not_a_table() -> None:
    write("note.txt", "First, it failed.\nThen, it worked.\n")
    with gather_traces(["note.txt"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["note.txt"]


def test_rows_are_learned_and_answered(tmp_path: Path, server: ScriptedServer, model: list[str]) -> None:
    write("rows.csv", "Task;Answer;Note\nt1;LESSON one;a\nt2;LESSON two;b\n")
    done = ace("learn", "rows.csv", "--json", *model, folder=tmp_path)
    assert done.code == 0, done.err
    assert {skill["content"] for skill in done.data["new_skills"]} == {"Remember LESSON one.", "Remember LESSON two."}
    write("samples.tsv", "Question\tTarget\nWhat about one?\tLESSON one\nWhat about two?\tLESSON two\n")
    done = ace("train", "samples.tsv", "--json", *model, folder=tmp_path)
    assert done.code == 0, done.err
    assert [answer["of"] for answer in done.data["answers"]] == [2]
