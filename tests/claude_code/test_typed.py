"""What the user types in other ways than as a plain prompt: slash commands, and messages while the agent works."""

from __future__ import annotations

from typing import Any

import pytest

from ace import read_trace
from ace.cases import cases_of
from ace_claude_code import transcript_to_trace, transcript_to_turn_traces
from tests.claude_code.samples import TRANSCRIPTS, assistant, user
from tests.support.corrected_chats import judged


def command(name: str, arguments: str, uuid: str, parent: str | None, **more: Any) -> dict[str, Any]:
    tags = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    return user(f"{tags}\n<command-args>{arguments}</command-args>" if arguments else tags, uuid, parent, **more)


def expansion(text: str, uuid: str, parent: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "user", "isMeta": True, "uuid": uuid, "parentUuid": parent, "message": {"content": content}}


def built_in(name: str, uuid: str, parent: str) -> list[dict[str, Any]]:
    caveat = "<local-command-caveat>The command below was run directly.</local-command-caveat>"
    tags = f"<command-name>/{name}</command-name>\n  <command-message>{name}</command-message>"
    return [
        user(caveat, f"{uuid}-caveat", parent, isMeta=True),
        user(tags, uuid, f"{uuid}-caveat"),
        user(f"<local-command-stdout>{name} done</local-command-stdout>", f"{uuid}-output", uuid),
    ]


def queued(prompt: object, uuid: str, parent: str, **more: Any) -> dict[str, Any]:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **more}
    return {"type": "attachment", "uuid": uuid, "parentUuid": parent, "attachment": attachment}


REVIEWED = [
    user("Fix the login bug", "u1"),
    assistant("Fixed the login.", "a1", "u1"),
    command("review", "payment module", "u2", "a1"),
    expansion("Review payment module for leaks.", "m2", "u2"),
    assistant("The payment module leaks keys.", "a2", "m2"),
]


def test_a_slash_command_is_a_turn_of_its_own_with_its_expansion() -> None:
    first, second = transcript_to_turn_traces(REVIEWED)
    assert (first["question"], first["answer"]) == ("Fix the login bug", "Fixed the login.")
    assert "The user's next message: /review payment module" in str(first["feedback"])
    assert "Review payment module for leaks." not in str(first["feedback"])
    assert second["question"] == "/review payment module\n\nReview payment module for leaks."
    assert second["answer"] == "The payment module leaks keys."
    assert "<command-" not in str(second["reasoning"])


def test_a_slash_command_leaves_the_turn_before_as_it_was() -> None:
    before = transcript_to_turn_traces(REVIEWED[:2])
    assert transcript_to_turn_traces(REVIEWED)[0]["trace_id"] == before[0]["trace_id"]


def test_a_slash_command_alone_is_a_turn() -> None:
    records = [
        command("fix-issue", "", "u1", None),
        expansion("Fix the issue.", "m1", "u1"),
        assistant("Done.", "a1", "m1"),
    ]
    [turn] = transcript_to_turn_traces(records)
    assert (turn["question"], turn["answer"]) == ("/fix-issue\n\nFix the issue.", "Done.")
    assert transcript_to_trace(records)["question"] == turn["question"]


def test_a_correction_of_a_slash_command_is_filed_under_the_command() -> None:
    records = [
        *REVIEWED,
        user("No, reviews are written to REVIEW.md here, not said.", "u3", "a2"),
        assistant("You're right, it is in REVIEW.md.", "a3", "u3"),
    ]
    [case] = cases_of(judged(transcript_to_trace(records), reply="No, reviews"))
    assert case.question == "/review payment module"
    assert case.wrong == "The payment module leaks keys."


@pytest.mark.parametrize("name", ["compact", "model", "clear"])
def test_a_built_in_command_is_not_a_turn(name: str) -> None:
    records = [
        user("Fix it.", "u1"),
        assistant("Fixed.", "a1", "u1"),
        *built_in(name, "b1", "a1"),
        user("Thanks", "u2", "b1-output"),
        assistant("Welcome.", "a2", "u2"),
    ]
    assert [turn["question"] for turn in transcript_to_turn_traces(records)] == ["Fix it.", "Thanks"]
    assert f"/{name}" not in str(transcript_to_trace(records)["reasoning"])


def test_a_skill_that_the_model_loads_is_not_a_turn() -> None:
    records = [
        user("Greet Bob.", "u1"),
        {**expansion("Base directory for this skill: x", "m1", "u1"), "sourceToolUseID": "c1"},
        user("<command-message>greet is loading</command-message><command-name>greet</command-name>", "u2", "m1"),
        assistant("Good day, Bob.", "a1", "u2"),
    ]
    assert [turn["question"] for turn in transcript_to_turn_traces(records)] == ["Greet Bob."]


def test_the_commands_of_a_real_session() -> None:
    turns: list[dict[str, Any]] = transcript_to_turn_traces(TRANSCRIPTS / "2.1.329" / "slash-commands.jsonl")
    assert [turn["question"].split("\n")[0] for turn in turns] == [
        *("Fix the login bug", "/fix-issue 17 now", "/greet Ann", "Too long"),
    ]
    assert turns[1]["question"] == "/fix-issue 17 now\n\nFix the issue 17 now and run the tests."
    assert "Greet politely the person named." in turns[2]["question"]
    assert [turn["answer"] for turn in turns] == ["answer 2", "answer 3", "answer 4", "answer 7"]


def test_what_is_typed_while_the_agent_works_is_a_message_of_the_turn() -> None:
    records = [
        user("Deploy it.", "u1"),
        assistant("I edit prod.env.", "a1", "u1"),
        queued("No! Never touch prod.env, use stage.env", "q1", "a1"),
        assistant("Right, stage.env it is.", "a2", "q1"),
    ]
    [turn] = transcript_to_turn_traces(records)
    messages = [(step["name"], step["content"]) for step in read_trace(turn)["steps"]]
    assert messages == [
        ("user", "Deploy it."),
        ("assistant", "I edit prod.env."),
        ("user", "No! Never touch prod.env, use stage.env"),
        ("assistant", "Right, stage.env it is."),
    ]
    assert turn["feedback"] == "While the agent worked, the user said: No! Never touch prod.env, use stage.env"
    [case] = cases_of(judged(turn, "stage.env"))
    assert (case.question, case.wrong) == ("Deploy it.", "I edit prod.env.")


def test_a_message_with_an_image_and_one_without_an_id_are_taken_too() -> None:
    parts = [{"type": "text", "text": "Like this."}, {"type": "image", "source": {"type": "base64", "data": "x"}}]
    records = [
        user("Draw it.", "u1"),
        assistant("A circle.", "a1", "u1"),
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": parts}},
        assistant("A square.", "a2", "a1"),
    ]
    [turn] = transcript_to_turn_traces(records)
    assert "the user said: Like this." in str(turn["feedback"])
    assert transcript_to_trace(records)["answer"] == "A square."


def test_what_others_put_into_the_queue_is_not_the_user_s() -> None:
    records = [
        user("Deploy it.", "u1"),
        queued("<task-notification>done</task-notification>", "q1", "u1", commandMode="task-notification"),
        queued("Continue.", "q2", "q1", isMeta=True),
        assistant("Deployed.", "a1", "q2"),
    ]
    [turn] = transcript_to_turn_traces(records)
    assert turn["feedback"] == ""


def test_what_was_typed_in_a_real_session_is_at_its_place() -> None:
    [turn] = transcript_to_turn_traces(TRANSCRIPTS / "2.1.329" / "typed-while-working.jsonl")
    told = [(step["kind"], step["content"]) for step in read_trace(turn)["steps"]]
    typed = told.index(("message", "No! never touch prod.env"))
    assert told[typed - 1] == ("result", "(Bash completed with no output)")
    assert told[typed + 1] == ("call", '{"command": "echo two"}')
    assert "the user said: No! never touch prod.env" in str(turn["feedback"])
