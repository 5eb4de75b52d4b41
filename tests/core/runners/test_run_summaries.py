"""All runs of a store are listed with the outcome of each sample."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ace import LiteLLMClient, Skillbook, TraceAnalyser
from ace.integrations import StepEnded, observing
from ace.runners import give_up, run_summaries
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


def test_a_run_lists_what_became_of_each_sample(tmp_path: Path) -> None:
    traces = [{"question": f"LESSON {word}?", "answer": word} for word in ("alpha", "beta")]
    traces += [{"question": "nothing new", "answer": "yes"}, {"question": "REFUSED", "answer": "no"}]
    (tmp_path / "traces.jsonl").write_text("\n".join(map(json.dumps, traces)), encoding="utf-8")
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        assert ace("learn", "traces.jsonl", *model, folder=tmp_path).code == 1
    with Skillbook.open(tmp_path / "skills.db") as book:
        [run] = run_summaries(book)
        assert (run.runner, run.state, run.total, run.epochs) == ("trace_analyser", "failures", 4, 1)
        assert [sample.state for sample in run.samples].count("failed") == 1
        assert run.count("learned", "done") == 3
        [failed] = [sample for sample in run.samples if sample.state == "failed"]
        assert (failed.version, failed.failures) == (None, 1)
        assert failed.problem.startswith("ReflectStep: ")
        assert "\n" not in failed.problem
        assert all(sample.problem == "" for sample in run.samples if sample is not failed)
        added = [sample for sample in run.samples if sample.version is not None]
        versions = {entry.version: entry.key for entry in book.history()}
        assert all(versions[sample.version] == sample.key for sample in added if sample.version in versions)
        assert give_up(book, run.run_id) == 1
        [run] = run_summaries(book)
        assert (run.state, run.count("given up")) == ("finished", 1)
        assert [sample.problem for sample in run.samples if sample.state == "given up"] == [failed.problem]
    with Skillbook.open(tmp_path / "empty.db") as book:
        assert run_summaries(book) == []
    assert run_summaries(Skillbook()) == []


def test_a_run_records_what_it_has_spent_over_all_its_calls(tmp_path: Path) -> None:
    traces = [{"question": f"LESSON {word}?", "answer": word} for word in ("alpha", "beta")]
    traces.append({"question": "REFUSED", "answer": "no"})
    (tmp_path / "traces.jsonl").write_text("\n".join(map(json.dumps, traces)), encoding="utf-8")
    spent = []
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        for more in ([], ["--resume"]):
            asked = len([request for request in server.requests if request.role])
            assert ace("learn", "traces.jsonl", *model, *more, folder=tmp_path).code == 1
            with Skillbook.open(tmp_path / "skills.db") as book:
                [run] = run_summaries(book)
            assert run.spent is not None
            spent.append(run.spent)
            answered = len([request for request in server.requests if request.role]) - asked
            assert answered >= 1
    first, both = spent
    reflections = first.steps["ReflectStep"]
    assert (reflections.calls, reflections.failed) == (3, 1)
    assert reflections.seconds > 0
    assert first.models.calls >= 4
    assert (first.models.input_tokens > 0, first.models.unpriced_calls) == (True, first.models.calls)
    again = both.steps["ReflectStep"]
    assert (again.calls, again.failed) == (4, 2)  # the failed sample was tried again, the others were not
    assert again.seconds > reflections.seconds
    assert both.seconds > first.seconds > 0
    assert both.steps["UpdateStep"].calls == first.steps["UpdateStep"].calls


def test_a_run_without_an_observer_does_not_pay_for_counting(tmp_path: Path) -> None:
    with ScriptedServer(learning_script()) as server, Skillbook.open(tmp_path / "skills.db") as book:
        client = LiteLLMClient("openai/scripted", api_base=server.api_base, api_key="k", max_retries=0)
        runner = TraceAnalyser.from_client(client, skillbook=book)
        trace = {"question": "LESSON alpha?", "answer": "alpha"}
        runner.run([trace], run_id="unseen")
        seen: list[object] = []
        with observing(seen.append):
            runner.run([trace], run_id="seen")
        spent = {run.run_id: run.spent for run in run_summaries(book)}
    assert spent["unseen"] is None
    assert spent["seen"] is not None
    ended = [event for event in seen if isinstance(event, StepEnded)]
    assert {step: times.calls for step, times in spent["seen"].steps.items()} == Counter(event.step for event in ended)
    assert sum(times.seconds for times in spent["seen"].steps.values()) == pytest.approx(sum(e.seconds for e in ended))
