"""The sets of failed calls, with a scripted model that reads and follows as a strong one does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace import read_trace
from ace.cases import cases_of
from benchmarks.learning_quality.__main__ import main
from benchmarks.learning_quality.sets import load_set
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

TOOL = re.compile(r"the (?:next )?call of the tool (\w+), as")
WORD = re.compile(r"[\w./-][\w./:-]*")
LEAST_RIGHT = 0.65 * 24


class StrongModel:
    """Writes one rule for each error that it is shown, and calls a tool right as soon as it is shown its rule."""

    def __init__(self, name: str) -> None:
        learning_set = load_set(name)
        cases = [case for trace in learning_set.traces for case in cases_of(read_trace(trace.record))]
        self.answers = {sample.question: sample.ground_truth or "" for sample in learning_set.questions}
        self.answers |= {case.question: case.expected or f"{tool_in(case.question)}()" for case in cases}
        self.failed = {case.question: case.wrong for case in cases}
        self.rules = {
            tool_in(case.question): f"When calling {tool_in(case.question)}: {' '.join(WORD.findall(case.correction))}."
            for case in cases
        }
        self.tasks = {case.question.splitlines()[0]: tool_in(case.question) for case in cases}

    def __call__(self, request: ScriptedRequest) -> Mapping[str, Any]:
        text = request.text
        if request.role == "reflector":
            rules = [self.rules[tool] for task, tool in self.tasks.items() if task in text]
            fields = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
            return {**dict.fromkeys(fields, "Read."), "extracted_learnings": [{"learning": rule} for rule in rules]}
        if request.role == "skill_manager":
            rules = [rule for rule in self.rules.values() if rule in text and not is_known(rule, text)]
            return {"reasoning": "", "operations": [{"type": "ADD", "section": "tools", "content": it} for it in rules]}
        question = max((asked for asked in self.answers if asked in text), key=len, default="")
        knows = self.rules.get(tool_in(question), "?") in text
        return {"reasoning": "", "final_answer": self.answers[question] if knows else self.failed.get(question, "?()")}


def tool_in(text: str) -> str:
    """Return the tool that a question asks to call; empty if it asks for something else."""
    found = TOOL.search(text)
    return found[1] if found else ""


def is_known(rule: str, text: str) -> bool:
    """Return whether the prompt shows a rule with the id of a skill."""
    return re.search(rf"-\d{{5}}\] {re.escape(rule)}", text) is not None


@pytest.mark.parametrize(("name", "failures"), [("theatre", 11), ("nursery", 12)])
def test_a_strong_model_learns_from_failed_calls(name: str, failures: int, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with ScriptedServer(StrongModel(name)) as server:
        arguments = ["--model", "openai/scripted", "--api-base", server.api_base, "--sets", name, "--out", str(out)]
        assert main([*arguments, "--orders", "1", "--methods", "no-skills", "proven"]) == 0
    without, proven = json.loads(out.read_text())["outcomes"]
    assert without["right"] == 0
    assert proven["right"] >= LEAST_RIGHT
    assert (proven["learned"]["skills"], proven["learned"]["proven"]) == (failures, failures)
