"""A word of a customer's question is in no file afterwards, if a run keeps only ids and forgets its answers."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from ace.skillbook.sqlite_file import MIGRATIONS, bring_up_to_date
from ace.skillbook.sqlite_store import SqliteStore
from tests.support.command_line import ACE, Done, Run, command_environment
from tests.support.role_inputs import REFLECTION
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

ZEBRA = "zebrafinch"
"""A word that is in every trace, in every answer of a model, and in no skill."""
TRACES = 6
AT = "2026-01-01T00:00:00+00:00"


class Model:
    """Repeats the word in long answers. It is held, or fails, at the trace whose number it is given."""

    def __init__(self) -> None:
        self.hold_at: int | None = None
        self.fail_at: int | None = None
        self.is_held = threading.Event()
        self.may_continue = threading.Event()

    def __call__(self, request: ScriptedRequest) -> Any:
        if not request.role:
            return {"consolidation_operations": []} if "consolidation_operations" in request.text else "ready"
        number = next(number for number in range(TRACES, 0, -1) if f"call {number}." in request.text)
        if request.role == "agent":
            return {"reasoning": f"The {ZEBRA} asks.", "final_answer": ZEBRA}
        if request.role == "reflector":
            said = f"The {ZEBRA} called. " * 200 * number
            insight = f"call {number}. {said}"
            return {**REFLECTION, "reasoning": said, "error_identification": said, "key_insight": insight}
        if number == self.hold_at:
            self.is_held.set()
            self.may_continue.wait()
        if number == self.fail_at:
            return HttpError(400, f"The {ZEBRA} is not served.")
        skill = {"type": "ADD", "section": "calls", "content": f"Answer the caller within {number} minutes."}
        return {"reasoning": f"The {ZEBRA} waits.", "operations": [{**skill, "evidence": f"The {ZEBRA} waited."}]}


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def learn(model: Model, tmp_path: Path) -> Iterator[list[str]]:
    """The arguments that learn from all traces, in order."""
    (tmp_path / "input").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    for number in range(1, TRACES + 1):
        trace = {"question": f"The {ZEBRA}, call {number}.", "answer": ZEBRA, "feedback": f"Wrong, {ZEBRA}."}
        (tmp_path / "input" / f"{number}.json").write_text(json.dumps(trace), encoding="utf-8")
    with ScriptedServer(model) as server:
        source = str(tmp_path / "input")
        model_options = ["--model", "openai/scripted", "--api-base", server.api_base]
        copies = ["--checkpoint-dir", "copies", "--checkpoint-interval", "1"]
        records = ["--log", "events.log", "--results", "results.json", *copies]
        yield ["learn", source, "--lag", "0", "--json", *records, *model_options]
        model.may_continue.set()


def run(here: Run, tmp_path: Path, *arguments: str) -> Done:
    """Run a command; what it prints is kept in a file, as by a log of a service."""
    environment = {"TMPDIR": str(tmp_path / "temporary")}
    done = here(*arguments, folder=tmp_path / "work", environ=environment)
    with (tmp_path / "work" / "printed.log").open("a", encoding="utf-8") as log:
        log.write(done.out + done.err)
    return done


def kill(tmp_path: Path, model: Model, *arguments: str, before: Callable[[], None] = lambda: None) -> None:
    """Run a command, and kill it when the model is held and `before` has returned."""
    process = subprocess.Popen(
        [str(ACE), *arguments],
        cwd=tmp_path / "work",
        env=command_environment(tmp_path / "work", {"TMPDIR": str(tmp_path / "temporary")}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    model.is_held.wait()
    before()
    process.kill()
    process.wait()
    model.hold_at = None
    model.may_continue.set()


def files_with(word: str, tmp_path: Path) -> set[str]:
    """Return the files with a word among their bytes, except those of the input."""
    folders = [tmp_path / "work", tmp_path / "temporary"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    encoded = [word.encode("utf-8"), word.upper().encode("utf-8"), word.encode("utf-16-le")]
    return {path.name for path in files if any(text in path.read_bytes() for text in encoded)}


@contextmanager
def store(tmp_path: Path) -> Iterator[Skillbook]:
    with Skillbook.open(tmp_path / "work" / "skills.db") as book:
        yield book


@pytest.mark.parametrize("window", ["0", "3"])
def test_a_run_that_keeps_ids_leaves_no_byte_of_a_question(
    here: Run, window: str, learn: list[str], tmp_path: Path
) -> None:
    done = run(here, tmp_path, *learn, "--provenance", "ids", "--reflection-window", window)
    assert done.code == 0, done.err
    assert done.data["skills"]["added"] == TRACES
    assert files_with(ZEBRA, tmp_path) == set()
    everywhere = {"skills.db", "printed.log", "results.json", "latest.json", f"checkpoint_{TRACES}.json"}
    assert files_with("Answer the caller", tmp_path) >= everywhere
    assert "events.log" in files_with("SampleEnded", tmp_path)


def test_without_these_options_the_word_is_there(here: Run, learn: list[str], tmp_path: Path) -> None:
    assert run(here, tmp_path, *learn).code == 0
    assert "skills.db" in files_with(ZEBRA, tmp_path)


def test_a_run_that_forgets_its_answers_keeps_the_sources(here: Run, learn: list[str], tmp_path: Path) -> None:
    assert run(here, tmp_path, *learn, "--forget-answers").code == 0
    with store(tmp_path) as book:
        assert book.store is not None
        assert list(book.store.recorded_answers()) == []
        assert ZEBRA in book.skills()[0].sources[0].sample_question


@pytest.mark.parametrize("ending", ["resume", "forget", "forget the run"])
def test_a_killed_run_leaves_no_byte_when_it_has_been_resumed_or_forgotten(
    here: Run, ending: str, learn: list[str], model: Model, tmp_path: Path
) -> None:
    model.hold_at = TRACES - 1
    kill(tmp_path, model, *learn, "--provenance", "ids")
    assert files_with(ZEBRA, tmp_path), "a resumed run needs the answers"
    if ending == "resume":
        assert run(here, tmp_path, *learn, "--provenance", "ids", "--resume").code == 0
    else:
        with store(tmp_path) as book:
            assert book.store is not None
            [of_run] = {json.loads(key)[0] for key, _ in book.store.recorded_answers()}
        chosen = ["--run", of_run] if ending == "forget the run" else []
        done = run(here, tmp_path, "skillbook", "forget", "--answers", *chosen, "--yes", "--json")
        assert (done.code, done.data["runs"], done.data["is_complete"]) == (0, [of_run], True)
        assert done.data["answers"] == 2 * (TRACES - 1) - 1
    assert files_with(ZEBRA, tmp_path) == set()
    with store(tmp_path) as book:
        assert len(book) == (TRACES if ending == "resume" else TRACES - 2)


def test_the_recent_reflections_of_a_killed_run_are_forgotten_with_its_answers(
    here: Run, learn: list[str], model: Model, tmp_path: Path
) -> None:
    model.hold_at = TRACES - 1
    kill(tmp_path, model, *learn, "--provenance", "ids", "--reflection-window", "3")
    with store(tmp_path) as book:
        assert book.store is not None
        roles = [json.loads(key)[4] for key, _ in book.store.recorded_answers()]
        assert roles.count("RecentReflections") == TRACES - 2
    assert run(here, tmp_path, "skillbook", "forget", "--answers", "--yes").code == 0
    assert files_with(ZEBRA, tmp_path) == set()


def test_the_answers_of_a_run_that_continues_are_not_deleted(
    here: Run, learn: list[str], model: Model, tmp_path: Path
) -> None:
    def forget() -> None:
        done = run(here, tmp_path, "skillbook", "forget", "--answers", "--yes")
        assert (done.code, "another process is working on the run 'learn-" in done.err) == (2, True)

    model.hold_at = 2
    kill(tmp_path, model, *learn, before=forget)
    assert run(here, tmp_path, *learn, "--resume").data["model_use"]["recorded_calls"] == 1


def test_the_choice_of_the_first_call_holds_for_the_resumed_run(
    here: Run, learn: list[str], model: Model, tmp_path: Path
) -> None:
    model.hold_at = TRACES
    kill(tmp_path, model, *learn, "--forget-answers")
    assert run(here, tmp_path, *learn, "--resume").code == 0
    with store(tmp_path) as book:
        assert book.store is not None
        assert list(book.store.recorded_answers()) == []


def test_a_failed_trace_leaves_no_byte_when_it_is_given_up(
    here: Run, learn: list[str], model: Model, tmp_path: Path
) -> None:
    model.fail_at = 3
    done = run(here, tmp_path, *learn, "--provenance", "ids")
    assert done.code == 1
    assert done.data["failures"][0]["reason"] == (
        "LLMCallError with the status 400 (its message is not stored, because provenance is 'ids')"
    )
    assert {path for path in files_with(ZEBRA, tmp_path) if not path.startswith("skills.db")} == set()
    assert "failures.jsonl" in files_with("3.json", tmp_path)
    assert run(here, tmp_path, *learn, "--provenance", "ids", "--give-up").code == 0
    assert files_with(ZEBRA, tmp_path) == set()


def test_another_process_that_reads_delays_the_end_of_the_log(here: Run, learn: list[str], tmp_path: Path) -> None:
    assert run(here, tmp_path, *learn).code == 0
    path = tmp_path / "work" / "skills.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM head").fetchall()
        done = run(here, tmp_path, "skillbook", "forget", "--answers", "--yes")
        assert done.code == 1
        assert "another process has the skillbook open, so texts may be left in 'skills.db-wal'" in done.err
    done = run(here, tmp_path, "skillbook", "forget", "--answers", "--yes")
    assert (done.code, done.err) == (0, "")


def add_answers(connection: sqlite3.Connection) -> None:
    """Add the answers of two runs, and delete one of these without erasing its texts, as SQLite does by default."""
    connection.execute("PRAGMA secure_delete = OFF")
    runs = {"private": ZEBRA, "deleted": ZEBRA, "other": "horse"}
    for name, word in runs.items():
        rows = [(json.dumps([name, number]), f"{word} " * 300) for number in range(9)]
        connection.executemany("INSERT INTO answer VALUES (?, ?, '', '{}')", rows)
    connection.execute("DELETE FROM answer WHERE key LIKE '%deleted%'")


def test_no_byte_is_left_in_unused_parts_of_a_file_that_is_still_open(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    path = tmp_path / "work" / "skills.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        add_answers(connection)
    with closing(SqliteStore(path)) as opened:
        assert opened.forget_answers("private") == 9
        assert files_with(ZEBRA, tmp_path) == set()
        assert len(list(opened.recorded_answers())) == 9


def test_answers_in_the_backup_of_an_older_format_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    path = tmp_path / "work" / "skills.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bring_up_to_date(connection, path, MIGRATIONS[:2])
        add_answers(connection)
    with closing(SqliteStore(path)) as opened:
        assert files_with(ZEBRA, tmp_path) == {"skills.db", "skills.db.version-2.backup"}
        assert opened.forget_answers("private") == 9
    assert files_with(ZEBRA, tmp_path) == set()
    with closing(sqlite3.connect(path.with_name("skills.db.version-2.backup"))) as backup:
        assert backup.execute("SELECT count(*) FROM answer").fetchone() == (9,)


def test_answers_to_validation_samples_are_not_kept(here: Run, learn: list[str], tmp_path: Path) -> None:
    samples = [{"question": f"The {ZEBRA}, call {number}.", "ground_truth": "no"} for number in (1, 2)]
    held_out = [{"question": f"Whose {ZEBRA} is it, call 3.", "ground_truth": "no"}]
    for name, records in (("train.jsonl", samples), ("validate.jsonl", held_out)):
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (tmp_path / "input" / name).write_text(lines, encoding="utf-8")
    files = [str(tmp_path / "input" / name) for name in ("train.jsonl", "validate.jsonl")]
    train = ["train", files[0], "--validate", files[1], *learn[2:]]
    assert run(here, tmp_path, *train).code == 0
    assert "skills.db.answers.jsonl" in files_with(ZEBRA, tmp_path)
    assert run(here, tmp_path, "skillbook", "forget", "--answers", "--yes").code == 0
    assert "skills.db.answers.jsonl" not in files_with(ZEBRA, tmp_path)
    assert run(here, tmp_path, *train, "--forget-answers").code == 0
    assert not (tmp_path / "work" / "skills.db.answers.jsonl").exists()
    assert run(here, tmp_path, *train, "--skillbook", "private.db", "--provenance", "ids").code == 0
    assert {name for name in files_with(ZEBRA, tmp_path) if name.startswith("private.db")} == set()


def test_what_cannot_be_forgotten_is_said(here: Run, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    with store(tmp_path) as book:
        book.add_skill("calls", "Answer the caller.")
    done = run(here, tmp_path, "skillbook", "forget")
    assert (done.code, "--answers deletes" in done.err) == (2, True)
    done = run(here, tmp_path, "skillbook", "forget", "--answers", "--run", "monday")
    assert (done.code, "no such run: 'monday'" in done.err) == (2, True)
    done = run(here, tmp_path, "skillbook", "forget", "--answers")
    assert (done.code, done.out) == (0, "deleted 0 answers of 0 runs from skills.db\n")
    with store(tmp_path) as book:
        assert book.store is not None
        book.store.record_answer('["monday", 1]', ZEBRA, AT)
    done = run(here, tmp_path, "skillbook", "forget", "--answers")
    assert done.code == 2
    assert "1 answer of 1 run in skills.db will be deleted, but standard input is not a terminal" in done.err
    assert "skills.db" in files_with(ZEBRA, tmp_path)
