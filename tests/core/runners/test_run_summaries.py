"""All runs of a store are listed with the outcome of each sample."""

from __future__ import annotations

import json
from pathlib import Path

from ace import Skillbook
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
        added = [sample for sample in run.samples if sample.version is not None]
        versions = {entry.version: entry.key for entry in book.history()}
        assert all(versions[sample.version] == sample.key for sample in added if sample.version in versions)
        assert give_up(book, run.run_id) == 1
        [run] = run_summaries(book)
        assert (run.state, run.count("given up")) == ("finished", 1)
    with Skillbook.open(tmp_path / "empty.db") as book:
        assert run_summaries(book) == []
    assert run_summaries(Skillbook()) == []
