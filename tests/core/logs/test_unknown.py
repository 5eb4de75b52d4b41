"""Logs of unknown formats are read by their structure and the usual names of their fields."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ace.logs import Problem, Run, read_runs, read_trace
from tests.core.logs.log_files import run_of, runs_of, steps_of, written

PAIRS = [{"question": "2+2?", "answer": "5"}, {"question": "3+3?", "answer": "6"}]
DIALOGUE = [("user", "Days to return?"), ("assistant", "30."), ("user", "No, 14."), ("assistant", "14.")]
ENVELOPES = [
    *("data", "runs", "results", "records", "items", "rows", "samples", "simulations", "conversations", "sessions"),
    *("traces", "traj", "trajectories", "examples", "instances", "testCases", "events"),
]
ROLE_KEYS = ["role", "from", "sender", "author", "speaker", "source", "type", "kind"]
TEXT_KEYS = ["content", "text", "value", "message", "utterance", "body", "parts", "blocks", "output_text"]
USERS = [
    "user",
    "human",
    "customer",
    "client",
    "patient",
    "caller",
    "visitor",
    "end_user",
    "requester",
    "User",
    "HUMAN",
]
AGENTS = ["assistant", "ai", "gpt", "bot", "chatbot", "agent", "model", "gemini", "llm", "system_agent", "Assistant"]
LISTS = ["messages", "history", "traj", "turns", "conversation", "chat", "dialog", "dialogue", "transcript", "steps"]
SHOWN = ["person: Days to return?", "agent: 30.", "person: No, 14.", "agent: 14."]
USUAL = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def pairs_in(runs: list[Run]) -> list[tuple[str, str]]:
    return [(run.task, run.answer) for run in runs]


def dialogue(role: str = "role", text: str = "content", user: str = "user", agent: str = "assistant") -> list[Any]:
    names = {"user": user, "assistant": agent}
    return [{role: names[speaker], text: said} for speaker, said in DIALOGUE]


@pytest.mark.parametrize("name", [*ENVELOPES, "kettle_experiment"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_records_in_an_envelope(tmp_path: Path, name: str, depth: int) -> None:
    document: Any = PAIRS
    for _ in range(depth):
        document = {name: document, "page": 1, "meta": {"total": 2}}

    assert pairs_in(runs_of(written(tmp_path / "log.json", document))) == [("2+2?", "5"), ("3+3?", "6")]


@pytest.mark.parametrize("name", [*ENVELOPES, "kettle_experiment"])
def test_dialogues_in_an_envelope(tmp_path: Path, name: str) -> None:
    for document in ({name: [{"messages": dialogue()}] * 2}, {name: [dialogue(), dialogue()]}):
        assert [steps_of(run) for run in runs_of(written(tmp_path / "log.json", document))] == [SHOWN] * 2


def test_what_is_beside_the_records_holds_for_all(tmp_path: Path) -> None:
    runs = runs_of(written(tmp_path / "log.json", {"model": "m", "results": {"version": 3, "results": PAIRS}}))

    assert [run.model for run in runs] == ["m", "m"]


@USUAL
@given(
    role=st.sampled_from(ROLE_KEYS),
    text=st.sampled_from(TEXT_KEYS),
    user=st.sampled_from(USERS),
    agent=st.sampled_from(AGENTS),
    name=st.sampled_from(LISTS),
)
def test_any_names_of_roles_and_texts(tmp_path: Path, role: str, text: str, user: str, agent: str, name: str) -> None:
    messages = dialogue(role, text, user, agent)

    for document in (messages, {name: messages}, {"id": 1, name: messages, "score": 0}):
        assert steps_of(run_of(written(tmp_path / "log.json", document))) == SHOWN
    assert steps_of(run_of(written(tmp_path / "log.jsonl", *messages))) == SHOWN
    assert len(runs_of(written(tmp_path / "logs.jsonl", *[{"id": n, name: messages} for n in range(3)]))) == 3


@pytest.mark.parametrize("content", [
    "30.", [{"type": "text", "text": "30."}], {"text": "30."}, {"parts": ["30."]}, {"content": "30."}, ["30."],
    '[{"type": "text", "text": "30."}]', "[{'type': 'text', 'text': '30.'}]",
])  # fmt: skip
def test_any_form_of_content(tmp_path: Path, content: Any) -> None:
    messages = [{"role": "user", "content": "Days?"}, {"role": "assistant", "content": content}]

    assert run_of(written(tmp_path / "log.json", messages)).answer == "30."


def test_an_answer_that_is_json_stays(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Days?"}, {"role": "assistant", "content": '[{"days": 14}]'}]

    assert run_of(written(tmp_path / "log.json", messages)).answer == '[{"days": 14}]'


def turn_table(sessions: int, *, key: str = "session_id", order: str = "turn") -> list[dict[str, Any]]:
    return [
        {key: f"s{session}", order: number, "role": role, "content": f"{text} ({session})"}
        for session in range(sessions)
        for number, (role, text) in enumerate(DIALOGUE)
    ]


@USUAL
@given(seed=st.integers(0, 9999), key=st.sampled_from(["session_id", "conversationId", "Thread ID", "ticket_id"]))
def test_a_turn_table_in_any_order(tmp_path: Path, seed: int, key: str) -> None:
    rows = turn_table(3, key=key)
    random.Random(seed).shuffle(rows)
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    (tmp_path / "turns.csv").write_text(table.getvalue(), "utf-8")

    for path in (tmp_path / "turns.csv", written(tmp_path / "turns.jsonl", *rows), written(tmp_path / "t.json", rows)):
        runs = {run.id: steps_of(run) for run in runs_of(path)}
        assert runs == {f"s{n}": [f"{text} ({n})" for text in SHOWN] for n in range(3)}


@pytest.mark.parametrize("times", [[f"2026-01-02T10:0{n}:00Z" for n in range(4)], [1767348000 + n for n in range(4)]])
def test_turns_by_time(tmp_path: Path, times: list[Any]) -> None:
    rows = [{"chat_id": "a", "created_at": time, **message} for time, message in zip(times, dialogue(), strict=True)]

    run = run_of(written(tmp_path / "turns.json", rows[::-1]))

    assert steps_of(run) == SHOWN
    assert run.started is not None and run.ended is not None and run.started < run.ended


def test_ids_that_do_not_repeat_are_runs(tmp_path: Path) -> None:
    rows = [{"session_id": str(n), **pair} for n, pair in enumerate(PAIRS * 3)]

    assert len(runs_of(written(tmp_path / "log.jsonl", *rows))) == 6


def test_questions_and_answers_of_a_conversation_are_its_turns(tmp_path: Path) -> None:
    rows = [{"conversation_id": "c", "turn": n, **pair} for n, pair in enumerate(PAIRS)]

    run = run_of(written(tmp_path / "log.jsonl", *rows))

    assert steps_of(run) == ["person: 2+2?", "agent: 5", "person: 3+3?", "agent: 6"]


@pytest.mark.parametrize("extra", [{"score": 0}, {"expected": "4"}, {"success": True}])
def test_trials_with_outcomes_are_runs_of_their_own(tmp_path: Path, extra: dict[str, Any]) -> None:
    rows = [{"conversation_id": "c", **pair, **extra} for pair in PAIRS * 2]

    assert len(runs_of(written(tmp_path / "log.jsonl", *rows))) == 4


COLUMNS = {"question": ["2+2?", "3+3?"], "answer": ["5", "6"]}


@pytest.mark.parametrize("document", [
    COLUMNS,
    {name: dict(enumerate(values)) for name, values in COLUMNS.items()},
    {"columns": list(COLUMNS), "index": [0, 1], "data": [["2+2?", "5"], ["3+3?", "6"]]},
    {"data": COLUMNS},
    {**COLUMNS, "contexts": [["a", "b"], ["c"]]},
    {"a": PAIRS[0], "b": PAIRS[1]},
])  # fmt: skip
def test_tables_by_columns_and_by_id(tmp_path: Path, document: Any) -> None:
    assert pairs_in(runs_of(written(tmp_path / "log.json", document))) == [("2+2?", "5"), ("3+3?", "6")]


def test_a_growing_history_counts_once(tmp_path: Path) -> None:
    def growing(messages: list[Any]) -> list[Any]:
        return [{"messages": messages[:number]} for number in range(1, len(messages) + 1)]

    other = [{"role": "user", "content": "Price?"}, {"role": "assistant", "content": "9"}]

    runs = runs_of(written(tmp_path / "calls.jsonl", *growing(dialogue()), *growing(other)))

    assert [steps_of(run) for run in runs] == [SHOWN, ["person: Price?", "agent: 9"]]


def test_equal_runs_are_trials_and_count_all(tmp_path: Path) -> None:
    assert len(runs_of(written(tmp_path / "calls.jsonl", *[{"messages": dialogue()}] * 3))) == 3


def test_events_of_an_unknown_program(tmp_path: Path) -> None:
    events = [
        {"seq": 0, "event": "session_started", "cwd": "/w"},
        {"seq": 1, "event": "user_message", "text": "Which port?"},
        {"seq": 2, "event": "llm.thinking", "text": "Read it."},
        {"seq": 3, "event": "toolCallStarted", "name": "read", "args": {"path": "cfg"}, "id": "c1"},
        {"seq": 4, "event": "tool_call_result", "id": "c1", "output": "no file", "is_error": True},
        {"seq": 5, "event": "assistant_message", "data": {"text": "None."}},
    ]

    problem, run = read_runs(written(tmp_path / "events.jsonl", *events[::-1]))

    assert isinstance(run, Run) and isinstance(problem, Problem)
    assert [text for text in steps_of(run) if "session_started" not in text] == [
        "person: Which port?",
        "thought: Read it.",
        'read {"path": "cfg"}',
        "read failed: no file",
        "agent: None.",
    ]
    assert "events of one run" in problem.reason and "--map" in problem.reason


def test_ten_thousand_events_are_one_run(tmp_path: Path) -> None:
    events = [{"ts": n, "type": f"kind{n % 9}", "payload": {"n": n}} for n in range(10_000)]

    found = list(read_runs(written(tmp_path / "events.jsonl", *events)))

    assert sum(isinstance(item, Run) for item in found) == 1
    assert any("10000 records" in item.reason for item in found if isinstance(item, Problem))


def test_a_human_agent_beside_a_bot_is_a_person(tmp_path: Path) -> None:
    messages = [
        {"sender": "customer", "text": "Days?"},
        {"sender": "bot", "text": "30"},
        {"sender": "agent", "text": "That is wrong: 14."},
    ]

    run = run_of(written(tmp_path / "ticket.json", {"ticket_id": 1, "messages": messages}))

    assert steps_of(run) == ["person: Days?", "agent: 30", "person: That is wrong: 14."]
    assert run.answer == "30"


FIRST: dict[str, Any] = {"role": "user", "content": "Days?"}


def test_tools_inside_of_messages(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"tool_calls": [{"id": "c", "function": {"name": "read", "arguments": '{"path": "cfg"}'}}]},
        {"tool_calls": [{"id": "c", "name": "read", "args": {"path": "cfg"}}]},
        {"tool_calls": json.dumps([{"id": "c", "name": "read", "arguments": {"path": "cfg"}}])},
        {"function_call": {"name": "read", "arguments": '{"path": "cfg"}'}},
        {"content": [{"type": "tool_use", "id": "c", "name": "read", "input": {"path": "cfg"}}]},
        {"content": [{"toolUse": {"toolUseId": "c", "name": "read", "input": {"path": "cfg"}}}]},
        {"content": [{"functionCall": {"name": "read", "args": {"path": "cfg"}}}]},
    ]
    failed = "Error: no file"
    results = [
        {"role": "tool", "tool_call_id": "c", "content": failed},
        {"role": "function", "name": "read", "content": failed},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "Error: no file"}],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c", "status": "error", "content": [{"text": "Error: no file"}]}}],
        },
        {"role": "user", "content": [{"functionResponse": {"name": "read", "response": {"error": "Error: no file"}}}]},
    ]
    for call, result in itertools.product(calls, results):
        messages = [FIRST, {"role": "assistant", **call}, result, {"role": "assistant", "content": "None."}]

        shown = steps_of(run_of(written(tmp_path / "log.json", {"messages": messages})))

        assert shown == ["person: Days?", 'read {"path": "cfg"}', "read failed: Error: no file", "agent: None."]


@pytest.mark.parametrize("text", ["<b>14</b>", "<answer>14</answer>", "It is <code>f(x)</code>", "<result>14</result>"])
def test_markup_is_not_a_call(tmp_path: Path, text: str) -> None:
    messages = [FIRST, {"role": "assistant", "content": text}, {"role": "user", "content": "No, 15."}]

    assert steps_of(run_of(written(tmp_path / "log.json", messages))) == [
        "person: Days?",
        f"agent: {text}",
        "person: No, 15.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<tool>read cfg</tool>",
        "<search>port in cfg</search>",
        "<read_file><path>cfg</path></read_file>",
        "Look.\n<find><query>x</query></find>",
    ],
)
def test_calls_in_tags(tmp_path: Path, text: str) -> None:
    messages = [FIRST, {"role": "assistant", "content": text}, {"role": "user", "content": "Error: no cfg"}]

    run = run_of(written(tmp_path / "log.json", messages))

    assert [step.kind for step in run.steps][-2:] == ["call", "result"]
    assert run.steps[-1].is_error


SAID = {"role": "assistant", "content": "5"}
RESPONSES: list[Any] = [
    {"choices": [{"message": SAID}]},
    {"choices": [{"text": "5", "index": 0}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "5"}]}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "5"}]},
    {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "5"}]}]},
    {"messages": [{"role": "user", "content": "2+2?"}, SAID]},
    [{"role": "user", "content": "2+2?"}, SAID],
    {"output": {"text": "5"}},
    {"text": "5", "id": "x", "model": "m"},
]


@pytest.mark.parametrize("response", RESPONSES)
def test_the_answer_in_a_response_of_a_server(tmp_path: Path, response: Any) -> None:
    run = run_of(written(tmp_path / "log.jsonl", {"prompt": "2+2?", "response": response}))

    assert (run.task, run.answer) == ("2+2?", "5")


TICKET = {"title": "Kettle", "description": "It is broken.", "reply": "Sorry."}


@pytest.mark.parametrize(
    ("record", "task", "answer", "truth"),
    [
        (TICKET, "Kettle\n\nIt is broken.", "Sorry.", None),
        ({"question": "2+2?", "answer": "5", "solution": "4"}, "2+2?", "5", "4"),
        ({"instruction": "2+2?", "response": "5", "output": "4"}, "2+2?", "5", "4"),
        ({"inputs": {"text": "2+2?"}, "outputs": {"text": "5"}, "reference_outputs": {"x": "4"}}, "2+2?", "5", "4"),
        ({"input": [{"role": "user", "content": "2+2?"}], "output": SAID}, "2+2?", "5", None),
        ({"UserQuery": "2+2?", "Agent-Response": "5", "Golden Answer": "4"}, "2+2?", "5", "4"),
    ],
)
def test_pairs(tmp_path: Path, record: Any, task: str, answer: str, truth: str | None) -> None:
    run = run_of(written(tmp_path / "log.jsonl", record))

    assert (run.task, run.answer, run.truth) == (task, answer, truth)


def test_what_is_not_understood_is_in_the_rest(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "log.jsonl", {**PAIRS[0], "shelf": {"row": 7}, "empty": []}))

    assert run.rest == {"shelf": {"row": 7}}


def test_a_comment_beside_a_score_is_the_reason(tmp_path: Path) -> None:
    run = run_of(
        written(tmp_path / "log.jsonl", {**PAIRS[0], "scores": [{"name": "a", "value": 0, "comment": "It is 4."}]})
    )

    assert (run.success, run.reason) == (False, "It is 4.")


@pytest.mark.parametrize("key", ["examples", "demos", "few_shot", "query", "model_input_messages"])
def test_examples_for_the_model_are_not_the_dialogue(tmp_path: Path, key: str) -> None:
    demo = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}] * 4

    run = run_of(written(tmp_path / "log.json", {key: demo, "messages": dialogue()}))

    assert steps_of(run) == SHOWN


NAMES = [*ROLE_KEYS, *TEXT_KEYS, *LISTS, *ENVELOPES, "score", "id", "input", "output"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_any_json_is_read(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(value), "utf-8")

    failures = [found.reason for found in read_runs(path) if isinstance(found, Problem) and "failed" in found.reason]

    assert failures == []


def said(*texts: str, role: str = "role", text: str = "content") -> list[dict[str, Any]]:
    return [{role: ("user", "assistant")[number % 2], text: said} for number, said in enumerate(texts)]


PARTS = [{"author": {"type": part["role"]}, "body": part["content"]} for part in said("Days?", "30", "No.", "14")]
EVENTS = [{"event": "user", "text": "Days?"}, {"event": "slot", "name": "sku"}, {"event": "bot", "text": "30"}]
STEP = {"thought": "Look.", "action": "read", "action_input": {"path": "cfg"}, "observation": "Error: no file"}
READ = ["thought: Look.", 'read {"path": "cfg"}', "read failed: Error: no file"]


@pytest.mark.parametrize(
    ("record", "steps"),
    [
        ({"turns": [{"user": "Days?", "assistant": "30"}, {"user": "No.", "assistant": "14"}]}, None),
        ({"history": [["Days?", "30"], ["No.", "14"]]}, None),
        ({"history": [["Days?", "30"]], "question": "No.", "answer": "14"}, None),
        ({"dialog": [{"user": "Days?"}, {"assistant": "30"}, {"user": "No."}, {"assistant": "14"}]}, None),
        ({"state": {"values": {"messages": said("Days?", "30", "No.", "14")}}}, None),
        (
            {
                "request": {"messages": said("Days?", "30", "No.")},
                "response": {"choices": [{"message": SAID | {"content": "14"}}]},
            },
            None,
        ),
        ({"messages": str(said("Days?", "30", "No.", "14"))}, None),
        ({"messages": json.dumps(said("Days?", "30", "No.", "14"))}, None),
        ({"conversation_parts": PARTS}, None),
        ({"events": EVENTS}, ["person: Days?", 'harness: {"event": "slot", "name": "sku"}', "agent: 30"]),
        ({"question": "Days?", "steps": [STEP], "answer": "30"}, READ),
        ({"question": "Days?", "trajectory": {f"{name}_0": STEP[name] for name in STEP}, "answer": "30"}, READ),
        ({"question": "Days?", "steps": [{**STEP, "action": {"tool": "read"}}]}, READ),
    ],
)  # fmt: skip
def test_further_forms_of_dialogues(tmp_path: Path, record: dict[str, Any], steps: list[str] | None) -> None:
    expected = steps or ["person: Days?", "agent: 30", "person: No.", "agent: 14"]

    run = run_of(written(tmp_path / "log.jsonl", {"id": "a", **record}))

    assert (run.id, run.task, steps_of(run)) == ("a", "Days?", expected)


def test_pairs_with_outcomes_in_a_list_of_turns_are_runs(tmp_path: Path) -> None:
    document = {"history": [{**pair, "score": 0} for pair in PAIRS]}

    assert [run.success for run in runs_of(written(tmp_path / "log.json", document))] == [False, False]


def test_messages_with_the_newest_first(tmp_path: Path) -> None:
    messages = [{**message, "created_at": 1767348000 + number} for number, message in enumerate(dialogue())]

    for document in ({"object": "list", "data": messages[::-1]}, {"thread": {"messages": messages[::-1]}, "id": 1}):
        assert steps_of(run_of(written(tmp_path / "log.json", document))) == SHOWN


@pytest.mark.parametrize("depth", [1, 3])
def test_an_object_in_objects_that_hold_nothing_else(tmp_path: Path, depth: int) -> None:
    document: Any = {"id": "r", "messages": dialogue(), "result": {"success": False, "reason": "It is 15."}}
    for number in range(depth):
        document = {f"wrapper{number}": document}

    run = run_of(written(tmp_path / "log.json", document))

    assert (run.id, run.success, run.reason, run.answer) == ("r", False, "It is 15.", "14.")


def test_calls_as_json_in_tags(tmp_path: Path) -> None:
    calls = "".join(f'<tool_call>{{"name": "{name}", "arguments": {{"k": 1}}}}</tool_call>\n' for name in ("a", "b"))
    messages = [FIRST, {"role": "assistant", "content": f"Look.\n{calls}"}, {"role": "tool", "content": "x"}]

    assert steps_of(run_of(written(tmp_path / "log.json", messages))) == [
        "person: Days?",
        "thought: Look.",
        'a {"k": 1}',
        'b {"k": 1}',
        "a returned: x",
    ]


def test_calls_and_results_in_one_message(tmp_path: Path) -> None:
    message = {
        "role": "agent",
        "message": None,
        "tool_calls": [{"tool_name": "read", "params_as_json": '{"path": "cfg"}', "request_id": "r"}],
        "tool_results": [{"tool_name": "read", "request_id": "r", "result_value": "no file", "is_error": True}],
    }

    run = run_of(written(tmp_path / "log.json", {"transcript": [FIRST, message]}))

    assert steps_of(run) == ["person: Days?", 'read {"path": "cfg"}', "read failed: no file"]


def test_an_image_is_part_of_its_message(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "Days?"}, {"type": "image_url", "image_url": {"url": "data:x"}}]

    run = run_of(written(tmp_path / "log.json", [{"role": "user", "content": content}, SAID]))

    assert steps_of(run) == ["person: Days?\n[image_url]", "agent: 5"]


def test_a_flag_is_not_a_right_answer(tmp_path: Path) -> None:
    trajectory = {"target": False, "messages": [FIRST, SAID]}

    assert run_of(written(tmp_path / "log.jsonl", trajectory)).truth is None
    assert (
        run_of(written(tmp_path / "log.jsonl", {"question": "Odd?", "answer": True, "target": False})).truth == "false"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Thought: look\nAction: read\nAction Input: cfg",
        "Thought 1: look\nAction 1: read[cfg]",
        'Thought: look\nAction:\n```json\n{"action": "read", "action_input": "cfg"}\n```',
        '<think>look</think><tool_call>{"name": "read", "arguments": "cfg"}</tool_call>',
    ],
)
@pytest.mark.parametrize("result", ["Observation: Error: no cfg", "Error: no cfg"])
def test_calls_in_texts(tmp_path: Path, text: str, result: str) -> None:
    messages = [FIRST, {"role": "assistant", "content": text}, {"role": "user", "content": result}]
    final = {"role": "assistant", "content": "Thought: done\nFinal Answer: none"}

    run = run_of(written(tmp_path / "log.json", [*messages, final]))

    assert steps_of(run) == [
        "person: Days?",
        "thought: look",
        "read cfg",
        "read failed: Error: no cfg",
        "thought: done",
        "agent: none",
    ]
    assert run.answer == "none"


LONG = {
    "open tags": "<a_b>" * 50_000,
    "nested tags": "<x><y>1</y>" * 20_000 + "</x>",
    "open thoughts": "<think>" * 20_000,
    "actions": "Action: " * 20_000 + "]",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_texts_with_many_marks_are_read_at_once(tmp_path: Path, text: str) -> None:
    run = run_of(written(tmp_path / "log.json", [FIRST, {"role": "assistant", "content": text}]))

    assert run.task == "Days?"


@pytest.mark.parametrize(
    "inside",
    [
        {"runs": [{"question": "Days?", "answer": "30"}]},
        {"content": [{"question": None, "task": [None], "output": [None]}]},
        {"records": [{"event": "step", "ts": number, "payload": f"It has looked {number} up."} for number in range(9)]},
        {"data": {"messages": [{"role": "user", "content": "Days?"}, {"role": "assistant", "content": "30"}]}},
        {"messages": [{"role": "user", "content": "Days?"}, {"role": "assistant", "content": "30"}]},
    ],
)
@pytest.mark.parametrize("beside", [{"note": "It was a holiday."}, {"about": {"note": "It was a holiday."}}])
def test_the_texts_beside_one_run_are_part_of_it(inside: dict[str, Any], beside: dict[str, Any]) -> None:
    assert "It was a holiday." in json.dumps(read_trace({**beside, **inside}))
