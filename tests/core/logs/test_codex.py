"""Sessions of Codex CLI are read as one conversation, from whatever version they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs import LogHead, Source
from ace.logs.formats.codex import CodexReader
from tests.core.logs.log_files import DATA, run_of, runs_of, steps_of, written

META = {"id": "s1", "cwd": "/shop", "timestamp": "2026-05-05T10:00:00Z", "git": {"commit_hash": "abc1"}}


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-05-05T10:00:01Z", "type": kind, "payload": payload}


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return line("response_item", type=kind, **payload)


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return line("event_msg", type=kind, **payload)


def said(role: str, text: str) -> dict[str, Any]:
    return item(
        "message", role=role, content=[{"type": f"{'out' if role == 'assistant' else 'in'}put_text", "text": text}]
    )


def typed(text: str) -> list[dict[str, Any]]:
    return [said("user", text), event("user_message", message=text)]


def test_a_session_of_a_real_codex() -> None:
    run = run_of(DATA / "codex-rollout.jsonl")

    assert run.task == "Make the tests green"
    assert [step.kind for step in run.steps if step.speaker != "harness"] == ["message", "call", "result", "message"]
    assert [(step.name, step.is_error) for step in run.steps if step.kind == "result"] == [("exec_command", True)]
    assert run.answer == "The tests fail with exit code 3. LESSON codex"
    assert (run.tokens.input, run.tokens.output, run.model, run.cwd) == (200, 20, "gpt-5", "/home/dev/shop")
    assert [step.content for step in run.steps if step.speaker == "person"] == ["Make the tests green"]


def test_a_short_session() -> None:
    run = run_of(DATA / "codex_rollout.jsonl")

    assert steps_of(run) == [
        "person: How many days may a customer return the blue kettle?",
        "thought: look",
        'shell {"command": ["policy", "KET-2"]}',
        'shell failed: {"output": "HTTP 404: no such sku KET-2", "metadata": {"exit_code": 1}}',
        "agent: A customer may return it within 30 days.",
    ]
    assert run.answer == "A customer may return it within 30 days."


def test_only_what_was_typed_is_said_by_a_person(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rollout.jsonl",
        line("session_meta", **META),
        said("developer", "Be brief."),
        said("user", "Follow the rules of the house."),
        said("user", "# AGENTS.md\n<INSTRUCTIONS>Use tabs.</INSTRUCTIONS>\nCount the files."),
        event("user_message", message="Count the files."),
        said("assistant", "There are 3."),
        event("agent_message", message="There are 3."),
    )

    run = run_of(path)

    assert steps_of(run) == [
        "harness: Follow the rules of the house.",
        "person: Count the files.",
        "agent: There are 3.",
    ]
    assert (run.id, run.commit, run.task) == ("s1", "abc1", "Count the files.")


def test_kinds_of_calls(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rollout.jsonl",
        line("session_meta", **META),
        *typed("Fix it."),
        item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c1"),
        event("patch_apply_end", call_id="c1", success=False),
        item("custom_tool_call_output", call_id="c1", output="no such file"),
        item("local_shell_call", call_id="c2", action={"type": "exec", "command": ["ls"]}),
        item("function_call_output", call_id="c2", output="a.py"),
        item("web_search_call", status="completed", action={"type": "search", "query": "kettle"}),
        item("function_call", name="exec_command", arguments='{"cmd": "sleep 9"}', call_id="c3"),
        item("function_call_output", call_id="c3", output=[{"type": "input_text", "text": "Exit code: 124\nslow"}]),
        item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": "Give up."}]),
        item("function_call", name="view", arguments="{}", call_id="c4"),
    )

    assert steps_of(run_of(path))[1:] == [
        "apply_patch *** Begin Patch",
        "apply_patch failed: no such file",
        'local_shell ["ls"]',
        "local_shell returned: a.py",
        "web_search kettle",
        'exec_command {"cmd": "sleep 9"}',
        "exec_command failed: Exit code: 124\nslow",
        "thought: Give up.",
        "view {}",
    ]


def test_compaction_repeats_nothing(tmp_path: Path) -> None:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Old words."}]}]
    path = written(
        tmp_path / "rollout.jsonl",
        line("session_meta", **META),
        *typed("Count."),
        said("assistant", "3."),
        line("compacted", message="A summary", replacement_history=history),
        *typed("And now?"),
        said("assistant", "4."),
    )

    assert steps_of(run_of(path)) == ["person: Count.", "agent: 3.", "person: And now?", "agent: 4."]


def test_turns_that_were_rolled_back_are_gone(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rollout.jsonl",
        line("session_meta", **META),
        *typed("Count."),
        said("assistant", "3."),
        *typed("Delete it."),
        item("function_call", name="rm", arguments="{}", call_id="c1"),
        *typed("Really."),
        said("assistant", "Deleted."),
        event("task_complete", last_agent_message="Deleted."),
        event("thread_rolled_back", num_turns=2),
        *typed("Keep it."),
        said("assistant", "Kept."),
    )

    run = run_of(path)

    assert steps_of(run) == ["person: Count.", "agent: 3.", "person: Keep it.", "agent: Kept."]
    assert run.answer == "Kept."


def test_the_answer_is_that_of_the_task_unless_a_person_asked_again(tmp_path: Path) -> None:
    first = [line("session_meta", **META), *typed("Count."), said("assistant", "3.")]
    finished = [*first, event("task_complete", last_agent_message="There are 3."), said("assistant", "Bye.")]
    again = [*finished, *typed("Sure?"), said("assistant", "4.")]

    assert run_of(written(tmp_path / "a.jsonl", *finished)).answer == "There are 3."
    assert run_of(written(tmp_path / "b.jsonl", *again)).answer == "4."


def test_an_aborted_turn_is_an_interruption_until_it_is_resumed(tmp_path: Path) -> None:
    aborted = [line("session_meta", **META), *typed("Count."), event("turn_aborted", reason="interrupted")]

    assert run_of(written(tmp_path / "a.jsonl", *aborted)).is_interrupted
    assert not run_of(written(tmp_path / "b.jsonl", *aborted, *typed("Go on."), said("assistant", "3."))).is_interrupted


def test_a_sub_agent_names_its_parent_and_hears_no_person(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "s0", "depth": 1}}}
    meta = line("session_meta", **META, source=source)
    run = run_of(written(tmp_path / "rollout.jsonl", meta, *typed("Look into a.py."), said("assistant", "Fine.")))

    assert (run.parent, run.task) == ("s0", "Look into a.py.")
    assert steps_of(run) == ["harness: Look into a.py.", "agent: Fine."]


def test_a_fork_repeats_the_head_of_its_origin_and_a_joined_file_has_two_sessions(tmp_path: Path) -> None:
    origin = {"id": "s0", "timestamp": "2026-05-04T10:00:00Z"}
    later = {"id": "s2", "timestamp": "2026-05-06T10:00:00Z"}
    begin = line("session_meta", **META, forked_from_id="s0")
    turns = [*typed("Count."), said("assistant", "3.")]

    run = run_of(written(tmp_path / "a.jsonl", begin, line("session_meta", **origin), *turns))
    joined = runs_of(written(tmp_path / "b.jsonl", begin, *turns, line("session_meta", **later), *turns))

    assert (run.id, run.rest) == ("s1", {"forked_from": "s0"})
    assert [run.id for run in joined] == ["s1", "s2"]


def test_sessions_from_before_september_2025(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rollout.jsonl",
        {"id": "old", "timestamp": "2025-06-01T10:00:00Z", "instructions": None, "git": {"commit_hash": "f00"}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": '{"output":"no","metadata":{"exit_code":2}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "None."}]},
    )

    run = run_of(path)

    assert (run.format, run.id, run.commit, run.task, run.answer) == ("codex", "old", "f00", "Count.", "None.")
    assert [step.is_error for step in run.steps if step.kind == "result"] == [True]


def test_a_compressed_session_is_not_read_if_the_file_is_beside_it(tmp_path: Path) -> None:
    written(tmp_path / "rollout-1.jsonl", line("session_meta", **META), *typed("Count."), said("assistant", "3."))
    compressed = tmp_path / "rollout-1.jsonl.zst"
    source = Source(compressed, "rollout-1.jsonl.zst", LogHead(path=compressed, shape="lines"))

    [problem] = CodexReader().runs(source)

    assert str(problem) == "rollout-1.jsonl.zst: the same session is in rollout-1.jsonl"


def test_the_output_of_a_real_codex_exec() -> None:
    run = run_of(DATA / "codex-exec.jsonl")

    assert run.task == ""
    assert [(step.kind, step.is_error) for step in run.steps if step.speaker != "harness"] == [
        ("call", False),
        ("result", True),
        ("message", False),
    ]
    assert run.answer == "The tests fail with exit code 3. LESSON codex"
    assert (run.tokens.input, run.tokens.output) == (200, 20)


@pytest.mark.parametrize("status", ["failed", "declined"])
def test_items_of_codex_exec(tmp_path: Path, status: str) -> None:
    call = {"type": "mcp_tool_call", "server": "shop", "tool": "price", "arguments": {"sku": "K"}}
    path = written(
        tmp_path / "exec.jsonl",
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        {"type": "item.started", "item": {"id": "1", **call, "status": "in_progress"}},
        {"type": "item.completed", "item": {"id": "1", **call, "error": {"message": "no sku"}, "status": status}},
        {"type": "item.completed", "item": {"id": "2", "type": "file_change", "changes": ["a"], "status": "completed"}},
        {
            "type": "item.started",
            "item": {"id": "3", "type": "command_execution", "command": "ls", "status": "in_progress"},
        },
        {"type": "turn.failed", "error": {"message": "out of quota"}},
    )

    run = run_of(path)

    assert steps_of(run) == [
        'shop.price {"sku": "K"}',
        "shop.price failed: no sku",
        'file_change {"changes": ["a"]}',
        "file_change returned: ",
        "harness: out of quota",
        'command_execution {"command": "ls"}',
    ]
    assert run.is_interrupted
