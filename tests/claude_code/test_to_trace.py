"""Streams and stored transcripts become standard traces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ace import read_trace
from ace.cases import answer_passes, cases_of
from ace.context import ACEStepContext
from ace.environments import Sample
from ace_claude_code import ClaudeCodeResult, ClaudeCodeToTrace, transcript_to_trace, transcript_to_turn_traces
from tests.claude_code.samples import DATA, RELEASES, STREAMS, TRANSCRIPTS, assistant, lines, user
from tests.support.corrected_chats import judged

EVERY_SAMPLE = sorted(path for folder in (TRANSCRIPTS, STREAMS) for path in folder.rglob("*.jsonl"))
each_release = pytest.mark.parametrize("release", RELEASES)


def kinds(trace: dict[str, Any]) -> list[str]:
    """Return what the steps are; the id behind the name of a call says which result is its own."""
    names = [f"{step['kind']} {step['name'].partition(' #')[0]}" for step in trace["steps"]]
    return [name + ("!" if step["is_error"] else "") for name, step in zip(names, trace["steps"], strict=True)]


@pytest.mark.parametrize("path", EVERY_SAMPLE, ids=lambda path: str(path.relative_to(DATA)))
def test_every_sample_becomes_a_trace_that_json_and_the_reflector_can_take(path: Path) -> None:
    trace = transcript_to_trace(path)
    assert json.loads(json.dumps(trace)) == trace
    read = read_trace(trace)
    assert read["schema"] == 1
    for name in ("question", "answer", "reasoning", "skill_ids", "success", "steps"):
        assert read[name] == trace[name]
    assert transcript_to_trace(path) == trace
    assert "[elided]" not in str(trace["reasoning"])


def test_a_stored_session_is_told_with_thoughts_calls_results_and_failures() -> None:
    trace: dict[str, Any] = transcript_to_trace(TRANSCRIPTS / "tests-fixed.jsonl")
    assert trace["question"] == "Make mean([]) return 0"
    assert trace["answer"] == "Fixed: `mean([])` now returns 0 and both tests pass. Strategy used: [testing-00001]."
    assert trace["skill_ids"] == ["testing-00001"]
    assert trace["success"] is None
    assert trace["feedback"] == "Bash failed at 27: Exit code 1 ... FAILED (errors=1)"
    assert kinds(trace) == [
        *("message user", "thought ", "message assistant", "call Bash", "result Bash!", "message assistant"),
        *("call Read", "result Read", "call Edit", "result Edit", "call Bash", "result Bash", "message assistant"),
    ]
    assert "ZeroDivisionError: division by zero" in trace["reasoning"]
    assert "[27] result Bash (failed)\nExit code 1\n" in trace["reasoning"]
    assert trace["metrics"]["tool_calls"] == 4
    assert trace["metrics"]["failed_tool_calls"] == 1
    assert trace["metrics"]["input_tokens"] == 5000
    assert trace["metadata"]["shown_skill_ids"] == ["testing-00001"]
    assert trace["metadata"]["version"] == "2.1.329"


def test_the_same_run_as_a_stream_has_the_verdict_of_its_result_and_needs_the_question() -> None:
    trace: dict[str, Any] = transcript_to_trace(STREAMS / "success.jsonl", question="Make mean([]) return 0")
    stored = transcript_to_trace(TRANSCRIPTS / "tests-fixed.jsonl")
    assert trace["success"] is True
    assert trace["question"] == stored["question"]
    assert trace["answer"] == stored["answer"]
    assert ["message user", *kinds(trace)] == kinds(stored)
    assert trace["metrics"]["cost_usd"] == 0.025
    assert trace["metrics"]["turns"] == 5


def test_a_stream_alone_says_that_its_task_is_not_known() -> None:
    trace = transcript_to_trace(STREAMS / "success.jsonl")
    assert trace["question"] == ""
    assert "The records contain no user prompt" in str(trace["feedback"])


@pytest.mark.parametrize(
    ("name", "success", "feedback"),
    [
        ("api-error", False, "API Error: 400 bad request scripted"),
        ("max-turns", False, "Reached maximum number of turns (2)"),
        ("budget", False, "Reached maximum budget"),
        ("denied", False, "The call was denied. This command requires approval\nWrite failed"),
        ("interrupted", False, "The run failed with aborted_tools"),
        ("terminated", False, "The run ended without a final answer"),
        ("unknown-session", False, "No conversation found with session ID"),
        ("resumed", True, "Bash failed at 7: Exit code 2"),
        ("sub-agent", True, ""),
    ],
)
@each_release
def test_the_outcome_of_a_stream(release: str, name: str, success: bool, feedback: str) -> None:
    trace = transcript_to_trace(STREAMS / release / f"{name}.jsonl", question="x")
    assert trace["success"] is success
    assert feedback in str(trace["feedback"])


@pytest.mark.parametrize(
    ("name", "success", "feedback"),
    [
        ("api-error", False, "The API refused: API Error: 400 bad request scripted"),
        ("max-turns", False, "The run ended without a final answer"),
        ("denied", False, "The call was denied. This command requires approval\nWrite failed"),
        ("interrupted", False, "The user interrupted the run."),
        ("terminated", False, "The run ended without a final answer"),
        ("sub-agent", None, ""),
    ],
)
@each_release
def test_the_outcome_of_a_stored_session(release: str, name: str, success: bool | None, feedback: str) -> None:
    trace = transcript_to_trace(TRANSCRIPTS / release / f"{name}.jsonl")
    assert trace["success"] is success
    assert feedback in str(trace["feedback"])


@pytest.mark.parametrize("folder", [STREAMS, TRANSCRIPTS], ids=["stream", "stored"])
@each_release
def test_an_interrupted_call_is_not_denied(release: str, folder: Path) -> None:
    trace: dict[str, Any] = transcript_to_trace(folder / release / "interrupted.jsonl", question="x")
    assert "denied" not in str(trace)
    assert "failed at" not in str(trace["feedback"])
    [result] = [step for step in trace["steps"] if step["kind"] == "result"]
    assert (result["content"], result["is_error"]) == ("The user interrupted the call.", False)


def test_a_call_that_was_denied_before_an_interruption_stays_denied() -> None:
    calls = [
        {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": call}} for call in ("c0", "c1", "c2")
    ]
    policy = {"type": "tool_result", "tool_use_id": "c0", "content": "This command requires approval", "is_error": True}
    ended = [
        ("user", [{**part, "tool_use_id": call} for part in rejected("STOP what you are doing.")[1]])
        for call in ("c1", "c2")
    ]
    stop = ("user", "[Request interrupted by user for tool use]")
    trace: dict[str, Any] = transcript_to_trace(
        chained(("user", "Go."), ("assistant", calls), ("user", [policy]), *ended, stop)
    )
    results = [step["content"] for step in trace["steps"] if step["kind"] == "result"]
    assert results == [
        "The call was denied. This command requires approval",
        "The user interrupted the call.",
        "The user interrupted the call.",
    ]
    assert "Bash failed at 3: The call was denied. This command requires approval" in str(trace["feedback"])


def test_the_last_of_several_results_counts() -> None:
    trace: dict[str, Any] = transcript_to_trace(STREAMS / "subagent-two-results.jsonl", question="Which files?")
    assert trace["answer"] == "There are three files: CLAUDE.md, calc.py and test_calc.py."
    assert trace["success"] is True
    assert "call sub-agent: Bash" in kinds(trace)
    assert "result sub-agent: Bash" in kinds(trace)


@each_release
def test_the_steps_of_a_sub_agent_follow_the_call_that_started_it(release: str) -> None:
    trace = transcript_to_trace(TRANSCRIPTS / release / "sub-agent.jsonl")
    assert kinds(trace) == [
        *("message user", "message assistant", "call Agent", "call sub-agent: Bash", "result sub-agent: Bash"),
        *("message sub-agent", "result Agent", "message assistant"),
    ]
    assert trace["answer"] == "parent done"


def test_a_sub_agent_s_own_file_is_a_conversation_too() -> None:
    [path] = (TRANSCRIPTS / "subagent-parent" / "subagents").glob("*.jsonl")
    trace = transcript_to_trace(path)
    assert trace["question"] == "SUBTASK: list the files here and report their names"
    assert trace["answer"] == "The folder holds CLAUDE.md, calc.py and test_calc.py."


def test_a_broken_file_of_a_sub_agent_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "session.jsonl"
    shutil.copy(TRANSCRIPTS / "2.1.329" / "sub-agent.jsonl", path)
    (tmp_path / "session" / "subagents").mkdir(parents=True)
    (tmp_path / "session" / "subagents" / "agent-a1.jsonl").write_text("no JSON\n", encoding="utf-8")
    assert transcript_to_trace(path)["answer"] == "parent done"
    assert "the sub-agent a1 is skipped" in caplog.text


@each_release
def test_a_session_is_cut_into_turns_across_resumption_and_compaction(release: str) -> None:
    turns: list[dict[str, Any]] = transcript_to_turn_traces(TRANSCRIPTS / release / "resumed-and-compacted.jsonl")
    asked = ["first task", "second task: no, in one sentence", "third task"]
    assert [turn["question"] for turn in turns] == asked
    assert [turn["answer"] for turn in turns][:2] == ["done 1 by [shell-00001]", "done 3 by [shell-00001]"]
    assert f"The user's next message: {asked[1]}" in turns[0]["feedback"]
    assert f"the user asked: {asked[1]}" in turns[2]["context"]
    assert [turn["metadata"]["turn"] for turn in turns] == [1, 2, 3]
    assert len({turn["trace_id"] for turn in turns}) == 3
    whole: dict[str, Any] = transcript_to_trace(TRANSCRIPTS / release / "resumed-and-compacted.jsonl")
    assert whole["question"] == "\n\n".join(asked)
    assert whole["metadata"]["compactions"] == 1
    assert "This session is being continued" not in whole["reasoning"]


@each_release
def test_a_session_that_has_grown_has_new_ids_for_its_new_turns_only(release: str) -> None:
    records = lines(TRANSCRIPTS / release / "resumed-and-compacted.jsonl")
    grown = [turn["trace_id"] for turn in transcript_to_turn_traces(records)]
    compacted = next(at for at, record in enumerate(records) if record.get("subtype") == "compact_boundary")
    for end in (compacted, compacted + 4):
        assert [turn["trace_id"] for turn in transcript_to_turn_traces(records[:end])] == grown[:2]


@each_release
def test_a_fork_has_the_ids_of_the_turns_that_it_took_over(release: str) -> None:
    original = transcript_to_turn_traces(TRANSCRIPTS / release / "resumed-and-compacted.jsonl")
    forked = transcript_to_turn_traces(TRANSCRIPTS / release / "forked.jsonl")
    assert [turn["question"] for turn in forked] == ["third task", "forked task"]
    assert forked[0]["trace_id"] == original[2]["trace_id"]


def test_what_the_user_took_back_is_left_out_and_counted() -> None:
    trace: dict[str, Any] = transcript_to_trace(
        [
            {"type": "attachment", "uuid": "h1", "parentUuid": None},
            user("Fix it.", "u1", "h1"),
            assistant("Wrong way.", "a1", "u1"),
            user("Go on.", "u2", "a1"),
            assistant("Worse.", "a2", "u2"),
            user("Fix it with a test.", "u3", "h1"),
            assistant("Right way.", "a3", "u3"),
        ]
    )
    assert trace["question"] == "Fix it with a test."
    assert "Wrong way." not in trace["reasoning"]
    assert trace["metadata"]["abandoned_messages"] == 4


def test_a_lost_line_in_the_middle_loses_nothing_else() -> None:
    records = [user("Fix it.", "u1"), assistant("I look.", "a1", "u1"), assistant("Fixed.", "a3", "a2")]
    trace: dict[str, Any] = transcript_to_trace(records)
    assert kinds(trace) == ["message user", "message assistant", "message assistant"]


def test_text_of_the_client_is_no_question() -> None:
    records = [
        user("<command-name>/clear</command-name>", "u1"),
        user("Caveat: no request", "u2", "u1", isMeta=True),
        user("<system-reminder>Be quick.</system-reminder>\nFix it.", "u3", "u2"),
        assistant("Fixed.", "a1", "u3"),
        user("A task is done.", "u4", "a1", origin={"kind": "task-notification"}),
        assistant("Good.", "a2", "u4"),
    ]
    [turn] = transcript_to_turn_traces(records)
    assert turn["question"] == "Fix it."
    assert turn["answer"] == "Good."


def test_skills_are_cited_by_the_model_only() -> None:
    records = [user("Do not use [a-00001].", "u1"), assistant("By [b-00002] it is done.", "a1", "u1")]
    assert transcript_to_trace(records)["skill_ids"] == ["b-00002"]


def test_the_step_converts_results_and_paths_and_adds_the_ground_truth() -> None:
    events = tuple(lines(STREAMS / "success.jsonl"))
    result = ClaudeCodeResult(task="Make mean([]) return 0", success=True, events=events)
    sample = Sample("Make mean([]) return 0", ground_truth="both tests pass")
    for source in (result, TRANSCRIPTS / "tests-fixed.jsonl"):
        trace: Any = ClaudeCodeToTrace()(ACEStepContext(sample=sample, trace=source)).trace
        assert trace["question"] == "Make mean([]) return 0"
        assert trace["skill_ids"] == ["testing-00001"]
        assert trace["ground_truth"] == "both tests pass"


def test_a_result_without_any_event_is_a_failed_trace() -> None:
    result = ClaudeCodeResult(task="Fix it.", success=False, returncode=1, error="error: unknown option '--x'")
    trace: dict[str, Any] = transcript_to_trace(result)
    assert (trace["question"], trace["success"]) == ("Fix it.", False)
    assert trace["feedback"] == "error: unknown option '--x'"
    assert trace["metadata"]["returncode"] == 1


def test_the_step_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match="requires a ClaudeCodeResult or a transcript, got int"):
        ClaudeCodeToTrace()(ACEStepContext(trace=7))


def chained(*messages: tuple[str, Any]) -> list[dict[str, Any]]:
    """Return a stored session of these messages: who speaks, and the text or the blocks."""
    records: list[dict[str, Any]] = []
    for number, (role, content) in enumerate(messages):
        message: dict[str, Any] = {"role": role, "content": content}
        if role == "assistant":
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            message = {"id": f"msg_{number}", "role": role, "content": blocks}
        parent = f"u{number - 1}" if number else None
        records.append({"type": role, "uuid": f"u{number}", "parentUuid": parent, "message": message})
    return records


def rejected(reason: str) -> tuple[str, Any]:
    said = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
        f"the new_string was NOT written to the file). {reason}"
    )
    return "user", [{"type": "tool_result", "tool_use_id": "c1", "content": said, "is_error": True}]


def running(command: str, call: str) -> tuple[str, Any]:
    return "assistant", [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}]


CORRECTED: dict[str, tuple[list[tuple[str, Any]], tuple[str, str, str, str]]] = {
    "a message after an answer": (
        [
            ("user", "Which label does the ticket get?"),
            ("assistant", "bug"),
            ("user", "No, labels start with area/ here: area/login"),
            ("assistant", "You're right, it gets area/login."),
        ],
        ("Which label does the ticket get?", "bug", "area/login", "bug-area/login"),
    ),
    "an interruption": (
        [
            ("user", "Install left-pad."),
            running("npm install left-pad", "c1"),
            ("user", "[Request interrupted by user for tool use]"),
            ("user", "We're a pnpm shop: pnpm add"),
            ("assistant", "pnpm add left-pad"),
        ],
        ("Install left-pad.", "npm install left-pad", "pnpm add left-pad", "npm install left-pad"),
    ),
    "a rejected call": (
        [
            ("user", "Install left-pad."),
            running("npm install left-pad", "c1"),
            rejected("To tell you how to proceed, the user said:\npnpm, please"),
            running("pnpm add left-pad", "c2"),
            ("assistant", "Installed."),
        ],
        ("Install left-pad.", "npm install left-pad", "pnpm add left-pad", "npm install left-pad"),
    ),
}


@pytest.mark.parametrize(("records", "taught"), CORRECTED.values(), ids=CORRECTED)
def test_where_the_user_corrects_the_agent(records: list[tuple[str, Any]], taught: tuple[str, str, str, str]) -> None:
    question, wrong, passes, fails = taught
    session = chained(*records)
    for trace in (transcript_to_trace(session), transcript_to_turn_traces(session)[-1]):
        [case] = cases_of(judged(trace, passes))
        assert (case.question, case.wrong) == (question, wrong)
        assert (answer_passes(case, passes), answer_passes(case, fails)) == (True, False)


@pytest.mark.parametrize(
    "records",
    [
        [("user", "Fix calc.py."), ("assistant", "Fixed."), ("user", "Commit it as Fix calc.")],
        [
            ("user", "Fix calc.py."),
            running("cat calc.py", "c1"),
            ("user", "[Request interrupted by user]"),
            ("user", "continue"),
        ],
        [("user", "Fix calc.py."), ("assistant", "Fixed."), ("user", "Thanks!")],
    ],
    ids=["a further task", "an interruption without a correction", "thanks"],
)
def test_without_a_judgement_of_a_model_nothing_is_a_correction(records: list[tuple[str, Any]]) -> None:
    session = chained(*records, ("assistant", "Done: Fix calc."))
    traces = [transcript_to_trace(session), *transcript_to_turn_traces(session)]
    assert [cases_of(read_trace(trace)) for trace in traces] == [()] * len(traces)


class CountedRecord(dict[str, Any]):
    """A record that counts how often anything is looked up in any of them."""

    looked_up = 0

    def get(self, key: str, default: Any = None) -> Any:
        CountedRecord.looked_up += 1
        return super().get(key, default)


def session_of(turns: int, *, lost: bool = False) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for number in range(turns):
        # Where lines were lost, no message knows the one before it.
        parent = f"lost{number}" if lost else (f"a{number - 1}" if number else None)
        records.append(user(f"No, do task {number}.", f"u{number}", parent))
        records.append(assistant("Done.", f"a{number}", f"u{number}"))
        records.append({"type": "attachment", "attachment": {"type": "prompt_snapshot"}})
    return [CountedRecord(record) for record in records]


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "with lost lines"])
def test_four_times_as_many_turns_are_four_times_the_work(lost: bool) -> None:
    looked_up, written = [], []
    for turns in (50, 200):
        records = session_of(turns, lost=lost)
        CountedRecord.looked_up = 0
        traces = transcript_to_turn_traces(records)
        assert len(traces) == turns
        looked_up.append(CountedRecord.looked_up)
        written.append(len(json.dumps(traces)))
    assert looked_up[1] < 4.2 * looked_up[0]
    assert written[1] < 4.8 * written[0]  # the first turns have less that went before


def test_the_context_of_a_turn_holds_the_answer_that_it_may_correct() -> None:
    session = [("user", "Explain the build."), ("assistant", "It runs make."), ("user", "Too long!")]
    _, turn = transcript_to_turn_traces(chained(*session, ("assistant", "Make.")))
    assert turn["context"] == (
        "Earlier in this session the user asked: Explain the build.\nThe agent answered: It runs make."
    )


def test_the_context_of_a_late_turn_says_what_is_omitted_and_what_is_cut() -> None:
    before = [pair for number in range(30) for pair in (("user", f"Task {number}."), ("assistant", "Yes. " * 2000))]
    turns = transcript_to_turn_traces(chained(*before, ("user", "Too long!"), ("assistant", "Yes.")))
    context = str(turns[-1]["context"])
    assert context.startswith("20 earlier prompts of this session are omitted.\n")
    assert "asked: Task 20." in context and "asked: Task 19." not in context
    assert len(context) < 12_000
    assert context.endswith("Yes. [cut]")


@each_release
def test_a_denial_is_told_once_in_the_feedback(release: str) -> None:
    feedback = str(transcript_to_trace(TRANSCRIPTS / release / "denied.jsonl")["feedback"])
    assert [line.partition(" failed at")[0] for line in feedback.split("\n")] == ["Bash", "Write"]


def test_why_the_user_rejected_a_call_is_in_the_feedback() -> None:
    records, _ = CORRECTED["a rejected call"]
    [turn] = transcript_to_turn_traces(chained(*records))
    assert str(turn["feedback"]).startswith("The user rejected a call: pnpm, please\nBash failed at 3")
