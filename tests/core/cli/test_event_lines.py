"""Files whose lines are the events of one session, without the plugin that knows them, are pointed out once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ace.cli.inputs import event_files, gather_traces
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

FOLLOWING = [{"kind": "event", "id": str(number), "parent_id": str(number - 1)} for number in range(6)]
OF_ONE_SESSION = [{"kind": "event", "session_id": "s", "text": f"Step {number}."} for number in range(6)]
TRACES = [{"session_id": "s", "id": str(number), "question": "2+2?", "answer": "4"} for number in range(6)]
CHATS = [{"session_id": "s", "messages": [{"role": "user", "content": "Hello."}]}] * 6
UNRELATED = [{"id": str(number), "text": f"Run {number}."} for number in range(6)]


def store(path: Path, records: Sequence[object]) -> str:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("records", "are_events"),
    [(FOLLOWING, True), (OF_ONE_SESSION, True), (TRACES, False), (CHATS, False), (UNRELATED, False)],
    ids=["following", "one session", "traces", "chats", "unrelated"],
)
def test_events_are_told_from_traces(tmp_path: Path, records: list[object], are_events: bool) -> None:
    path = store(tmp_path / "some.jsonl", [*records, "no object"])
    with gather_traces([path]) as gathered:
        assert event_files(gathered.traces) == ([path] if are_events else [])


def test_two_lines_and_a_list_say_nothing(tmp_path: Path) -> None:
    store(tmp_path / "two.jsonl", FOLLOWING[:2])
    (tmp_path / "list.json").write_text(json.dumps(FOLLOWING), encoding="utf-8")
    with gather_traces([str(tmp_path)]) as gathered:
        assert event_files(gathered.traces) == []


def test_ace_learn_says_so_once_and_learns_all_the_same(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        store(tmp_path / name, OF_ONE_SESSION[:3])
    with ScriptedServer(learning_script()) as server:
        model = ("--model", "openai/scripted", "--api-base", server.api_base)
        done = ace(
            *("learn", "a.jsonl", "b.jsonl", "c.jsonl", "--dry-run", "--json", *model),
            folder=tmp_path,
            environ={"OPENAI_API_KEY": "sk-scripted-0123456789"},
        )
    assert (done.code, done.data["traces"]["learned"]) == (0, 9)
    [told] = [line for line in done.err.splitlines() if "look like the events of one session" in line]
    assert told.startswith("ace: the lines of a.jsonl and 2 more look like")
    assert "`ace plugins`" in told
