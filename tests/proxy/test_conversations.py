"""Which calls are joined to a run, what is said about it, and which skills it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from ace.integrations import SKILLBOOK_USAGE_INSTRUCTIONS
from ace.logs import Run
from ace.skillbook import Skillbook
from tests.proxy.world import SKILL, Raw, Seen, World, chat, in_json, world


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def ask(proxy: World, *messages: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> httpx.Response:
    return httpx.post(f"{proxy.api}/chat/completions", json={"model": "m", "messages": messages}, headers=headers)


def echo(seen: Seen) -> Raw:
    return chat(f"answer to {seen.data['messages'][-1]['content']}")


def spoken(run: Run) -> list[str]:
    return [step.content for step in run.steps if step.speaker != "harness"]


def test_a_growing_list_of_messages_is_one_run(tmp_path: Path) -> None:
    first, second, third = said("user", "one"), said("user", "two"), said("user", "three")
    with world(tmp_path, echo) as proxy:
        ask(proxy, said("system", "At 10:01"), first)
        ask(proxy, said("system", "At 10:02"), first, said("assistant", "answer to one"), second)
        ask(proxy, first, said("assistant", "answer to one"), second, said("assistant", "two!"), third)
        runs = proxy.runs()
    assert [spoken(run) for run in runs] == [
        ["one", "answer to one", "two", "answer to two", "three", "answer to three"]
    ]


def test_the_same_question_again_is_another_run_unless_the_first_had_no_answer(tmp_path: Path) -> None:
    replies = [chat("a"), chat("b"), in_json({"error": {"message": "busy"}}, 503), chat("c")]
    with world(tmp_path, lambda _: replies.pop(0)) as proxy:
        for _ in range(4):
            ask(proxy, said("user", "one"))
        runs = proxy.runs()
    assert [spoken(run) for run in runs] == [["one", "a"], ["one", "b"], ["one", "c"]]
    assert [step.content for step in runs[2].steps if step.is_error] == ["the model call failed with status 503: busy"]


def test_of_two_conversations_with_the_same_beginning_the_system_text_decides(tmp_path: Path) -> None:
    one, two = said("user", "one"), said("user", "two")
    with world(tmp_path, echo) as proxy:
        ask(proxy, said("system", "You are a planner."), one)
        ask(proxy, said("system", "Write a title."), one)
        ask(proxy, said("system", "You are a planner."), one, said("assistant", "answer to one"), two)
        runs = proxy.runs()
    assert [spoken(run) for run in runs] == [["one", "answer to one", "two", "answer to two"], ["one", "answer to one"]]


def test_a_message_that_a_program_moves_along_at_the_end_does_not_divide_a_run(tmp_path: Path) -> None:
    one, answer, two = said("user", "one"), said("assistant", "seven"), said("user", "two")
    moving = [said("user", f"<session_context>At 10:0{minute}</session_context>") for minute in range(4)]
    with world(tmp_path, lambda _: chat("seven")) as proxy:
        ask(proxy, one, moving[0])
        ask(proxy, one, answer, two, moving[1])
        ask(proxy, one, answer, two, answer, moving[2])
        ask(proxy, one, moving[3])  # asked again, it is another run
        ask(proxy, one, moving[3])
        runs = proxy.runs()
    assert [spoken(run) for run in runs] == [["one", "seven", "two", "seven", "seven"]] + [["one", "seven"]] * 2


def test_a_message_of_a_program_that_stays_is_recorded_once(tmp_path: Path) -> None:
    messages = [said("user", "one"), said("assistant", "answer to one"), said("user", "Observation: 7")]
    with world(tmp_path, echo) as proxy:
        ask(proxy, *messages[:1])
        ask(proxy, *messages)
        messages += [said("assistant", "answer to Observation: 7"), said("user", "Observation: 8")]
        ask(proxy, *messages)
        [run] = proxy.runs()
    assert [step.content for step in run.steps] == [
        *("one", "answer to one", "Observation: 7", "answer to Observation: 7"),
        *("Observation: 8", "answer to Observation: 8"),
    ]


def test_a_session_joins_calls_that_share_nothing(tmp_path: Path) -> None:
    ours, theirs = {"x-ace-session": "ours"}, {"x-ace-session": "theirs"}
    with world(tmp_path, echo) as proxy:
        ask(proxy, said("user", "plan"), headers=ours)
        ask(proxy, said("user", "other"), headers=theirs)
        ask(proxy, said("user", "act"), headers=ours)
        ask(proxy, said("user", "act"), said("assistant", "answer to act"), said("user", "check"), headers=ours)
        runs = proxy.runs()
    assert [spoken(run) for run in runs] == [
        ["plan", "answer to plan", "act", "answer to act", "check", "answer to check"],
        ["other", "answer to other"],
    ]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [(["success"], True), (["failure"], False), (["success", "failure"], False), (["maybe"], None), ([], None)],
)
def test_the_last_outcome_in_a_header_counts(tmp_path: Path, outcomes: Sequence[str], expected: bool | None) -> None:
    with world(tmp_path, echo) as proxy:
        for outcome in outcomes or [""]:
            ask(proxy, said("user", "one"), headers={"x-ace-session": "s", "x-ace-outcome": outcome})
        [run] = proxy.runs()
    assert run.success is expected


def test_feedback_is_part_of_the_run_that_it_is_about(tmp_path: Path) -> None:
    with world(tmp_path, echo) as proxy:
        ask(proxy, said("user", "one"), headers={"x-ace-session": "s"})
        ask(proxy, said("user", "two"))
        of_latest = httpx.post(f"{proxy.address}/ace/feedback", json={"outcome": "success"})
        feedback = {"session": "s", "outcome": "failure", "feedback": "No, it is 7."}
        of_session = httpx.post(f"{proxy.address}/ace/feedback", json=feedback)
        first, second = proxy.runs()
    assert (of_latest.json(), of_session.json()) == ({"run": second.id}, {"run": first.id})
    assert (second.success, first.success, first.reason) == (True, False, "No, it is 7.")
    assert (first.steps[-1].speaker, first.steps[-1].content) == ("person", "No, it is 7.")
    assert [(step["name"], step["content"]) for step in first.to_trace()["steps"]] == [
        ("user", "one"),
        ("assistant", "answer to one"),
        ("user", "No, it is 7."),
    ]


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b"x", 400, "must be a JSON object"),
        (b"{}", 400, "outcome or feedback must be given"),
        (b'{"outcome": "good"}', 400, "outcome must be success or failure, got 'good'"),
        (b'{"feedback": 7}', 400, "feedback must be a text"),
        (b'{"feedback": "x", "session": "s"}', 404, "no call of the session 's' was seen"),
        (b'{"feedback": "x"}', 404, "no call was seen"),
    ],
)
def test_feedback_that_cannot_be_used_is_explained(tmp_path: Path, body: bytes, status: int, problem: str) -> None:
    with world(tmp_path, echo) as proxy:
        response = httpx.post(f"{proxy.address}/ace/feedback", content=body)
    assert response.status_code == status and problem in response.json()["error"]["message"]


def test_the_skills_of_a_conversation_stay_the_same_while_the_skillbook_changes(tmp_path: Path) -> None:
    one, two = said("user", "weather?"), said("user", "weather umbrella boots?")
    with world(tmp_path, echo, skills=[SKILL]) as proxy:
        ask(proxy, one)
        with Skillbook.open(tmp_path / "skills.db") as book:
            book.add_skill("lessons", "In wet weather wear boots.")
        while "boots" not in proxy.skills.text_for("wet weather boots"):
            pass
        ask(proxy, one, said("assistant", "answer to weather?"), two)
        ask(proxy, two)
    systems = [seen.data["messages"][0]["content"] for seen in proxy.server.seen]
    assert systems[0] == systems[1] and "wear boots" not in systems[1] and "wear boots" in systems[2]


def test_a_request_that_has_skills_is_not_changed_again(tmp_path: Path) -> None:
    system = said("system", f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n- [a-00001] Something else.")
    with world(tmp_path, echo, skills=[SKILL]) as proxy:
        ask(proxy, system, said("user", "weather?"))
    assert proxy.server.seen[0].data["messages"] == [system, said("user", "weather?")]


def test_skills_that_do_not_fit_are_not_shown(tmp_path: Path) -> None:
    with world(tmp_path, echo, skills=[SKILL]) as proxy:
        ask(proxy, said("user", "2+2?"))
    assert proxy.server.seen[0].data["messages"] == [said("user", "2+2?")]


def test_a_silent_conversation_is_handed_over_and_one_that_continues_again(tmp_path: Path) -> None:
    one = said("user", "one")
    with world(tmp_path, echo, silence=0.0) as proxy:
        ask(proxy, one)
        while not proxy.handed_over:
            pass
        ask(proxy, one, said("assistant", "answer to one"), said("user", "two"))
        while len(proxy.handed_over) < 2:
            pass
        [run] = proxy.runs()
    assert proxy.handed_over[0] == proxy.handed_over[1] == proxy.folder / "runs" / f"{run.id}.jsonl"
    assert spoken(run) == ["one", "answer to one", "two", "answer to two"]
    assert list((proxy.folder / "open").iterdir()) == []


def test_conversations_of_a_killed_proxy_are_handed_over_by_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / "proxy" / "open" / "a1b2.jsonl"
    left.parent.mkdir(parents=True)
    (tmp_path / "proxy" / "runs").mkdir()
    left.write_text('{"ace_proxy": 1, "api": "openai-chat", "items": [{"role": "user", "content": "one"}]}\n')
    with world(tmp_path, echo, silence=0.0) as proxy:
        while not proxy.handed_over:
            pass
        [run] = proxy.runs()
    assert (run.id, spoken(run)) == ("a1b2", ["one"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8712"}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_only_programs_on_this_machine_may_use_it(tmp_path: Path, headers: Mapping[str, str], status: int) -> None:
    with world(tmp_path, echo) as proxy:
        assert ask(proxy, said("user", "one"), headers=headers).status_code == status
    assert len(proxy.server.seen) == (status == 200)


@pytest.mark.parametrize(("sent", "status"), [("the-right-key-of-the-proxy", 200), ("another", 401), ("", 401)])
def test_with_a_key_only_clients_that_send_it_may_use_it(tmp_path: Path, sent: str, status: int) -> None:
    with world(tmp_path, echo, key="the-right-key-of-the-proxy") as proxy:
        headers = {"x-ace-key": sent, "host": "machine.example"}
        assert ask(proxy, said("user", "one"), headers=headers).status_code == status
    assert ["the-right-key" in str(seen.headers) for seen in proxy.server.seen] == [False] * (status == 200)
