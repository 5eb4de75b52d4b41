"""`ace inspect` shows what is in logs, without a model, without the network and without writing anything."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ace.logs import LogHead, LogReader, Problem, Run, Source, register_log_reader, unregister_log_reader
from ace.logs.mapping import LogMapping, MappedReader
from ace.logs.summary import LogSummary
from tests.support.command_line import ACE, Done, command_environment
from tests.support.command_line import Run as Ace

RUNS = [
    {"task": "Refund?", "answer": "No.", "success": False, "feedback": "14 days.", "timestamp": "2026-01-02T10:00:00Z"},
    {"task": "Address?", "answer": "Done.", "success": True, "timestamp": "2026-03-04T10:00:00Z"},
]
CHAT = {
    "messages": [
        {"role": "user", "content": "Which order?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "function": {"name": "find", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "Error: not found"},
        {"role": "assistant", "content": "I cannot find it."},
    ]
}
WATCHED = (
    "import os, sys\n"
    "def look(event, arguments):\n"
    "    is_write = event == 'open' and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)\n"
    "    is_cached = is_write and '__pycache__' in str(arguments[0])\n"
    "    if event in ('socket.connect', 'os.mkdir', 'os.rename') or event.startswith('sqlite3.connect') or is_write:\n"
    "        if not is_cached and '__pycache__' not in str(arguments): print(event, arguments, file=sys.stderr)\n"
    "from ace.cli import main\n"
    "sys.addaudithook(look)\n"
    "sys.exit(main(sys.argv[1:]))\n"
)
MAPPING = """
name = "shop"
when = "ticket"
task = "ticket.text"
answer = "reply"
success = "ok"
"""
TICKETS = [{"ticket": {"text": f"Question {number}?"}, "reply": f"Reply {number}.", "ok": False} for number in range(3)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    store(tmp_path / "logs/runs.jsonl", RUNS)
    store(tmp_path / "logs/chat.jsonl", [CHAT])
    return tmp_path / "logs"


def store(path: Path, records: Sequence[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def format_of(done: Done, name: str) -> dict[str, Any]:
    found: dict[str, Any] = done.data["formats"][name]
    return found


def test_the_counts_of_a_format_are_shown_and_printed_as_json(here: Ace, logs: Path) -> None:
    done = here("inspect", "logs", "--model", "openai/gpt-4o-mini")
    assert (done.code, done.err) == (0, "")
    names, found, *rest = done.out.splitlines()
    assert dict(zip(names.split(), found.split(), strict=False)) == {
        "format": "unknown",
        "runs": "3",
        "task": "3",
        "answer": "3",
        "success": "1",
        "failure": "1",
        "calls": "1",
        "errors": "1",
        "turns": "1",
        "tokens": found.split()[9],
        "files": "2",
        "dates": "2026-01-02",
    }
    assert found.endswith("2026-01-02 to 2026-03-04")
    [estimate] = [line for line in rest if line.startswith("Learning from them with openai/gpt-4o-mini: about")]
    assert "in 6 calls" in estimate and estimate.endswith("USD.")
    assert rest[-3:] == ["Next:", "  ace inspect logs --show 1", "  ace learn logs --limit 3"]
    done = here("inspect", "logs", "--json", "--model", "openai/gpt-4o-mini")
    assert format_of(done, "unknown") == {
        "files": 2,
        "runs": 3,
        "with_task": 3,
        "with_answer": 3,
        "succeeded": 1,
        "failed": 1,
        "calls": 1,
        "failed_calls": 1,
        "person_turns": 1,
        "trace_tokens": format_of(done, "unknown")["trace_tokens"],
        "first": "2026-01-02T10:00:00+00:00",
        "last": "2026-03-04T10:00:00+00:00",
        "unread_fields": [],
    }
    assert (done.data["problems"], done.data["questions"], done.data["side_files"]) == ([], [], 0)
    assert (done.data["estimate"]["calls"], done.data["estimate"]["cost_usd"] > 0) == (6, True)


def test_nothing_is_written_and_no_connection_is_opened(logs: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for arguments in (["logs"], ["logs", "--json"], ["logs", "--show", "1"], ["--all"]):
        done = subprocess.run(
            [sys.executable, "-c", WATCHED, "inspect", *arguments],
            cwd=tmp_path,
            env={**command_environment(tmp_path), "OPENAI_API_KEY": "sk-0123456789", "ACE_MODEL": "openai/gpt-4o-mini"},
            capture_output=True,
            text=True,
            check=False,
        )
        expected = "ace: none of the known tools" if arguments == ["--all"] else ""
        assert done.stderr.startswith(expected) and done.stderr.count("\n") == bool(expected), done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_one_run_is_shown_as_the_reflector_will_see_it(here: Ace, logs: Path) -> None:
    done = here("inspect", "logs", "--show", "2")
    assert done.code == 0
    assert done.out.startswith("logs/runs.jsonl#1 (unknown)\n")
    assert "Refund?" in done.out and "14 days." in done.out and "Address?" not in done.out
    shown = here("inspect", "logs", "--show", "1", "--json").data
    assert (shown["place"], shown["format"]) == ("logs/chat.jsonl#1", "unknown")
    assert [step["kind"] for step in shown["trace"]["steps"]] == ["message", "call", "result", "message"]
    done = here("inspect", "logs", "--show", "4")
    assert (done.code, done.err) == (2, "ace: --show 4: there are 3 runs\n")


def test_secrets_are_redacted_where_a_run_is_shown(here: Ace, tmp_path: Path) -> None:
    store(tmp_path / "a.jsonl", [{"task": "Use sk-ant-api03-" + "a1B2" * 20, "answer": "Done."}])
    for further in ([], ["--json"]):
        done = here("inspect", "a.jsonl", "--show", "1", *further)
        assert done.code == 0 and "a1B2a1B2" not in done.out and "hidden" in done.out


def test_limit_and_since_choose_runs(here: Ace, logs: Path) -> None:
    assert format_of(here("inspect", "logs", "--limit", "1", "--json"), "unknown")["runs"] == 1
    recent = here("inspect", "logs", "--since", "2026-02-01", "--json")
    assert format_of(recent, "unknown")["runs"] == 2  # the chat, whose time is not known, and the later run
    done = here("inspect", "logs", "--since", "yesterday")
    assert done.code == 2
    assert "since takes 12h, 7d, 2w or a date such as 2026-11-28, got 'yesterday'" in done.err


def test_the_name_of_a_format_decides_how_a_file_is_read(here: Ace, logs: Path) -> None:
    assert format_of(here("inspect", "logs/runs.jsonl", "--format", "dspy", "--json"), "dspy")["with_task"] == 0
    done = here("inspect", "logs", "--format", "dspi")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ace: --format: no reader is called 'dspi'; there are ") and "dspy" in done.err


def test_a_mapping_is_read_from_a_file_and_from_the_settings(here: Ace, tmp_path: Path) -> None:
    store(tmp_path / "tickets.jsonl", TICKETS)
    assert list(here("inspect", "tickets.jsonl", "--json").data["formats"]) == ["unknown"]
    (tmp_path / "shop.toml").write_text(MAPPING, encoding="utf-8")
    found = format_of(here("inspect", "tickets.jsonl", "--map", "shop.toml", "--json"), "shop")
    assert (found["runs"], found["with_task"], found["with_answer"], found["failed"]) == (3, 3, 3, 3)
    table = f"[[logs.mapping]]{MAPPING}"
    user = tmp_path / ".config/ace/config.toml"
    for settings in (tmp_path / "ace.toml", user):
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(table, encoding="utf-8")
        assert list(here("inspect", "tickets.jsonl", "--json").data["formats"]) == ["shop"], settings
        settings.unlink()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('name = "shop"\ntask = "a ||"', "mapping 'shop': task is not a valid JMESPath expression"),
        ('name = "shop"\ntaks = "a"', "mapping 'shop': unknown field 'taks'"),
        ('task = "a"', "a mapping needs a name"),
        ("name = ", "shop.toml: "),
    ],
)
def test_a_mapping_that_is_not_valid_is_reported(here: Ace, logs: Path, text: str, reason: str) -> None:
    Path("shop.toml").write_text(text, encoding="utf-8")
    done = here("inspect", "logs", "--map", "shop.toml")
    assert done.code == 2 and reason in done.err, done.err
    done = here("inspect", "logs", "--map", "missing.toml")
    assert done.code == 2 and "--map: missing.toml: " in done.err


class Home:
    """The logs of a tool at its default place."""

    name = "acme"
    title = "Acme sessions"
    places: Sequence[str] = ("~/.acme/sessions/*.jsonl", "$ACME_HOME/sessions")
    side_files: Sequence[str] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        return float("acme" in head.keys)

    def runs(self, source: Source) -> Any:
        for record in source.records():
            yield Run(task=record.value["acme"], answer="yes")


def test_the_default_places_of_all_tools_are_looked_at(here: Ace, tmp_path: Path) -> None:
    acme = tmp_path / ".acme/sessions"
    store(acme / "a.jsonl", [{"acme": "one"}, {"acme": "two"}])
    store(acme / "settings.json", [{"theme": "dark"}])
    done = here("inspect", "--all")
    assert (done.code, "none of the known tools" in done.err) == (2, True)
    reader: LogReader = Home()
    register_log_reader("acme", lambda: reader)
    try:
        done = here("inspect", "--all", "--json")
        assert (done.code, list(done.data["formats"])) == (0, ["acme"])
        assert format_of(done, "acme")["runs"] == 2
        elsewhere = tmp_path / "elsewhere"
        store(elsewhere / "sessions/b.jsonl", [{"acme": "three"}])
        done = here("inspect", "--all", "--json", environ={"ACME_HOME": str(elsewhere)})
        assert format_of(done, "acme")["runs"] == 3
    finally:
        unregister_log_reader("acme")


def test_a_project_does_not_choose_the_places(here: Ace, tmp_path: Path) -> None:
    store(tmp_path / "private/tickets.jsonl", TICKETS)
    table = f'[[logs.mapping]]{MAPPING}places = ["{tmp_path}/private/*.jsonl"]\n'
    (tmp_path / "ace.toml").write_text(table, encoding="utf-8")
    assert here("inspect", "--all").code == 2


def test_what_is_lost_is_listed_once_for_each_reason(here: Ace, logs: Path) -> None:
    for number in range(5):
        (logs / f"empty{number}.json").touch()
    done = here("inspect", "logs")
    assert done.code == 1
    told = done.out.partition("Not understood:\n")[2].splitlines()
    assert told[0] == "  logs/empty0.json; logs/empty1.json; logs/empty2.json and 2 more: an empty file"
    assert len(here("inspect", "logs", "--json").data["problems"]) == 5
    done = here("inspect", *(str(logs / f"empty{number}.json") for number in range(2)))
    assert (done.code, done.out.count("an empty file")) == (1, 2)


def test_fields_with_much_text_that_were_not_read_are_named(here: Ace, tmp_path: Path) -> None:
    store(tmp_path / "a.jsonl", [{"task": "t", "answer": "a", "diary": "word " * 100, "n": 1}])
    done = here("inspect", "a.jsonl")
    assert "  unknown: fields that were not understood: diary" in done.out.splitlines()


def test_nothing_to_inspect_is_wrong_usage(here: Ace) -> None:
    assert here("inspect").err.startswith("ace: nothing to inspect: give files or folders of logs, or --all")
    assert here("inspect", "missing").err.startswith("ace: no such file or folder: 'missing'")


def test_a_narrow_terminal_shows_a_line_for_each_format(tmp_path: Path) -> None:
    store(tmp_path / "a.jsonl", RUNS)
    store(tmp_path / "b.jsonl", [{"example": {"question": "?"}, "prediction": {"answer": "!"}, "score": 0}])
    (tmp_path / "c.json").touch()
    main, other = pty.openpty()
    done = subprocess.run(
        [ACE, "inspect", "a.jsonl", "b.jsonl", "c.json"],
        cwd=tmp_path,
        env={**command_environment(tmp_path), "TERM": "xterm", "COLUMNS": "80"},
        stdin=other,
        stdout=other,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(other)
    lines = os.read(main, 100_000).decode().splitlines()
    os.close(main)
    assert (done.returncode, done.stderr) == (1, b"")
    assert [line.split()[0] for line in lines[:4]] == ["format", "dspy", "unknown", "all"]
    assert max(map(len, lines)) <= 80
    assert "dates" not in lines[0]


def test_the_counts_of_formats_add_up() -> None:
    summary = LogSummary()
    reader = MappedReader(LogMapping(name="shop", task="ticket.text"))
    assert reader.name == "shop"
    summary.add(Run(task="1", answer="2", success=True, place="a#1", format="one"))
    summary.add(Run(task="1", success=False, place="a#2", format="two"))
    summary.add_problem(Problem("b", 1, "a notice", kind="notice"))
    total = summary.total()
    assert (total.runs, total.with_task, total.with_answer, total.succeeded, total.failed) == (2, 2, 1, 1, 1)
    assert (total.files, summary.has_losses) == ({"a"}, False)
