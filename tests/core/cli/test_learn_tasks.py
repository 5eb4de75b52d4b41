"""`ace learn --task` learns from the attempts at some tasks, through the gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.loop import ExecutionTrace, TraceLog
from ace.skillbook import Skillbook
from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedServer

EVERY = ("--min-confidence", "0")
"""Learn what a single task shows."""

ATTEMPTS = [("bd-1", "one"), ("bd-2", "two"), ("bd-1", "three"), ("bd-3", "four")]


@pytest.fixture
def log(tmp_path: Path) -> TraceLog:
    """The log of a project, with four attempts at three tasks."""
    log = TraceLog(tmp_path / "logs" / "execution_traces.jsonl")
    for task, word in ATTEMPTS:
        log.append(ExecutionTrace(task_id=task, outcome="failure", task_description=f"It is LESSON {word}"))
    return log


def texts(folder: Path) -> list[str]:
    with Skillbook.open(folder / "skills.db") as book:
        return [skill.content for skill in book.skills()]


def test_only_the_attempts_at_the_tasks_are_learned_from_in_the_order_of_the_log(
    here: Run, tmp_path: Path, model: list[str], log: TraceLog
) -> None:
    done = here("learn", "--task", "bd-1", "--json", *model, *EVERY)
    assert (done.code, done.data["traces"]["learned"]) == (0, 2), done.err
    assert done.data["gate"] == {"accepted": 2, "refused": 0}
    assert texts(tmp_path) == ["Remember LESSON one.", "Remember LESSON three."]
    again = here("learn", log.path, "--beads", "bd-2, bd-1", "--bead", "bd-3", "--json", *model, *EVERY)
    traces = again.data["traces"]
    assert (again.code, traces["learned"], traces["already_learned"]) == (0, 2, 2)
    assert texts(tmp_path)[2:] == ["Remember LESSON two.", "Remember LESSON four."]


def test_attempts_are_learned_from_one_after_the_other(
    here: Run, model: list[str], server: ScriptedServer, log: TraceLog
) -> None:
    assert here("learn", "--task", "bd-1,bd-2,bd-3", *model, *EVERY).code == 0
    roles = [request.role for request in server.requests if request.role in ("reflector", "skill_manager")]
    assert roles == ["reflector", "skill_manager"] * len(ATTEMPTS)


def test_at_most_three_changes_are_applied_from_one_attempt(
    here: Run, tmp_path: Path, model: list[str], log: TraceLog
) -> None:
    many = " ".join(f"LESSON rule{number}" for number in range(5))
    log.append(ExecutionTrace(task_id="bd-7", outcome="failure", task_description=many))
    done = here("learn", "--task", "bd-7", "--json", *model, *EVERY)
    assert (done.code, texts(tmp_path)) == (0, [f"Remember LESSON rule{number}." for number in range(3)])
    reason = "one answer may make at most 3 changes (max_operations)"
    assert [omission["reason"] for omission in done.data["left_out"]] == [reason] * 2
    assert here("learn", "--task", "bd-7", "--max-operations", "4", "--again", *model, *EVERY).code == 0
    assert len(texts(tmp_path)) == 5


def test_the_run_of_other_tasks_is_not_resumed(here: Run, model: list[str], log: TraceLog) -> None:
    log.append(ExecutionTrace(task_id="bd-5", outcome="failure", task_description="UNUSABLE"))
    assert here("learn", "--task", "bd-5", *model, *EVERY).code == 1
    nothing = "has anything left to resume"
    assert nothing in here("learn", "--task", "bd-2", "--resume", *model, *EVERY).err
    assert nothing not in here("learn", "--task", "bd-5", "--resume", *model, *EVERY).err


def test_with_a_limit_it_is_not_known_whether_a_task_has_attempts(here: Run, model: list[str], log: TraceLog) -> None:
    done = here("learn", "--task", "bd-9,bd-1", "--limit", "1", *model, *EVERY)
    assert done.code == 0 and "no trace of" not in done.err


def test_the_limit_is_about_attempts_at_the_tasks(here: Run, tmp_path: Path, model: list[str], log: TraceLog) -> None:
    assert here("learn", "--task", "bd-9,bd-3", "--limit", "1", *model, *EVERY).code == 0
    assert texts(tmp_path) == ["Remember LESSON four."]


def test_the_log_is_in_the_folder_of_the_setting(here: Run, tmp_path: Path, model: list[str]) -> None:
    TraceLog(tmp_path / "kept" / "execution_traces.jsonl").append(
        ExecutionTrace(task_id="bd-1", outcome="failure", task_description="It is LESSON elsewhere")
    )
    assert here("learn", "--task", "bd-1", *model, *EVERY, environ={"ACE_LOGS": "kept"}).code == 0
    assert texts(tmp_path) == ["Remember LESSON elsewhere."]


def test_a_task_without_attempts_is_named(here: Run, tmp_path: Path, model: list[str], log: TraceLog) -> None:
    done = here("learn", "--task", "bd-9,bd-8", *model, *EVERY)
    assert (done.code, (tmp_path / "skills.db").exists()) == (2, False)
    assert "no trace of bd-9, bd-8; the input has traces of bd-1, bd-2, bd-3" in done.err
    some = here("learn", "--task", "bd-9,bd-3", *model, *EVERY)
    assert some.code == 0 and "no trace of bd-9; the other tasks are learned from" in some.err
    assert texts(tmp_path) == ["Remember LESSON four."]


def test_the_ids_of_a_long_log_are_not_all_listed(here: Run, model: list[str], log: TraceLog) -> None:
    for number in range(12):
        log.append(ExecutionTrace(task_id=f"long-{number}", outcome="success"))
    assert "bd-3, long-0" in (err := here("learn", "--task", "bd-9", *model, *EVERY).err)
    assert "long-6 and 5 more" in err and "long-7" not in err


def test_wrong_requests_are_refused(here: Run, tmp_path: Path, model: list[str], logs: Path) -> None:
    for arguments, reason in (
        ([], "give files or folders of traces, or --task ID"),
        (["--task", "--status"], "--task"),
        (["--task", "a b"], "--task: "),
        (["logs", "--task", "bd-1"], "no trace of bd-1; the input has no traces of tasks"),
        (
            ["--task", "bd-1"],
            "no attempts are recorded in 'logs/execution_traces.jsonl'; record one with `ace capture`",
        ),
        (["--task", "bd-1", "--skillbook", "s.json"], "the gate of --task and --mode needs a skillbook with a history"),
    ):
        done = here("learn", *arguments, *model, *EVERY)
        assert (done.code, list(tmp_path.glob("s*.*"))) == (2, []), arguments
        assert reason in done.err


def test_without_the_gate_a_json_skillbook_learns_from_tasks(
    here: Run, tmp_path: Path, model: list[str], log: TraceLog
) -> None:
    done = here("learn", "--task", "bd-2", "--gate", "none", "--skillbook", "s.json", *model, *EVERY)
    assert (done.code, (tmp_path / "s.json").exists()) == (0, True), done.err


def test_a_new_skillbook_starts_with_the_skills_of_the_block(
    here: Run, tmp_path: Path, model: list[str], log: TraceLog
) -> None:
    agents = tmp_path / "AGENTS.md"
    agents.write_text(
        "# Rules\n\n- Be kind.\n\n[Bullet #old-1, helpful:2, harmful:0] Check the units.\n", encoding="utf-8"
    )
    done = here("learn", "--task", "bd-1", "--block", "AGENTS.md", *model, *EVERY)
    assert done.code == 0, done.err
    assert "ace: the skillbook starts with 1 skill of AGENTS.md\n" in done.err
    assert texts(tmp_path) == ["Check the units.", "Remember LESSON one.", "Remember LESSON three."]
    block = agents.read_text(encoding="utf-8").partition("<!-- ace:skills begin")[2]
    assert "[old-1] Check the units. (helpful 2, harmful 0)" in block and "LESSON three" in block
    (tmp_path / "skills.db").unlink()
    here("learn", "--task", "bd-2", "--block", "AGENTS.md", *model, *EVERY)
    assert len(texts(tmp_path)) == 4
    agents.write_text("<!-- ace:skills begin -->\n", encoding="utf-8")
    (tmp_path / "skills.db").unlink()
    broken = here("learn", "--task", "bd-2", "--block", "AGENTS.md", *model, *EVERY)
    assert (broken.code, "AGENTS.md: the file has 1 begin and 0 end marks" in broken.err) == (2, True)
    assert not (tmp_path / "skills.db").exists()
