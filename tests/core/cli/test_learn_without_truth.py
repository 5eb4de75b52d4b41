"""`--learn-without-truth` of `ace learn`, and the setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Run


@pytest.mark.parametrize("given", ["flag", "variable", "file", "nothing"])
def test_unverified_traces_change_skills_only_if_that_is_wanted(
    tmp_path: Path, here: Run, model: list[str], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    traces = [
        {"question": "What about ebb? LESSON ebb", "answer": "None.", "verified": False},
        {"question": "What about tide? LESSON tide", "answer": "None."},
    ]
    text = "".join(f"{json.dumps(trace)}\n" for trace in traces)
    (tmp_path / "in.jsonl").write_text(text, encoding="utf-8")
    if given == "variable":
        monkeypatch.setenv("ACE_LEARN_WITHOUT_TRUTH", "true")
    if given == "file":
        own = tmp_path / ".config" / "ace" / "config.toml"
        own.parent.mkdir(parents=True)
        own.write_text("learn_without_truth = true\n", encoding="utf-8")
    flags = ["--learn-without-truth"] if given == "flag" else []
    done = here("learn", "in.jsonl", *model, *flags, "--yes", "--no-merge", "--json")
    assert done.code == 0, done.err
    added = [skill["content"] for skill in done.data["new_skills"]]
    assert added == ["Remember LESSON ebb."] * (given != "nothing") + ["Remember LESSON tide."]
    reasons = [omission["reason"] for omission in done.data["left_out"]]
    unverified = "the answer was not verified, so it only leads to tags (learn_without_truth)"
    assert reasons == ([unverified] if given == "nothing" else [])
