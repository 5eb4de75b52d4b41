"""Tasks of Cline and Roo Code are read, in which a person speaks inside tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import DATA, run_of, runs_of, steps_of, written

FAILED = "The tool execution failed with the following error:\n<error>HTTP 404: no such sku KET-2</error>"


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def agent(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


TASK = user("<task>\nRename price.\n</task>", "<environment_details>\n# Files\n</environment_details>")


def steps(path: Path, *messages: dict[str, Any]) -> list[str]:
    return steps_of(run_of(written(path / "api_conversation_history.json", [TASK, *messages])))[1:]


def test_a_history_with_calls_in_texts() -> None:
    run = run_of(DATA / "cline_api_history.json")

    assert steps_of(run) == [
        "person: How many days may a customer return the blue kettle?",
        "thought: look",
        'get_policy {"sku": "KET-2"}',
        f"get_policy failed: {FAILED}",
        "agent: A customer may return it within 30 days.",
        "person: No, that's wrong. It is 14 days.",
        "agent: 14 days.",
    ]
    assert run.task == "How many days may a customer return the blue kettle?"


def test_a_session_of_a_real_cline() -> None:
    run = run_of(DATA / "cline.messages.json")

    assert steps_of(run) == [
        "person: Make the tests green",
        "agent: I run them.",
        'run_commands {"commands": ["echo broken; exit 3"]}',
        "run_commands failed: [Command exited with code 3]\nbroken",
        "agent: The tests fail with exit code 3.",
    ]
    assert (run.tokens.input, run.tokens.output, run.model) == (200, 20, "m")


def test_what_was_shown() -> None:
    run = run_of(DATA / "cline_ui_messages.json")

    assert steps_of(run) == [
        "person: How many days may a customer return the blue kettle?",
        'get_policy {"path": "KET-2"}',
        "get_policy failed: HTTP 404: no such sku KET-2",
        "agent: A customer may return it within 30 days.",
    ]
    assert run.answer == "A customer may return it within 30 days."


def test_results_and_persons_in_one_message(tmp_path: Path) -> None:
    denied = "The user denied this operation and provided the following feedback:\n<feedback>\nUse sed.\n</feedback>"

    assert steps(
        tmp_path,
        agent("I read it.\n<read_file>\n<path>p.py</path>\n</read_file>"),
        user("[read_file for 'p.py'] Result:", "price = 7", "<environment_details>x</environment_details>"),
        agent("<execute_command><command>rm p.py</command></execute_command>"),
        user("[execute_command for 'rm p.py'] Result:", denied),
        agent("Hm."),
        user("[ERROR] You did not use a tool in your previous response! Please retry with a tool use."),
        user("[TASK RESUMPTION] This task was interrupted."),
        agent("<ask_followup_question><question>Which name?</question></ask_followup_question>"),
        user("[ask_followup_question for 'Which name?'] Result:", "<answer>\ncost\n</answer>"),
        agent("<attempt_completion>\n<result>\nDone.\n</result>\n</attempt_completion>"),
    ) == [
        "agent: I read it.",
        'read_file {"path": "p.py"}',
        "read_file returned: price = 7",
        'execute_command {"command": "rm p.py"}',
        "execute_command failed: The user denied this operation and provided the following feedback:",
        "person: Use sed.",
        "agent: Hm.",
        "harness: [ERROR] You did not use a tool in your previous response! Please retry with a tool use.",
        "harness: [TASK RESUMPTION] This task was interrupted.",
        "agent: Which name?",
        "harness: [ask_followup_question for 'Which name?'] Result:",
        "person: cost",
        "agent: Done.",
    ]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": "price = 7"}, ["read returned: price = 7"]),
        ({"content": "no file", "is_error": True}, ["read failed: no file"]),
        ({"content": '{"status": "error", "message": "x"}'}, ['read failed: {"status": "error", "message": "x"}']),
        (
            {"content": '{"status": "denied", "feedback": "No."}'},
            ['read failed: {"status": "denied", "feedback": "No."}', "person: No."],
        ),
        (
            {"content": [{"type": "text", "text": '{"status": "guidance", "feedback": "Look at q."}'}]},
            ['read returned: {"status": "guidance", "feedback": "Look at q."}', "person: Look at q."],
        ),
    ],
)
def test_native_calls(tmp_path: Path, result: dict[str, Any], expected: list[str]) -> None:
    call = {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "p"}}
    done = {"type": "tool_use", "id": "d", "name": "attempt_completion", "input": {"result": "Done."}}

    assert steps(
        tmp_path,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", **result}]},
        {"role": "assistant", "content": [done]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "d", "content": ""}]},
    ) == ['read {"path": "p"}', *expected, "agent: Done."]


def test_tags_in_the_output_of_a_tool_are_not_said_by_a_person(tmp_path: Path) -> None:
    assert steps(
        tmp_path,
        agent("<read_file><path>quiz.xml</path></read_file>"),
        user("[read_file for 'quiz.xml'] Result:", "<task>Add.</task><answer>4</answer>"),
    ) == ['read_file {"path": "quiz.xml"}', "read_file returned: <task>Add.</task><answer>4</answer>"]


def test_chat_messages_with_tags_are_not_a_task_of_cline(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Be brief. <task>Add.</task>"}, agent("4")]

    assert [run.format for run in runs_of(written(tmp_path / "chat.json", messages))] != ["cline"]


def test_summaries_are_skipped_and_condensed_messages_are_real(tmp_path: Path) -> None:
    assert steps(
        tmp_path,
        {**agent("One."), "condenseParent": "x"},
        {**user("A summary."), "isSummary": True},
        {**user("cut"), "isTruncationMarker": True},
        agent("Two."),
    ) == ["agent: One.", "agent: Two."]


def test_the_files_beside_a_history_are_not_read(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "1767607200000"
    written(task / "api_conversation_history.json", [TASK, agent("Done.")])
    written(task / "ui_messages.json", [{"ts": 1, "type": "say", "say": "text", "text": "Rename price."}])
    written(task / "task_metadata.json", {"files_in_context": []})

    assert [(run.format, run.id) for run in runs_of(tmp_path)] == [("cline", "1767607200000")]


def test_commands_feedback_and_tokens_that_were_shown(tmp_path: Path) -> None:
    def say(kind: str, text: Any) -> dict[str, Any]:
        return {
            "ts": 1767607200000,
            "type": "say",
            "say": kind,
            "text": text if isinstance(text, str) else json.dumps(text),
        }

    run = run_of(
        written(
            tmp_path / "ui_messages.json",
            [
                say("text", "Run it."),
                say("api_req_started", {"tokensIn": 5, "cacheReads": 2, "tokensOut": 1}),
                say("reasoning", "Hm."),
                {**say("text", "I r"), "partial": True},
                say("text", "I run it."),
                say("command", "make"),
                say("command_output", "ok"),
                say("user_feedback", "Again."),
                say("completion_result", "Done."),
            ],
        )
    )

    assert steps_of(run) == [
        "person: Run it.",
        "thought: Hm.",
        "agent: I run it.",
        "command make",
        "command returned: ok",
        "person: Again.",
        "agent: Done.",
    ]
    assert (run.tokens.input, run.tokens.output) == (7, 1)
