"""Sessions of every generation become standard traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace.cases import answer_passes, cases_of, replies_in
from ace.context import ACEStepContext
from ace.logs.trace import read_trace
from ace.steps import LoadTracesStep
from ace_openclaw import OpenClawToTrace, events_to_trace, events_to_turn_traces
from tests.openclaw.samples import CAPTURED, EXPORTED, V3, V4, V4_ERROR, Event, events_of, metadata_of, said, text
from tests.support.corrected_chats import judged

QUESTION, CORRECTION = "Make mean([]) return 0", "Too long. In one sentence, please."


def test_a_whole_session_is_one_trace_that_is_json() -> None:
    trace = events_to_trace(V3)
    assert trace["question"] == QUESTION
    assert trace["answer"] == "Yes: one line in calc.py changed."
    assert trace["success"] is None
    assert trace["skill_ids"] == ["testing-00001"]
    assert json.loads(json.dumps(trace)) == trace
    reasoning = str(trace["reasoning"])
    assert "ZeroDivisionError: division by zero" in reasoning
    assert reasoning.index("] thought") < reasoning.index("call read") < reasoning.index("result read")


@pytest.mark.parametrize("source", [V4, EXPORTED, EXPORTED / "session-branch.json"], ids=["rows", "export", "branch"])
def test_each_question_of_the_user_is_a_trace_with_the_correction_as_feedback(source: Path) -> None:
    first, second = events_to_turn_traces(source)
    assert (first["question"], second["question"]) == (QUESTION, CORRECTION)
    assert str(first["feedback"]).endswith(f"The user's next message was: {CORRECTION}")
    assert str(second["context"]).startswith(f"Earlier in this session the user asked: {QUESTION}\nThe agent answered:")
    assert second["answer"] == "mean([]) is 0 now."


def test_a_turn_has_the_same_place_wherever_it_is_kept() -> None:
    kept = [[trace["trace_id"] for trace in events_to_turn_traces(source)] for source in (V4, EXPORTED)]
    captured = events_of(CAPTURED)
    of_session = [turn for turn in captured if turn["sessionKey"] == "agent:main:demo"]
    caught = [trace["trace_id"] for trace in events_to_turn_traces(of_session)]
    assert kept == [caught, caught]
    assert len(set(caught)) == 2


@pytest.mark.parametrize("source", [V3, V4])
def test_a_failing_command_is_marked_in_both_generations(source: Path) -> None:
    trace = events_to_turn_traces(source)[0]
    metrics = trace["metrics"]
    assert isinstance(metrics, dict) and metrics["failed_tool_calls"] == 1
    assert "result exec (failed)" in str(trace["reasoning"])
    assert str(trace["feedback"]).startswith("exec failed at")
    assert trace["success"] is None


@pytest.mark.parametrize(
    "told",
    [
        {"isError": True},
        {"isError": False, "details": {"status": "completed", "exitCode": 1}},
        {"isError": False, "details": {"status": "failed"}},
        {"isError": False, "details": {"timedOut": True}},
    ],
    ids=["2026.7", "2026.9", "status", "timeout"],
)
def test_each_sign_of_a_failure_is_enough(told: Event) -> None:
    def failures(**result: object) -> object:
        metrics = events_to_trace([said("user", "Look."), said("toolResult", text("no"), 0, **result)])["metrics"]
        assert isinstance(metrics, dict)
        return metrics["failed_tool_calls"]

    assert failures(**told) == 1
    assert failures(isError=False, details={"status": "completed", "exitCode": 0}) == 0


def test_a_history_without_details_tells_a_failure_by_its_words() -> None:
    output = text("no such file\n\n(Command exited with code 2)")
    trace = events_to_trace([said("user", "Look."), said("toolResult", output, toolName="exec", isError=False)])
    assert "result exec (failed)" in str(trace["reasoning"])


def test_a_failed_model_fails_the_turn_and_one_that_recovered_does_not() -> None:
    assert events_to_trace(V4_ERROR)["success"] is False
    assert "scripted error" in str(events_to_trace(V4_ERROR)["feedback"])
    failed = said("assistant", [], 2, stopReason="error", errorMessage="overloaded")
    answered = said("assistant", text("Done."), 3, stopReason="stop")
    assert events_to_trace([said("user", "Go.", 1), failed, answered])["success"] is None


def test_a_captured_run_that_is_called_a_success_though_its_model_failed_has_failed() -> None:
    turn = next(turn for turn in events_of(CAPTURED) if turn["sessionKey"] == "agent:main:demo2")
    assert turn["success"] is True
    assert events_to_trace([turn])["success"] is False


def test_captured_turns_repeat_the_session_and_each_message_counts_once() -> None:
    turns = [turn for turn in events_of(CAPTURED) if turn["sessionKey"] == "agent:main:demo"]
    first, second = events_to_turn_traces(turns)
    assert (first["success"], second["success"]) == (True, True)
    assert str(events_to_trace(turns)["reasoning"]).count("message user") == 2


def test_contents_may_be_strings_and_lists() -> None:
    trace = events_to_trace([said("user", text("In parts.")), said("assistant", "A string.", stopReason="stop")])
    assert (trace["question"], trace["answer"]) == ("In parts.", "A string.")


def test_echoes_and_synthetic_messages_are_no_questions_and_no_answers() -> None:
    start = "A new session was started via /new or /reset. Execute your Session Startup sequence now"
    context = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    events = [
        said("user", start, 1),
        said("assistant", text("Hello!"), 2, stopReason="stop"),
        said("user", "Which tide?", 3),
        said("assistant", text("High."), 4, stopReason="stop"),
        said("assistant", text("High. (sent)"), 5, provider="openclaw", model="delivery-mirror", stopReason="stop"),
        said("user", text(context), 6),
    ]
    [turn] = events_to_turn_traces(events)
    assert (turn["question"], turn["answer"]) == ("Which tide?", "High.")
    assert "sent" not in str(turn["reasoning"])
    assert metadata_of(turn)["echoes"] == 1


ECHO = said("assistant", text("Ahoy! (sent)"), 0, provider="openclaw", model="delivery-mirror")


def test_the_model_of_an_echo_is_not_that_of_the_session() -> None:
    events = [ECHO, said("user", "Which tide?", 1), said("assistant", text("High."), 2, model="gpt-5-mini")]
    [turn] = events_to_turn_traces(events)
    assert metadata_of(turn)["model"] == metadata_of(events_to_trace(events))["model"] == "gpt-5-mini"
    assert "model" not in metadata_of(events_to_trace(events[:2]))


def test_the_model_of_messages_that_name_none_is_the_one_that_the_session_chose() -> None:
    chosen: Event = {"type": "model_change", "provider": "openai", "modelId": "gpt-5-mini"}
    events = [chosen, ECHO, said("user", "Which tide?", 1), said("assistant", text("High."), 2)]
    assert metadata_of(events_to_trace(events))["model"] == "gpt-5-mini"
    assert "model" not in metadata_of(events_to_trace(events[1:]))
    named = said("assistant", text("Low."), 4, model="gpt-5")
    assert metadata_of(events_to_trace([*events, named]))["model"] == "gpt-5"


@pytest.mark.parametrize("more", [{}, {"parentId": None}, {"parentId": ""}])
def test_events_with_ids_but_without_parents_are_read_in_order(more: Event) -> None:
    said_in_order = [said("user", "Fix it", 1), said("assistant", text("Fixed."), 2), said("user", "Thanks", 3)]
    events = [{**event, "id": str(number), **more} for number, event in enumerate(said_in_order)]
    trace = events_to_trace(events)
    assert trace["question"] == "Fix it"
    assert "abandoned_messages" not in metadata_of(trace)
    assert [turn["question"] for turn in events_to_turn_traces(events)] == ["Fix it", "Thanks"]


def started(time: int) -> list[Event]:
    """What OpenClaw does by itself at the start of a session, which fails here."""
    calls = [{"type": "toolCall", "name": "read", "arguments": {"path": "USER.md"}}]
    return [
        said("user", "A new session was started via /new or /reset. Execute your Session Startup sequence now", time),
        said("assistant", calls, time + 1, stopReason="toolUse"),
        said("toolResult", text(f"ENOENT {time}"), time + 2, toolName="read", isError=True),
    ]


def test_what_was_done_before_the_first_question_belongs_to_its_turn() -> None:
    asked = [said("user", "Which tide?", 10), said("assistant", text("High."), 11, stopReason="stop")]
    [turn] = events_to_turn_traces([*started(1), *asked])
    assert (turn["question"], turn["answer"]) == ("Which tide?", "High.")
    assert "read failed at" in str(turn["feedback"]) and "ENOENT 1" in str(turn["feedback"])
    metrics = turn["metrics"]
    assert isinstance(metrics, dict) and (metrics["tool_calls"], metrics["failed_tool_calls"]) == (1, 1)
    session: Event = {"type": "session", "id": "s"}
    with_start, without = ([session, *start, *asked] for start in (started(1), []))
    names = [trace["trace_id"] for events in (with_start, without) for trace in events_to_turn_traces(events)]
    assert names == ["s#11", "s#11"], "a captured turn begins with its question, and is the same"


def test_what_was_done_after_a_reset_belongs_to_the_next_question() -> None:
    asked = [said("user", "Which tide?", 10), said("assistant", text("High."), 11, stopReason="stop")]
    again = [said("user", "And now?", 30), said("assistant", text("Low."), 31, stopReason="stop")]
    first, second = events_to_turn_traces([*asked, {"type": "reset"}, *started(20), *again])
    assert "ENOENT" not in str(first["feedback"])
    assert "ENOENT 20" in str(second["feedback"])
    assert (first["answer"], second["answer"], second["context"]) == ("High.", "Low.", "")


@pytest.mark.parametrize(
    "result",
    [
        said("toolResult", text('{"status": "error", "tool": "read", "error": "no such file: a.py"}'), 2, isError=True),
        said(
            "toolResult",
            text('{\n  "status": "error",\n  "tool": "read",\n  "error": "no such file: a.py"\n}'),
            2,
            isError=False,
            details={"status": "error", "error": "no such file: a.py"},
        ),
    ],
    ids=["one line", "details"],
)
def test_the_feedback_tells_the_message_of_a_tool_that_answers_in_json(result: Event) -> None:
    trace = events_to_trace([said("user", "Look.", 1), result])
    assert "failed at 2: no such file: a.py" in str(trace["feedback"])


def test_what_the_user_took_back_is_left_out() -> None:
    def node(name: str, parent: str | None, event: Event) -> Event:
        return {**event, "id": name, "parentId": parent}

    events: list[Event] = [
        node("a", None, said("user", "Bremen?", 1)),
        node("b", "a", said("assistant", text("Wrong branch."), 2)),
        node("c", None, said("user", "Hamburg?", 3)),
        node("d", "c", said("assistant", text("At nine."), 4, stopReason="stop")),
    ]
    trace = events_to_trace(events)
    assert (trace["question"], trace["answer"]) == ("Hamburg?", "At nine.")
    assert metadata_of(trace)["abandoned_messages"] == 2
    moved: list[Event] = [*events, {"type": "leaf", "id": "e", "parentId": "d", "targetId": "b"}]
    assert events_to_trace(moved)["answer"] == "Wrong branch."


def test_a_reset_ends_what_the_next_question_can_refer_to() -> None:
    events: list[Event] = [
        said("user", "One?", 1),
        said("assistant", text("1"), 2),
        {"type": "reset"},
        said("user", "Two?", 3),
    ]
    assert [turn["context"] for turn in events_to_turn_traces(events)] == ["", ""]


def test_the_steps_compose() -> None:
    ctx = LoadTracesStep()(ACEStepContext(sample=str(V4)))
    trace = OpenClawToTrace()(ctx).trace
    assert isinstance(trace, dict) and trace["question"] == QUESTION


LABELS = [
    said("user", "Which label does the ticket get?", 1),
    said("assistant", text("bug"), 2),
    said("user", "No, labels start with area/ here: area/login", 3),
    said("assistant", text("area/login"), 4),
    said("user", "Thanks!", 5),
    said("assistant", text("You are welcome."), 6),
]


def test_a_correction_is_a_case_of_the_session_and_of_the_turn_in_which_it_was_said() -> None:
    turns = events_to_turn_traces(LABELS)
    assert [len(judged(turn, "area/login", reply="No")["corrections"]) for turn in turns] == [0, 1, 0]
    for trace in (events_to_trace(LABELS), turns[1]):
        [case] = cases_of(judged(trace, "area/login", reply="No"))
        assert (case.question, case.wrong) == ("Which label does the ticket get?", "bug")
        assert (answer_passes(case, "area/login"), answer_passes(case, "bug")) == (True, False)


def test_the_correction_of_a_recorded_session_is_left_to_a_judge() -> None:
    [case] = cases_of(judged(events_to_trace(V4), reply="Too long"))
    assert (case.question, case.correction) == ("Make mean([]) return 0", "Too long. In one sentence, please.")
    assert case.check.kind == "judge"


def test_after_a_reset_nothing_is_corrected() -> None:
    reset: Event = {"type": "reset"}
    replies = replies_in(read_trace(events_to_trace([*LABELS[:2], reset, *LABELS[2:]])))
    assert "No" not in [reply.text[:2] for reply in replies]


def test_a_session_without_a_question_has_no_correction() -> None:
    assert events_to_turn_traces([said("assistant", text("Good morning!"), 1)]) == []
    assert replies_in(read_trace(events_to_trace([said("assistant", text("Good morning!"), 1)]))) == []
