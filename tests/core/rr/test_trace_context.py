"""Exploring a trace, on the host and in a session, where the same source runs."""

import importlib.util
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.rr import ContextStep, TraceContext, TraceSandbox, TraceSteps
from ace.traces import trace_step
from tests.requirement import missing

STEPS = [
    trace_step("message", "user", "Does it build?", "1"),
    trace_step("thought", "", "I try make.", "2"),
    trace_step("call", "bash", "make", "3"),
    trace_step("result", "bash", "cc: ok\nld: no such file", "3.1", is_error=True),
    trace_step("call", "read_file", '{"path": "Makefile"}', "4"),
    trace_step("result", "read_file", "all:\n", "4.1"),
]


@pytest.fixture
def trace() -> TraceContext:
    return TraceContext({"question": "Does it build?", "feedback": "It does not.", "steps": STEPS})


def test_each_step_has_the_fields_of_its_kind(trace: TraceContext) -> None:
    fields = [(step.index, step.action, step.thought, step.observation, step.is_error) for step in trace]
    assert fields == [
        (0, "", "", "", False),
        (1, "", "I try make.", "", False),
        (2, "bash", "", "", False),
        (3, "", "", "cc: ok\nld: no such file", True),
        (4, "read_file", "", "", False),
        (5, "", "", "all:\n", False),
    ]
    assert [step.place for step in trace] == ["1", "2", "3", "3.1", "4", "4.1"]
    assert [step.content for step in trace] == [step["content"] for step in STEPS]


def test_steps_of_other_forms_can_be_read() -> None:
    click = {"action": "click", "thought": "The button.", "observation": "Clicked."}
    trace = TraceContext({"steps": ["only text", click, {"content": 3}, 7]})
    assert [step.content for step in trace] == ["only text", "The button.\nclick\nClicked.", "3", "7"]
    assert (trace[1].action, trace[1].thought, trace[1].observation) == ("click", "The button.", "Clicked.")
    assert [step.place for step in trace] == ["0", "1", "2", "3"]


def test_indexing_slices_and_iteration(trace: TraceContext) -> None:
    assert len(trace) == len(trace.steps) == 6
    assert trace[-1].index == trace.steps[5].index == trace.get_step(5).index == 5
    assert [step.index for step in trace[1:4]] == [1, 2, 3]
    assert [step.index for step in trace.steps[::-2]] == [5, 3, 1]
    assert [step.index for step in trace.steps] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(IndexError, match="the trace has 6 steps, numbered from 0; got 6"):
        trace.get_step(6)
    with pytest.raises(IndexError, match="got -7"):
        trace[-7]


def test_steps_are_found_by_text_in_any_case(trace: TraceContext) -> None:
    assert [step.index for step in trace.find_steps("NO SUCH")] == [3]
    assert [step.index for step in trace.find_steps("bash")] == [2, 3]
    assert trace.find_steps("nowhere") == []


def test_steps_are_found_by_expression(trace: TraceContext) -> None:
    assert [step.index for step in trace.find_steps_regex(r"^ld|^all")] == [5]
    assert [step.index for step in trace.find_steps_regex(r"(?i)LD:")] == [3]


def test_errors_and_actions(trace: TraceContext) -> None:
    assert [step.index for step in trace.get_errors()] == [3]
    assert [step.index for step in trace.get_actions()] == [2, 4]
    assert [step.index for step in trace.get_actions("READ")] == [4]


def test_the_summary_counts_what_is_there(trace: TraceContext) -> None:
    assert trace.summary().splitlines() == [
        "6 steps (2 call, 2 result, 1 message, 1 thought), 1 of them failed, 77 characters",
        "tools: 1 bash, 1 read_file",
        "question: Does it build?",
        "feedback: It does not.",
    ]


def test_markdown_has_the_whole_trace(trace: TraceContext) -> None:
    text = trace.to_markdown()
    assert text.startswith("**question**\n\nDoes it build?\n\n**feedback**")
    assert "## [3.1] result bash (failed)\n\ncc: ok\nld: no such file\n\n## [4] call read_file" in text


def test_all_texts_of_a_trace_are_searched_line_by_line() -> None:
    trace = TraceContext({"metadata": {"log": ["x", "one\ntwo ERROR\nthree"]}, "steps": [{"content": "ERROR first"}]})
    assert trace.search_raw("ERROR") == ["metadata.log[1]: two ERROR", "steps[0].content: ERROR first"]
    assert trace.search_raw("^three$") == ["metadata.log[1]: three"]
    assert trace.search_raw("ERROR", limit=1) == ["metadata.log[1]: two ERROR"]
    assert trace.search_raw("nowhere") == []


PARTS = ["a", "b", " ", "x", ".", "^", "$", r"\b", r"\B", "[^a]", "b*", r"\s", "(?:ab|x)"]
PARTS += ["(?!b)", "(?<=a)", "(?=b)", r"\Z", r"\A"]


@given(
    text=st.text("abx \n", max_size=40),
    pattern=st.builds("".join, st.lists(st.sampled_from(PARTS), min_size=1, max_size=4)),
)
def test_a_search_finds_exactly_the_lines_that_match(text: str, pattern: str) -> None:
    try:
        expected = [f"text: {line}" for line in text.split("\n") if re.search(pattern, line)] if text else []
    except re.error:  # such as a repeated anchor
        return
    found = TraceContext({"text": text}).search_raw(pattern)
    assert found == (expected if not text.endswith("\n") else found) and expected[: len(found)] == found


def test_a_line_in_a_very_long_text_is_found_and_a_very_long_line_is_cut_around_the_match() -> None:
    lines = [f"line {number}" for number in range(100_000)]
    long_line = "a" * 5000 + "needle" + "b" * 5000
    trace = TraceContext({"text": "\n".join([*lines, long_line])})
    assert trace.search_raw("^line 77777$") == ["text: line 77777"]
    [found] = trace.search_raw("needle")
    assert found.startswith("text: ... aaa") and "aneedleb" in found and found.endswith("bbb ...") and len(found) < 330


def test_a_deeply_nested_trace_can_be_searched() -> None:
    nested: Any = "needle"
    for _ in range(50_000):
        nested = [nested]
    assert len(TraceContext({"deep": nested}).search_raw("needle")) == 1


@pytest.mark.parametrize(
    ("content", "size", "preview"),
    [("short", 10, "short"), ("one\ntwo", 10, "one two"), ("a" * 20, 10, "aaaaaa ..."), ("", 10, "")],
)
def test_a_preview_is_one_short_line(content: str, size: int, preview: str) -> None:
    assert ContextStep(0, content).preview(size) == preview


def test_a_trace_without_steps_has_length_zero() -> None:
    trace = TraceContext({"messages": ["hello"]})
    assert len(trace) == 0 and list(trace) == [] and trace.search_raw("hello") == ["messages[0]: hello"]
    assert trace.summary() == "0 steps (), 0 of them failed, 0 characters"


def test_the_text_of_objects_is_short() -> None:
    assert [repr(part) for part in (TraceSteps([1, 2]), TraceContext({}), ContextStep(3, "text"))] == [
        "<2 steps>",
        "<trace of 0 steps>",
        "<step 3: step, 4 characters>",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "[[s.index, s.kind, s.place, s.action, s.thought, s.observation, s.is_error, s.content] for s in trace]",
        "[len(trace), len(trace.steps), [s.index for s in trace[1:3]], trace[-1].index, trace.steps[0].preview(9)]",
        "[s.index for s in trace.find_steps('bash')]",
        "[s.index for s in trace.find_steps_regex('(?m)^ld')]",
        "[s.index for s in trace.get_errors()] + [s.index for s in trace.get_actions('bash')]",
        "[trace.summary(), trace.to_markdown(), str(trace), str(trace.steps), str(trace[0])]",
        "trace.search_raw('e')",
        "[sorted([s.index for s in trace], reverse=True), [[i, s.index] for i, s in enumerate(trace.steps)]]",
    ],
)
def test_a_session_gives_the_same_answers_as_the_host(trace: TraceContext, expression: str) -> None:
    if importlib.util.find_spec("pydantic_monty") is None:
        missing("rr", "pydantic-monty is not installed: pip install 'ace-core[rr]'")
    with TraceSandbox(trace.raw) as sandbox:
        result = sandbox.execute(f"FINAL({expression})")
    assert result.error == ""
    assert result.final == eval(expression, {"trace": trace})
