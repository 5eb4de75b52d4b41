"""The whole way on real questions: split, train, validate, compare, report.

What comes out is not asserted: three questions prove nothing. That everything is there is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ace.environments import Sample, SimpleEnvironment
from ace.evaluation import EvaluationReport, Evaluator, Trainer, ValidationSettings, compare, html_page
from ace.roles.small_models import agent_for, reflector_for, skill_manager_for
from tests.requirement import missing
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedServer


def questions(name: str, count: int) -> list[Sample]:
    folder = os.environ.get("ACE_FORMULA_DATA")
    if folder is None or not (Path(folder) / name).exists():
        missing("formula", f"ACE_FORMULA_DATA names no folder with {name!r}")
    lines = (Path(folder) / name).read_text(encoding="utf-8").splitlines()[:count]
    rows = [json.loads(line) for line in lines]
    return [Sample(row["context"], ground_truth=row["target"], id=f"{name}#{n}") for n, row in enumerate(rows, 1)]


def test_three_questions_go_the_whole_way(server: ScriptedServer) -> None:
    train, (validation, *test) = questions("train.jsonl", 1), questions("validate.jsonl", 2)
    client = client_for(server)
    evaluator = Evaluator(agent_for(client), SimpleEnvironment("numeric", tolerance=0.005), workers=2)
    trainer = Trainer(
        evaluator,
        reflector=reflector_for(client),
        skill_manager=skill_manager_for(client),
        settings=ValidationSettings(interval=10),
    )
    baseline = evaluator.evaluate(test, name="baseline")
    training = trainer.train(train, [validation])
    learned = evaluator.evaluate(test, training.skillbook)
    found = compare(baseline, learned)
    assert [point.samples for point in training.points] == [0, 1]
    assert len(baseline.answers) == len(learned.answers) == 1
    assert all(answer.input_tokens > 0 and answer.output_tokens > 0 for answer in baseline.answers)
    assert training.points[-1].learning.calls >= 1, "the agent, and the reflector where the answer was wrong"
    page = html_page(EvaluationReport(title="Formula", comparison=found, training=training.points))
    assert "Learning curve" in page
