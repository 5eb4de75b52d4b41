"""Compare three trainings in different orders with no skills, and write a report.

The model is a script on 127.0.0.1, so neither a key nor a network is needed. Run it from the root of the checkout:

    python -m examples.measure_learning report

It writes report/report.html, report/report.md and report/report.json. To use a real model, replace the client; all
other code is independent of the model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ace import LiteLLMClient, Reflector, SimpleEnvironment, SkillManager
from ace.evaluation import (
    EvaluationReport,
    Evaluator,
    Experiment,
    Trainer,
    ValidationSettings,
    html_page,
    json_report,
    markdown_report,
    run_experiment,
    skill_effects,
    split_samples,
)
from ace.roles import Agent
from examples.house_conventions import samples
from examples.scripted_conventions import script
from examples.scripted_model import ScriptedModel


def experiment(client: LiteLLMClient) -> Experiment:
    evaluator = Evaluator(Agent(client), SimpleEnvironment("exact"))
    trainer = Trainer(
        evaluator,
        reflector=Reflector(client),
        skill_manager=SkillManager(client),
        settings=ValidationSettings(interval=4),
    )
    return run_experiment(trainer, split_samples(samples(), validate=0.25, test=0.35, seed=1), orders=[0, 1, 2])


def report_of(found: Experiment) -> EvaluationReport:
    first = found.runs[0]
    return EvaluationReport(
        title="The conventions of a house",
        comparison=found.comparison,
        settings={"model": "scripted", "orders": len(found.runs), "validation": "every 4 samples"},
        skills=skill_effects(first.test, first.training.skillbook, found.comparison.baseline),
        training=first.training.points,
        runs={run.test.name: run.test.accuracy for run in found.runs},
    )


def main(folder: Path) -> None:
    with ScriptedModel(script) as model:
        report = report_of(experiment(LiteLLMClient("openai/scripted", api_base=model.api_base)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(html_page(report), encoding="utf-8")
    (folder / "report.md").write_text(markdown_report(report), encoding="utf-8")
    (folder / "report.json").write_text(json.dumps(json_report(report), indent=2), encoding="utf-8")
    print(report.summary)
    for name, accuracy in report.runs.items():
        print(f"{name}: {accuracy:.1%}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "report"))
