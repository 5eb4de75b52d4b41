"""`ace status` and `ace get`: what is known about attempts at tasks. They only read."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ace.loop import ExecutionTrace, Insight, InsightLog, TraceLog, watching
from ace.skillbook import Skillbook
from tests.core.cli.test_terminal_safety import CONTROL, FORBIDDEN, on_a_terminal
from tests.support.command_line import ACE, Run, command_environment
from tests.support.json_shape import misfits

ATTEMPT = {"task": str, "trace": str, "outcome": str, "description": str, "timestamp": str | None, "learned": bool}
STATUS = {
    "schema": int,
    "command": str,
    "skillbook": str,
    "log": str,
    "book": {
        "version": int | None,
        "skills": int,
        "judged": int,
        "average_helpful": float,
        "average_harmful": float,
        "net": int,
        "sections": dict,
        "artifact_version": int | None,
        "artifact": str | None,
        "without_artifact": [int],
    },
    "traces": int,
    "attempts": [ATTEMPT],
    "insights": dict,
    "pending": dict,
    "watcher": int | None,
    "problems": [str],
}


def attempt(task: str, number: int, description: str = "LESSON imports") -> ExecutionTrace:
    at = datetime(2026, 11, 1, 12, number, tzinfo=UTC)
    return ExecutionTrace(
        task_id=task, trace_id=f"t{number}", outcome="failure", task_description=description, timestamp=at
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with seven attempts, three insights and two skills."""
    log = TraceLog(tmp_path / "logs" / "execution_traces.jsonl")
    for number in range(7):
        log.append(attempt(f"bd-{number}", number))
    insights = InsightLog(tmp_path / "logs" / "insights.jsonl")
    insights.record(
        [
            Insight(
                task_id="bd-1", trace_id="t1", recommendation="Run tsc first.", confidence=0.7, tasks=["bd-0", "bd-1"]
            ),
            Insight(task_id="bd-2", trace_id="t2", recommendation="Pin the version.", confidence=0.5),
            Insight(
                task_id="bd-3",
                trace_id="t3",
                recommendation="Use .js in imports.",
                confidence=0.85,
                status="accepted",
                delta="[Bullet #ts-1] Use .js in imports.",
                tasks=["bd-0", "bd-1", "bd-2", "bd-3"],
            ),
        ]
    )
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("TypeScript Patterns", "Use .js in imports.", metadata={"helpful": 5, "harmful": 1})
        book.add_skill("Build & Test Patterns", "Run npm ci first.")
    return tmp_path


def every_file(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_an_empty_project_is_told_the_command_to_begin_with(tmp_path: Path, here: Run) -> None:
    done = here("status")
    assert done.code == 0
    assert "ace capture --task ID --run -- COMMAND" in done.out
    assert "ace learn --task ID" in done.out
    assert here("status", "--json").data["book"] is None
    assert here("get", "insights").out.startswith("No insights yet; `ace learn --task ID`")
    assert here("get", "insights", "--json").data["insights"] == []
    assert list(tmp_path.iterdir()) == []


def test_the_status_shows_skills_attempts_insights_and_the_watcher(project: Path, here: Run) -> None:
    done = here("status")
    assert done.code == 0
    assert done.out.splitlines() == [
        "skills    2 in skills.db, version 2; net score +4",
        "judged    1 of them; on average helpful 5, harmful 1",
        "section                skills",
        "TypeScript Patterns         1",
        "Build & Test Patterns       1",
        "",
        "7 attempts in logs/execution_traces.jsonl (the last 5)",
        "task  outcome  learned  recorded (UTC)       description",
        *(f"bd-{number}  failure  no       2026-11-01 12:0{number}:00  LESSON imports" for number in (6, 5, 4, 3, 2)),
        "",
        "insights  2 pending (1 moderate, 1 low), 1 accepted",
        "watcher   not running",
    ]


def test_the_status_as_json_has_every_field(project: Path, here: Run) -> None:
    data = here("status", "--tasks", "2", "--json").data
    assert misfits(data, STATUS) == []
    assert (data["traces"], [row["trace"] for row in data["attempts"]]) == (7, ["bd-6/t6", "bd-5/t5"])
    assert (data["insights"], data["pending"]) == ({"pending": 2, "accepted": 1}, {"moderate": 1, "low": 1})
    assert data["book"]["net"] == 4


def test_reading_changes_nothing(project: Path, here: Run) -> None:
    log = project / "logs" / "execution_traces.jsonl"
    with watching(log, "skills.db"):
        [lock] = (project / "logs").glob(".watch-*")
        left = lock.read_bytes()
    lock.write_bytes(left)  # as a killed process leaves it
    before = every_file(project)
    for arguments in (["status"], ["status", "--json"], ["get", "insights"], ["get", "skills"]):
        assert here(*arguments).code == 0
    assert every_file(project) == before


def test_attempts_that_were_learned_from_are_marked_and_the_last_kept_version_is_named(
    project: Path, here: Run, model: list[str]
) -> None:
    learned = here("learn", "--task", "bd-5,bd-6", "--min-confidence", "0", *model)
    assert learned.code == 0, learned.err
    data = here("status", "--json").data
    assert {row["task"]: row["learned"] for row in data["attempts"]} == {
        "bd-6": True,
        "bd-5": True,
        "bd-4": False,
        "bd-3": False,
        "bd-2": False,
    }
    version = data["book"]["artifact_version"]
    assert data["book"]["artifact"].endswith(f"-v{version}")
    assert (project / data["book"]["artifact"] / "playbook.md").is_file()
    assert f"kept      version {version}, logs/artifacts/" in here("status").out


def test_a_version_whose_folder_is_missing_is_named(project: Path, here: Run, model: list[str]) -> None:
    here("learn", "--task", "bd-5", "--min-confidence", "0", *model)
    [folder] = (project / "logs" / "artifacts").iterdir()
    version = json.loads((folder / "decision.json").read_bytes())["version"]
    draft = folder.rename(folder.with_name(".draft-0123456789abcdef"))  # as a process that was killed before leaves it
    decision = json.loads((draft / "decision.json").read_bytes())
    draft.with_name(f"{draft.name}.json").write_text(json.dumps({"decision": decision}), encoding="utf-8")
    done = here("status")
    assert f"the folder of version {version} is not complete; the next run completes it" in done.out
    assert here("status", "--json").data["book"]["without_artifact"] == [version]


def test_the_process_that_watches_is_named_while_it_runs(project: Path, here: Run) -> None:
    log = "logs/execution_traces.jsonl"
    with watching(project / log, "skills.db"):
        assert f"watcher   process {os.getpid()}\n" in here("status").out
        assert here("status", "--skillbook", "other.db", "--json").data["watcher"] is None
    assert here("status", "--json").data["watcher"] is None


def test_lines_that_cannot_be_read_are_counted(project: Path, here: Run) -> None:
    for name in ("execution_traces.jsonl", "insights.jsonl"):
        with (project / "logs" / name).open("a", encoding="utf-8") as file:
            file.write('{"bead_id": "--status", "outcome": "success"}\n')
    done = here("status")
    assert done.code == 0
    assert "ace: logs/execution_traces.jsonl: 1 line cannot be read\n" in done.err
    assert "ace: logs/insights.jsonl: 1 line cannot be read\n" in done.err
    assert "1 line cannot be read, the first: logs/insights.jsonl:4: an insight needs" in here("get", "insights").err


def test_without_a_skillbook_the_attempts_are_shown(project: Path, here: Run) -> None:
    done = here("status", "--skillbook", "none.db", "--tasks", "1")
    assert done.out.startswith("skills    none yet; `ace learn --task ID` learns them into none.db\n")
    assert "bd-6" in done.out
    assert not (project / "none.db").exists()


def test_a_json_skillbook_has_no_version(project: Path, here: Run) -> None:
    here("skillbook", "export", "skills.json")
    data = here("status", "--skillbook", "skills.json", "--json").data
    assert (data["book"]["version"], data["book"]["skills"], data["book"]["artifact"]) == (None, 2, None)


def test_insights_are_shown_with_the_most_trusted_first(project: Path, here: Run) -> None:
    done = here("get", "insights")
    assert done.out.splitlines() == [
        "logs/insights.jsonl: 3 of 3 insights (1 accepted, 2 pending)",
        "confidence            status    tasks                        insight",
        "      0.85  strong    accepted  bd-0, bd-1, bd-2 and 1 more  Use .js in imports.",
        "      0.70  moderate  pending   bd-0, bd-1                   Run tsc first.",
        "      0.50  low       pending   bd-2                         Pin the version.",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--min-confidence", "0.7"], ["bd-3", "bd-1"]),
        (["--task", "bd-1,bd-2"], ["bd-1", "bd-2"]),
        (["--beads", "bd-1", "--bead", "bd-3"], ["bd-3", "bd-1"]),
        (["--status", "pending"], ["bd-1", "bd-2"]),
        (["--status", "accepted", "--min-confidence", "0.9"], []),
        (["--status", "refused"], []),
    ],
)
def test_insights_are_chosen(project: Path, here: Run, arguments: list[str], expected: list[str]) -> None:
    data = here("get", "insights", *arguments, "--json").data
    assert ([insight["task_id"] for insight in data["insights"]], data["total"]) == (expected, 3)
    if not expected:
        assert here("get", "insights", *arguments).out == "None of the 3 insights in logs/insights.jsonl matches.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "--tasks", "0"], "--tasks must be a whole number of at least 1, got 0"),
        (["get", "insights", "--min-confidence", "1.5"], "--min-confidence must be from 0 to 1, got 1.5"),
        (["get", "insights", "--min-confidence", "nan"], "--min-confidence must be from 0 to 1, got nan"),
        (["get", "insights", "--task", "--status"], "--task"),
        (["get", "insights", "--status", "lost"], "lost"),
        (["get", "bullets"], "no such skillbook"),
    ],
)
def test_wrong_usage_is_a_sentence(here: Run, arguments: list[str], said: str) -> None:
    done = here(*arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err


def test_get_skills_and_get_bullets_are_skillbook_show(project: Path, here: Run) -> None:
    arguments = ("--section", "TypeScript Patterns", "--section", "Build & Test Patterns")
    shown = here("skillbook", "show", *arguments).out
    assert here("get", "skills", *arguments).out == here("get", "bullets", *arguments).out == shown
    assert here("get", "bullets", "--section", "TypeScript Patterns", "--json").data["skills"][0]["helpful"] == 5


def test_texts_of_traces_cannot_control_the_terminal(tmp_path: Path) -> None:
    TraceLog(tmp_path / "logs" / "execution_traces.jsonl").append(attempt("bd-1", 1, f"Fix {CONTROL}"))
    insight = Insight(task_id="bd-1", trace_id="t1", recommendation=f"Use {CONTROL}")
    InsightLog(tmp_path / "logs" / "insights.jsonl").record([insight])
    for arguments in (["status"], ["get", "insights"], ["get", "insights", "--json"], ["status", "--json"]):
        shown = on_a_terminal(tmp_path, *arguments)
        assert "red" in shown
        assert [sign for sign in FORBIDDEN if sign in shown] == []


def test_a_closed_reader_is_not_an_error(project: Path) -> None:
    shell = f"{ACE} status | head -1"
    done = subprocess.run(
        ["bash", "-c", shell], cwd=project, env=command_environment(project), capture_output=True, check=False
    )
    assert done.stderr == b""
