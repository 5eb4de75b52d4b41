"""Only what enough tasks have shown is learned, and each accepted version has a folder that explains it."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from ace import Skillbook, TraceAnalyser
from ace.evaluation import CounterGate
from ace.loop import ExecutionError, ExecutionResult, ExecutionTrace, Insight, InsightLog
from ace.protocols.observers import ArtifactWritten, Event, InsightsFound, observing
from ace.runners import RecordedTrace
from ace.steps import ArtifactStep, InsightOutcomeStep, artifacts_in, unfinished_artifacts
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION, update
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

RULE = "Compile before the tests are run."


def answer(request: ScriptedRequest) -> Mapping[str, Any] | str:
    """Learn a rule from each trace that says RULE, whose evidence is what follows BECAUSE.

    SAME changes nothing, and LOSE removes the skill rules-00001.
    """
    if request.role == "reflector":
        evidence = re.search(r"BECAUSE ([^\n\"\\]+)", request.text)
        learning: dict[str, Any] = {
            "learning": RULE,
            "evidence": "" if evidence is None else evidence[1],
            "justification": "",
        }
        if "CLAIM" in request.text:  # a model cannot know that other tasks have shown it
            learning["trace_ids"] = ["bd-5", "bd-6", "bd-7", "bd-8"]
        other = {"learning": "Name the branch after the task.", "evidence": "", "justification": ""}
        found = [learning] * ("RULE" in request.text) + [other] * ("OTHER" in request.text)
        return {**REFLECTION, "error_identification": "The tests failed.", "extracted_learnings": found}
    if request.role == "skill_manager":
        if "LOSE" in request.text:
            return update({"type": "REMOVE", "skill_id": "rules-00001"})
        if "SAME" in request.text:
            return update()
        texts = [text for text in (RULE, "Name the branch after the task.") if text in request.text]
        return update(*({"type": "ADD", "section": "builds", "content": text} for text in texts))
    return "ready"


def attempt(task: str, says: str, *, trace: str = "", error: str = "") -> RecordedTrace:
    results = [
        ExecutionResult(
            runner="tsc",
            command="tsc",
            status="fail",
            errors=[ExecutionError(message=error, tool="tsc", file="src/a.ts", line=3)],
        )
    ]
    logged = ExecutionTrace(
        task_id=task,
        trace_id=trace or f"{task}-1",
        outcome="failure",
        task_description=says,
        execution_results=results if error else [],
    )
    return RecordedTrace(logged.as_record(), logged.place)


class Project:
    """A folder with a skillbook and logs."""

    def __init__(self, folder: Path, book: Skillbook) -> None:
        self.book = book
        self.log = InsightLog(folder / "insights.jsonl")
        self.artifacts = folder / "artifacts"
        self.events: list[Event] = []

    def learn(self, *traces: RecordedTrace, least: float = 0.8, **options: Any) -> list[str]:
        """Learn, and return the roles that were asked."""
        with ScriptedServer(answer) as server, observing(self.events.append):
            runner = TraceAnalyser.from_client(
                client_for(server),
                skillbook=self.book,
                prove=False,
                insights=self.log,
                min_confidence=least,
                artifacts=self.artifacts,
                **options,
            )
            runner.run(traces, max_in_flight=1)
            assert runner.failures == []
        return [request.role for request in server.requests]

    def statuses(self) -> list[tuple[str, str, float]]:
        return [(insight.task_id, insight.status, insight.confidence) for insight in self.log.insights()]


@pytest.fixture
def project(tmp_path: Path) -> Any:
    with Skillbook.open(tmp_path / "skills.db") as book:
        yield Project(tmp_path, book)


def test_what_one_task_shows_waits_until_enough_tasks_show_it_and_all_are_sources(project: Project) -> None:
    assert (
        project.learn(attempt("bd-1", "RULE"), attempt("bd-2", "RULE"), attempt("bd-2", "RULE", trace="again"))
        == ["reflector"] * 3
    )
    assert project.statuses() == [("bd-1", "pending", 0.5), ("bd-2", "pending", 0.7), ("bd-2", "pending", 0.7)]
    assert project.log.insights()[1].reason == "shown by 2 tasks so far"
    assert not project.book.skills() and artifacts_in(project.artifacts) == []
    assert project.learn(attempt("bd-3", "RULE")) == ["reflector", "skill_manager"]
    [skill] = project.book.skills()
    assert [source.trace_id.rpartition("@")[2] for source in skill.sources] == [
        "bd-3/bd-3-1",
        "bd-1/bd-1-1",
        "bd-2/bd-2-1",
        "bd-2/again",
    ]
    assert {(insight.status, insight.delta) for insight in project.log.insights()} == {
        ("accepted", f"[Bullet #{skill.id}] {RULE}")
    }


def test_a_model_cannot_claim_that_other_tasks_have_shown_an_insight(project: Project) -> None:
    project.learn(attempt("bd-1", "RULE CLAIM"))
    assert project.statuses() == [("bd-1", "pending", 0.5)]
    project.learn(attempt("bd-2", "RULE CLAIM"), least=0.7)
    [skill] = project.book.skills()
    assert [source.trace_id.rpartition("@")[2] for source in skill.sources] == ["bd-2/bd-2-1", "bd-1/bd-1-1"]


def test_an_insight_about_the_error_of_a_failed_attempt_is_learned_at_once(project: Project) -> None:
    error = "Cannot find module './b' TS2307"
    for task, says in (("bd-1", "src/a.ts lacks a file"), ("bd-2", f"it says {error}"), ("bd-3", "the code ts2307")):
        project.learn(attempt(task, f"RULE BECAUSE {says}", error=error), least=0.8)
        assert project.log.insights(tasks=[task])[0].confidence == 0.8, says
    project.learn(attempt("bd-9", "OTHER BECAUSE another.ts", error=error))
    assert project.log.insights(tasks=["bd-9"])[0].confidence == 0.5
    assert "step 1: src/a.ts:3: error: " + error + " (tsc)" in project.log.insights(tasks=["bd-1"])[0].evidence


def test_the_skill_manager_is_not_told_what_waits(project: Project) -> None:
    project.learn(attempt("bd-1", "RULE OTHER BECAUSE src/a.ts", error="No such module"))
    assert [skill.content for skill in project.book.skills()] == [RULE]
    assert project.statuses() == [("bd-1", "accepted", 0.8), ("bd-1", "pending", 0.5)]
    [event] = [seen for seen in project.events if isinstance(seen, InsightsFound)]
    assert (event.task_id, event.ready, event.pending, event.files, event.success) == ("bd-1", 1, 1, 1, False)


def test_what_is_known_already_stays_accepted_until_its_skill_is_removed(project: Project) -> None:
    known = ("accepted", "it was known already", f"[Bullet #builds-00001] {RULE}")
    project.learn(attempt("bd-1", "RULE"), least=0.0)
    project.learn(attempt("bd-1", "RULE SAME", trace="2"), attempt("bd-2", "RULE SAME"), least=0.0)
    first, again, other = project.log.insights()
    assert (first.status, first.delta) == ("accepted", known[2])
    assert [(logged.status, logged.reason, logged.delta) for logged in (again, other)] == [known, known]
    project.book.remove_skill("builds-00001")
    project.learn(attempt("bd-3", "RULE SAME"), least=0.0)
    [insight] = project.log.insights(tasks=["bd-3"])
    assert (insight.status, insight.reason, insight.delta) == ("refused", "no change was proposed for it", None)


def test_a_refused_insight_says_why_and_has_no_folder(project: Project) -> None:
    project.book.add_skill("rules", "Check the units.", metadata={"helpful": 3})
    project.book.commit()
    project.learn(attempt("bd-1", "RULE LOSE"), least=0.0, gate=CounterGate())
    [insight] = project.log.insights()
    assert (insight.status, insight.reason, insight.delta) == ("refused", "gate: net score 3 -> 0 (-3)", None)
    assert not project.artifacts.exists() or list(project.artifacts.iterdir()) == []


def test_the_folder_of_a_version_explains_it(project: Project) -> None:
    project.learn(attempt("bd-1", "RULE, mail jane@acme.com"), least=0.0, gate=CounterGate())
    [(version, folder)] = artifacts_in(project.artifacts)
    [event] = [seen for seen in project.events if isinstance(seen, ArtifactWritten)]
    assert (event.version, event.folder) == (version, str(folder)) and version == project.book.version
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}\.\d{{6}}Z-v{version}", folder.name)
    assert sorted(path.name for path in folder.iterdir()) == [
        "decision.json",
        "insights.json",
        "playbook.md",
        "trace.json",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert (folder / "playbook.md").read_text(encoding="utf-8").strip() == project.book.as_markdown().strip()
    decision = json.loads((folder / "decision.json").read_bytes())
    assert (decision["accepted"], decision["task"], decision["version"]) == (True, "bd-1", version)
    assert (decision["before"]["skills"], decision["after"]["skills"]) == (0, 1)
    assert [operation["content"] for operation in decision["operations"]] == [RULE]
    insights = json.loads((folder / "insights.json").read_bytes())
    assert [Insight.from_record(insight) for insight in insights] == project.log.insights()
    assert [insight["status"] for insight in insights] == ["accepted"]
    assert "jane@acme.com" not in (folder / "trace.json").read_text(encoding="utf-8")


def test_with_ids_as_provenance_no_text_of_a_trace_is_written(project: Project) -> None:
    project.learn(attempt("bd-1", "RULE BECAUSE src/a.ts", error="No such module"), provenance="ids")
    [(_, folder)] = artifacts_in(project.artifacts)
    assert sorted(path.name for path in folder.iterdir()) == ["decision.json", "playbook.md"]
    [insight] = project.log.insights()
    assert (insight.status, insight.pattern, tuple(insight.evidence)) == ("accepted", "", ())


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.core.loop import test_insight_steps
from ace import Skillbook
from ace.loop.insight_steps import InsightOutcomeStep

def killed(self, ctx):
    os.kill(os.getpid(), signal.SIGKILL)

InsightOutcomeStep.__call__ = killed  # the first step after the commit
folder = Path(sys.argv[1])
with Skillbook.open(folder / "skills.db") as book:
    test_insight_steps.Project(folder, book).learn(test_insight_steps.attempt("bd-1", "RULE"), least=0.0)
"""


def test_what_a_process_has_left_that_was_killed_after_its_commit_is_completed(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert run([sys.executable, "-c", KILLED, str(tmp_path)], env=environ).returncode == -signal.SIGKILL
    with Skillbook.open(tmp_path / "skills.db") as book:
        project = Project(tmp_path, book)
        [skill] = book.skills()
        assert (unfinished_artifacts(project.artifacts, book), project.statuses()) == (
            [book.version],
            [("bd-1", "pending", 0.5)],
        )
        project.learn(attempt("bd-2", "nothing"))
        assert [artifact.version for artifact in artifacts_in(project.artifacts)] == [1]
        assert [insight.delta for insight in project.log.insights(tasks=["bd-1"])] == [f"[Bullet #{skill.id}] {RULE}"]
        assert unfinished_artifacts(project.artifacts, book) == []
        assert ArtifactStep(project.artifacts, book).complete() == []
        assert InsightOutcomeStep(project.log, book).complete() == 0


@pytest.mark.parametrize("least", [-0.1, 1.1, 80, True, "0.8", float("nan")])
def test_a_confidence_outside_its_range_is_refused(project: Project, least: Any) -> None:
    with pytest.raises(ValueError, match=r"min_confidence must be (a number|at least 0|at most 1), got"):
        project.learn(least=least)


def test_a_confidence_needs_a_log() -> None:
    with ScriptedServer(answer) as server, pytest.raises(ValueError, match="min_confidence needs a log of insights"):
        TraceAnalyser.from_client(client_for(server), min_confidence=0.5)


def test_the_folder_of_a_large_skillbook_holds_the_sections_that_have_changed(project: Project) -> None:
    """Whole copies of a book of 10,000 skills took a gigabyte after a thousand versions."""
    project.book.add_skill("rules", "Check the units.")
    project.book.add_skill("builds", "Pin the compiler.")
    project.book.commit()
    project.learn(attempt("bd-1", "RULE"), least=0.0, artifact_skills=3)
    project.learn(attempt("bd-2", "OTHER"), least=0.0, artifact_skills=3)
    (_, whole), (version, excerpt) = artifacts_in(project.artifacts)
    assert "Check the units." in (whole / "playbook.md").read_text(encoding="utf-8")
    text = (excerpt / "playbook.md").read_text(encoding="utf-8")
    begin = f"This skillbook has {len(project.book)} skills. This file contains the sections of those that version"
    assert text.startswith(f"{begin} {version} changed.")
    assert f"\n    ace skillbook export - --format markdown --at {version}\n" in text
    assert text.endswith(f"\n\n{project.book.as_markdown(sections=['builds'])}\n")
    assert "Name the branch after the task." in text and "Check the units." not in text


OLD_TRACE = b'{\n  "id": "bd-1/bd-1-1"\n}\n'


def test_a_draft_of_an_earlier_version_is_completed(tmp_path: Path) -> None:
    """It had the trace in the hidden folder, and the rest in a file beside it."""
    with Skillbook.open(tmp_path / "skills.db") as book:
        project = Project(tmp_path, book)
        project.learn(attempt("bd-1", "RULE"), least=0.0)
        [(version, folder)] = artifacts_in(project.artifacts)
        expected = {name: (folder / name).read_bytes() for name in ("decision.json", "insights.json", "playbook.md")}
        decision = json.loads(expected["decision.json"])
        draft = {name: decision[name] for name in ("key", "trace", "task", "accepted", "reason", "before", "after")}
        insights = [{**insight.as_record(), "status": "pending"} for insight in project.log.insights()]
        for path in folder.iterdir():
            path.unlink()
        hidden = folder.rename(folder.with_name(".draft-0123456789abcdef"))
        (hidden / "trace.json").write_bytes(OLD_TRACE)
        note = {"decision": draft, "insights": {"ready": insights, "earlier": []}}
        hidden.with_name(f"{hidden.name}.json").write_text(f"{json.dumps(note)}\n", encoding="utf-8")
        assert unfinished_artifacts(project.artifacts, book) == [version]
        assert [artifact.folder for artifact in ArtifactStep(project.artifacts, book).complete()] == [folder]
        assert {name: (folder / name).read_bytes() for name in expected} == expected
        assert (folder / "trace.json").read_bytes() == OLD_TRACE
        assert list(project.artifacts.iterdir()) == [folder]


def test_a_folder_that_was_renamed_before_the_kill_is_left_alone(project: Project) -> None:
    project.learn(attempt("bd-1", "RULE"), least=0.0)
    [(_, folder)] = artifacts_in(project.artifacts)
    (folder / "playbook.md").write_text("a note of the user", encoding="utf-8")
    decision = json.loads((folder / "decision.json").read_bytes())
    draft = folder.with_name(".draft-0123456789abcdef.json")
    draft.write_text(json.dumps({"decision": decision, "insights": None}), encoding="utf-8")
    assert unfinished_artifacts(project.artifacts, project.book) == []
    ArtifactStep(project.artifacts, project.book).complete()
    assert list(project.artifacts.iterdir()) == [folder]
    assert (folder / "playbook.md").read_text(encoding="utf-8") == "a note of the user"


def test_the_name_of_a_trace_is_not_taken_for_an_e_mail_address(project: Project) -> None:
    project.learn(RecordedTrace(attempt("bd-1", "RULE").record, "runs.jsonl#12"), least=0.0)
    [(_, folder)] = artifacts_in(project.artifacts)
    name = json.loads((folder / "trace.json").read_bytes())["id"]
    assert re.fullmatch(r"[0-9a-f]{16}@runs\.jsonl#12", name)
    assert json.loads((folder / "decision.json").read_bytes())["trace"] == name
