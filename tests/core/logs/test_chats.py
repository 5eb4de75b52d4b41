"""Chat messages in the dialects of libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import run_of, runs_of, steps_of, written

UI = [
    {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Which port?"}]},
    {
        "id": "2",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Read it."},
            {
                "type": "tool-read",
                "toolCallId": "c1",
                "state": "output-error",
                "input": {"path": "cfg"},
                "errorText": "no file",
            },
            {
                "type": "dynamic-tool",
                "toolName": "list",
                "toolCallId": "c2",
                "state": "output-available",
                "input": {},
                "output": ["a"],
            },
            {"type": "text", "text": "None."},
        ],
    },
]
OLDER_UI = [
    {"role": "user", "content": "Which port?"},
    {
        "role": "assistant",
        "content": "None.",
        "toolInvocations": [
            {"state": "result", "toolCallId": "c1", "toolName": "read", "args": {"path": "cfg"}, "result": "80"}
        ],
    },
]
RESPONSES: list[dict[str, Any]] = [
    {"role": "user", "content": "Which port?"},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Read it."}]},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "cfg"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "Error: no file"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "None."}]},
]
LLAMA = [
    {"role": "user", "blocks": [{"block_type": "text", "text": "Which port?"}], "additional_kwargs": {}},
    {
        "role": "assistant",
        "blocks": [],
        "additional_kwargs": {
            "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": '{"path": "cfg"}'}}]
        },
    },
    {"role": "tool", "blocks": [{"block_type": "text", "text": "80"}], "additional_kwargs": {"tool_call_id": "c1"}},
    {"role": "assistant", "blocks": [{"block_type": "text", "text": "It is 80."}], "additional_kwargs": {}},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "Which port?"}]},
    {
        "role": "model",
        "parts": [{"text": "Read it.", "thought": True}, {"functionCall": {"name": "read", "args": {"path": "cfg"}}}],
    },
    {"role": "function", "parts": [{"functionResponse": {"name": "read", "response": {"error": "no file"}}}]},
    {"role": "model", "parts": [{"text": "None."}]},
]
LANGCHAIN = [
    {"type": "human", "data": {"content": "Which port?", "type": "human"}},
    {
        "type": "ai",
        "data": {"content": "", "type": "ai", "tool_calls": [{"name": "read", "args": {"path": "cfg"}, "id": "c1"}]},
    },
    {"type": "tool", "data": {"content": "no file", "type": "tool", "tool_call_id": "c1", "status": "error"}},
    {"type": "ai", "data": {"content": "None.", "type": "ai"}},
]
READ = ['read {"path": "cfg"}']


@pytest.mark.parametrize(
    ("messages", "name", "steps"),
    [
        (
            UI,
            "vercel-ui",
            ["thought: Read it.", *READ, "read failed: no file", "list {}", 'list returned: ["a"]', "agent: None."],
        ),
        (OLDER_UI, "vercel-ui", [*READ, "read returned: 80", "agent: None."]),
        (RESPONSES, "openai-responses", ["thought: Read it.", *READ, "read failed: Error: no file", "agent: None."]),
        (LLAMA, "llama-index", [*READ, "read returned: 80", "agent: It is 80."]),
        (GEMINI, "gemini-contents", ["thought: Read it.", *READ, "read failed: no file", "agent: None."]),
    ],
)
def test_a_dialect(tmp_path: Path, messages: list[Any], name: str, steps: list[str]) -> None:
    expected = ["person: Which port?", *steps]
    list_run = run_of(written(tmp_path / "list.json", messages))
    chats = runs_of(written(tmp_path / "chats.json", [{"id": "a", "messages": messages, "success": False}] * 2))

    assert (steps_of(list_run), list_run.format) == (expected, name)
    assert [(run.id, run.success, steps_of(run), run.format) for run in chats] == [("a", False, expected, name)] * 2


def test_messages_of_langchain_without_its_plugin(tmp_path: Path) -> None:
    path = written(tmp_path / "list.json", LANGCHAIN)

    run = runs_of(path, format="unknown")[0]

    assert steps_of(run) == ["person: Which port?", *READ, "read failed: no file", "agent: None."]


def test_a_response_of_openai(tmp_path: Path) -> None:
    response = {"id": "r1", "object": "response", "model": "m", "input": "Which port?", "output": RESPONSES[1:]}

    run = run_of(written(tmp_path / "responses.jsonl", response))

    assert (run.task, run.answer, run.model) == ("Which port?", "None.", "m")
