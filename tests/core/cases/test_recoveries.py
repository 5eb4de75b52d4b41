"""Failed calls are found by structure, and a repair teaches what decided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ace.cases import (
    answer_passes,
    call_text,
    cases_of,
    check_passes,
    deciding_values,
    failed_calls,
    missing_values,
    worked_example,
)
from ace.logs.trace import read_trace
from ace.skill import CaseCheck, SkillCase
from ace.traces import TraceStep, trace_step


def run(*events: tuple[str, object, str, bool] | str) -> list[TraceStep]:
    """Return the steps of calls with their results, and of messages of a person."""
    steps = []
    for number, event in enumerate(events, 1):
        if isinstance(event, str):
            steps.append(trace_step("message", "user", event, f"{number}"))
            continue
        tool, arguments, result, works = event
        content = arguments if isinstance(arguments, str) else json.dumps(arguments)
        steps.append(trace_step("call", tool, content, f"{number}"))
        steps.append(trace_step("result", tool, result, f"{number}.1", is_error=not works))
    return steps


def found(
    *events: tuple[str, object, str, bool] | str, task: str = ""
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return what the failed calls of a run teach: the values that are needed, and those that are rejected."""
    return [(call.needed, call.rejected) for call in failed_calls(run(*events), task)]


@pytest.mark.parametrize(
    ("failed", "error", "worked", "needed", "rejected"),
    [
        ({"hall": 4}, "unknown field hall: use room", {"room": 4}, ("room",), ("hall",)),
        ({"amount": 12.5}, "amount must be in cents", {"amount": 1250}, ("1250",), ("12.5",)),
        ({"id": "4"}, "id must be an integer", {"id": 4}, ("4",), ("'4'",)),
        ({"path": "/rooms"}, "401: send X-Key: k", {"path": "/rooms", "headers": {"X-Key": "k"}}, ("X-Key", "k"), ()),
        ("lamp on 3", "lamp: error: add --zone", "lamp on --zone 3", ("--zone",), ()),
        ({"q": "SELECT a FROM t"}, "no table t, only s.t", {"q": "SELECT a FROM s.t"}, ("s.t",), ("t",)),
        ({"raum": 4}, "Feld raum unbekannt, gemeint ist saal", {"saal": 4}, ("saal",), ("raum",)),
    ],
)
def test_a_later_call_for_the_same_end_repairs_a_failed_one(
    failed: object, error: str, worked: object, needed: tuple[str, ...], rejected: tuple[str, ...]
) -> None:
    assert found(("tool", failed, error, False), ("tool", worked, "done", True)) == [(needed, rejected)]


def test_several_attempts_are_one_recovery_with_all_errors() -> None:
    steps = run(
        ("rooms", {"hall": 4}, "unknown field hall", False),
        ("rooms", {"venue": 4}, "unknown field venue: use room", False),
        ("rooms", {"room": 4}, "free", True),
    )
    (call,) = failed_calls(steps)
    assert (call.failed, call.worked) == ("rooms(hall=4)", "rooms(room=4)")
    assert call.error == "unknown field hall\nunknown field venue: use room"


def test_a_value_from_a_general_lookup_is_learned() -> None:
    assert found(
        "Find Ida.",
        ("sql", {"q": "SELECT x FROM customers"}, "no such table: customers", False),
        ("list_tables", {}, "box.patron box.seat", True),
        ("sql", {"q": "SELECT x FROM box.patron"}, "1", True),
    ) == [(("box.patron",), ("customers",))]


@pytest.mark.parametrize(
    "events",
    [
        # The same call works when it is repeated.
        [("get", {"id": 7}, "timeout", False), ("get", {"id": 7}, "ok", True)],
        # The person says another value after the failure.
        [("get", {"id": "W1"}, "not found", False), "Sorry, it is W2.", ("get", {"id": "W2"}, "ok", True)],
        # The other value was in the task.
        ["Get W1 and W2.", ("get", {"id": "W1"}, "not found", False), ("get", {"id": "W2"}, "ok", True)],
        # The value was looked up for this customer only.
        [
            "I am ann_1.",
            ("pay", {"card": "card_9"}, "no such card", False),
            ("user", {"id": "ann_1"}, '{"cards": ["card_5512"]}', True),
            ("pay", {"card": "card_5512"}, "ok", True),
        ],
        # A test that failed is repaired by an edit, not by another command.
        [
            ("bash", "pytest tests/a.py", "1 failed", False),
            ("edit", {"file": "a.py", "text": "x = 1"}, "ok", True),
            ("bash", "pytest tests", "5 passed", True),
        ],
        # Another command of the same tool.
        [("bash", "cat notes.txt", "cat: error: notes.txt", False), ("bash", "ls", "a.py", True)],
        [("rooms", {"room": 4}, "free", True)],
        # An error that names nothing of the call.
        [("get", {"id": 7}, "service unavailable", False)],
    ],
)
def test_nothing_is_learned_from(events: list[Any]) -> None:
    assert found(*events) == []


def test_a_failure_that_nothing_repaired_rejects_the_same_call() -> None:
    steps = run(("notify", {"to": 7, "by": "sms"}, "sms was switched off, use app", False))
    (case,) = cases_of({"question": "Notify 7.", "steps": steps})
    assert case.evidence == "failure"
    assert answer_passes(case, "notify(to=7, by='sms')") is False
    assert answer_passes(case, "notify(to=7, by='app')") is True


def test_a_call_case_asks_for_the_next_action_before_the_failed_call() -> None:
    steps = run(
        ("get", {"id": 3}, "hall 3, Sunday", True),
        ("rooms", {"hall": 4}, "unknown field hall: use room", False),
        ("rooms", {"room": 4}, "free", True),
    )
    (case,) = cases_of({"question": "Is hall 4\nfree?", "steps": steps}, trace_id="a.json")
    assert case.question == (
        "Is hall 4 free?\nSteps so far:\nget(id=3)\nget: hall 3, Sunday\n"
        "Write the next call of the tool rooms, as rooms(name='value'), and nothing else."
    )
    assert (case.wrong, case.expected, case.evidence) == ("rooms(hall=4)", "rooms(room=4)", "recovery")
    assert (case.trace_id, case.correction) == ("a.json", "unknown field hall: use room")
    assert answer_passes(case, case.expected) is True
    assert answer_passes(case, case.wrong) is False
    assert deciding_values(case) == ("room",)
    assert worked_example(case) == "Example: Is hall 4 free? -> rooms(room=4)"


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        ("rooms(room=4)", True),
        ("`rooms(room=4, day='Sunday')`", True),
        ("```python\nrooms(room=4)\n```", True),
        ('{"name": "rooms", "arguments": {"room": 4}}', True),
        ('rooms {"room": 4}', True),
        ("rooms(room='4')", False),
        ("rooms(hall=4)", False),
        ("rooms(room=4, hall=4)", False),
        ("bathrooms(room=4)", False),
        ("rooms room 4", False),
        ("You can use rooms(room=4).", False),
        ("rooms(room=4) or rooms(hall=4)", False),
        ("rooms(room=4", False),
        ("", False),
    ],
)
def test_a_check_of_kind_call_is_exact(answer: str, passes: bool) -> None:
    assert check_passes(CaseCheck("call", "rooms\n+room\n+4\n-hall"), answer) is passes


def test_a_call_case_is_stored_with_its_check() -> None:
    case = SkillCase.make("Is it free?", CaseCheck("call", "rooms\n+room"), evidence="recovery")
    assert SkillCase.from_dict(case.to_dict()) == case


def test_a_rule_need_not_have_the_form_of_a_value_of_this_case() -> None:
    steps = run(("read", {"id": "hum-4"}, "read gw7:hum-4", False), ("read", {"id": "gw7:hum-4"}, "61", True))
    (case,) = cases_of({"question": "Read it.", "steps": steps})
    assert case.check.value.splitlines() == ["read", "+gw7:hum-4", "-hum-4"]
    assert deciding_values(case) == ()


def test_a_rule_may_have_the_parts_of_a_path_together() -> None:
    steps = run(
        ("save", {"file": "a.pdf"}, "write to /srv/stage/", False), ("save", {"file": "/srv/stage/a.pdf"}, "", True)
    )
    (case,) = cases_of({"question": "Save it.", "steps": steps})
    assert deciding_values(case) == ("srv", "stage")
    assert missing_values("When calling save, write to /srv/stage/ only.", case) == ()
    assert missing_values("When calling save, write to /tmp only.", case) == ("srv", "stage")


def test_calls_are_written_in_one_line() -> None:
    assert call_text("a", '{"b": {"c": [1, null]}}') == "a(b={'c': [1, None]})"
    assert call_text("a", "") == "a()"


def test_results_of_calls_that_overlap_are_told_apart() -> None:
    record = [
        {"role": "user", "content": "Is hall 4 free, and hall 5?"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "rooms", "arguments": '{"room": 4}'}},
                {"id": "2", "type": "function", "function": {"name": "rooms", "arguments": '{"hall": 5}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "free"},
        {"role": "tool", "tool_call_id": "2", "content": '{"error": "unknown field hall: use room"}'},
        {
            "role": "assistant",
            "tool_calls": [{"id": "3", "type": "function", "function": {"name": "rooms", "arguments": '{"room": 5}'}}],
        },
        {"role": "tool", "tool_call_id": "3", "content": "free"},
    ]
    (case,) = cases_of(read_trace(record))
    assert (case.wrong, case.expected) == ("rooms(hall=5)", "rooms(room=5)")
