"""The sample files of frameworks, benchmarks, chats and tables are read as a person would read them."""

from __future__ import annotations

import pytest

from ace.logs import Problem, Run, read_runs
from ace.logs.formats import built_in
from tests.core.logs.log_files import DATA, run_of, runs_of, steps_of

TASK = "How many days may a customer return the blue kettle?"
ANSWER = "A customer may return it within 30 days."
FAILED = "get_policy failed: HTTP 404: no such sku KET-2"


def persons_in(run: Run) -> list[str]:
    return [step.content for step in run.steps if step.kind == "message" and step.speaker == "person"]


@pytest.mark.parametrize(
    "name",
    [
        *("atif.json", "autogen_messages.json", "chatgpt_export.json", "crewai_log.json", "gemini_contents.json"),
        *("legacy_function_call.json", "miniswe.traj.json", "openai_evals.jsonl", "openai_responses_items.json"),
        *("openhands_output.jsonl", "openhands_traj.json", "ragas.jsonl", "smolagents_steps.json", "sweagent.traj"),
        *("autogen_02.json", "claude_ai.json", "dspy_history.jsonl", "google_adk.json", "llama_index.json"),
        *("promptfoo.json", "pydantic_ai.json", "strands", "vercel_ui.json"),
        *("deepeval.json", "dify_logs.csv", "dspy_trace.jsonl", "hal_gaia.jsonl", "zendesk_like.csv"),
    ],
)
def test_one_run_with_its_task_and_its_answer(name: str) -> None:
    run = run_of(DATA / name)

    assert (run.task, run.answer) == (TASK, ANSWER)


@pytest.mark.parametrize(
    "name",
    ["autogen_messages.json", "gemini_contents.json", "inspect.json", "smolagents_steps.json", "tau2_results.json"],
)
def test_a_failed_call(name: str) -> None:
    first = runs_of(DATA / name)[0]

    shown = steps_of(first)
    assert shown[shown.index(FAILED) - 1] == 'get_policy {"sku": "KET-2"}'
    assert sum(step.is_error for step in first.steps) == 1


@pytest.mark.parametrize(
    "name", ["atif.json", "legacy_function_call.json", "openai_responses_items.json", "taubench.json"]
)
def test_a_call_and_its_result_without_a_flag(name: str) -> None:
    shown = steps_of(runs_of(DATA / name)[0])

    assert shown[shown.index('get_policy {"sku": "KET-2"}') + 1].startswith("get_policy ")


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("deepeval.json", [False]),
        ("dify_logs.csv", [False]),
        ("dspy_trace.jsonl", [False]),
        ("g_success_words.jsonl", [False] * 14),
        ("hal_gaia.jsonl", [False]),
        ("inspect.json", [False, True]),
        ("openai_evals.jsonl", [False]),
        ("openhands_output.jsonl", [False]),
        ("tau2_results.json", [False, True]),
        ("taubench.json", [False, True]),
        ("zendesk_like.csv", [False]),
    ],
)
def test_outcomes(name: str, outcomes: list[bool]) -> None:
    assert [run.success for run in runs_of(DATA / name)] == outcomes


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        *(("deepeval.json", "14 days"), ("dspy_trace.jsonl", "14 days"), ("hal_gaia.jsonl", "14 days")),
        *(("inspect.json", "14 days"), ("openai_evals.jsonl", "14 days"), ("ragas.jsonl", "14 days")),
        *(("zendesk_like.csv", "14 days"), ("tau2_results.json", "14 days"), ("taubench.json", "14 days")),
        ("dify_logs.csv", None),
    ],
)
def test_right_answers(name: str, truth: str | None) -> None:
    assert runs_of(DATA / name)[0].truth == truth


@pytest.mark.parametrize("name", ["deepeval.json", "inspect.json", "tau2_results.json"])
def test_what_a_judge_says_is_the_reason(name: str) -> None:
    assert runs_of(DATA / name)[0].reason == "Wrong: kettles have 14 days, not 30."


@pytest.mark.parametrize(
    "name",
    [
        *("g_data_wrapper.json", "g_results_wrapper.json", "g_runs_wrapper.json", "g_json_in_jsonl.jsonl"),
        *("g_pretty_concatenated.json", "g_pretty_concatenated.jsonl", "g_utf16_powershell.jsonl"),
    ],
)
def test_two_records_in_whatever_envelope(name: str) -> None:
    first, second = runs_of(DATA / name)

    assert (first.task, second.task) == ("Fix the failing test of the blue kettle.", "2+2?")
    assert {first.answer, second.answer} == {ANSWER}
    assert first.reason == "Wrong: 14 days."


def test_a_table_by_columns() -> None:
    first, second = runs_of(DATA / "g_columns.json")

    assert (first.task, first.answer, first.reason) == ("Fix the failing test of the blue kettle.", ANSWER, "wrong")
    assert (second.task, second.answer) == ("2+2?", "4")


def test_the_usual_names_of_fields() -> None:
    runs = runs_of(DATA / "g_field_names.jsonl")

    assert [(run.task, run.answer) for run in runs] == [(TASK, "30 days.")] * 17
    assert [run.truth for run in runs] == [None] * 16 + ["14 days"]


@pytest.mark.parametrize("name", ["g_history.json", "g_turns.json"])
def test_a_dialogue_with_a_correction(name: str) -> None:
    run = run_of(DATA / name)

    assert persons_in(run) == [TASK, "No, that's wrong. It is 14 days."]
    assert run.answer == "14 days."


@pytest.mark.parametrize("name", ["g_turn_rows.csv", "g_turn_rows.jsonl"])
def test_turns_of_two_sessions(name: str) -> None:
    first, second = runs_of(DATA / name)

    assert persons_in(first) == [TASK, "No, that's wrong. It is 14 days."]
    assert (first.id, first.answer) == ("s1", "14 days.")
    assert (second.id, second.task, second.answer) == ("s2", "What is the price of the teapot?", "9 euro.")


def test_a_table_in_an_old_encoding() -> None:
    found = list(read_runs(DATA / "g_latin1.csv"))

    [run] = [item for item in found if isinstance(item, Run)]
    assert (run.task, run.answer, run.reason) == ("Wie viele Tage für den Kessel?", "30 Tage", "Falsch: 14 Tage")


def test_an_exported_chat_with_a_correction() -> None:
    first, second = runs_of(DATA / "sharegpt.json")

    assert persons_in(first) == [TASK, "No, that's wrong. It is 14 days."]
    assert (second.task, second.answer) == ("hi", "hello")


@pytest.mark.parametrize("name", ["harness_error_as_user.json", "miniswe.traj.json", "react_user_observation.json"])
def test_what_a_program_says_as_the_user_is_not_a_turn_of_a_person(name: str) -> None:
    assert persons_in(run_of(DATA / name)) == [TASK]


def test_an_observation_is_the_result_of_the_action_before_it() -> None:
    shown = steps_of(run_of(DATA / "react_user_observation.json"))

    assert shown[2:4] == ["get_policy KET-2", "get_policy failed: Error: not found, wrong sku"]


def test_both_calls_of_smolagents_are_steps() -> None:
    run = run_of(DATA / "smolagents_steps.json")

    assert [step.name for step in run.steps if step.kind == "call"] == ["get_policy", "final_answer"]


def test_a_trajectory_that_reached_its_limit_is_not_finished() -> None:
    run = run_of(DATA / "miniswe.traj.json")

    assert (run.success, run.is_interrupted, run.reason) == (None, True, "exit status: LimitsExceeded")


def test_a_batch_without_its_requests_says_where_the_tasks_are() -> None:
    problem, run = read_runs(DATA / "openai_batch.jsonl")

    assert isinstance(problem, Problem) and "put it into the same folder" in problem.reason
    assert isinstance(run, Run) and run.answer == ANSWER


def test_a_preference_is_a_correction_of_the_rejected_answer() -> None:
    notice, run = read_runs(DATA / "trl_dpo.jsonl")

    assert isinstance(notice, Problem) and "not runs of an agent" in notice.reason
    assert isinstance(run, Run)
    assert (run.task, run.answer, run.truth, run.success) == (TASK, ANSWER, "14 days.", False)


OTHERS = (
    "spans",
    "codex",
    "gemini",
    "opencode",
    "cursor",
    "copilot",
    "vscode",
    "cline",
    "aider",
    "goose",
    "pi",
    "agents",
)
"""Modules of readers whose tests are elsewhere."""


def test_every_reader_has_a_sample() -> None:
    """The page of formats tells what is read of each from these files."""
    read = {found.format for found in read_runs(DATA) if isinstance(found, Run)}
    mine = [reader for reader in built_in() if not set(type(reader).__module__.split(".")) & set(OTHERS)]

    assert [reader.name for reader in mine if reader.name not in read] == []
