"""Sessions of Gemini CLI and Qwen Code are read as they are after all changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, read_runs
from tests.core.logs.log_files import DATA, run_of, runs_of, steps_of, written

HEAD = {"sessionId": "g1", "projectHash": "ab", "startTime": "2026-08-01T10:00:00Z", "kind": "main"}


def user(identity: str, text: str, second: int = 1) -> dict[str, Any]:
    time = f"2026-08-01T10:00:{second:02}Z"
    return {"id": identity, "timestamp": time, "type": "user", "content": [{"text": text}]}


def model(identity: str, text: str = "", second: int = 2, **fields: Any) -> dict[str, Any]:
    time = f"2026-08-01T10:00:{second:02}Z"
    return {"id": identity, "timestamp": time, "type": "gemini", "content": text, "model": "g", **fields}


def called(status: str, response: dict[str, Any] | None) -> dict[str, Any]:
    result = [{"functionResponse": {"id": "c1", "name": "read", "response": response}}] if response else None
    return {"id": "c1", "name": "read", "args": {"path": "cfg"}, "status": status, "result": result}


def test_a_session_of_a_real_gemini() -> None:
    run = run_of(DATA / "session-2026-11-28T07-55-cd3f9a06.jsonl")

    assert run.task == "Make the tests green"
    assert [step.content for step in run.steps if step.speaker == "person"] == ["Make the tests green"]
    assert [step.kind for step in run.steps][-3:] == ["call", "result", "message"]
    assert [step.is_error for step in run.steps if step.kind == "result"] == [True]
    assert run.answer == "The tests fail with exit code 3. LESSON gemini"
    assert (run.tokens.input, run.tokens.output, run.model) == (200, 20, "gemini-2.5-flash")


def test_the_stream_of_a_real_gemini() -> None:
    run = run_of(DATA / "gemini-stream.jsonl")

    assert run.task == "Make the tests green"
    assert [(step.kind, step.name) for step in run.steps if step.kind != "message"] == [
        ("call", "run_shell_command"),
        ("result", "run_shell_command"),
    ]
    assert run.answer == "The tests fail with exit code 3. LESSON gemini"
    assert (run.tokens.input, run.tokens.output) == (200, 20)


def test_pieces_of_a_stream_are_one_message_and_an_error_ends_it(tmp_path: Path) -> None:
    path = written(
        tmp_path / "out.jsonl",
        {"type": "init", "session_id": "s", "model": "g"},
        {"type": "message", "role": "user", "content": "Port?"},
        {"type": "message", "role": "assistant", "content": "I look", "delta": True},
        {"type": "message", "role": "assistant", "content": " it up.", "delta": True},
        {"type": "tool_use", "tool_name": "read", "tool_id": "c", "parameters": {"path": "cfg"}},
        {"type": "tool_result", "tool_id": "c", "status": "error", "error": {"message": "no file"}},
        {"type": "result", "status": "error", "error": {"message": "quota"}, "stats": {"input_tokens": 7}},
    )

    run = run_of(path)

    assert steps_of(run) == [
        "person: Port?",
        "agent: I look it up.",
        'read {"path": "cfg"}',
        "read failed: no file",
        "harness: quota",
    ]
    assert run.is_interrupted
    assert run.tokens.input == 7


def test_a_message_replaces_that_of_its_id_and_calls_count_once(tmp_path: Path) -> None:
    part = {"functionCall": {"id": "c1", "name": "read", "args": {"path": "cfg"}}}
    path = written(
        tmp_path / "session-1.jsonl",
        HEAD,
        user("1", "Which port?"),
        model("2", thoughts=[{"subject": "Look", "description": "Read it."}], tokens={"input": 9, "output": 1}),
        {
            **model("2", toolCalls=[called("error", {"error": "no file"})], tokens={"input": 9, "output": 1}),
            "content": [part],
            "thoughts": [{"subject": "Look", "description": "Read it."}],
        },
        {"$set": {"lastUpdated": "2026-08-01T10:00:03Z"}},
        user("x", "/stats"),
        model("3", "I could not find it.", tokens={"input": 40, "output": 6, "thoughts": 2}),
    )

    run = run_of(path)

    assert steps_of(run) == [
        "person: Which port?",
        "thought: Look: Read it.",
        'read {"path": "cfg"}',
        "read failed: no file",
        "harness: /stats",
        "agent: I could not find it.",
    ]
    assert (run.id, run.tokens.input, run.tokens.output) == ("g1", 49, 9)


@pytest.mark.parametrize(("target", "left"), [("3", ["person: A", "agent: a"]), ("unknown", [])])
def test_rewinding_removes_a_message_and_what_follows(tmp_path: Path, target: str, left: list[str]) -> None:
    said = [HEAD, user("1", "A"), model("2", "a"), user("3", "B"), model("4", "b"), {"$rewindTo": target}]
    run = run_of(written(tmp_path / "session-1.jsonl", *said, user("5", "C"), model("6", "c")))

    assert steps_of(run) == [*left, "person: C", "agent: c"]


def test_a_set_list_replaces_all_messages(tmp_path: Path) -> None:
    kept = {"$set": {"messages": [user("9", "Kept")]}}
    run = run_of(written(tmp_path / "session-1.jsonl", HEAD, user("1", "Gone"), kept, model("2", "ok")))

    assert steps_of(run) == ["person: Kept", "agent: ok"]


def test_a_real_session_that_was_resumed_interrupted_and_resumed() -> None:
    run = run_of(DATA / "real" / "session-2026-11-28T14-00-e095bbff.jsonl")

    words = [step.content for step in run.steps if step.speaker == "person"]
    assert words == ["Make the tests green", "Hold on please", "Carry on now"]
    assert [step.is_error for step in run.steps if step.kind == "result"] == [True, False]
    assert (run.answer, run.is_interrupted) == ("And once more.", False)
    # Five answers, one of which was lost when the program was interrupted.
    assert (run.tokens.input, run.tokens.output) == (500, 50)
    assert run.started and run.ended and (run.ended - run.started).total_seconds() > 16


def test_a_resumed_session_keeps_what_it_repeats_in_a_shorter_form(tmp_path: Path) -> None:
    begun = {"input": 20, "output": 4}
    recorded = [user("1", "Port?"), model("2", toolCalls=[called("error", {"output": "no"})], tokens=begun)]
    parts = [{"functionCall": {"id": "c1", "name": "read", "args": {}}}]
    response = [{"functionResponse": {"id": "c1", "name": "read", "response": {"output": "no"}}}]
    repeated = [
        user("1", "Port?", second=9),
        {"id": "2", "timestamp": "2026-08-01T10:00:09Z", "type": "gemini", "content": parts},
        {"id": "2_response", "timestamp": "2026-08-01T10:00:09Z", "type": "user", "content": response},
    ]
    resumed = [
        {**HEAD, "startTime": "2026-08-01T10:00:08Z"},
        {"$set": {"messages": []}},
        {"$set": {"messages": repeated}},
    ]
    path = written(
        tmp_path / "session-1.jsonl", HEAD, *recorded, model("3", tokens=begun), *resumed, user("4", "And?", 10)
    )
    run = run_of(path)

    assert steps_of(run) == ["person: Port?", 'read {"path": "cfg"}', "read failed: no", "person: And?"]
    # The message that is gone has cost tokens, too.
    assert (run.tokens.input, run.tokens.output) == (40, 8)
    assert run.started and (run.started.second, run.is_interrupted) == (0, True)


@pytest.mark.parametrize(
    ("status", "response", "step"),
    [
        ("success", {"output": "8080"}, "read returned: 8080"),
        ("cancelled", {"error": "[Operation Cancelled]"}, "read failed: [Operation Cancelled]"),
        ("executing", None, None),
    ],
)
def test_states_of_calls(tmp_path: Path, status: str, response: dict[str, Any] | None, step: str | None) -> None:
    session = {**HEAD, "messages": [user("1", "Port?"), model("2", toolCalls=[called(status, response)])]}
    run = run_of(written(tmp_path / "session-1.json", session))

    assert steps_of(run) == ["person: Port?", 'read {"path": "cfg"}', *([step] if step else [])]
    assert run.is_interrupted == (status != "success")


def test_an_old_file_that_was_continued_is_read_once(tmp_path: Path) -> None:
    written(tmp_path / "session-1.json", {**HEAD, "messages": [user("1", "A"), model("2", "a")]})
    written(tmp_path / "session-1.jsonl", HEAD, user("1", "A"), model("2", "a"), user("3", "B"), model("4", "b"))

    found = list(read_runs(tmp_path))

    assert [type(item) for item in found] == [Problem, type(found[1])]
    assert "session-1.jsonl" in str(found[0])


def test_the_steps_of_a_sub_agent_are_those_of_its_parent(tmp_path: Path) -> None:
    chats = tmp_path / "chats"
    written(
        chats / "session-1.jsonl",
        HEAD,
        user("1", "Look."),
        model("2", toolCalls=[called("success", {"output": "ok"})], second=2),
        model("3", "Done.", second=9),
    )
    inner = {**HEAD, "sessionId": "g2", "kind": "subagent"}
    path = written(chats / "g1" / "g2.jsonl", inner, user("1", "Explore a.py.", 4), model("2", "Explored.", 5))

    assert [steps_of(run) for run in runs_of(tmp_path)] == [
        [
            "person: Look.",
            'read {"path": "cfg"}',
            "read returned: ok",
            "harness: Explore a.py.",
            "agent: Explored.",
            "agent: Done.",
        ]
    ]
    alone = run_of(path)
    assert (alone.parent, alone.task) == ("g1", "Explore a.py.")


@pytest.mark.parametrize("name", ["", "..", "../other"])
def test_the_id_of_a_session_leads_to_no_other_folder(tmp_path: Path, name: str) -> None:
    inner = {**HEAD, "kind": "subagent"}
    written(tmp_path / "other" / "a.jsonl", inner, user("1", "Of another."))
    written(tmp_path / "b.jsonl", inner, user("1", "Of another."))
    path = written(tmp_path / "chats" / "session-1.jsonl", {**HEAD, "sessionId": name}, user("1", "A"), model("2", "a"))
    written(path.parent / "c.jsonl", inner, user("1", "Of another."))

    assert steps_of(run_of(path)) == ["person: A", "agent: a"]


def test_a_session_of_qwen() -> None:
    run = run_of(DATA / "qwen.jsonl")

    assert steps_of(run) == [
        "person: How much is the blue kettle?",
        "thought: Ask the shop.",
        'get_price {"sku": "KET-2"}',
        "get_price failed: no such sku KET-2",
        "harness: The build has finished.",
        "agent: I do not know its price.",
        "person: It is 14.",
        "agent: Then it is 14.",
    ]
    assert (run.id, run.tokens.input, run.tokens.output) == ("q1", 60, 12)


def test_a_real_session_of_qwen_that_was_resumed() -> None:
    run = run_of(DATA / "qwen-session.jsonl")

    assert [step.content for step in run.steps if step.speaker == "person"] == ["Make the tests green", "No, fix them"]
    assert [(step.name, step.is_error) for step in run.steps if step.kind == "result"] == [
        ("run_shell_command", True)
    ] * 2
    assert run.answer == "The tests fail with exit code 3."
    assert (run.tokens.input, run.tokens.output, run.model, run.cwd) == (400, 40, "m", "/home/dev/shop")


@pytest.mark.parametrize(
    ("tool", "output", "failed"),
    [
        ("run_shell_command", "Output: Exit Code: 1\nExit Code: 0\nSignal: 0", False),
        ("run_shell_command", "Output: ok\nExit Code: 0\nExit Code: 1", True),
        ("read_file", "Exit Code: 1", False),
    ],
)
def test_only_the_exit_code_of_the_shell_tool_counts(tmp_path: Path, tool: str, output: str, failed: bool) -> None:
    call = {**called("success", {"output": output}), "name": tool}
    call["result"][0]["functionResponse"]["name"] = tool
    run = run_of(written(tmp_path / "session-1.jsonl", HEAD, user("1", "A"), model("2", toolCalls=[call])))

    assert run.steps[-1].is_error == failed
