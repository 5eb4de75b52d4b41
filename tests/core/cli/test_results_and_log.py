"""`--results` says afterwards what a run was asked for and what came of it, and `--log` what happened."""

from __future__ import annotations

import json
import stat
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ace.cli.learning.event_log import EventLog, older_logs
from ace.protocols.observers import ModelCalled, SampleEnded, SkillChange, SkillProven, SkillsChanged
from ace.redaction import Redactor
from ace.skillbook import Skillbook
from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedServer

SECRET = "hunter-gatherer-42"
FAILED = SampleEnded("run", "runs.jsonl#1", 1, 1, ValueError(f"{SECRET} of jane@acme.com"), "ReflectStep", 0.5, False)


def written(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.jsonl"
    records = [{"question": f"What about LESSON {word}?", "ground_truth": f"LESSON {word}"} for word in ("w1", "w2")]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def test_the_results_hold_the_configuration_each_epoch_and_the_book(
    here: Run, samples: Path, model: list[str], tmp_path: Path
) -> None:
    (tmp_path / ".config" / "ace").mkdir(parents=True)
    (tmp_path / ".config" / "ace" / "config.toml").write_text(f'api_key = "{SECRET}"\n', encoding="utf-8")
    results = tmp_path / "results.json"
    results.write_text("an earlier one", encoding="utf-8")
    done = here("train", samples, "--epochs", "2", "--lag", "0", "--no-prove", "--results", results, "--json", *model)
    assert done.code == 0, done.err
    found = written(results)
    assert {name: found[name] for name in done.data} == done.data
    settings = found["configuration"]["settings"]
    assert settings["epochs"] == {"value": 2, "from": "flag --epochs"}
    assert settings["api_key"]["value"] == "[hidden]" and SECRET not in results.read_text(encoding="utf-8")
    options = found["configuration"]["options"]
    assert options["paths"] == [str(samples)]
    settings = found["configuration"]["settings"]
    assert (settings["prove"]["value"], settings["merge"]["value"]) == (False, True)
    assert [(epoch["epoch"], epoch["samples"], epoch["learned"]) for epoch in found["epochs"]] == [(1, 2, 2), (2, 2, 2)]
    assert [epoch["metrics"]["correct"]["samples"] for epoch in found["epochs"]] == [2, 2]
    right = [epoch["metrics"]["correct"]["mean"] * 2 for epoch in found["epochs"]]
    assert right == [answers["right"] for answers in done.data["answers"]] and right[1] == 2
    assert found["model_use"]["calls"] == done.data["model_use"]["calls"] > 0
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert (found["version"], found["book"]) == (book.version, json.loads(book.dumps()))


def test_a_failed_sample_counts_in_its_epoch(here: Run, model: list[str], tmp_path: Path) -> None:
    records = [{"task": "t1", "answer": "LESSON w1"}, {"task": "REFUSED", "answer": "no"}]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    done = here("learn", "in.jsonl", "--results", "new.json", *model)
    assert done.code == 1
    found = written(tmp_path / "new.json")
    assert found["epochs"] == [{"epoch": 1, "samples": 2, "learned": 1, "metrics": {}}]
    assert found["failures"][0]["place"] == "in.jsonl#2"
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o600


def test_samples_that_a_stopped_run_did_not_reach_are_not_wrong_answers(
    here: Run, model: list[str], tmp_path: Path
) -> None:
    lines = [{"question": f"What about LESSON w{number}?", "ground_truth": "x"} for number in range(3)]
    lines.insert(1, {"question": "REFUSED", "ground_truth": "x"})
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    arguments = ["--epochs", "2", "--lag", "0", "--no-prove", "--fail-fast", "--results", "new.json"]
    done = here("train", "in.jsonl", *arguments, "--json", *model)
    assert (done.code, done.data["stopped_by"]) == (1, "fail_fast"), done.err
    assert done.data["answers"] == [{"epoch": 1, "right": 0, "of": 2, "not_judged": 0}]
    [epoch] = written(tmp_path / "new.json")["epochs"]
    assert (epoch["epoch"], epoch["samples"], epoch["learned"]) == (1, 2, 1)


@pytest.mark.parametrize("option", ["--results", "--log"])
def test_a_file_that_cannot_be_written_is_said_before_any_call(
    option: str, here: Run, logs: Path, model: list[str], server: ScriptedServer, tmp_path: Path
) -> None:
    for place, reason in ((tmp_path, "is a folder"), (tmp_path / "none" / "file", "no such folder")):
        done = here("learn", logs, option, place, *model)
        assert (done.code, option in done.err, reason in done.err) == (2, True, True)
    assert server.requests == []


def test_the_log_holds_every_event_and_no_prompt(here: Run, logs: Path, model: list[str], tmp_path: Path) -> None:
    arguments = ["learn", logs, "--log", logs / "run.log", "--results", logs / "results.json", *model]
    for times in (1, 2):  # neither file is a trace of the second run
        done = here(*arguments, "--json", "--again")
        assert (done.code, done.data["traces"]["read"]) == (0, 6), done.err
        found = Counter(line["event"] for line in lines(logs / "run.log"))
        assert [found[name] for name in ("RunStarted", "RunEnded", "SampleEnded")] == [times, times, 6 * times]
    events = lines(logs / "run.log")
    asked = [event for event in events if event["event"] == "ModelCalled" and event["role"]]
    assert len(asked) >= 12 and all(call["input_tokens"] > 0 for call in asked)
    assert all("prompt" not in call and "answer" not in call for call in asked)
    added = [change["skill_id"] for event in events if event["event"] == "SkillsChanged" for change in event["applied"]]
    assert "lessons-00001" in added
    assert datetime.fromisoformat(events[0]["time"]).tzinfo is UTC
    assert stat.S_IMODE((logs / "run.log").stat().st_mode) == 0o600


def test_a_log_is_redacted(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "run.log", Redactor([SECRET]))
    log(FAILED)
    log(ModelCalled("run", "t", "m", "Agent", 1, 1, None, 0.1, False, prompt=SECRET, answer=SECRET))
    [failed, called] = lines(tmp_path / "run.log")
    assert failed["error"] == {"type": "ValueError", "message": "[hidden: secret] of [hidden: email_address]"}
    assert (failed["failed_at"], failed["trace_id"]) == ("ReflectStep", "runs.jsonl#1")
    assert called["model"] == "m"
    assert SECRET not in (tmp_path / "run.log").read_text(encoding="utf-8")


def test_a_log_of_ids_quotes_nothing(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "run.log", Redactor(), ids_only=True)
    change = SkillChange("ADD", "a-00001", "quoted")
    log(SkillsChanged("run", "t", (change,), (change,)))
    log(SkillProven("run", "t", "a-00001", True, "quoted", "quoted", 0, "quoted"))
    log(SampleEnded("run", "t", 1, 1, ValueError("quoted"), "ReflectStep", 0.5, False))
    text = (tmp_path / "run.log").read_text(encoding="utf-8")
    assert "quoted" not in text and text.count("a-00001") == 3 and "ValueError" in text


def test_a_log_is_rotated_by_size(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    log = EventLog(path, Redactor(), max_bytes=2000, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for index in range(100):
        log(SampleEnded("run", f"{index:03}", 1, index, None, None, 0.5, False))
    files = [*reversed(older_logs(path)), path]
    assert all(0 < file.stat().st_size <= 2000 for file in files)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.log", "run.log.1", "run.log.2", "run.log.3"]
    kept = [int(entry["trace_id"]) for file in files for entry in lines(file)]
    assert kept == list(range(kept[0], 100)) and kept[0] > 0
