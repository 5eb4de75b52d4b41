"""`ace inspect --propose`: the model sees names and types of fields, after a yes, and its mapping is saved."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ace.cli.proposing import mapping_as_toml, skeleton
from ace.logs.mapping import LogMapping, StepMapping
from tests.support.command_line import Done, Run
from tests.support.scripted_server import ScriptedServer, in_turn

SECRET = "The customer Ann Miller wants her money back for order 4711 and is angry."
RECORDS = [
    {
        "ticket": {"body": f"{SECRET} Number {number}.", "channel": "mail", "from": f"ann{number}@acme.example"},
        "trail": [
            {"actor": "bot", "did": "lookup", "with": {"order": "4711 of Ann Miller"}, "got": "no such order at all"},
            {"actor": "bot", "says": "I have looked for your order and found nothing."},
        ],
        "closing": "We are sorry that your order was lost.",
        "solved": number % 2 == 0,
    }
    for number in range(4)
]
MAPPING = {
    "name": "shop",
    "when": "ticket",
    "task": "ticket.body",
    "answer": "closing",
    "success": "solved",
    "messages": "trail",
    "step": {"tool": "did", "input": "with", "output": "got", "text": "says"},
}


@pytest.fixture
def answers() -> list[Any]:
    """What the model answers, one after the other."""
    return [MAPPING]


@pytest.fixture
def scripted(answers: list[Any]) -> Iterator[ScriptedServer]:
    with ScriptedServer(in_turn(*answers)) as server:
        yield server


@pytest.fixture
def propose(here: Run, scripted: ScriptedServer, tmp_path: Path) -> Callable[..., Done]:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS), encoding="utf-8")
    model = ("--model", "openai/scripted", "--api-base", scripted.api_base)
    return lambda *arguments: here("inspect", "own.jsonl", "--propose", *arguments, *model)


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts with blanks in a JSON value: names and codes may be shown."""
    children: Sequence[object] = ()
    if isinstance(value, dict):
        children = list(value.values())
    elif isinstance(value, list):
        children = value
    elif isinstance(value, str) and " " in value:
        yield value
    for child in children:
        yield from texts_in(child)


def test_nothing_is_sent_before_a_yes(propose: Callable[..., Done], scripted: ScriptedServer, tmp_path: Path) -> None:
    done = propose()
    assert (done.code, done.out, scripted.requests) == (2, "", [])
    assert done.err.endswith("ace: nothing was sent: --yes sends it\n")
    assert '"body": "text of ' in done.err and SECRET not in done.err
    assert not (tmp_path / "ace.toml").exists()


def test_the_model_sees_names_and_types_and_its_mapping_is_saved_and_read(
    propose: Callable[..., Done], scripted: ScriptedServer, tmp_path: Path, here: Run
) -> None:
    (tmp_path / "ace.toml").write_text("workers = 2\n", encoding="utf-8")
    done = propose("--yes")
    assert done.code == 0, done.err
    [request] = scripted.requests
    assert '"closing": "text of ' in request.text and '"solved": "true or false"' in request.text
    sent = json.dumps(request.body)
    assert [text for text in texts_in(RECORDS) if text in sent or json.dumps(text)[1:-1] in sent] == []
    assert "Ann" not in sent and "ann1@" not in sent
    assert f"  task: {SECRET[:60]}" in done.out
    assert "3 steps" in done.out
    saved = tomllib.loads((tmp_path / "ace.toml").read_text("utf-8"))
    assert saved == {"workers": 2, "logs": {"mapping": [MAPPING]}}
    found = here("inspect", "own.jsonl", "--json").data["formats"]["shop"]
    assert (found["runs"], found["with_task"], found["with_answer"], found["succeeded"], found["calls"]) == (
        4,
        4,
        4,
        2,
        4,
    )
    assert len(scripted.requests) == 1  # from now on, no model is needed


def test_a_mapping_goes_to_the_file_of_map(propose: Callable[..., Done], tmp_path: Path, here: Run) -> None:
    done = propose("--yes", "--map", "own.toml", "--json")
    assert (done.code, done.data["saved"], done.data["mapping"]) == (0, "own.toml", MAPPING)
    assert [run["steps"] for run in done.data["runs"]] == [3, 3, 3]
    assert not (tmp_path / "ace.toml").exists()
    found = here("inspect", "own.jsonl", "--map", "own.toml", "--json").data["formats"]
    assert list(found) == ["shop"]


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([{**MAPPING, "task": "ticket.("}, MAPPING], "task is not a valid JMESPath expression"),
        ([{**MAPPING, "tasks": "x"}, MAPPING], "unknown field 'tasks'"),
        (["I do not know.", MAPPING], "it holds no JSON object"),
        (["{not JSON}", MAPPING], "Your last answer: "),
        ([{**MAPPING, "task": "x", "answer": "x", "messages": "x"}, MAPPING], "neither a task nor an answer"),
        ([{**MAPPING, "step": {"toll": "did"}}, MAPPING], "'toll'"),
        ([{**MAPPING, "step": {"tool": 3}}, MAPPING], "step.tool has the wrong type: 3"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_repaired(
    answers: list[Any], problem: str, propose: Callable[..., Done], scripted: ScriptedServer
) -> None:
    done = propose("--yes", "--json")
    assert (done.code, done.data["mapping"]) == (0, MAPPING), done.err
    first, second = scripted.requests
    assert problem not in first.text and problem in second.text


@pytest.mark.parametrize("answers", [["no"] * 5])
def test_a_model_that_proposes_nothing_usable_is_asked_a_few_times(
    answers: list[Any], propose: Callable[..., Done], scripted: ScriptedServer, tmp_path: Path
) -> None:
    done = propose("--yes")
    assert (done.code, len(scripted.requests)) == (2, 3)
    assert "the model proposed no usable mapping: it holds no JSON object; write one by hand" in done.err
    assert not (tmp_path / "ace.toml").exists()


def test_only_one_file_of_json_is_proposed_for(propose: Callable[..., Done], here: Run, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("It went wrong.\n", encoding="utf-8")
    assert "--propose takes one file" in here("inspect", ".", "--propose").err
    assert "--propose needs JSON objects" in here("inspect", "note.txt", "--propose").err


def test_only_names_that_recur_or_look_like_roles_are_shown() -> None:
    values = [("user", "mail@acme.example", "Ann", "GPT-4"), ("bot", "ann@acme.example", "Bob", "GPT-4")]
    shown = json.loads(skeleton([{"role": r, "to": t, "who": w, "model": m} for r, t, w, m in values]))
    assert shown == {
        "role": "text: user | bot",
        "to": "text of 17 characters",
        "who": "text of 3 characters",
        "model": "text: GPT-4",
    }


def test_a_mapping_is_written_as_toml() -> None:
    mapping = LogMapping(
        name='my "own"',
        when="a == 'x'",
        one_run=True,
        certainty=0.7,
        places=("~/logs/*.jsonl",),
        step=StepMapping(role="who", text='a || "b c"'),
    )
    [table] = tomllib.loads(mapping_as_toml(mapping))["logs"]["mapping"]
    assert LogMapping.from_fields(table) == mapping
