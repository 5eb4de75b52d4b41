"""`ace inspect --judgements`: the model names judgements after a yes, and those that check out are corrections."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Done, Run
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

DOCK = ["Which dock for the barge?", "Dock 4.", "No, dock 9.", "Dock 9."]
FIRST = {"message": "3", "quote": "No, dock 9.", "wrong": "Dock 4.", "right": "dock 9"}
INVENTED = {"message": "3", "quote": "No, berth 9.", "wrong": "Dock 4."}


def messages(*said: str) -> dict[str, Any]:
    return {"messages": [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]}


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    def script(request: ScriptedRequest) -> dict[str, Any]:
        assert "[3] person\nNo, dock 9." in request.text
        return {"judgements": [FIRST, INVENTED]}

    with ScriptedServer(script) as server:
        yield server


@pytest.fixture
def judge(here: Run, scripted: ScriptedServer, tmp_path: Path) -> Callable[..., Done]:
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(f"{json.dumps(messages(*said))}\n" for said in (DOCK, DOCK[:2])), encoding="utf-8")
    model = ("--model", "openai/scripted", "--api-base", scripted.api_base)
    return lambda *arguments: here("inspect", "chats.jsonl", "--judgements", *arguments, *model)


def test_nothing_is_sent_before_a_yes_and_the_cost_is_told(
    judge: Callable[..., Done], scripted: ScriptedServer
) -> None:
    done = judge()
    assert (done.code, len(scripted.requests)) == (2, 0)
    assert "a person replied to an answer in 1 of 2 runs; asking openai/scripted at http" in done.err
    assert "tokens in 1 call, at a price that is not known" in done.err
    assert "nothing was sent: --yes asks the model" in done.err


def test_each_judgement_is_shown_with_its_messages_and_the_reason_if_it_is_not_accepted(
    judge: Callable[..., Done], scripted: ScriptedServer
) -> None:
    done = judge("--yes")
    assert (done.code, len(scripted.requests)) == (0, 1)
    assert done.out.splitlines() == [
        "chats.jsonl#1, message 3, person: No, dock 9.",
        "  answer 2: Dock 4.",
        "  question: Which dock for the barge?",
        "  right: dock 9",
        "  a correction",
        "",
        "chats.jsonl#1, message 3, person: No, berth 9.",
        "  answer -: Dock 4.",
        "  question: -",
        "  right: (not said)",
        "  not accepted: the quote is not in the message",
        "",
        "1 correction; a person replied to an answer in 1 of 2 runs",
    ]


def test_a_program_gets_judgements_and_corrections(judge: Callable[..., Done]) -> None:
    found = json.loads(judge("--yes", "--json").out)
    assert (found["command"], found["model"], found["runs"], found["runs_with_replies"]) == (
        "inspect",
        "openai/scripted",
        2,
        1,
    )
    accepted, other = found["judgements"]
    assert accepted == {
        "run": "chats.jsonl#1",
        **FIRST,
        "speaker": "person",
        "question": DOCK[0],
        "answer_message": "2",
        "withdraws": False,
        "accepted": True,
        "problem": "",
    }
    assert (other["accepted"], other["problem"]) == (False, "the quote is not in the message")
    assert [(item["run"], item["right"]) for item in found["corrections"]] == [("chats.jsonl#1", "dock 9")]


def test_where_no_person_replied_no_model_is_asked(here: Run, tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text(json.dumps(messages(*DOCK[:2])), encoding="utf-8")
    done = here("inspect", "chats.jsonl", "--judgements", "--model", "openai/none", "--api-base", "http://127.0.0.1:9")
    assert done.code == 0
    assert "a person replied to an answer in 0 of 1 run; no model is asked" in done.err
