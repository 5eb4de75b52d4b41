"""Traces of every type reach the reader whole."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace.logs.trace import read_trace
from ace.protocols import (
    AmbiguousTraceError,
    TraceConversionError,
    TraceConverter,
    register_trace_converter,
    unregister_trace_converter,
)
from ace.roles.rendering import fitted_sections, sections_of
from tests.support.trace_shapes import MARK, SHAPES, PlainRun


def rendered(trace: object) -> str:
    text, cut = fitted_sections(sections_of(read_trace(trace)), 1 << 40)
    assert cut == 0
    return text


@pytest.mark.parametrize("name", ["question", "task", "input", "Question", "query", "prompt"])
def test_the_question_is_found_under_every_alias(name: str) -> None:
    assert read_trace({name: "2+2?"})["question"] == "2+2?"


@pytest.mark.parametrize("name", ["answer", "output", "final_answer", "result", "response"])
def test_the_answer_is_found_under_every_alias(name: str) -> None:
    assert read_trace({name: 4})["answer"] == "4"


def test_all_fields_of_our_own_trace() -> None:
    trace = read_trace(
        {
            "question": "q",
            "context": "c",
            "ground_truth": "g",
            "reasoning": "r",
            "answer": "a",
            "skill_ids": ["x-00001"],
            "feedback": "f",
            "success": False,
            "metrics": {"correct": 0.0},
        }
    )
    assert trace == {
        "schema": 1,
        "question": "q",
        "context": "c",
        "ground_truth": "g",
        "feedback": "f",
        "reasoning": "r",
        "answer": "a",
        "success": False,
        "skill_ids": ["x-00001"],
        "steps": [],
        "corrections": [],
        "check": None,
        "rest": {"metrics": {"correct": 0.0}},
    }


def test_two_aliases_of_one_field_are_both_kept() -> None:
    text = rendered({"input": "one", "question": "two", "output": "three", "answer": "four"})
    assert all(word in text for word in ("one", "two", "three", "four"))


OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather in Paris?"}]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "I should look it up.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    {"role": "assistant", "content": "It is sunny."},
]
ANTHROPIC = [
    {"role": "user", "content": "Weather in Paris?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I should look it up.", "signature": "abc"},
            {"type": "tool_use", "id": "tu_1", "name": "weather", "input": {"city": "Paris"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "tu_1",
                "content": [{"type": "text", "text": "no such city"}],
                "is_error": True,
            }
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "It is sunny."}]},
]
LANGCHAIN = [
    {"type": "human", "content": "Weather in Paris?", "additional_kwargs": {}, "id": None},
    {
        "type": "ai",
        "content": "",
        "tool_calls": [{"name": "weather", "args": {"city": "Paris"}, "id": "c1", "type": "tool_call"}],
        "invalid_tool_calls": [],
    },
    {"type": "tool", "content": "sunny", "name": "weather", "tool_call_id": "c1", "status": "error"},
    {"type": "ai", "content": "It is sunny.", "usage_metadata": {"input_tokens": 3}},
]


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC, LANGCHAIN], ids=["openai", "anthropic", "langchain"])
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: {"messages": m}, json.dumps], ids=["list", "dict", "json"])
def test_chat_messages_become_steps(messages: list[dict[str, Any]], wrap: Callable[[Any], Any]) -> None:
    trace = read_trace(wrap(messages))
    assert trace["question"] == "Weather in Paris?"
    assert trace["answer"] == "It is sunny."
    call = next(step for step in trace["steps"] if step["kind"] == "call")
    assert call["name"] == "weather"
    assert json.loads(call["content"]) == {"city": "Paris"}
    result = next(step for step in trace["steps"] if step["kind"] == "result")
    assert trace["steps"].index(result) == trace["steps"].index(call) + 1
    assert result["is_error"] is (messages is not OPENAI)
    assert trace["reasoning"].count("weather") >= 1


def test_a_standard_trace_is_read_as_itself() -> None:
    once = read_trace({"messages": OPENAI, "more": [1, 2]})
    assert read_trace(once) == once


@pytest.mark.parametrize("trace", SHAPES.values(), ids=SHAPES)
def test_a_marker_is_found_in_traces_of_every_type(trace: object) -> None:
    assert MARK in rendered(trace)


def test_paths_and_ids_are_shown_as_people_write_them() -> None:
    trace = read_trace({"task": "t", "file": PurePosixPath("/logs/a.txt"), "runs": [uuid.UUID(MARK)]})
    assert trace["rest"] == {"file": "/logs/a.txt", "runs": [MARK]}


TEXT = "a text of several words"
"""Names, ids, types and numbers of a format are not shown where they tell nothing; texts are, wherever they are."""


def leaf_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaf_paths(item, (*path, key))
    else:
        yield path


def with_mark(value: Any, path: tuple[Any, ...]) -> Any:
    copy = json.loads(json.dumps(value))
    inside = copy
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = TEXT
    return copy


@pytest.mark.parametrize(
    ("messages", "path"),
    [(messages, path) for messages in (OPENAI, ANTHROPIC, LANGCHAIN) for path in leaf_paths(messages)],
    ids=str,
)
def test_a_text_anywhere_in_chat_messages_is_found(messages: Any, path: tuple[Any, ...]) -> None:
    assert TEXT in rendered(with_mark(messages, path))


NAMES = (
    "question task output steps messages content role type name text function tool_calls arguments id "
    "schema success skill_ids rest kind place is_error args input thinking tool_use_id"
)
KEYS = st.sampled_from(NAMES.split())
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["user", "assistant", "tool", "text", "x"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=400)
@given(tree=st.dictionaries(KEYS, TREES, min_size=1, max_size=6), data=st.data())
def test_a_text_anywhere_in_any_tree_is_found(tree: dict[str, Any], data: st.DataObject) -> None:
    paths = list(leaf_paths(tree))
    if paths:
        with contextlib.suppress(TraceConversionError):  # a table of several runs
            assert TEXT in rendered(with_mark(tree, data.draw(st.sampled_from(paths))))


@given(st.text())
def test_a_text_is_shown_as_it_is(text: str) -> None:
    if text.strip() and not text.strip().startswith(("{", "[")):
        assert text.strip().encode("utf-8", "backslashreplace").decode() in rendered(text)


@given(st.binary())
def test_any_bytes_can_be_read(data: bytes) -> None:
    rendered(data).encode()


def test_a_registered_converter_goes_first() -> None:
    converter = TraceConverter(
        name="acme",
        recognises=lambda trace: 0.9 if isinstance(trace, PlainRun) else 0.0,
        convert=lambda trace: {"question": "from acme", "steps": []},
    )
    rival = dataclasses.replace(converter, name="rival")
    register_trace_converter(converter)
    try:
        assert read_trace(PlainRun("x"))["question"] == "from acme"
        assert read_trace({"task": "other"})["question"] == "other"
        register_trace_converter(rival)
        with pytest.raises(AmbiguousTraceError, match="'acme' and 'rival' both claim this PlainRun"):
            read_trace(PlainRun("x"))
        with pytest.raises(ValueError, match="'acme' is already registered"):
            register_trace_converter(dataclasses.replace(converter, recognises=lambda trace: 1.0))
    finally:
        unregister_trace_converter("acme")
        unregister_trace_converter("rival")


def test_a_converter_that_fails_to_look_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    def recognises(trace: object) -> float:
        raise RuntimeError("broken plugin")

    register_trace_converter(TraceConverter(name="broken", recognises=recognises, convert=lambda trace: {}))
    try:
        assert read_trace({"task": "t"})["question"] == "t"
    finally:
        unregister_trace_converter("broken")
    assert "'broken' failed" in caplog.text


def test_nothing_is_no_trace() -> None:
    nothings: list[object] = [None, "", b"", {}, []]
    for nothing in nothings:
        assert rendered(nothing) == ""
